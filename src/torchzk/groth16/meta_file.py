"""The `.meta` file beside a key: its sector size and, in ours, that the key is insecure.

bellperson writes {"sector_size": N}; the bytes of `.params` and `.vk` have no room for a mark.
Source: spec/groth16.md section 10.
"""

from __future__ import annotations

import json
from pathlib import Path

from torchzk.errors import KeyFileError, one_line
from torchzk.files import atomic_write
from torchzk.small_files import read_json

_MARK = "made from known toxic waste: anybody who has it can forge proofs; for development alone"
_MAX_BYTES = 1 << 16


def write_insecure_meta(key: Path, sector_size: int) -> Path:
    """Mark the key file `key` as insecure, in a `.meta` file of the same stem."""
    path = key.with_suffix(".meta")
    with atomic_write(path) as file:
        file.write(json.dumps({"sector_size": sector_size, "insecure": _MARK}).encode() + b"\n")
    return path


def is_marked_insecure(key: Path, sector_size: int) -> bool:
    """Whether the `.meta` file of a key, if there is one, says that the key is insecure.

    Raises:
        KeyFileError: The file is no such JSON, or says another sector size.
    """
    path = key.with_suffix(".meta")
    try:
        meta = read_json(path, _MAX_BYTES)
    except FileNotFoundError:
        return False
    except OSError as e:
        raise KeyFileError(f"{path}: cannot read: {e.strerror}") from e
    except ValueError as e:
        raise KeyFileError(f"{path}: not JSON: {one_line(e)}") from e
    size = meta.get("sector_size") if isinstance(meta, dict) else None
    if type(size) is not int or size != sector_size:
        raise KeyFileError(
            f"{path}: must be a JSON object with sector_size {sector_size}; "
            "this key is of another circuit, or the file is damaged"
        )
    return bool(meta.get("insecure"))
