"""Batched SHA-256 against hashlib, around the edges of its padding."""

from __future__ import annotations

import hashlib

import pytest
import torch

from torchzk.backends import Backend
from torchzk.errors import LayoutError


def messages(n: int, length: int, device: torch.device) -> torch.Tensor:
    generator = torch.Generator().manual_seed(length)
    x = torch.randint(0, 256, (n, length), dtype=torch.uint8, generator=generator)
    x[:1] = 255
    return x.to(device)


def expected(x: torch.Tensor) -> list[bytes]:
    return [hashlib.sha256(bytes(row)).digest() for row in x.tolist()]


def digests(x: torch.Tensor) -> list[bytes]:
    assert x.dtype == torch.uint8
    assert x.shape[1] == 32
    return [bytes(row) for row in x.tolist()]


@pytest.mark.parametrize("length", [0, 1, 3, 32, 55, 56, 63, 64, 65, 119, 120, 128, 1000])
def test_digests(backend: Backend, device: torch.device, length: int) -> None:
    x = messages(5, length, device)
    assert digests(backend.sha256(x)) == expected(x)


def test_long_batch(backend: Backend, device: torch.device) -> None:
    """More than are worked on at once."""
    x = messages(66_000, 1, device)
    assert digests(backend.sha256(x)) == expected(x)


def test_no_messages(backend: Backend, device: torch.device) -> None:
    assert backend.sha256(messages(0, 64, device)).shape == (0, 32)


@pytest.mark.parametrize("shape", [(64,), (2, 2, 32)])
def test_wrong_shapes_are_refused(
    backend: Backend, device: torch.device, shape: tuple[int, ...]
) -> None:
    with pytest.raises(LayoutError, match="uint8"):
        backend.sha256(torch.zeros(shape, dtype=torch.uint8, device=device))


def test_other_types_are_refused(backend: Backend, device: torch.device) -> None:
    with pytest.raises(LayoutError, match="int32"):
        backend.sha256(torch.zeros(1, 64, dtype=torch.int32, device=device))
