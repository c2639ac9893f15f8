"""Every gadget's shape and values against the model's vectors."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch

from plain_r1cs import alone, digest_of, is_satisfied, plain_products
from r1cs_digest import digest
from sha256_wires import hash_numbers_wires, sha256_wires
from torchzk.backends import Backend
from torchzk.circuits.gadgets import boolean, insertion, num, por, sha256
from torchzk.circuits.gadgets import poseidon as poseidon_gadget
from torchzk.circuits.gadgets.boolean import Bit
from torchzk.circuits.gadgets.pair_wires import n_pair_wires, write_pair_wires
from torchzk.circuits.recorder import ConstraintSystem
from torchzk.groth16.density import density
from torchzk.ops.layout import pack_mont, unpack_mont
from torchzk.params.fields import FR
from torchzk.params.poseidon import Poseidon

Vector = dict[str, Any]


@lru_cache(maxsize=1)
def _vectors(golden: Path) -> dict[str, Vector]:
    vectors: dict[str, Vector] = json.loads((golden / "gadget_vectors.json").read_text())
    return vectors


def _check_shape(cs: ConstraintSystem, vector: Vector) -> None:
    r1cs = alone(cs)
    counts = (r1cs.n_inputs, r1cs.n_aux, r1cs.n_constraints, list(r1cs.nnz))
    assert counts == tuple(vector[k] for k in ("inputs", "aux", "constraints", "nnz"))
    dense = density(r1cs)
    popcounts = [x.count for x in (dense.a_aux, dense.b_inputs, dense.b_aux)]
    assert popcounts == [vector[k] for k in ("a_aux", "b_in", "b_aux")]
    assert digest(r1cs).synthesised == vector["r1cs_sha256"]


def _check_values(cs: ConstraintSystem, inputs: list[int], aux: list[int], vector: Vector) -> None:
    block = cs.block()
    assert digest_of(inputs) == vector["inputs_sha256"]
    assert digest_of(aux) == vector["aux_sha256"]
    a, b, c = plain_products(block, inputs + aux)
    assert all(x * y % FR.modulus == z for x, y, z in zip(a, b, c, strict=True))
    assert [digest_of(x) for x in (a, b, c)] == vector["abc_sha256"]


def _mont(values: list[int], device: torch.device) -> torch.Tensor:
    return pack_mont(values, FR, device)


def _poseidon(cs: ConstraintSystem, instance: Poseidon) -> None:
    poseidon_gadget.poseidon(cs, cs.alloc_many(instance.arity), instance)


@pytest.mark.parametrize(
    ("name", "instance"),
    [
        *((f"poseidon_arity_{n}", Poseidon.merkle(n)) for n in (2, 4, 8, 11)),
        ("poseidon_arity_2_gen_randomness_tag", Poseidon.randomness()),
    ],
    ids=["2", "4", "8", "11", "randomness"],
)
def test_poseidon(
    name: str, instance: Poseidon, golden: Path, backend: Backend, device: torch.device
) -> None:
    vector = _vectors(golden)[name]
    cs = ConstraintSystem()
    _poseidon(cs, instance)
    _check_shape(cs, vector)
    inputs = list(range(instance.arity))
    wires = backend.poseidon_wires(_mont(inputs, device), instance)
    aux = inputs + unpack_mont(wires, FR)
    assert aux[-1] == int(vector["output"], 16)
    _check_values(cs, [1], aux, vector)


@pytest.mark.parametrize(("arity", "n_constraints"), [(16, 761), (24, 1009), (36, 1385)])
def test_poseidon_of_wider_states_has_the_count_of_the_spec(arity: int, n_constraints: int) -> None:
    cs = ConstraintSystem()
    _poseidon(cs, Poseidon.merkle(arity))
    assert cs.n_constraints == n_constraints == cs.n_aux - arity


def test_to_bits(golden: Path, backend: Backend, device: torch.device) -> None:
    vector = _vectors(golden)["to_bits_le"]
    cs = ConstraintSystem()
    num.to_bits(cs, cs.alloc())
    _check_shape(cs, vector)
    value = int("1234567890abcdef" * 4, 16) % FR.modulus
    bits = num.to_bits_wires(backend, _mont([value], device))
    wires = unpack_mont(num.bit_wires(bits)[..., 0], FR)
    _check_values(cs, [1], [value, *wires], vector)


@pytest.mark.parametrize(("places", "index"), [(8, 5), (4, 2), (2, 1)])
def test_insert(places: int, index: int, golden: Path, device: torch.device) -> None:
    vector = _vectors(golden)[f"insert_{places}_index_{index}"]
    n_bits = por.index_bits(places)
    cs = ConstraintSystem()
    bits = boolean.alloc_bits(cs, n_bits)
    insertion.insert(cs, cs.alloc(), bits, cs.alloc_many(places - 1))
    _check_shape(cs, vector)
    siblings = list(range(200, 200 + places - 1))
    index_bits = num.bits_of(torch.tensor(index, device=device), n_bits)
    element = _mont([100], device)[:, 0]
    wires, children = insertion.insert_wires(element, index_bits, _mont(siblings, device))
    assert unpack_mont(children, FR) == vector["output"]
    known = [index >> i & 1 for i in range(n_bits)] + [100, *siblings]
    _check_values(cs, [1], known + unpack_mont(wires, FR), vector)


@pytest.mark.parametrize("places", [2, 4, 8])
def test_insert_at_every_index(places: int, device: torch.device) -> None:
    siblings = list(range(200, 200 + places - 1))
    indices = torch.arange(places, device=device)
    batch = (8, places)
    element = _mont([100], device).expand(batch)
    others = _mont(siblings, device).unsqueeze(2).expand(8, places - 1, places)
    bits = num.bits_of(indices, por.index_bits(places))
    wires, children = insertion.insert_wires(element, bits, others)
    assert wires.shape[1] == insertion.INSERT_WIRES[places]
    for index in range(places):
        expected = [*siblings[:index], 100, *siblings[index:]]
        assert unpack_mont(children[..., index], FR) == expected


def test_select_takes_the_named_choice() -> None:
    cs = ConstraintSystem()
    bits = boolean.alloc_bits(cs, 2)
    insertion.select(cs, cs.alloc_many(4), bits)
    block = cs.block()
    assert block.n_constraints == 2 + 3
    for index in range(4):
        b0, b1 = index & 1, index >> 1
        choices = [10, 11, 12, 13]
        middle = [choices[2 * b1], choices[2 * b1 + 1]]
        z = [1, b0, b1, *choices, *middle, choices[index]]
        assert is_satisfied(block, z)
        assert not is_satisfied(block, [*z[:-1], 9])


def test_sha256_of_64_bytes(golden: Path, backend: Backend, device: torch.device) -> None:
    vector = _vectors(golden)["sha256_64_bytes"]
    cs = ConstraintSystem()
    sha256.sha256(cs, boolean.alloc_bits(cs, 512))
    _check_shape(cs, vector)
    message = [byte >> 7 - i & 1 for byte in range(64) for i in range(8)]
    pattern = tuple(Bit(i) for i in range(512))
    wires, out = sha256_wires(backend, pattern, torch.tensor(message, device=device).bool())
    assert "".join(f"{int(word) & 0xFFFFFFFF:08x}" for word in out) == vector["output"]
    _check_values(cs, [1], message + [int(b) for b in wires], vector)


def test_sha256_of_two_numbers(golden: Path, backend: Backend, device: torch.device) -> None:
    vector = _vectors(golden)["sha256_hash2_nums"]
    cs = ConstraintSystem()
    sha256.hash_numbers(cs, cs.alloc_many(2))
    _check_shape(cs, vector)
    numbers = _mont([1, 2], device).unsqueeze(2)
    wires = unpack_mont(hash_numbers_wires(backend, numbers)[..., 0], FR)
    fast = torch.empty(8, 1, n_pair_wires(), dtype=torch.int32, device=device)
    write_pair_wires(backend, numbers, fast)
    assert unpack_mont(fast[:, 0], FR) == wires
    assert wires[-1] == int(vector["output"], 16)
    _check_values(cs, [1], [1, 2, *wires], vector)


POSEIDON = (poseidon_gadget.merkle, poseidon_gadget.merkle_wires)
SHA256 = (sha256.hash_numbers, hash_numbers_wires)


@pytest.mark.parametrize(
    ("name", "hashes", "arities", "indices"),
    [
        ("por_private_poseidon_8_8", POSEIDON, (8, 8), (5, 2)),
        ("por_private_sha256_2_2", SHA256, (2, 2), (1, 0)),
        ("por_private_poseidon_8_8_4_2", POSEIDON, (8, 8, 4, 2), (5, 2, 3, 1)),
    ],
    ids=["8-8", "sha256-2-2", "8-8-4-2"],
)
def test_por(
    name: str,
    hashes: tuple[por.NodeHash, por.NodeWires],
    arities: tuple[int, ...],
    indices: tuple[int, ...],
    golden: Path,
    backend: Backend,
    device: torch.device,
) -> None:
    vector = _vectors(golden)[name]
    node_hash, node_wires = hashes
    cs = ConstraintSystem()
    leaf, root = cs.alloc_many(2)
    por.por(cs, arities, node_hash, leaf=leaf, root=root)
    _check_shape(cs, vector)
    siblings = [
        _mont([1000 * (level + 1) + j for j in range(arity - 1)], device).unsqueeze(1)
        for level, arity in enumerate(arities)
    ]
    places = torch.tensor([indices], device=device)
    levels = por.por_wires(backend, _mont([7], device), places, siblings, node_wires)
    wires = unpack_mont(torch.cat(list(levels), dim=1)[..., 0], FR)
    assert wires[-1] == int(vector["root"], 16)
    number = int(por.leaf_index(places, arities)[0])
    assert number == vector["path_input"]
    _check_values(cs, [1, number], [7, wires[-1], *wires], vector)


def test_por_wires_of_a_batch_are_those_of_each_path(
    backend: Backend, device: torch.device
) -> None:
    indices = torch.tensor([[0, 1], [3, 0], [2, 1]], device=device)
    leaves = _mont([5, 6, 7], device)
    siblings = [_mont(list(range(10, 10 + 3 * (a - 1))), device).view(8, 3, a - 1) for a in (4, 2)]
    wires = poseidon_gadget.merkle_wires
    batched = list(por.por_wires(backend, leaves, indices, siblings, wires))
    assert [x.shape[1] for x in batched] == [por.level_wires(a) for a in (4, 2)]
    for i in range(3):
        single = por.por_wires(
            backend,
            leaves[:, i : i + 1],
            indices[i : i + 1],
            [s[:, i : i + 1] for s in siblings],
            wires,
        )
        for got, expected in zip(batched, single, strict=True):
            assert torch.equal(got[..., i : i + 1], expected)


@pytest.mark.parametrize(
    ("node_hash", "arities", "n_constraints"),
    [
        (poseidon_gadget.merkle, (8, 8), 1_063),
        (poseidon_gadget.merkle, (8, 8, 8), 1_593),
        (poseidon_gadget.merkle, (8, 8, 8, 2), 1_907),
        (poseidon_gadget.merkle, (8, 8, 4, 2), 1_764),
        (poseidon_gadget.merkle, (8, 8, 2), 1_377),
        (poseidon_gadget.merkle, (2,) * 6, 1_887),
        (poseidon_gadget.merkle, (4,) * 3, 1_164),
        (sha256.hash_numbers, (2,) * 6, 272_295),
        (sha256.hash_numbers, (4,) * 3, 216_258),
        (sha256.hash_numbers, (8,) * 2, 250_987),
    ],
)
def test_por_with_a_public_root_has_the_count_of_the_reference(
    node_hash: por.NodeHash, arities: tuple[int, ...], n_constraints: int
) -> None:
    cs = ConstraintSystem()
    root = cs.alloc()
    por.por(cs, arities, node_hash, root=root)
    num.inputize(cs, root)
    assert (cs.n_inputs, cs.n_constraints) == (3, n_constraints)


def test_por_without_challenge_input_is_the_same_path_with_nothing_public() -> None:
    cs = ConstraintSystem()
    leaf, root = cs.alloc_many(2)
    siblings = [cs.alloc_many(7), cs.alloc_many(1)]
    bits = boolean.alloc_bits(cs, 4)
    before = cs.n_constraints
    merkle: Callable[..., int] = poseidon_gadget.merkle
    por.por_no_challenge_input(cs, leaf, bits, siblings, root, merkle)
    assert cs.n_inputs == 1
    assert cs.n_constraints - before == (22 + 505) + (2 + 311) + 1
    with pytest.raises(ValueError, match="4 path bits for a path of 3"):
        por.por_no_challenge_input(cs, leaf, bits, siblings[:1], root, merkle)
