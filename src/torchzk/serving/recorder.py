"""The thread that writes ends of jobs down, many with one sync, and then tells who waits."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from torchzk.errors import ResourceError

Item = TypeVar("Item")


class Recorder(Generic[Item]):
    """Writes items in order; while they cannot be written, it tries again.

    Nobody who waits is kept for ever by a full disk: after `grace` seconds an item is told although
    it is not written, and written when that is possible again.
    """

    def __init__(
        self,
        take: Callable[[Item], bool],
        write: Callable[[list[Item]], None],
        tell: Callable[[Item], None],
        tick: Callable[[], None],
        on_error: Callable[[Exception], None],
        *,
        grace: float = 10.0,
        pause: float = 0.5,
    ) -> None:
        """Args:
        take: Gets every item first, once; False where there is nothing to write or to tell.
        write: Puts items on the disk, all or none; may raise `ResourceError`.
        tell: Called once an item, once it is written or was tried for long enough.
        tick: Called about every `pause` seconds.
        on_error: Gets what was raised by any of these; must not raise.
        """
        self._accept, self._write, self._tell, self._tick = take, write, tell, tick
        self._on_error, self._grace, self._pause = on_error, grace, pause
        self._items: queue.SimpleQueue[Item | None] = queue.SimpleQueue()
        self._unwritten: list[Item] = []
        self._untold: list[tuple[float, Item]] = []
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    @property
    def behind(self) -> bool:
        """Whether something could not be written yet."""
        return bool(self._unwritten)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, item: Item) -> None:
        """Have an item written; returns at once."""
        self._items.put(item)

    def close(self) -> int:
        """Write what is there, once more if need be; returns how many items are not written."""
        self._items.put(None)
        self._thread.join()
        return len(self._unwritten)

    def _run(self) -> None:
        while not self._turn():
            pass

    def _turn(self) -> bool:
        """Work off what is there; a function of its own, lest its variables keep what is done."""
        new, is_last = self._take()
        end = time.monotonic() + self._grace
        new = [item for item in new if self._wanted(item)]
        self._unwritten += new
        self._untold += [(end, item) for item in new]
        self._work()
        self._guarded(self._tick)
        return is_last

    def _take(self) -> tuple[list[Item], bool]:
        """All that is there, waited for; and whether no more will come."""
        taken: list[Item] = []
        try:
            item = self._items.get(timeout=self._pause)
            while item is not None:
                taken.append(item)
                item = self._items.get_nowait()
        except queue.Empty:
            return taken, False
        return taken, True

    def _wanted(self, item: Item) -> bool:
        wanted = True

        def ask() -> None:
            nonlocal wanted
            wanted = self._accept(item)

        self._guarded(ask)
        return wanted

    def _write_all(self) -> None:
        """All at once; if that fails for another reason than the disk, one by one."""
        items = self._unwritten
        try:
            self._write(items)
            self._unwritten = []
        except ResourceError as error:
            self._on_error(error)
        except Exception:
            self._unwritten = [i for i in items if not self._guarded(partial(self._write, [i]))]

    def _work(self) -> None:
        if self._unwritten:
            self._write_all()
        now = time.monotonic()
        if self._unwritten:
            due = [item for end, item in self._untold if end <= now]
            self._untold = [(end, item) for end, item in self._untold if end > now]
        else:
            due = [item for _, item in self._untold]
            self._untold = []
        for item in due:
            self._guarded(partial(self._tell, item))

    def _guarded(self, act: Callable[[], None]) -> bool:
        """The thread survives whatever is raised: without it no job would ever end."""
        try:
            act()
        except Exception as error:
            self._on_error(error)
            return not isinstance(error, ResourceError)
        return True
