"""Simulated time: processes as generators, events they wait for, fair locks and queues.

A process yields the seconds it sleeps, or an `Event` it waits for. What happens at the same moment
happens in the order in which it was asked for, so that a run is the same every time.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, TypeAlias, TypeVar

Process: TypeAlias = "Generator[float | Event, None, None]"
_Item = TypeVar("_Item")


class Clock:
    """The time in seconds, and what is to happen when."""

    def __init__(self) -> None:
        self.now = 0.0
        self._order = count()
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []

    def at(self, seconds: float, call: Callable[[], None]) -> None:
        """Call at a moment, which is not in the past."""
        heapq.heappush(self._agenda, (max(seconds, self.now), next(self._order), call))

    def spawn(self, process: Process) -> Event:
        """Start a process now; the event that is set when it ends."""
        ended = Event(self)

        def step() -> None:
            for wanted in process:
                if isinstance(wanted, Event):
                    wanted.then(step)
                else:
                    self.at(self.now + wanted, step)
                return
            ended.set()

        self.at(self.now, step)
        return ended

    def run(self) -> None:
        """Until nothing is left to happen."""
        while self._agenda:
            self.now, _, call = heapq.heappop(self._agenda)
            call()


class Event:
    """Happens once; whoever waits for it afterwards does not wait."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: list[Callable[[], None]] = []
        self.happened = False

    def then(self, call: Callable[[], None]) -> None:
        """Call once it has happened."""
        if self.happened:
            self._clock.at(self._clock.now, call)
        else:
            self._waiting.append(call)

    def set(self) -> None:
        """Let it happen."""
        self.happened = True
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            self._clock.at(self._clock.now, call)


class Signal:
    """Something changed: wakes whoever waits, again and again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next = Event(clock)

    @property
    def next(self) -> Event:
        """The next change."""
        return self._next

    def change(self) -> None:
        """Wake everybody who waits."""
        changed, self._next = self._next, Event(self._clock)
        changed.set()


class Lock:
    """One holder at a time, first come, first served."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: Event | None = None
        self._waiting: deque[Event] = deque()

    @property
    def holder_leaves(self) -> Event | None:
        """Set when who holds it now lets go; None where nobody does."""
        return self._held

    def take(self) -> Process:
        """Wait for one's turn and hold it."""
        if self._held is not None:
            turn = Event(self._clock)
            self._waiting.append(turn)
            yield turn
        else:
            self._held = Event(self._clock)

    def leave(self) -> None:
        """Hand it to who waits longest.

        Raises:
            RuntimeError: Nobody holds it.
        """
        if self._held is None:
            raise RuntimeError("a lock was left that nobody holds")
        left, self._held = self._held, None
        if self._waiting:
            # handed over at once: nobody can step in between
            self._held = Event(self._clock)
            self._waiting.popleft().set()
        left.set()


@dataclass
class Queue(Generic[_Item]):
    """First in, first out, with so many places; who finds it full waits."""

    clock: Clock
    places: int
    _items: deque[_Item] = field(default_factory=deque)
    _changed: Signal = field(init=False)

    def __post_init__(self) -> None:
        self._changed = Signal(self.clock)

    def put(self, item: _Item) -> Process:
        """Put an item in once there is a place."""
        while len(self._items) >= self.places:
            yield self._changed.next
        self._items.append(item)
        self._changed.change()

    def get(self) -> Generator[float | Event, None, _Item]:
        """Take the first item out once there is one."""
        while not self._items:
            yield self._changed.next
        item = self._items.popleft()
        self._changed.change()
        return item
