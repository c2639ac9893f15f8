"""The network's own keys: which file a circuit's is, what its bytes must be, how to get it.

Source: `official_keys.json` has the published names, BLAKE2b digests and IPFS content identifiers
of parameter version 28, as spec/groth16.md section 10 lists them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from torchzk.errors import KeyFileError

VERSION = 28
DIGEST_DIGITS = 32
"""Hex digits of BLAKE2b-512 that are published."""

_DATA = Path(__file__).with_name("official_keys.json")


@dataclass(frozen=True)
class OfficialFile:
    """A published file of parameters."""

    name: str
    """Of the file."""
    digest: str
    """The first `DIGEST_DIGITS` hex digits of its BLAKE2b-512."""
    cid: str
    """Its content identifier in IPFS."""
    sector_size: int
    """Bytes."""

    def in_folder(self, folder: Path, circuit: str) -> Path:
        """Where it lies; raises `KeyFileError` unless it is there."""
        path = folder / self.name
        if not path.is_file():
            raise KeyFileError(
                f"{path}: the official key of {circuit} is not there. Fetch the parameters of "
                f"{self.sector_size} byte sectors with lotus fetch-params or paramfetch, or "
                f"{self.cid} from IPFS; or name the folder that has them as parameter_folder"
            )
        return path

    def check(self, path: Path, blake2b: str) -> None:
        """Raise `KeyFileError` unless a file with this digest is the published one."""
        if not blake2b.startswith(self.digest):
            raise KeyFileError(
                f"{path}: is not the official file: its BLAKE2b begins with "
                f"{blake2b[:DIGEST_DIGITS]}, that of the published one with {self.digest}; "
                "remove it and fetch it again"
            )


def official_file(
    cache_identifier: str, extension: Literal["params", "vk"], circuit: str
) -> OfficialFile:
    """The published file of a circuit.

    Args:
        cache_identifier: `Circuit.cache_identifier`.
        extension: A proving key, or the verifying key alone.
        circuit: Its name, for the message.

    Raises:
        KeyFileError: Nobody published one.
    """
    name = f"v{VERSION}-{cache_identifier}.{extension}"
    found = _published().get(name)
    if found is None:
        raise KeyFileError(
            f"{circuit} has no official key: {name} was never published; use dev keys, or a file"
        )
    return found


@cache
def _published() -> dict[str, OfficialFile]:
    return {
        name: OfficialFile(name, **facts) for name, facts in json.loads(_DATA.read_text()).items()
    }
