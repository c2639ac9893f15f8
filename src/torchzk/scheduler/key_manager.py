"""Keys that jobs share within a budget of bytes: loaded once, let go when another needs room."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from torchzk.errors import ResourceError
from torchzk.timeline import Timeline

Key = TypeVar("Key")

_GIB = 1 << 30


@dataclass
class _Entry:
    name: str
    n_bytes: int
    users: int = 1
    """Who loads a key is its first user."""
    key: Any = None
    loaded: bool = False


class KeyManager:
    """Keys by identity, of one memory: a device's, or the host's. For any number of threads.

    Args:
        budget_bytes: What all keys together may take.
        timeline: Gets a span `evict` for every key that is let go of.
    """

    def __init__(self, budget_bytes: int, timeline: Timeline | None = None) -> None:
        self.budget_bytes = budget_bytes
        self._timeline = timeline or Timeline()
        # least recently used first
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._changed = threading.Condition()

    @property
    def held_bytes(self) -> int:
        """What the keys take that are there or on their way."""
        with self._changed:
            return sum(entry.n_bytes for entry in self._entries.values())

    def holds(self, identity: Hashable) -> bool:
        """Whether a key is there or on its way."""
        with self._changed:
            return identity in self._entries

    @contextmanager
    def use(
        self, identity: Hashable, n_bytes: int, load: Callable[[], Key], name: str = "the key"
    ) -> Iterator[Key]:
        """The key of that identity, which stays at least until the context ends.

        Two that ask for one key at once load it once. Whoever leaves the context must have the
        results of what was launched with the key: its memory may be given to others then.

        Args:
            identity: Of circuit, origin and place, whatever tells keys apart.
            n_bytes: What it takes.
            load: Gets it, if it is not there; other keys can be had meanwhile.
            name: What to call it in messages.

        Raises:
            ResourceError: It does not fit beside the keys in use. And whatever `load` raises.
        """
        entry, is_first = self._enter(identity, n_bytes, name)
        try:
            if is_first:
                entry.key = load()
                with self._changed:
                    entry.loaded = True
                    self._changed.notify_all()
            yield entry.key
        finally:
            self._leave(identity, entry)

    def drop_unused(self) -> int:
        """Let all keys go that nobody uses; returns the bytes they took."""
        with self._changed:
            unused = [i for i, entry in self._entries.items() if not entry.users]
            return sum(self._evict(i) for i in unused)

    def _enter(self, identity: Hashable, n_bytes: int, name: str) -> tuple[_Entry, bool]:
        with self._changed:
            while (entry := self._entries.get(identity)) is not None:
                if entry.loaded:
                    entry.users += 1
                    self._entries.move_to_end(identity)
                    return entry, False
                self._changed.wait()
            self._make_room(n_bytes, name)
            entry = self._entries[identity] = _Entry(name, n_bytes)
            return entry, True

    def _leave(self, identity: Hashable, entry: _Entry) -> None:
        with self._changed:
            entry.users -= 1
            if not entry.loaded:
                # it could not be had; whoever waited for it tries for themselves
                del self._entries[identity]
            self._changed.notify_all()

    def _make_room(self, n_bytes: int, name: str) -> None:
        """Let keys go, the least recently used first, or none of them if that is not enough."""
        in_use = [entry for entry in self._entries.values() if entry.users]
        there = self.budget_bytes - sum(entry.n_bytes for entry in in_use)
        if n_bytes > there:
            others = ", ".join(f"{e.name} {e.n_bytes / _GIB:.2f} GiB" for e in in_use) or "none"
            raise ResourceError(
                f"{name} takes {n_bytes / _GIB:.2f} GiB; keys may take "
                f"{self.budget_bytes / _GIB:.2f} GiB together, and in use are: {others}; allow "
                "more, or wait until one is done with"
            )
        for identity in [i for i, entry in self._entries.items() if not entry.users]:
            if sum(entry.n_bytes for entry in self._entries.values()) + n_bytes <= (
                self.budget_bytes
            ):
                return
            self._evict(identity)

    def _evict(self, identity: Hashable) -> int:
        """Let a key go that nobody uses; returns the bytes it took."""
        with self._timeline.span("evict"):
            return self._entries.pop(identity).n_bytes
