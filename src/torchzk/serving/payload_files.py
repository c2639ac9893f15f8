"""Payloads in a folder, a file each, named by their digest: equal ones are there once."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from torchzk.errors import ConfigError, StoreError, TorchzkError
from torchzk.files import atomic_write, make_folder, sweep_partials

_NAME = re.compile(r"[0-9a-f]{64}")


class PayloadFiles:
    """For any number of threads. A file is on the disk when `kept` hands it over."""

    def __init__(self, folder: Path, wanted: Callable[[bytes], bool]) -> None:
        """Args:
        folder: Of payloads alone; made where it is missing, and rid of what is not wanted.
        wanted: Whether a job has the payload of that digest, and has not ended.
        """
        self._folder, self._wanted = folder, wanted
        make_folder(folder)
        self._guard = threading.Lock()
        self._pins: Counter[bytes] = Counter()
        # of a process that died: what it was writing, and what nobody waits for now
        sweep_partials(folder)
        for path in list(folder.iterdir()):
            if _NAME.fullmatch(path.name):
                self.tidy(bytes.fromhex(path.name))

    @contextmanager
    def kept(self, digest: bytes, pieces: Iterable[bytes]) -> Iterator[None]:
        """A payload, written unless it is there; it stays until the context ends, and while wanted.

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
            # its job may have ended meanwhile, or there is none
            self.tidy(digest)

    def read(self, digest: bytes) -> bytes:
        """A payload's bytes, not looked at; raises `StoreError` if they are not to be had."""
        try:
            return self._path(digest).read_bytes()
        except OSError as e:
            raise StoreError(f"payload {digest.hex()}: cannot be read: {e.strerror}") from e

    def save(self, digest: bytes, path: Path) -> None:
        """Have a payload under another name as well, for good; raises `OSError`."""
        path.hardlink_to(self._path(digest))

    def tidy(self, digest: bytes) -> None:
        """Remove a payload that nobody needs; what cannot be removed goes at the next start."""
        with self._guard, suppress(OSError, TorchzkError):
            if not self._pins[digest] and not self._wanted(digest):
                self._path(digest).unlink(missing_ok=True)

    def _path(self, digest: bytes) -> Path:
        return self._folder / digest.hex()
