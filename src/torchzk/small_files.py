"""Reading small files that somebody else wrote: secrets, marks, tokens, configs.

A pipe would wait for its writer and a folder has no bytes, so neither is opened; room for more than
there is of a file is never made.
"""

from __future__ import annotations

import errno
import json
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def read_small(path: Path, most: int) -> bytes:
    """The bytes of a regular file, or the first `most` of them and one more.

    Raises:
        OSError: It is no such file, or cannot be read.
    """
    try:
        status = path.stat()
    except ValueError as e:
        # a zero byte in the name
        raise OSError(errno.EINVAL, str(e)) from e
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "is not a regular file")
    with path.open("rb") as file:
        return file.read(min(status.st_size, most) + 1)[: most + 1]


def read_json(path: Path, most: int) -> Any:
    """What a file of JSON says, of `most` bytes at most, no key in it given twice.

    Raises:
        OSError: As `read_small`.
        ValueError: It is no such JSON; says why.
    """
    raw = read_small(path, most)
    if len(raw) > most:
        raise ValueError(f"longer than {most} bytes")
    try:
        return json.loads(raw.decode(), object_pairs_hook=_unique)
    except RecursionError as e:
        raise ValueError("nested too deep") from e


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)
