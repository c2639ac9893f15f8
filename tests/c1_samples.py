"""C1 outputs of the reference, unpacked."""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from torchzk.circuits.c1 import C1

FOLDER = Path(__file__).parent / "golden" / "c1"
SIZES = {"sector2k_a": 2048, "sector2k_ni": 2048, "real8m": 8 << 20, "synth512m": 512 << 20}
FORMS = ("c1.json", "c1_inner.json", "c1_wrapper.json", "c1_api.bincode", "c1_inner.bincode")


@cache
def sample(name: str) -> bytes:
    """The bytes of a file, such as `sector2k_a_c1.json`."""
    return lzma.decompress((FOLDER / f"{name}.xz").read_bytes())


def parsed(name: str) -> dict[str, Any]:
    """A fresh copy of a C1 output as JSON."""
    value: dict[str, Any] = json.loads(sample(f"{name}_c1.json"))
    return value


def proofs(output: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The vanilla proofs of the API form: a list a partition, of a proof a challenge."""
    (value,) = output["vanilla_proofs"].values()
    result: list[list[dict[str, Any]]] = value
    return result


def compact(output: object) -> bytes:
    """JSON as serde writes it."""
    return json.dumps(output, separators=(",", ":")).encode()


def reference(name: str) -> dict[str, Any]:
    """Actor, sector and public inputs that the reference found."""
    figures: dict[str, Any] = json.loads(sample("public_inputs.json"))
    return dict(figures[name])


def same(a: C1, b: C1) -> bool:
    """Whether two C1 outputs say the same, up to what only some forms say."""
    plain = ("shape", "registered", "comm_r", "comm_d", "replica_id", "seed", "ticket")
    return all(getattr(a, x) == getattr(b, x) for x in plain) and all(
        np.array_equal(getattr(a, x), getattr(b, x)) for x in ("elements", "integers")
    )
