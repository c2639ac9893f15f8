"""The folders of runs: a new one for each, and the oldest removed where there are too many.

Nothing else in the folder of runs is ever touched: what is removed has a run's name, is no link,
and is nobody's who still writes to it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from torchzk.config import RunsLimit

_NAME = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9]+(?:-[0-9]+)?")


@dataclass
class RunFolder:
    """A run's own folder, held against removal until it is let go, or the process ends."""

    path: Path
    handle: int

    def release(self) -> None:
        """It may be removed from now on."""
        handle, self.handle = self.handle, -1
        if handle >= 0:
            os.close(handle)


def new_folder(runs: Path) -> RunFolder:
    """A fresh folder named by UTC time and process; two runs never share one.

    Raises:
        OSError: It cannot be made.
    """
    stamp = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}"
    runs.mkdir(parents=True, exist_ok=True)
    # never the name of one that was removed: the last of a second has the highest number
    there = [_age(path)[1] for path in _runs_in(runs) if f"{path.name}-".startswith(f"{stamp}-")]
    first = max((numbers[1] if len(numbers) > 1 else 1 for numbers in there), default=0) + 1
    for number in range(first, first + 100):
        folder = runs / (stamp if number == 1 else f"{stamp}-{number}")
        try:
            folder.mkdir()
            handle = os.open(folder, os.O_RDONLY)
        except (FileExistsError, FileNotFoundError):
            # another's, or removed as soon as it was made
            continue
        # where there are no locks, nobody gets one to remove with either
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_SH)
        if folder.is_dir():
            return RunFolder(folder, handle)
        os.close(handle)
    raise FileExistsError(17, f"100 runs of stamp {stamp} are there", str(runs))


def remove_old(runs: Path, limit: RunsLimit) -> list[Path]:
    """Remove the oldest runs until no more are there than `limit` says; the newest stays.

    A run that somebody writes to is counted and stays. What cannot be removed is left.

    Args:
        runs: The folder of runs.
        limit: How many, and how many bytes.

    Returns:
        What was removed, the oldest first.
    """
    if limit.count is None and limit.size is None:
        return []
    found = sorted(_runs_in(runs), key=_age, reverse=True)
    removed: list[Path] = []
    count, size = 0, 0
    for folder in found:
        own = _bytes_of(folder) if limit.size is not None else 0
        count, size = count + 1, size + own
        over = (limit.count is not None and count > limit.count) or (
            limit.size is not None and size > limit.size
        )
        if over and count > 1 and _remove(folder):
            count, size = count - 1, size - own
            removed.append(folder)
    return removed[::-1]


def _runs_in(runs: Path) -> list[Path]:
    with contextlib.suppress(OSError), os.scandir(runs) as entries:
        return [
            Path(entry.path)
            for entry in entries
            if _NAME.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
        ]
    return []


def _age(folder: Path) -> tuple[str, list[int]]:
    """Sorts by the stamp of time; of one second, by process and number."""
    stamp, *numbers = folder.name.split("-")
    return stamp, [int(number) for number in numbers]


def _bytes_of(folder: Path) -> int:
    """Bytes of the files below a folder, links not followed."""
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(base, name)).st_size  # noqa: PTH118 - thousands
    return total


def _remove(folder: Path) -> bool:
    """Whether a folder is gone; False if somebody holds it, or it is not ours to remove."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
