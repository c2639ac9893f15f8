"""The secrets of a setup, the publicly known ones of dev keys, and how to tell their keys.

Whoever knows gamma and delta can prove anything under a key; a key is dangerous too when their
ratio can be told from the key itself.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from torchzk.errors import InputError, KeyFileError, one_line
from torchzk.groth16.keys import VerifyingKey
from torchzk.params.curves import G1, G2, Point
from torchzk.params.fields import FR
from torchzk.params.host_points import scalar_mul
from torchzk.params.integers import neg
from torchzk.small_files import read_json


# what holds secrets does not show them
@dataclass(frozen=True, repr=False)
class ToxicWaste:
    """The five secrets of a Groth16 setup, in [1, r). Source: spec/groth16.md section 4."""

    alpha: int
    beta: int
    gamma: int
    delta: int
    tau: int

    def __post_init__(self) -> None:
        for field in fields(self):
            if not 0 < getattr(self, field.name) < FR.modulus:
                raise InputError(f"toxic waste: {field.name} is not in [1, r)")


def _public_secret(name: str) -> int:
    digest = bytearray(hashlib.sha256(f"torchzk toxic waste {name}".encode()).digest())
    digest[31] &= 0x3F
    return int.from_bytes(digest, "little")


DEV = ToxicWaste(*(_public_secret(field.name) for field in fields(ToxicWaste)))
"""Known to everybody: keys made from it are for tests alone."""


def load_toxic_waste(path: Path) -> ToxicWaste:
    """Read a JSON object of the five names, each 64 hex digits of little-endian bytes or `0x...`.

    Raises:
        InputError: Unreadable, other keys than the five, or a value outside [1, r).
    """
    names = [field.name for field in fields(ToxicWaste)]
    try:
        # five short strings: whatever is longer is something else
        raw = read_json(path, 1 << 16)
    except OSError as e:
        raise InputError(f"{path}: cannot read: {e.strerror}") from e
    except ValueError as e:
        raise InputError(f"{path}: not JSON with five secrets: {one_line(e)}") from e
    if not isinstance(raw, dict) or raw.keys() != set(names):
        raise InputError(f"{path}: must be a JSON object of exactly {', '.join(names)}")
    return ToxicWaste(*(_secret(raw[name], f"{path}: {name}") for name in names))


def is_dev(vk: VerifyingKey) -> bool:
    """Whether any secret of the key is one that everybody knows."""
    return any(
        known in (point, neg(curve, point))
        for curve, known, point in (
            (G1, _dev_points()[0], vk.alpha_g1),
            (G2, _dev_points()[1], vk.beta_g2),
            (G2, _dev_points()[2], vk.gamma_g2),
            (G2, _dev_points()[3], vk.delta_g2),
        )
    )


def check_safe(vk: VerifyingKey) -> None:
    """Raise `KeyFileError` for a key under which anybody can forge.

    Refused is gamma = delta or gamma = -delta: the sign of a setup whose second phase was skipped.
    Dev keys are not refused here; `is_dev` tells them, and reports say so.
    """
    if vk.gamma_g2 in (vk.delta_g2, neg(G2, vk.delta_g2)):
        raise KeyFileError(
            "unsafe key: gamma and delta are the same, so anybody can forge proofs under it; "
            "its setup was never finished"
        )


@cache
def _dev_points() -> tuple[Point, Point, Point, Point]:
    return (
        scalar_mul(G1, DEV.alpha, G1.generator),
        scalar_mul(G2, DEV.beta, G2.generator),
        scalar_mul(G2, DEV.gamma, G2.generator),
        scalar_mul(G2, DEV.delta, G2.generator),
    )


def _secret(value: Any, where: str) -> int:
    if isinstance(value, str) and re.fullmatch(r"[0-9a-fA-F]{64}", value):
        return int.from_bytes(bytes.fromhex(value), "little")
    if isinstance(value, str) and re.fullmatch(r"0x[0-9a-fA-F]{1,64}", value):
        return int(value, 16)
    raise InputError(f"{where} must be 64 hex digits (little-endian bytes) or 0x and hex digits")
