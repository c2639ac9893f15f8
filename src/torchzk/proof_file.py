"""Proof bytes as files: raw, hexadecimal or base64."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
from pathlib import Path
from typing import Literal, get_args

from torchzk.errors import ConfigError, ProofError
from torchzk.files import atomic_write
from torchzk.groth16.proofs import PROOF_BYTES

ProofFormat = Literal["raw", "hex", "base64"]
FORMATS: tuple[ProofFormat, ...] = get_args(ProofFormat)
SUFFIXES: dict[ProofFormat, str] = {"raw": ".bin", "hex": ".hex", "base64": ".base64"}

_MAX_BYTES = 1 << 20
"""Far more than the text of any proof."""


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
        if how == "raw" and (text := _text_of_a_proof(content)):
            raise ProofError(f"this is a proof as {text}, not its raw bytes")
        return decode(content, how)
    except ProofError as e:
        raise ProofError(f"{path}: {e}; see --format") from e


def _text_of_a_proof(content: bytes) -> ProofFormat | None:
    """As which text a file holds whole partitions, if it does."""
    texts: tuple[ProofFormat, ...] = ("hex", "base64")
    for how in texts:
        with contextlib.suppress(ProofError):
            n_bytes = len(decode(content, how))
            if n_bytes and n_bytes % PROOF_BYTES == 0:
                return how
    return None


def check_writable(path: Path, flag: str = "--out") -> None:
    """Raise `ConfigError` when a file could not be written to `path`, before it is made.

    Args:
        flag: Which names the file.
    """
    if path.is_dir():
        raise ConfigError(f"{flag} {path}: is a folder; name the file to write")
    if not path.parent.is_dir():
        raise ConfigError(f"{flag} {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ConfigError(f"{flag} {path}: cannot write to {path.parent}")
