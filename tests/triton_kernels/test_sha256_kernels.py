"""SHA-256 as kernels against hashlib and the reference: interpreted, or compiled on a GPU."""

from __future__ import annotations

import pytest
import torch

from ops.test_sha256 import digests, expected, messages
from ops.test_sha256_steps import batch, words
from torchzk.errors import LayoutError
from torchzk.ops.sha256_steps import sha256_steps as reference
from torchzk.params.sha256 import IV
from torchzk.triton_kernels.sha256 import sha256
from torchzk.triton_kernels.sha256_steps import sha256_steps
from torchzk.triton_kernels.tuning import DEFAULT_ARCH, shape_for


def around(op: str) -> list[int]:
    block = shape_for(op, len(IV), DEFAULT_ARCH).block
    return [0, 1, block - 1, block, block + 1]


@pytest.mark.parametrize("n", around("sha256"))
def test_batches(device: torch.device, n: int) -> None:
    x = messages(n, 64, device)
    assert digests(sha256(x)) == expected(x)


@pytest.mark.parametrize("length", [0, 1, 3, 32, 55, 56, 63, 65, 119, 120, 128])
def test_lengths(device: torch.device, length: int) -> None:
    x = messages(3, length, device)
    assert digests(sha256(x)) == expected(x)


def test_messages_that_begin_anywhere(device: torch.device) -> None:
    """A view that is not at a whole word, and one that is not contiguous."""
    whole = messages(1, 4 * 32 + 1, device)[0]
    for x in (whole[1:].view(4, 32), whole[:-1].view(4, 32)[:, 3:11]):
        assert digests(sha256(x)) == expected(x)


def test_wrong_shapes_are_refused(device: torch.device) -> None:
    with pytest.raises(LayoutError, match="uint8"):
        sha256(torch.zeros(2, 2, 32, dtype=torch.uint8, device=device))


@pytest.mark.parametrize("n", around("sha256 steps"))
def test_steps(device: torch.device, n: int) -> None:
    blocks, states = batch(n)
    x, y = (
        words(v, device) if n else torch.zeros(k, 0, dtype=torch.int32, device=device)
        for v, k in ((blocks, 16), (states, 8))
    )
    got = sha256_steps(x, y)
    assert got.dtype == torch.int64
    assert torch.equal(got, reference(x, y))


def test_steps_of_views(device: torch.device) -> None:
    x, y = (words(v, device) for v in batch(9))
    assert torch.equal(sha256_steps(x[:, 2:7], y[:, ::2]), reference(x[:, 2:7], y[:, ::2]))
    with pytest.raises(LayoutError, match="int32"):
        sha256_steps(x, y[:, 1:])
