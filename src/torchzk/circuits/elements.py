"""Field elements of proofs, in 32 little-endian bytes each, to a device and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from torchzk.backends import Backend
from torchzk.circuits.layouts import ELEMENT_BYTES, Octets
from torchzk.params.fields import FR


def octets_of(elements: Sequence[bytes]) -> Octets:
    """Elements side by side: uint8 `[n, 32]`."""
    return np.frombuffer(b"".join(elements), dtype=np.uint8).reshape(-1, ELEMENT_BYTES)


def to_planes(backend: Backend, device: torch.device, elements: Octets) -> torch.Tensor:
    """Canonical elements `[*batch, 32]` as limb planes `[8, *batch]` in Montgomery form."""
    words = np.ascontiguousarray(elements).view("<i4")
    planes = torch.tensor(words, device=device).movedim(-1, 0).contiguous()
    return backend.to_mont(planes, FR)


def from_planes(backend: Backend, planes: torch.Tensor) -> list[bytes]:
    """Inverse of `to_planes` for `[8, n]`, an element each."""
    words = backend.from_mont(planes, FR).t().contiguous().cpu().numpy().astype("<i4")
    raw = words.tobytes()
    return [raw[i : i + ELEMENT_BYTES] for i in range(0, len(raw), ELEMENT_BYTES)]
