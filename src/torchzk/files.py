"""Writing files so that nobody ever takes a half-written one for a whole one."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from torchzk.errors import ConfigError, ResourceError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_PARTIAL = re.compile(r"\..+\.[0-9a-f]{16}\.partial", re.DOTALL)


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """A binary file that becomes `path` when the body ends, and vanishes when it raises.

    The bytes go to `.NAME.<16 hex digits>.partial` in the same folder, reach the disk, and take
    the name by one rename. A process killed outright leaves the partial file, which no reader
    looks for, and which goes when the folder is next written to. A symbolic link is written
    through, not replaced.

    Raises:
        ConfigError: `path` is a folder or a device, or its folder cannot be written.
        ResourceError: The disk is full.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():
        raise ConfigError(f"{path}: is not a regular file; name another to write to")
    sweep_partials(target.parent)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.partial")
    try:
        with _create(temporary, path) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            # while it is locked: what nobody holds is swept
            temporary.replace(target)
        _sync_folder(target.parent)
    except BaseException as e:
        # whatever stopped us, an interrupt too: leave nothing behind
        temporary.unlink(missing_ok=True)
        if isinstance(e, OSError) and e.errno in _FULL:
            raise ResourceError(f"{path}: the disk is full") from e
        raise


def sweep_partials(folder: Path) -> None:
    """Remove the partial files of dead processes, where it can: the system took their locks.

    Every `atomic_write` to the folder does so as well.
    """
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if _PARTIAL.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    _remove_if_dead(Path(entry.path))


def make_folder(folder: Path) -> None:
    """Make a folder and those above it where they are missing; raises `ConfigError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise ConfigError(f"{folder}: cannot make this folder: {e.strerror}") from e


def _create(temporary: Path, path: Path) -> BinaryIO:
    """A new file, locked as long as it is open, so that others see that its writer lives."""
    while True:
        try:
            file = temporary.open("xb")
        except OSError as e:
            raise ConfigError(f"{path}: cannot write to {path.parent}: {e.strerror}") from e
        # where there are no locks, nobody gets one to sweep with either
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return file
        # swept between the two calls
        file.close()


def _remove_if_dead(partial: Path) -> None:
    """Remove a partial file; raises `OSError` if its writer lives, or it is not ours to touch."""
    # for writing, which a lock takes on a network's file systems; a pipe must not block
    handle = os.open(partial, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        there, locked = partial.lstat(), os.fstat(handle)
        # meanwhile it may have been swept by another, or have become whole
        if stat.S_ISREG(locked.st_mode) and os.path.samestat(there, locked):
            partial.unlink()
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Make the rename last; file systems that cannot sync a folder say so and are let be."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)
