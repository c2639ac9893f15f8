"""Proof bytes as files: raw, hexadecimal or base64."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Literal, get_args

from torchzk.errors import ConfigError, ProofError
from torchzk.files import atomic_write

ProofFormat = Literal["raw", "hex", "base64"]
FORMATS: tuple[ProofFormat, ...] = get_args(ProofFormat)
SUFFIXES: dict[ProofFormat, str] = {"raw": ".bin", "hex": ".hex", "base64": ".base64"}

_MAX_BYTES = 1 << 20
"""Far more than the text of any proof, which has 192 bytes a partition."""


def encode(proof: bytes, how: ProofFormat) -> bytes:
    """The bytes of a proof file; text ends with a newline."""
    match how:
        case "raw":
            return proof
        case "hex":
            return proof.hex().encode() + b"\n"
        case "base64":
            return base64.b64encode(proof) + b"\n"


def decode(content: bytes, how: ProofFormat) -> bytes:
    """Inverse of `encode`; white space around text is let be.

    Raises:
        ProofError: The content is not of that format.
    """
    try:
        match how:
            case "raw":
                return content
            case "hex":
                return binascii.unhexlify(content.strip())
            case "base64":
                return base64.b64decode(content.strip(), validate=True)
    except ValueError as e:
        raise ProofError(f"not {how}: {e}") from e


def write_proof(path: Path, proof: bytes, how: ProofFormat) -> None:
    """Write a whole proof file or none; errors as `files.atomic_write`."""
    with atomic_write(path) as file:
        file.write(encode(proof, how))


def read_proof(path: Path, how: ProofFormat) -> bytes:
    """The bytes in a proof file; whether they are a proof, the verifier says.

    Raises:
        ConfigError: The file cannot be read.
        ProofError: It is not of the format, or far too long.
    """
    try:
        if not path.is_file():
            raise ConfigError(f"--proof {path}: not a file")
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as e:
        raise ConfigError(f"--proof {path}: cannot read: {e.strerror}") from e
    if len(content) > _MAX_BYTES:
        raise ProofError(f"{path}: longer than {_MAX_BYTES} bytes, so no proof")
    try:
        return decode(content, how)
    except ProofError as e:
        raise ProofError(f"{path}: {e}; see --format") from e


def check_writable(path: Path) -> None:
    """Raise `ConfigError` when a proof could not be written to `path`, before it is made."""
    if path.is_dir():
        raise ConfigError(f"--out {path}: is a folder; name the file to write")
    if not path.parent.is_dir():
        raise ConfigError(f"--out {path}: there is no folder {path.parent}")
