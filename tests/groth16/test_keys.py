"""Keys and proofs as data, toxic waste, and keys that are unsafe."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from groth16.samples import multiple, outsider, reference_cases, small_vk
from torchzk.errors import InputError, KeyFileError, LayoutError, ProofError
from torchzk.groth16.keys import QUERIES, MemoryKey, QueryLengths, check_lengths
from torchzk.groth16.proofs import Proof, read_proofs
from torchzk.groth16.toxic_waste import DEV, ToxicWaste, check_safe, is_dev, load_toxic_waste
from torchzk.groth16.vk_file import load_vk
from torchzk.ops.layout import points_to_rows
from torchzk.params.curves import G1, G2
from torchzk.params.fields import FR
from torchzk.params.integers import neg

DEV_HEX = {
    "alpha": "ac883efc215428f919ae0ac3b1a285f8b425db6791571e10d6545f7b2c985f01",
    "beta": "9dc875483b8d8772a3d9c0a49ac630b422400dc6f8535470ddc7126785e6f629",
    "gamma": "aa74e1615547437a7edbacd8303c528676899644f7041aa673117770a0eb8802",
    "delta": "6d47ab59bd98f637cf41b9f450d313717ec09bcfee59f8e3814e09797541b120",
    "tau": "d54db267adfde09d84805f0a0b3d95d43998c9a715e2c6bf097ec3789ed8d025",
}


def small_key() -> MemoryKey:
    rows = {
        name: points_to_rows([multiple(curve, k + 1) for k in range(3 + i)], curve, "cpu")
        for i, (name, curve) in enumerate(QUERIES.items())
    }
    return MemoryKey(small_vk(), rows)


def test_a_key_in_memory_gives_its_rows(device: torch.device) -> None:
    key = small_key()
    assert key.lengths == QueryLengths(h=3, l=4, a=5, b_g1=6, b_g2=7)
    for name, curve in QUERIES.items():
        rows = key.query(name, 1, 3, device)
        assert rows.device.type == device.type
        assert rows.shape == (2, *curve.row_shape)
        assert torch.equal(rows.cpu(), key.queries[name][1:3])


@pytest.mark.parametrize("step", [1, 2, 3, 100])
def test_a_query_comes_in_pieces(step: int, device: torch.device) -> None:
    key = small_key()
    for name, rows in key.queries.items():
        pieces = list(key.pieces(name, step, device))
        assert [piece[0] for piece in pieces] == list(range(0, len(rows), step))
        assert all(stop - start == len(part) <= step for start, stop, part in pieces)
        assert torch.equal(torch.cat([part for _, _, part in pieces]).cpu(), rows)
    # where the rows lie already nothing is copied
    (_, _, part), *_ = key.pieces("h", 2, "cpu")
    assert part.data_ptr() == key.queries["h"].data_ptr()


def test_pieces_of_nothing_are_refused() -> None:
    with pytest.raises(LayoutError, match="at least one point, got 0"):
        list(small_key().pieces("h", 0, "cpu"))


@pytest.mark.parametrize("start, stop", [(-1, 1), (2, 1), (0, 4)])
def test_a_range_outside_the_query_is_refused(start: int, stop: int) -> None:
    with pytest.raises(LayoutError, match="query h has 3 points"):
        small_key().query("h", start, stop, "cpu")


def test_rows_of_the_wrong_group_or_missing_are_refused() -> None:
    rows = dict(small_key().queries)
    with pytest.raises(LayoutError, match="g2"):
        MemoryKey(small_vk(), {**rows, "b_g2": rows["b_g1"]})
    del rows["l"]
    with pytest.raises(LayoutError, match="'b_g2'"):
        MemoryKey(small_vk(), rows)


def test_a_key_of_another_circuit_is_refused() -> None:
    key = small_key()
    check_lengths(key, key.lengths, 3, "window-2KiB")
    for lengths, n_inputs in ((replace(key.lengths, l=1_000), 3), (key.lengths, 23)):
        with pytest.raises(KeyFileError, match="another circuit than window-2KiB") as e:
            check_lengths(key, lengths, n_inputs, "window-2KiB")
        assert "the key has ic 3, h 3, l 4, a 5, b_g1 6, b_g2 7" in str(e.value)
        assert f"the circuit needs ic {n_inputs}, {lengths}" in str(e.value)


def test_proofs_survive_a_round_trip(golden: Path) -> None:
    proofs = json.loads((golden / "groth16" / "proofs_2kib.json").read_text())["proofs"]
    for raw in (bytes.fromhex(p["proof"]) for p in proofs):
        assert Proof.from_bytes(raw).to_bytes() == raw


@pytest.mark.parametrize("length", [0, 191, 193, 384])
def test_proof_bytes_of_another_length_are_refused(length: int) -> None:
    with pytest.raises(ProofError, match=f"has 192 bytes, got {length}"):
        Proof.from_bytes(bytes(length))


def test_proofs_of_several_partitions(golden: Path) -> None:
    proofs = [case.proof for case in reference_cases(golden)[:3]]
    raw = b"".join(proof.to_bytes() for proof in proofs)
    assert read_proofs(raw, 3) == proofs
    for partitions in (2, 4):
        with pytest.raises(ProofError, match=f"{partitions} partitions take"):
            read_proofs(raw, partitions)
    with pytest.raises(ProofError, match="a partition takes 192 bytes, got 576"):
        read_proofs(raw, 1)
    with pytest.raises(ProofError, match="proof, partition 1, point A: "):
        read_proofs(raw[:192] + bytes(192) + raw[384:], 3)


@pytest.mark.parametrize("part", ["a", "b", "c"])
def test_a_proof_with_a_bad_point_is_refused(part: str, golden: Path) -> None:
    proof = reference_cases(golden)[0].proof
    with pytest.raises(ProofError, match="infinity"):
        replace(proof, **{part: None}).to_bytes()
    bad = replace(proof, **{part: outsider(G2 if part == "b" else G1)}).to_bytes()
    with pytest.raises(ProofError, match=f"point {part.upper()}: .*subgroup"):
        Proof.from_bytes(bad)
    at = {"a": 0, "b": 48, "c": 144}[part]
    size = 96 if part == "b" else 48
    infinite = proof.to_bytes()[:at] + b"\xc0" + bytes(size - 1) + proof.to_bytes()[at + size :]
    with pytest.raises(ProofError, match=f"point {part.upper()}: .*infinity"):
        Proof.from_bytes(infinite)


def test_flipped_bits_give_an_error_or_another_proof(golden: Path) -> None:
    proof = reference_cases(golden)[0].proof
    raw = proof.to_bytes()
    rng = random.Random(1)
    flips = [0, 1, 2, 384, 385, 386, 1152, 1153, 1154, *(rng.randrange(1536) for _ in range(200))]
    for flip in flips:
        bad = bytearray(raw)
        bad[flip // 8] ^= 0x80 >> flip % 8
        try:
            read = Proof.from_bytes(bytes(bad))
        except ProofError:
            continue
        # only the sign can change and leave a point of the subgroup
        assert read != proof
        assert flip % 8 == 2


def test_dev_secrets_are_the_references() -> None:
    assert {name: getattr(DEV, name).to_bytes(32, "little").hex() for name in DEV_HEX} == DEV_HEX


@pytest.mark.parametrize("kind", ["porep", "winning", "window", "update"])
def test_dev_keys_are_recognised(kind: str, golden: Path) -> None:
    vk = load_vk(golden / "groth16" / f"{kind}_2048.vk")
    assert is_dev(vk)
    check_safe(vk)
    # one known secret is one too many, whatever the others are
    other = small_vk()
    assert not is_dev(other)
    assert is_dev(replace(other, delta_g2=vk.delta_g2))
    assert is_dev(replace(other, gamma_g2=neg(G2, vk.gamma_g2)))
    assert is_dev(replace(other, alpha_g1=vk.alpha_g1))
    assert is_dev(replace(other, beta_g2=vk.beta_g2))


def test_keys_with_gamma_equal_to_delta_are_refused() -> None:
    vk = small_vk()
    check_safe(vk)
    for delta in (vk.gamma_g2, neg(G2, vk.gamma_g2)):
        unsafe = replace(vk, delta_g2=delta)
        with pytest.raises(KeyFileError, match="anybody can forge"):
            check_safe(unsafe)


def test_toxic_waste_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "waste.json"
    path.write_text(json.dumps(DEV_HEX))
    assert load_toxic_waste(path) == DEV
    path.write_text(json.dumps({name: hex(getattr(DEV, name)) for name in DEV_HEX}))
    assert load_toxic_waste(path) == DEV


@pytest.mark.parametrize(
    "text, why",
    [
        ("", "not JSON"),
        ("[" * 9_000, "not JSON"),
        ("[]", "object of exactly alpha, beta, gamma, delta, tau"),
        (json.dumps({**DEV_HEX, "x": DEV_HEX["tau"]}), "exactly"),
        (json.dumps({k: v for k, v in DEV_HEX.items() if k != "tau"}), "exactly"),
        (json.dumps({**DEV_HEX, "tau": 5}), "tau must be"),
        (json.dumps({**DEV_HEX, "tau": "0x"}), "tau must be"),
        (json.dumps({**DEV_HEX, "tau": "5" * 63}), "tau must be"),
        (json.dumps({**DEV_HEX, "tau": DEV_HEX["tau"] + "\n"}), "tau must be"),
        (json.dumps({**DEV_HEX, "tau": "0x0"}), "tau is not in"),
        (json.dumps({**DEV_HEX, "tau": hex(FR.modulus)}), "tau is not in"),
        (json.dumps(DEV_HEX)[:-1] + ', "tau": "0x1"}', "stands twice"),
    ],
)
def test_bad_toxic_waste_is_refused(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "waste.json"
    path.write_text(text)
    with pytest.raises(InputError, match=why):
        load_toxic_waste(path)


def test_missing_toxic_waste_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        load_toxic_waste(tmp_path / "missing.json")
    with pytest.raises(InputError, match="in "):
        ToxicWaste(0, 1, 1, 1, 1)
