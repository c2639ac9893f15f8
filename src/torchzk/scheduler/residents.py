"""What the circuits of a process keep on its devices: keys, and what is there for the next proof.

A plan of one circuit has what the others leave. Sessions that share devices share one of these.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch

from torchzk.errors import ResourceError
from torchzk.scheduler.memory_budget import MemoryBudget
from torchzk.scheduler.plan import KeyPlace, Place, Plan, gib
from torchzk.scheduler.witness_graph import WitnessGraphs

if TYPE_CHECKING:
    from torchzk.scheduler.session import Session

_PATIENCE = 60.0
"""Seconds that a key waits for kernels, which take one or two; a device may hang."""


@dataclass(frozen=True, eq=False)
class _Resident:
    """A circuit's key that is there, or on its way."""

    session: Session
    place: Place
    n_bytes: int
    """On the device: the key if it lies there, and what stays between proofs."""


@dataclass(frozen=True)
class Share:
    """What one of the circuits on a device takes of it."""

    plan: Plan
    beside: int
    """Bytes of the other circuits, which are not in the plan's budget."""
    staged: int
    """Bytes of a partition between its staging and its kernels."""


class Residents:
    """Counts the bytes that keys take of devices, and finds places for more. For any threads.

    A CPU's are not counted: what others have of its memory is not free in the first place.
    """

    def __init__(self) -> None:
        self._residents: list[_Resident] = []
        self._budgets: WeakKeyDictionary[MemoryBudget, torch.device] = WeakKeyDictionary()
        self._guard = threading.RLock()
        self._at_work: dict[torch.device, set[object]] = {}
        self._left = threading.Condition(self._guard)
        self.graphs = WitnessGraphs()
        """Kept where one circuit has a device to itself; no bytes of those that keys count."""

    def beside(self, device: torch.device, circuit: str) -> int:
        """Bytes that others keep on the device: all but the circuit's own key, or its last."""
        return sum(r.n_bytes for r in self._others(device, circuit))

    def place_of(self, device: torch.device, circuit: str) -> Place | None:
        """Where the circuit's key lies, if it is held; None on a CPU, where it does not matter."""
        with self._guard:
            for r in reversed(self._residents):
                if (r.session.device, r.session.circuit.name) == (device, circuit):
                    return None if device.type == "cpu" else r.place
        return None

    def names(self, device: torch.device, circuit: str) -> str:
        """Those that `beside` counts, in words."""
        others = self._others(device, circuit)
        return ", ".join(f"{r.session.circuit.name} {gib(r.n_bytes)}" for r in others)

    def watch(self, device: torch.device, budget: MemoryBudget) -> None:
        """Keep a budget at what partitions may have on the device, as keys come and go."""
        with self._guard:
            self._budgets[budget] = device

    @contextmanager
    def computing(self, device: torch.device) -> Iterator[None]:
        """While the kernels of a partition run there, by the plan of its beginning."""
        one = object()
        with self._guard:
            self._at_work.setdefault(device, set()).add(one)
        try:
            yield
        finally:
            with self._left:
                self._at_work[device].remove(one)
                self._left.notify_all()

    @contextmanager
    def hold(self, session: Session, place: Place | None) -> Iterator[Place | None]:
        """Find a place for the key of a session, and count it until the context ends.

        It goes to the device if it fits there and leaves all others enough to prove with their
        keys where they are, and otherwise to the host. Partitions whose plan does not know of it
        are done before the context begins.

        Args:
            place: Where it must lie; None to choose.

        Yields:
            Where it is to lie; on a CPU what was given.

        Raises:
            ResourceError: It does not fit beside the others, with the numbers.
        """
        with self._guard:
            if session.device.type == "cpu":
                resident = _Resident(session, place or "host", 0)
                room = self._room([*self._residents, resident], session.device)
            else:
                resident, room = self._admitted(session, place)
                place = resident.place
            self._residents.append(resident)
            self._resize(session.device, room)
        try:
            self._let_finish(session.device)
            # whoever is alone there by now has it again
            self.graphs.drop(session.device)
            yield place
        finally:
            self._release(resident)

    def _others(self, device: torch.device, circuit: str) -> list[_Resident]:
        with self._guard:
            here = [r for r in self._residents if r.session.device == device]
        own = [r for r in here if r.session.circuit.name == circuit][-1:]
        return [r for r in here if r not in own]

    def _admitted(self, session: Session, place: Place | None) -> tuple[_Resident, int]:
        """A place for a key, and what partitions may have then."""
        tries: Sequence[KeyPlace] = ("auto", "host") if place is None else (place,)
        for key in tries:
            found = session.plan_beside(key, self.beside(session.device, ""))
            at: Place = "device" if found.key_stays else "host"
            resident = _Resident(session, at, found.resident_bytes)
            try:
                return resident, self._room([*self._residents, resident], session.device)
            except ResourceError as e:
                refused = e
        raise ResourceError(
            f"{session.circuit.name} would keep {gib(resident.n_bytes)} on "
            f"{session.device}, and leave too little there: {refused}"
        )

    def _room(self, residents: Sequence[_Resident], device: torch.device) -> int:
        """`partition_room` of a device with these on it; raises if one of them cannot prove."""
        here = [r for r in residents if r.session.device == device]
        shares = []
        for r in {r.session.circuit.name: r for r in here}.values():
            beside = sum(other.n_bytes for other in here if other is not r)
            on_cpu = device.type == "cpu"
            plan = r.session.plan if on_cpu else r.session.plan_beside(r.place, beside)
            shares.append(Share(plan, beside, r.session.sizes.witness.given))
        return partition_room(str(device), shares)

    def _let_finish(self, device: torch.device) -> None:
        """Wait for those who compute now, a while; on a CPU nobody's plan changes."""
        if device.type == "cpu":
            return
        with self._left:
            now = self._at_work.setdefault(device, set())
            before = now.copy()
            self._left.wait_for(lambda: before.isdisjoint(now), _PATIENCE)

    def _resize(self, device: torch.device, room: int) -> None:
        for budget, of in list(self._budgets.items()):
            if of == device:
                budget.resize(room)

    def _release(self, resident: _Resident) -> None:
        device = resident.session.device
        self.graphs.drop(device, resident.session.circuit.name)
        with self._guard:
            self._residents.remove(resident)
            if not any(r.session.device == device for r in self._residents):
                return
            if device.type != "cpu":
                # what it kept there is no longer counted; others make theirs again
                resident.session.forget()
            # where somebody else took memory, what was allowed with the key there still is
            with suppress(ResourceError):
                self._resize(device, self._room(self._residents, device))


def partition_room(device: str, shares: Sequence[Share]) -> int:
    """What staged partitions may have of a device beside all that stays and one compute peak.

    Kernels of one partition run at a time, so the largest of the circuits' peaks is counted. One
    of each kind's staging always fits, since a plan has room for that.

    Raises:
        ResourceError: The circuits do not fit together, with the numbers.
    """
    stays = max(
        sum(share.plan.resident_bytes for share in shares),
        # a key that nobody here proves with stays as well
        *(share.plan.resident_bytes + share.beside for share in shares),
    )
    compute = max(share.plan.peak - share.plan.resident_bytes for share in shares)
    # one that was made for half of the rest, where memory ran out, says less of the device
    budgets = [share.plan.budget + share.beside for share in shares]
    there = max(budgets)
    if stays + compute > there:
        each = ", ".join(f"{s.plan.circuit} {gib(s.plan.resident_bytes)}" for s in shares)
        raise ResourceError(
            f"on {device} {gib(stays)} stay ({each}) and a partition takes {gib(compute)} more "
            f"at its peak, and {gib(there)} may be had; evict a key, or use a device with more"
        )
    rest = max(0, min(budgets) - stays - compute)
    return max(share.staged for share in shares) + rest
