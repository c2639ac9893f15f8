"""Payloads in a folder, a file each, named by their digest: equal ones are there once."""

from __future__ import annotations

import contextlib
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from torchzk.errors import ConfigError, StoreError
from torchzk.files import atomic_write, make_folder

_NAME = re.compile(r"[0-9a-f]{64}")


class PayloadFiles:
    """For any number of threads. A file is on the disk when `kept` hands it over."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        make_folder(folder)
        self._guard = threading.Lock()
        self._pins: Counter[bytes] = Counter()

    @contextmanager
    def kept(self, digest: bytes, pieces: Iterable[bytes]) -> Iterator[None]:
        """A payload, written unless it is there; it stays at least until the context ends.

        Raises:
            ResourceError: The disk is full.
            StoreError: The folder cannot be written.
        """
        with self._guard:
            self._pins[digest] += 1
        try:
            path = self._path(digest)
            # whoever finds one of that name finds it whole: it took the name by a rename
            if not path.is_file():
                try:
                    with atomic_write(path) as file:
                        file.writelines(pieces)
                except (OSError, ConfigError) as e:
                    raise StoreError(f"{self._folder}: cannot be written: {e}") from e
            yield
        finally:
            with self._guard:
                self._pins[digest] -= 1
                if not self._pins[digest]:
                    del self._pins[digest]

    def read(self, digest: bytes) -> bytes:
        """A payload's bytes, not looked at; raises `StoreError` if they are not to be had."""
        try:
            return self._path(digest).read_bytes()
        except OSError as e:
            raise StoreError(f"payload {digest.hex()}: cannot be read: {e.strerror}") from e

    def remove(self, digest: bytes, wanted: Callable[[bytes], bool]) -> None:
        """Remove a payload unless it is being taken in, or `wanted` says that a job has it."""
        with self._guard:
            if self._pins[digest] or wanted(digest):
                return
            # what cannot be removed now goes with the next sweep
            with contextlib.suppress(OSError):
                self._path(digest).unlink(missing_ok=True)

    def sweep(self, wanted: Callable[[bytes], bool]) -> None:
        """Remove what a process that died left behind."""
        for path in list(self._folder.iterdir()):
            if _NAME.fullmatch(path.name):
                self.remove(bytes.fromhex(path.name), wanted)

    def _path(self, digest: bytes) -> Path:
        return self._folder / digest.hex()
