"""What the stages of a run have in common: the circuit, where it runs, and who watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import torch

from torchzk.backends import (
    Backend,
    BackendChoice,
    KernelVariant,
    choose_backend,
    forget_tables,
    load_backend,
    variant_on,
)
from torchzk.circuits.block_cache import block_path, cached_block, load_block
from torchzk.circuits.circuit import AnyCircuit
from torchzk.circuits.registry import get_circuit
from torchzk.config import Config
from torchzk.errors import CacheError, ResourceError
from torchzk.groth16.products import forget_matrices
from torchzk.groth16.query_variables import query_variables
from torchzk.groth16.r1cs import Block, R1cs
from torchzk.scheduler.circuit_sizes import CircuitSizes, circuit_sizes
from torchzk.scheduler.device_budget import budget, half_of_the_rest, prepare_memory
from torchzk.scheduler.devices import find_device, find_devices, why_none
from torchzk.scheduler.plan import KeyPlace, Plan, making_key_bytes, plan
from torchzk.scheduler.residents import Residents
from torchzk.scheduler.witness_graph import Program
from torchzk.timeline import Timeline

_NEXT_TO = 64
"""One part in so many may be gone since: kernels that were loaded, tables of other sessions."""


@dataclass(frozen=True)
class Session:
    """A config made real. Jobs and keys are passed beside it."""

    config: Config
    circuit: AnyCircuit
    backend: Backend
    device: torch.device
    timeline: Timeline
    choice: BackendChoice
    """Which backend that is, and why."""
    warn: Callable[[str], None]
    """Told of what is amiss but can be mended."""
    residents: Residents = field(default_factory=Residents)
    """What circuits keep on devices: of all sessions that are to know of each other."""
    _plans: list[tuple[int, Plan]] = field(default_factory=list, init=False)
    """One, once it was asked for, with the bytes of other circuits that it was made beside."""
    _given_up: list[Plan] = field(default_factory=list, init=False)
    """The one before, while somebody else has the memory for it."""

    @cached_property
    def r1cs(self) -> R1cs:
        """The circuit's constraint system, its blocks from the cache or else recorded.

        Raises:
            ConfigError: The cache's folder cannot be made or written.
            ResourceError: The disk is full.
        """
        with self.timeline.span("constraints"):
            return self.circuit.r1cs(self._recall)

    @cached_property
    def sizes(self) -> CircuitSizes:
        """What the memory of a proof depends on; errors as `r1cs`."""
        return circuit_sizes(self.circuit, self.r1cs, on_cpu=self.device.type == "cpu")

    @cached_property
    def making_key(self) -> int:
        """What making a development key takes at its peak in bytes, its points not counted."""
        return making_key_bytes(self.sizes, self.choice.name)

    @property
    def beside(self) -> int:
        """Bytes that others keep on the device; as `Residents.beside`."""
        return self.residents.beside(self.device, self.circuit.name)

    @property
    def plan(self) -> Plan:
        """How a partition is proven here, in what other circuits leave of the device.

        Made when first asked for, and anew after a key of another circuit has come or gone. After a
        `replan` it is the one before again, as soon as whoever took the memory has given it back.

        Raises:
            ResourceError: The device has not the memory, with the numbers.
        """
        place, beside = self.residents.place_of(self.device, self.circuit.name), self.beside
        made = self._plans[-1] if self._plans else None
        moved = made is not None and place is not None and made[1].key_stays != (place == "device")
        if made is None or moved or made[0] != beside:
            return self._settle(self.plan_beside(place or "auto", beside), beside)
        # another thread may take it up meanwhile
        for earlier in self._given_up[:1]:
            if self._has_room(earlier):
                return self._settle(earlier, beside)
        return made[1]

    def plan_for(self, *, key_stays: bool) -> Plan:
        """The plan, made anew if the key was put elsewhere than it says; errors as `plan`.

        On a CPU it does not matter where the key is.
        """
        found = self.plan
        if self.device.type == "cpu" or found.key_stays == key_stays:
            return found
        beside = self.beside
        return self._settle(self.plan_beside("device" if key_stays else "host", beside), beside)

    def plan_beside(self, key: KeyPlace, beside: int) -> Plan:
        """The plan there would be with so many bytes of other circuits there; errors as `plan`."""
        there = budget(self.device, self.config.vram_limit) - beside
        try:
            graph = self.has_graph and not beside
            return plan(self.sizes, self.choice.name, there, key=key, graph=graph)
        except ResourceError as e:
            others = self.residents.names(self.device, self.circuit.name)
            if not others:
                # there may be one that wants to come, and whoever asked for it says so
                raise
            raise ResourceError(
                f"{e}; other circuits keep {beside / 2**30:.1f} GiB there ({others}): evict one"
            ) from None

    @property
    def has_graph(self) -> bool:
        """Whether a witness may be a graph: where asked for, of Triton's kernels on CUDA."""
        on_cuda = self.device.type == "cuda" and self.choice.name == "triton"
        return self.config.witness_graph and on_cuda

    @contextmanager
    def witness_program(self, plan: Plan) -> Iterator[Program]:
        """What computes a partition's assignment, by a graph if the plan has one.

        Its values are good for kernels launched on the current stream until the context ends.
        """
        program, graphs = partial(self.circuit.assignment, self.backend), self.residents.graphs
        place = (self.device, self.circuit.name)
        if not plan.witness_graph:
            # who proved by the plan before may have made one since that went
            graphs.drop(*place)
            yield program
            return
        with graphs.lent(*place, program, plan.witness_bytes, self.warn) as lent:
            yield lent

    def replan(self) -> Plan:
        """A plan for half of what is free now, with the key where it is; it takes the plan's place.

        Raises:
            ResourceError: Nothing fits, with the numbers.
        """
        before, given_up = self.plan, self._given_up.copy()
        stays, key = before.key_stays, before.key_bytes
        self.residents.graphs.drop(self.device, self.circuit.name)
        forget_tables(self.choice.name, self.device)
        half = half_of_the_rest(self.device, self.config.vram_limit, key if stays else 0)
        smaller = plan(self.sizes, self.choice.name, half, key="device" if stays else "host")
        self._settle(smaller, self.beside)
        # a plan for which all is there, and that ran out all the same, is not gone by again
        self._given_up[:] = given_up or ([] if self._has_room(before) else [before])
        return smaller

    def _has_room(self, earlier: Plan) -> bool:
        """Whether there is as much as when a plan was made, or next to it."""
        there = budget(self.device, self.config.vram_limit) - self.beside
        return there >= max(earlier.peak, earlier.budget - earlier.budget // _NEXT_TO)

    def forget(self) -> None:
        """Give back what is kept on the device for the next proof; it is made again when wanted.

        Any thread may, beside a worker that proves there: who has got something of it holds it
        until its kernels are launched, and its memory is others' only after those.
        """
        self.residents.graphs.drop(self.device, self.circuit.name)
        forget_matrices(self.device)
        query_variables.forget(self.device)
        forget_tables(self.choice.name, self.device)

    def _settle(self, found: Plan, beside: int) -> Plan:
        """Go by another plan. What was kept for the last may be too large for it, and goes."""
        if not found.witness_graph:
            self.residents.graphs.drop(self.device, self.circuit.name)
        forget_tables(self.choice.name, self.device)
        self._plans[:] = [(beside, found)]
        self._given_up.clear()
        return found

    def take_constraints(self, other: Session) -> None:
        """Use those of a session of the same circuit: in memory they are there once."""
        vars(self).update(r1cs=other.r1cs, sizes=other.sizes)

    def recall(self) -> bool:
        """Take the constraints from the cache and record nothing; False if one is missing there."""

        def cached(description: str, record: Callable[[], Block]) -> Block:
            return load_block(block_path(self.config.block_cache, description))

        try:
            # where a property that is computed once keeps its value
            vars(self)["r1cs"] = self.circuit.r1cs(cached)
        except CacheError:
            return False
        return True

    def foresee(self) -> None:
        """Raise what `plan` would, where that is known without recording anything.

        For whoever is about to read and check a job, which may take longer than to say that it
        cannot be proven here.
        """
        with self.timeline.span("plan"):
            if self.recall():
                self.plan_beside("auto", self.beside)

    def _recall(self, description: str, record: Callable[[], Block]) -> Block:
        def watched() -> Block:
            with self.timeline.span("record"):
                return record()

        return cached_block(self.config.block_cache, description, watched, self.warn)

    def variant(self) -> KernelVariant | None:
        """The variant of the backend's kernels here, checked by known answers; None for torch's.

        The first call for a device takes seconds. Raises `ResourceError` as `variant_on` does.
        """
        return variant_on(self.choice.name, self.device)


def open_sessions(
    config: Config,
    timeline: Timeline,
    warn: Callable[[str], None],
    residents: Residents | None = None,
) -> list[Session]:
    """A session on each of the devices that a config names.

    Args:
        warn: Told of a damaged cache, which is mended, and of a GPU that `auto` cannot take.
        residents: Shared with sessions of other circuits; by default one of their own.

    Raises:
        As `open_session`.
    """
    names = [str(device) for device in find_devices(config.device)]
    if config.device == "auto" and names == ["cpu"] and (reason := why_none()):
        warn(f"no GPU is used: {reason}")
    shared = residents or Residents()
    return [open_session(replace(config, device=name), timeline, warn, shared) for name in names]


def open_session(
    config: Config,
    timeline: Timeline,
    warn: Callable[[str], None],
    residents: Residents | None = None,
) -> Session:
    """Find the circuit, the device and the backend that a config names.

    Args:
        residents: As `open_sessions`.

    Raises:
        ConfigError: There is no such circuit, or the backend is not installed.
        ResourceError: The device is not there, or not one for the backend.
    """
    device = find_device(config.device)
    choice = choose_backend(config.backend, device)
    prepare_memory(device, config.vram_limit)
    if device.type == "cpu":
        # the reference works on pieces of a batch that fit the cache; on so little work the
        # barriers of torch's own threads cost more than the second core brings
        torch.set_num_threads(1)
    circuit = get_circuit(config.circuit.kind, config.circuit.sector_size)
    backend, shared = load_backend(choice.name), residents or Residents()
    return Session(config, circuit, backend, device, timeline, choice, warn, shared)
