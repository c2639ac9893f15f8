"""Batched Poseidon against the hash by its definition, and wires against known digests."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

import pytest
import torch

from torchzk.backends import Backend
from torchzk.errors import LayoutError
from torchzk.ops.layout import pack_mont, unpack_mont
from torchzk.params.fields import FR
from torchzk.params.poseidon import Poseidon

P = FR.modulus
INSTANCES = {
    **{f"merkle-{arity}": Poseidon.merkle(arity) for arity in (1, 2, 4, 8, 11, 16, 24, 36)},
    "randomness": Poseidon.randomness(),
}
WITH_WIRES = {
    **{f"poseidon_arity_{arity}": Poseidon.merkle(arity) for arity in (2, 4, 8, 11)},
    "poseidon_arity_2_gen_randomness_tag": Poseidon.randomness(),
}


def preimages(arity: int, n: int) -> list[list[int]]:
    """n inputs of `arity`; the first are edge cases."""
    rng = random.Random(arity)
    edges = [[P - 1] * arity, [0] * arity, [P // 2] * arity]
    return (edges + [[rng.randrange(P) for _ in range(arity)] for _ in range(n)])[:n]


def planes(values: list[list[int]], device: torch.device) -> torch.Tensor:
    """`[8, arity, n]`"""
    return torch.stack([pack_mont(v, FR, device) for v in values], dim=2)


@pytest.mark.parametrize("instance", INSTANCES.values(), ids=INSTANCES)
def test_digests(backend: Backend, device: torch.device, instance: Poseidon) -> None:
    values = preimages(instance.arity, 5)
    got = backend.poseidon(planes(values, device), instance)
    assert unpack_mont(got, FR) == [instance.digest(v) for v in values]


@pytest.mark.parametrize("name", WITH_WIRES)
def test_wires(backend: Backend, device: torch.device, golden: Path, name: str) -> None:
    instance = WITH_WIRES[name]
    inputs = list(range(instance.arity))
    wires = backend.poseidon_wires(pack_mont(inputs, FR, device), instance)
    aux = b"".join(v.to_bytes(32, "little") for v in inputs + unpack_mont(wires, FR))
    known = json.loads((golden / "gadget_vectors.json").read_text())[name]
    assert hashlib.sha256(aux).hexdigest() == known["aux_sha256"]
    assert unpack_mont(wires[:, -1:], FR) == [int(known["output"], 16)]


@pytest.mark.parametrize("instance", INSTANCES.values(), ids=INSTANCES)
def test_wires_end_with_the_digest(
    backend: Backend, device: torch.device, instance: Poseidon
) -> None:
    x = planes(preimages(instance.arity, 4), device)
    wires = backend.poseidon_wires(x, instance)
    assert wires.shape == (8, instance.n_wires, 4)
    assert torch.equal(wires[:, -1], backend.poseidon(x, instance))


@pytest.mark.parametrize("instance", INSTANCES.values(), ids=INSTANCES)
def test_wires_of_the_first_sboxes(
    backend: Backend, device: torch.device, instance: Poseidon
) -> None:
    """The wires 3 i, 3 i + 1 and 3 i + 2 are those of input i in the first round."""
    values = preimages(instance.arity, 2)
    wires = backend.poseidon_wires(planes(values, device), instance)
    added = instance.compressed
    for i, inputs in enumerate(values):
        got = unpack_mont(wires[:, : 3 * instance.arity, i], FR)
        for j, v in enumerate(inputs, 1):
            x, post = v + added[j], added[instance.width + j]
            expected = [x**2 % P, x**4 % P, (x**5 + post) % P]
            assert got[3 * j - 3 : 3 * j] == expected


def test_long_batches_are_cut_where_it_does_not_show(
    backend: Backend, device: torch.device
) -> None:
    """Arity 8 has pieces of 1,820 on a CPU."""
    hasher = Poseidon.merkle(8)
    few = planes(preimages(8, 7), device)
    x = few.repeat(1, 1, 300)
    digests, wires = backend.poseidon(few, hasher), backend.poseidon_wires(few, hasher)
    assert torch.equal(backend.poseidon(x, hasher), digests.repeat(1, 300))
    assert torch.equal(backend.poseidon_wires(x, hasher), wires.repeat(1, 1, 300))


def test_batches_of_any_shape(backend: Backend, device: torch.device) -> None:
    hasher = Poseidon.merkle(2)
    x = planes(preimages(2, 6), device)
    flat = backend.poseidon(x, hasher)
    shaped = x.view(8, 2, 3, 2)
    assert torch.equal(backend.poseidon(shaped, hasher), flat.view(8, 3, 2))
    assert backend.poseidon_wires(shaped, hasher).shape == (8, 311, 3, 2)
    assert torch.equal(backend.poseidon(x[:, :, 0], hasher), flat[:, 0])
    assert backend.poseidon(shaped[:, :, :0], hasher).shape == (8, 0, 2)
    assert backend.poseidon_wires(shaped[:, :, :0], hasher).shape == (8, 311, 0, 2)


def test_wrong_shapes_are_refused(backend: Backend, device: torch.device) -> None:
    x = planes(preimages(3, 2), device)
    for function in (backend.poseidon, backend.poseidon_wires):
        with pytest.raises(LayoutError, match="arity 2"):
            function(x, Poseidon.merkle(2))
        with pytest.raises(LayoutError, match="int32"):
            function(x.long(), Poseidon.merkle(3))
