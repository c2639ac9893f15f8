"""Verifying key files in bellperson's layout: uncompressed points and one count, no header.

Source: spec/groth16.md section 8.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import BinaryIO, NamedTuple

from torchzk.errors import KeyFileError
from torchzk.files import atomic_write
from torchzk.groth16.encoding import (
    Origin,
    decode_uncompressed,
    encode_uncompressed,
    uncompressed_size,
)
from torchzk.groth16.keys import VerifyingKey
from torchzk.params.curves import G1, G2, Curve, Point

_CONSTANTS: tuple[tuple[str, Curve], ...] = (
    ("alpha_g1", G1),
    ("beta_g1", G1),
    ("beta_g2", G2),
    ("gamma_g2", G2),
    ("delta_g1", G1),
    ("delta_g2", G2),
)
COUNT_BYTES = 4
"""A count of points: big-endian, in front of its points."""

HEAD_BYTES = sum(uncompressed_size(curve) for _, curve in _CONSTANTS) + COUNT_BYTES
"""Everything before the first point of ic: 868 bytes."""


def vk_size(n_inputs: int) -> int:
    """Bytes of a verifying key of `n_inputs` inputs, ONE included."""
    return HEAD_BYTES + n_inputs * uncompressed_size(G1)


def vk_to_bytes(vk: VerifyingKey) -> bytes:
    """The whole file."""
    constants = (encode_uncompressed(curve, getattr(vk, name)) for name, curve in _CONSTANTS)
    count = vk.n_inputs.to_bytes(COUNT_BYTES, "big")
    return b"".join(constants) + count + b"".join(encode_uncompressed(G1, p) for p in vk.ic)


def key_sha256(vk: VerifyingKey) -> str:
    """SHA-256 of the verifying key's bytes in hex: the name of a key in reports."""
    return hashlib.sha256(vk_to_bytes(vk)).hexdigest()


def write_vk(path: Path, vk: VerifyingKey) -> None:
    """Write the file, whole or not at all."""
    with atomic_write(path) as file:
        file.write(vk_to_bytes(vk))


def load_vk(path: Path) -> VerifyingKey:
    """Read and check a verifying key file; 25,840 inputs take about a second.

    Raises:
        KeyFileError: Missing, not of the size its count demands, or a point that is not
            canonical, on the curve, in the subgroup and finite.
    """
    with open_key(path) as file:
        size = file.seek(0, 2)
        file.seek(0)
        n_inputs = read_n_inputs(file.read(HEAD_BYTES), str(path))
        if size != vk_size(n_inputs):
            raise KeyFileError(
                f"{path}: says {n_inputs} inputs, which take {vk_size(n_inputs)} bytes, "
                f"but the file has {size}"
            )
        file.seek(0)
        return vk_from_bytes(file.read(size), str(path))


def vk_from_bytes(raw: bytes, name: str) -> VerifyingKey:
    """Parse and check a whole verifying key; raises `KeyFileError` as `load_vk`.

    Args:
        name: Where the bytes come from, for messages.
    """
    n_inputs = read_n_inputs(raw[:HEAD_BYTES], name)
    if len(raw) != vk_size(n_inputs):
        raise KeyFileError(
            f"{name}: says {n_inputs} inputs, which take {vk_size(n_inputs)} bytes, "
            f"but there are {len(raw)}"
        )
    at = 0
    constants: dict[str, Point] = {}
    for part, curve in _CONSTANTS:
        end = at + uncompressed_size(curve)
        origin = Origin(KeyFileError, f"{name}: {part} at byte {at}")
        constants[part] = decode_uncompressed(curve, raw[at:end], origin)
        at = end
    step = uncompressed_size(G1)
    ic = tuple(
        decode_uncompressed(
            G1, raw[at : at + step], Origin(KeyFileError, f"{name}: ic[{i}] at byte {at}")
        )
        for i, at in enumerate(range(HEAD_BYTES, len(raw), step))
    )
    return VerifyingKey(**constants, ic=ic)


def read_n_inputs(head: bytes, name: str) -> int:
    """The count of ic, from the first `HEAD_BYTES` bytes; what it says is not yet trusted."""
    if len(head) < HEAD_BYTES:
        raise KeyFileError(
            f"{name}: a verifying key starts with {HEAD_BYTES} bytes, but there are {len(head)}"
        )
    n_inputs = int.from_bytes(head[-COUNT_BYTES:], "big")
    if n_inputs == 0:
        raise KeyFileError(f"{name}: count of ic at byte {HEAD_BYTES - COUNT_BYTES} is 0")
    return n_inputs


class FileState(NamedTuple):
    """Whoever writes to a file, or puts another in its place, changes one of these."""

    inode: int
    size: int
    changed_ns: int


def state_of(file: BinaryIO) -> FileState:
    """That of an open file."""
    stat = os.fstat(file.fileno())
    return FileState(stat.st_ino, stat.st_size, stat.st_mtime_ns)


def open_key(path: Path) -> BinaryIO:
    """Open a key file; raises `KeyFileError` unless it is a regular file that can be read."""
    try:
        if not path.is_file():
            raise KeyFileError(f"{path}: no such key file")
        return path.open("rb")
    except OSError as e:
        raise KeyFileError(f"{path}: cannot read: {e.strerror}") from e
