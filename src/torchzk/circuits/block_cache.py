"""Recorded blocks on disk, memory-mapped, so that the next start need not record them again.

A file is named by a digest of what was recorded and of the code that records, so that no file
outlives a change of either. It is used only if every byte is as it was written.

Layout: 8 bytes of magic, the header's length as u64, the SHA-256 of the header, the header as JSON
in ASCII, and the arrays it lists, each from a multiple of 64 bytes on. All little-endian.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from torchzk.errors import CacheError
from torchzk.files import atomic_write, make_folder
from torchzk.groth16.r1cs import Array, Block, SparseRows

Recall = Callable[[str, Callable[[], Block]], Block]
"""A block by a description of what it is, and by how it is recorded."""

_MAGIC = b"tzkblk01"
_PREFIX = len(_MAGIC) + 8 + 32
_ALIGNMENT = 64
_MATRICES = ("a", "b", "c")
_ARRAYS = {"starts": "<i8", "cols": "<i4", "coefficients": "<i4"}
_COUNTS = ("n_shared_inputs", "n_inputs", "n_shared_aux", "n_imports", "n_aux", "n_constraints")
_PACKAGE = Path(__file__).parents[1]
# whatever may change what is recorded
_CODE = ("circuits", "groth16", "params")


def recorded(description: str, record: Callable[[], Block]) -> Block:
    """A `Recall` that remembers nothing; `partial(cached_block, folder)` is one that does."""
    return record()


def cached_block(
    folder: Path,
    description: str,
    record: Callable[[], Block],
    warn: Callable[[str], None] = lambda message: None,
) -> Block:
    """A block from `folder`, or recorded and written there.

    Args:
        folder: Of the cache; made if it is missing.
        description: Says all that the recording depends on beside the code: circuit and shape.
        record: Makes the block.
        warn: Told of a damaged file, which is then replaced.

    Raises:
        ConfigError: The folder cannot be made or written.
        ResourceError: The disk is full.
    """
    path = block_path(folder, description)
    if path.exists():
        try:
            return load_block(path)
        except CacheError as e:
            warn(f"{e}; it is made again")
    make_folder(folder)
    block = record()
    save_block(path, block)
    return block


def block_path(folder: Path, description: str) -> Path:
    """Where the block of this description is kept, as this code records it."""
    name = hashlib.sha256(f"{_code_digest()} {description}".encode()).hexdigest()
    return folder / f"{name[:32]}.block"


def save_block(path: Path, block: Block) -> None:
    """Write a block, whole or not at all; raises as `atomic_write`."""
    arrays = [
        np.ascontiguousarray(getattr(rows, name), dtype=kind)
        for rows in block.matrices
        for name, kind in _ARRAYS.items()
    ]
    header = {
        **{name: getattr(block, name) for name in _COUNTS},
        "table": [f"{value:x}" for value in block.table],
        "lengths": [x.shape[0] for x in arrays],
        "sha256": [_digest(x) for x in arrays],
    }
    raw = json.dumps(header).encode("ascii")
    with atomic_write(path) as file:
        file.write(_MAGIC + len(raw).to_bytes(8, "little") + hashlib.sha256(raw).digest() + raw)
        for array in arrays:
            file.write(bytes(-file.tell() % _ALIGNMENT))
            file.write(array.data)


def load_block(path: Path) -> Block:
    """A block as it was saved, its arrays mapped from the file.

    Raises:
        CacheError: The file is not as it was written, or cannot be read.
    """
    try:
        data = np.memmap(path, dtype=np.uint8, mode="r")
    except (OSError, ValueError) as e:
        raise CacheError(f"{path}: cannot read this block: {e}") from e
    header, start = _header(path, data)
    pieces, kinds = [], list(_ARRAYS.values()) * len(_MATRICES)
    for kind, length in zip(kinds, header["lengths"], strict=True):
        end, start = start, start + -start % _ALIGNMENT
        if data[end:start].any():
            raise CacheError(f"{path}: the padding of this block is damaged")
        stop = start + length * np.dtype(kind).itemsize
        pieces.append(data[start:stop])
        start = stop
    if start != data.shape[0]:
        raise CacheError(f"{path}: this block has {data.shape[0]} bytes, not {start}")
    # hashing a large piece lets other threads run
    with ThreadPoolExecutor() as pool:
        digests = list(pool.map(_digest, pieces))
    for i, (got, expected) in enumerate(zip(digests, header["sha256"], strict=True)):
        if got != expected:
            raise CacheError(f"{path}: array {i} of this block is damaged")
    arrays = [piece.view(kind) for piece, kind in zip(pieces, kinds, strict=True)]
    n = len(_ARRAYS)
    table = tuple(int(value, 16) for value in header["table"])
    a, b, c = (SparseRows(*arrays[i : i + n]) for i in range(0, len(arrays), n))
    block = Block(**{name: header[name] for name in _COUNTS}, a=a, b=b, c=c, table=table)
    _check(path, block)
    return block


def _digest(array: Array) -> str:
    return hashlib.sha256(array.data).hexdigest()


def _header(path: Path, data: Array) -> tuple[dict[str, Any], int]:
    """The header, and where it ends."""
    prefix = data[:_PREFIX].tobytes()
    stop = _PREFIX + int.from_bytes(prefix[len(_MAGIC) : len(_MAGIC) + 8], "little")
    raw = data[_PREFIX:stop].tobytes()
    if prefix[: len(_MAGIC)] != _MAGIC or hashlib.sha256(raw).digest() != prefix[-32:]:
        raise CacheError(f"{path}: the header of this block is damaged")
    header: dict[str, Any] = json.loads(raw)
    return header, stop


def _check(path: Path, block: Block) -> None:
    """Sizes that fit together; what the digests vouch for is not looked at again."""
    for name, rows in zip(_MATRICES, block.matrices, strict=True):
        sizes = (rows.starts.shape[0], rows.coefficients.shape[0], int(rows.starts[-1]))
        if sizes != (block.n_constraints + 1, rows.nnz, rows.nnz):
            raise CacheError(f"{path}: matrix {name} of this block has other sizes: {sizes}")


@lru_cache(maxsize=1)
def _code_digest() -> str:
    state = hashlib.sha256()
    for path in sorted(p for name in _CODE for p in (_PACKAGE / name).rglob("*.py")):
        state.update(path.relative_to(_PACKAGE).as_posix().encode() + b"\0")
        state.update(path.read_bytes() + b"\0")
    return state.hexdigest()
