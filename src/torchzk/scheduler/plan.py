"""What proving takes of a device, stage by stage, before anything is launched.

A plan is a pure function of a circuit's sizes, a backend's model of its operations (`Needs`) and
a budget. It counts what lies on the device in each stage of `groth16.prover`: what is kept, what
the stage works on, and what its operations take at their peak. All figures in bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from torchzk.backends import BackendName, Needs, load_needs
from torchzk.errors import ResourceError
from torchzk.groth16.room import Room
from torchzk.scheduler.circuit_sizes import CircuitSizes
from torchzk.scheduler.stage_bytes import Stage, StageBytes
from torchzk.scheduler.stage_room import room_for, waits_for_link

Place = Literal["device", "host"]
"""Where points lie: on the device that proves, or on the host."""

KeyPlace = Literal["auto", "device", "host"]
"""Where a key's points are to lie: on the device that proves, on the host, or where it is best."""


class _Mode(NamedTuple):
    """A way of proving."""

    stays: bool
    """Whether the key lies on the device."""
    in_turn: bool
    """`Room.in_turn`."""
    side_by_side: bool = False
    """Whether h is summed side by side with the other queries, for a key that comes over a link."""


_MODES = (
    _Mode(True, False),
    _Mode(True, True),
    _Mode(False, False, True),
    _Mode(False, True, True),
    _Mode(False, False),
    _Mode(False, True),
)
"""The fastest first: to make vectors in turn costs 0.1 s of a 32 GiB PoRep's partition, to bring
the key from the host 0.9 s (runs/bench/proofs.jsonl), of which side by side most are hidden."""


@dataclass(frozen=True)
class Plan:
    """How a circuit is proven, and what it takes."""

    circuit: str
    backend: BackendName
    budget: int
    key_bytes: int
    """Of all points of the key, wherever they lie."""
    key_stays: bool
    """Whether they lie on the device, so that taking them costs nothing."""
    room: Room
    """What the prover may take at a time."""
    stages: tuple[Stage, ...]
    """In order. The bytes of each are all there is on the device then, the key included."""
    kept_bytes: int
    """What is there for the next proof besides the key: matrices, lists and tables of roots."""
    making_key: int
    """The peak while a development key is made, its points not counted."""
    witness_bytes: int
    """What the witness of one partition takes by itself."""
    witness_graph: bool = False
    """Whether as much stays on the device, for a graph that computes the witness of every
    partition: in all stages, and until the key of another circuit comes."""

    @property
    def peak(self) -> int:
        """The most that proving takes."""
        return max(stage.bytes for stage in self.stages)

    @property
    def resident_bytes(self) -> int:
        """What is on the device between proofs, beside another circuit's."""
        return self.kept_bytes + (self.key_bytes if self.key_stays else 0)

    @property
    def stage_bytes(self) -> dict[str, int]:
        """The bytes of each stage, by the name of its span."""
        return {stage.name: stage.bytes for stage in self.stages}

    @property
    def key_verdict(self) -> str:
        """Where the key lies, in words."""
        if self.key_stays:
            return "stays on the device"
        side = ", h side by side with the other queries" if self.room.costs else ""
        return f"comes from the host in pieces{side}"

    @property
    def vectors_verdict(self) -> str:
        """How many vectors are there at a time, in words."""
        if self.room.in_turn:
            return "products and quotient in turn, the witness again for each"
        graph = ", the witness by a graph" if self.witness_graph else ""
        return f"products and quotient at once{graph}"

    @property
    def verdict(self) -> str:
        """Both of them."""
        return f"the key {self.key_verdict}; {self.vectors_verdict}"


def plan(
    sizes: CircuitSizes,
    backend: BackendName,
    budget: int,
    *,
    key: KeyPlace = "auto",
    graph: bool = False,
) -> Plan:
    """The fastest way of proving a partition that `budget` bytes allow.

    Args:
        sizes: The circuit's.
        backend: Whose operations.
        budget: All that this process may have on the device, its key and tables included.
        key: Where the key's points must lie; on a CPU, `host` is a mapped file.
        graph: Whether the witness may be a graph. It is where that fits beside, and takes nothing
            of the room.

    Raises:
        ResourceError: Even the slowest way takes more, with the numbers.
        ConfigError: The backend is not installed.
    """
    needs = load_needs(backend)
    least: Plan | None = None
    for mode in _modes(sizes, needs):
        if key == ("host" if mode.stays else "device"):
            continue
        if mode.stays and sizes.on_cpu and key == "auto":
            # a file is mapped there, and the system keeps of it what there is memory for
            continue
        found = _plan(sizes, backend, needs, budget, mode)
        if found.peak <= budget:
            return (
                _with_graph(found, StageBytes(sizes, needs, *mode, graph=True)) if graph else found
            )
        if least is None or found.peak < least.peak:
            least = found
    if least is None:
        raise ValueError(f"a key lies on a device or on the host, not on {key!r}")
    raise ResourceError(_refusal(least))


def plans(sizes: CircuitSizes, backend: BackendName, budget: int) -> Iterator[Plan]:
    """Every way there is, the fastest first, whether it fits or not."""
    needs = load_needs(backend)
    for mode in _modes(sizes, needs):
        yield _plan(sizes, backend, needs, budget, mode)


def making_key_bytes(sizes: CircuitSizes, backend: BackendName) -> int:
    """What making a development key takes at its peak, its points not counted."""
    return StageBytes(sizes, load_needs(backend), stays=False, in_turn=True).making_key()


def _modes(sizes: CircuitSizes, needs: Needs) -> Iterator[_Mode]:
    """Those that may be the fastest, on some budget."""
    for mode in _MODES:
        account = StageBytes(sizes, needs, *mode)
        # side by side parts are shorter, which is worse if nothing waits for them
        if not mode.side_by_side or (not sizes.on_cpu and waits_for_link(account)):
            yield mode


def _plan(
    sizes: CircuitSizes, backend: BackendName, needs: Needs, budget: int, mode: _Mode
) -> Plan:
    account = StageBytes(sizes, needs, *mode)
    room = room_for(account, backend, budget)
    return Plan(
        circuit=sizes.name,
        backend=backend,
        budget=budget,
        key_bytes=account.key,
        key_stays=mode.stays,
        room=room,
        stages=account.stages(room),
        kept_bytes=account.kept,
        making_key=account.making_key(),
        witness_bytes=account.witness,
    )


def _with_graph(found: Plan, account: StageBytes) -> Plan:
    """The same with the witness as a graph, if it is computed once a proof and there is room."""
    larger = replace(found, stages=account.stages(found.room), witness_graph=True)
    return found if found.room.in_turn or larger.peak > found.budget else larger


def _refusal(least: Plan) -> str:
    top = max(least.stages, key=lambda stage: stage.bytes)
    return (
        f"proving {least.circuit} takes {gib(least.peak)} at least with backend {least.backend} "
        f"(stage {top.name}; {least.verdict}), and {gib(least.budget)} may be had; "
        f"use a device with more, or a higher vram_limit if one is set"
    )


def gib(n: int) -> str:
    """A number of bytes for people, in GiB."""
    return f"{n / 2**30:.1f} GiB"
