"""Poseidon's kernel against the reference: interpreted, or compiled on a GPU."""

from __future__ import annotations

import pytest
import torch

from ops.test_poseidon import INSTANCES, planes, preimages
from torchzk.errors import LayoutError
from torchzk.ops import poseidon as reference_digests
from torchzk.ops import poseidon_wires as reference_wires
from torchzk.ops.layout import unpack_mont
from torchzk.params.fields import FR
from torchzk.params.poseidon import Poseidon
from torchzk.triton_kernels.poseidon import THREADS, poseidon, poseidon_wires
from triton_kernels.lanes import INTERPRETED

pytestmark = pytest.mark.usefixtures("variant")
# interpreted, a hash takes a second in PTX and five in plain code, which differs in products alone
ptx = pytest.mark.parametrize("variant", ["ptx"], indirect=True)
slow = [pytest.mark.full("interpreted, a hash takes seconds")] if INTERPRETED else []
OTHERS = ("randomness", "merkle-1", "merkle-4", "merkle-16", "merkle-24", "merkle-36")
INSTANCE = Poseidon.merkle(2)
ROWS = THREADS // 4


@ptx
@pytest.mark.parametrize(
    "name",
    [
        *("merkle-2", "merkle-8", "merkle-11"),
        *(pytest.param(name, marks=slow) for name in OTHERS),
    ],
)
def test_wires_and_digests(device: torch.device, name: str) -> None:
    instance = INSTANCES[name]
    values = preimages(instance.arity, 2)
    x = planes(values, device)
    wires = poseidon_wires(x, instance)
    assert torch.equal(wires, reference_wires(x, instance))
    assert unpack_mont(wires[:, -1], FR) == [instance.digest(v) for v in values]


@ptx
@pytest.mark.parametrize("n", [0, 1, ROWS - 1, ROWS, ROWS + 1])
def test_digests_by_size(device: torch.device, n: int) -> None:
    x = planes(preimages(2, 3), device).repeat(1, 1, 11)[:, :, :n]
    assert x.shape[2] == n
    assert torch.equal(poseidon(x, INSTANCE), reference_digests(x, INSTANCE))


@pytest.mark.parametrize("variant", [pytest.param("plain", marks=slow)], indirect=True)
def test_plain_code(device: torch.device) -> None:
    x = planes(preimages(2, 2), device)
    assert torch.equal(poseidon(x, INSTANCE), reference_digests(x, INSTANCE))


@ptx
def test_batches_of_any_shape(device: torch.device) -> None:
    whole = planes(preimages(2, 6), device)
    turned = whole.view(8, 2, 3, 2).transpose(2, 3)
    for x in (turned, whole[:, :, 1]):
        wires = poseidon_wires(x, INSTANCE)
        assert wires.shape == (8, 311, *x.shape[2:])
        assert torch.equal(wires, reference_wires(x, INSTANCE))
    assert poseidon_wires(whole[:, :, :0], INSTANCE).shape == (8, 311, 0)


@ptx
def test_wrong_shapes_are_refused(device: torch.device) -> None:
    x = planes(preimages(3, 2), device)
    for function in (poseidon, poseidon_wires):
        with pytest.raises(LayoutError, match="arity 2"):
            function(x, Poseidon.merkle(2))
        with pytest.raises(LayoutError, match="int32"):
            function(x.long(), Poseidon.merkle(3))
