"""One partition's way through its steps, under the locks of a policy."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass

from torchzk.errors import ProtocolError
from torchzk.memory_faults import forget_frames as forget_frames
from torchzk.scheduler.locks import DeviceLocks
from torchzk.scheduler.memory_budget import MemoryBudget
from torchzk.scheduler.policies import Policy
from torchzk.scheduler.stop import Stop
from torchzk.scheduler.work import PartitionWork, Step
from torchzk.scheduler.worker_device import Device
from torchzk.timeline import Timeline


@dataclass(frozen=True)
class Seat:
    """Where one worker works."""

    name: str
    """The worker's, e.g. `cuda:0 worker 1`."""
    device: Device
    locks: DeviceLocks
    budget: MemoryBudget
    """Its `watch` wakes the mem lock."""
    timeline: Timeline
    """On the worker's lane."""

    def check(self, stop: Stop) -> None:
        """Raise when the job must stop, or when the device is set aside."""
        stop.check()
        self.locks.check()

    def is_lost(self, error: BaseException) -> bool:
        """Whether an error means that the device itself failed."""
        try:
            return self.device.is_lost(error)
        except Exception:
            # a device that cannot even say so
            return True


def run_partition(
    policy: Policy,
    work: PartitionWork,
    seat: Seat,
    stop: Stop,
    on_error: Callable[[BaseException], None] = lambda error: None,
) -> bytes:
    """Run every step of a partition, the policy's locks held.

    However it ends, the locks are free again, `work.drop` was called once, and the promised bytes
    were given back after it: after the kernels, or after the step that failed.

    Args:
        on_error: Told of what a step raises while its lock is still held: of a lost device nobody
            who waits for the lock must begin.

    Returns:
        The partition's proof.

    Raises:
        CancelledError, ExpiredError: The job must stop; seen between steps and by `check`.
        ResourceError: The partition takes more than the device has for partitions.
        LockTimeoutError, DeviceLostError: As `FairLock.held`.
        Exception: What a step raised.
    """
    promise = seat.budget.ask(seat.name, work.planned_bytes)
    turn = seat.locks.turn(seat.name, stop)
    piece: bytes | None = None
    with ExitStack() as room:
        room.callback(promise.give_back)
        room.callback(work.drop)
        try:
            for leg in policy.legs:
                lock = leg.lock and turn.holding(leg.lock, promise if leg.lock == "mem" else None)
                with lock or nullcontext():
                    for step in leg.steps:
                        seat.check(stop)
                        with seat.timeline.span(step.value):
                            try:
                                piece = _do(step, work, seat, stop, promise.n_bytes)
                            except BaseException as error:
                                on_error(error)
                                raise
                        if step is Step.COMPUTE:
                            room.close()
        except BaseException as error:
            # before the bytes are given back
            forget_frames(error)
            raise
    assert piece is not None
    return piece


def _do(step: Step, work: PartitionWork, seat: Seat, stop: Stop, need: int) -> bytes | None:
    match step:
        case Step.PREPARE:
            work.prepare()
        case Step.ADMIT:
            _make_room(seat, need)
        case Step.STAGE:
            work.stage()
        case Step.COMPUTE:
            work.compute(lambda: seat.check(stop))
        case Step.FINISH:
            return work.finish()
    return None


def _make_room(seat: Seat, need: int) -> None:
    if not seat.locks.mem.held_by_caller:
        raise ProtocolError(f"{seat.name} makes room on {seat.device.name} without the mem lock")
    if seat.device.free_bytes() < need:
        with seat.timeline.span("trim"):
            seat.device.trim()
        seat.budget.count_trim()
