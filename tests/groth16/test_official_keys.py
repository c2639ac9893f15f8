"""Real proofs under keys of real setups hold, and fail with any one bit flipped.

The keys of the trusted setup v27 with 32 GiB sectors' proofs, and those of another project's
setup with 2 KiB proofs, whose public inputs are computed here from spec/post_update.md sections 2
and 4 and spec/porep.md sections 3, 7 and 10.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from groth16.samples import Case
from torchzk.errors import TorchzkError
from torchzk.groth16.encoding import Origin, decode_compressed
from torchzk.groth16.keys import VerifyingKey
from torchzk.groth16.proofs import Proof, read_proofs
from torchzk.groth16.toxic_waste import check_safe, is_dev
from torchzk.groth16.verifier import verify, verify_batch
from torchzk.groth16.vk_file import vk_from_bytes, vk_size, vk_to_bytes
from torchzk.params.curves import G1, G2

GOLDEN = Path(__file__).parents[1] / "golden" / "groth16"
# spec/vectors.md section 1: the digests that the network published
DIGESTS = {
    "porep": "7a139d82b8a02e35279d657e197f5c1f",
    "winning": "2306247a1e616dbe07f01b88196c2044",
    "window": "caf900461e988bbf86dbcaca087b7864",
}


def integers(raw: bytes) -> list[int]:
    return [int.from_bytes(raw[i : i + 32], "big") for i in range(0, len(raw), 32)]


def counted(raw: bytes, kind: str) -> tuple[VerifyingKey, list[Case]]:
    """Count of proofs, count of inputs, key, then each proof with its inputs."""
    n_proofs, n_inputs = (int.from_bytes(raw[i : i + 8], "big") for i in (0, 8))
    end = 16 + vk_size(n_inputs + 1)
    vk = vk_from_bytes(raw[16:end], kind)
    step = 192 + 32 * n_inputs
    assert len(raw) == end + n_proofs * step
    parts = [raw[end + i * step : end + (i + 1) * step] for i in range(n_proofs)]
    cases = [
        Case(f"{kind} {i}", vk, Proof.from_bytes(part[:192]), integers(part[192:]))
        for i, part in enumerate(parts)
    ]
    return vk, cases


@pytest.fixture(scope="module")
def porep() -> list[Case]:
    return counted((GOLDEN / "porep_32gib_v27_seal32_x10.prf").read_bytes(), "porep")[1]


@pytest.fixture(scope="module")
def window() -> Case:
    raw = gzip.decompress((GOLDEN / "window_post_32gib_v27.prf.gz").read_bytes())
    return counted(raw, "window")[1][0]


@pytest.fixture(scope="module")
def winning() -> Case:
    raw = (GOLDEN / "winning_post_32gib_v27.prf").read_bytes()
    end = 200 + 32 * int.from_bytes(raw[192:200], "big")
    vk = vk_from_bytes(raw[end:], "winning")
    return Case("winning", vk, Proof.from_bytes(raw[:192]), integers(raw[200:end]))


def compressed_vk(raw: bytes) -> VerifyingKey:
    """The other project's key: the same points in the same order, but compressed."""
    points = []
    for curve in (G1, G1, G2, G2, G1, G2):
        size = 48 * curve.degree
        points.append(decode_compressed(curve, raw[:size], Origin(TorchzkError, "key")))
        raw = raw[size:]
    assert len(raw) == 4 + 48 * int.from_bytes(raw[:4], "big")
    ic = (raw[i : i + 48] for i in range(4, len(raw), 48))
    return VerifyingKey(
        *points, ic=tuple(decode_compressed(G1, p, Origin(TorchzkError, "ic")) for p in ic)
    )


def hash_fr(*parts: bytes) -> bytes:
    digest = hashlib.sha256(b"".join(parts)).digest()
    return digest[:31] + bytes([digest[31] & 0x3F])


def little(raw: bytes) -> int:
    return int.from_bytes(raw, "little")


def window_inputs(post: dict[str, Any]) -> list[int]:
    """Two slots of ten challenges; the second repeats the only sector."""
    randomness = bytes.fromhex(post["randomness"])
    sector = post["sector_id"].to_bytes(8, "little")
    digests = (
        hashlib.sha256(randomness + sector + i.to_bytes(8, "little")).digest()
        for i in range(post["challenge_count"])
    )
    leaves = [little(d[:8]) % (post["sector_size"] // 32) for d in digests]
    return [little(bytes.fromhex(post["comm_r"])), *leaves] * post["sector_count"]


def porep_heads(seal: dict[str, Any]) -> tuple[list[int], list[int]]:
    """replica_id, comm_d, comm_r; and the challenges."""
    names = ("prover_id", "ticket", "comm_d", "comm_r", "porep_id", "seed")
    prover, ticket, comm_d, comm_r, porep_id, seed = (bytes.fromhex(seal[k]) for k in names)
    sector = seal["sector_id"].to_bytes(8, "big")
    replica_id = hash_fr(prover, sector, ticket, comm_d, porep_id)
    digests = (
        hashlib.sha256(replica_id + seed + j.to_bytes(4, "little")).digest()
        for j in range(seal["challenges"])
    )
    challenges = [little(d) % (seal["sector_size"] // 32 - 1) + 1 for d in digests]
    return [little(x) for x in (replica_id, comm_d, comm_r)], challenges


def other_setup() -> list[Case]:
    found = json.loads((GOLDEN / "porep_post_2kib_polka_storage.json").read_text())
    inputs = {
        "window_post": window_inputs(found["window_post"]),
        "porep": [int(x) for x in found["porep"]["public_inputs_decimal"]],
    }
    return [
        Case(
            name,
            compressed_vk(bytes.fromhex(found[name]["vk"])),
            Proof.from_bytes(bytes.fromhex(found[name]["proof"])),
            inputs[name],
        )
        for name in inputs
    ]


def flipped(raw: bytes, bit: int) -> bytes:
    out = bytearray(raw)
    out[bit // 8] ^= 1 << bit % 8
    return bytes(out)


def refused(key: VerifyingKey | bytes, proof: bytes, inputs: list[int]) -> bool:
    """Whether it does not verify from bytes; an error torchzk raises on purpose is a refusal."""
    try:
        vk = vk_from_bytes(key, "key") if isinstance(key, bytes) else key
        return not verify(vk, Proof.from_bytes(proof), inputs)
    except TorchzkError:
        return True


def check_bits(case: Case, input_bits: list[tuple[int, int]], bits: list[int]) -> None:
    """The case holds, and no longer does with one bit of inputs, proof or key flipped."""
    key, proof = vk_to_bytes(case.vk), case.proof.to_bytes()
    assert not refused(case.vk, proof, case.inputs)
    for index, bit in input_bits:
        inputs = list(case.inputs)
        inputs[index] ^= 1 << bit
        assert refused(case.vk, proof, inputs)
    for bit in bits:
        assert refused(case.vk, flipped(proof, bit % (8 * len(proof))), case.inputs)
        assert refused(flipped(key, bit % (8 * len(key))), proof, case.inputs)


def test_the_keys_are_the_published_ones(porep: list[Case], winning: Case, window: Case) -> None:
    for kind, case in (("porep", porep[0]), ("winning", winning), ("window", window)):
        digest = hashlib.blake2b(vk_to_bytes(case.vk)).hexdigest()
        assert digest[:32] == DIGESTS[kind]
        assert not is_dev(case.vk)
        check_safe(case.vk)


def test_ten_partitions_hold(porep: list[Case]) -> None:
    assert len(porep) == 10
    assert {len(case.inputs) for case in porep} == {327}
    assert all(verify(case.vk, case.proof, case.inputs) for case in porep)


def test_ten_partitions_hold_as_one_batch_from_bytes(porep: list[Case]) -> None:
    vk, inputs = porep[0].vk, [case.inputs for case in porep]
    raw = b"".join(case.proof.to_bytes() for case in porep)
    assert len(raw) == 1920
    assert verify_batch(vk, read_proofs(raw, 10), inputs)
    # the same proofs in another order
    assert not verify_batch(vk, read_proofs(raw[192:] + raw[:192], 10), inputs)
    for i in range(10):
        wrong = [list(x) for x in inputs]
        wrong[i][i] ^= 1
        assert not verify_batch(vk, read_proofs(raw, 10), wrong)
    # the sign bit of a point: still a proof, but a false one
    for bit in (5, 8 * 192 * 4 + 5, 8 * (192 * 9 + 144) + 5):
        assert not verify_batch(vk, read_proofs(flipped(raw, bit), 10), inputs)


def test_a_flipped_bit_of_a_partition_is_refused(porep: list[Case]) -> None:
    for i, case in enumerate(porep):
        check_bits(case, [(0, 0), (i, 1), (326, 31)], [5, 1000 * i + 77])


def test_winning_post_holds_to_the_bit(winning: Case) -> None:
    assert len(winning.inputs) == 132
    check_bits(winning, [(i, i) for i in range(0, 132, 20)], [0, 5, 400, 869 * 8, 109_000])


def test_window_post_holds_to_the_bit(window: Case) -> None:
    assert len(window.inputs) == 25_839
    # the last input and the key's last point are as good as the first
    check_bits(window, [(0, 0), (25_838, 3)], [8 * vk_size(25_840) - 1])


@pytest.mark.parametrize("case", other_setup(), ids=lambda case: case.name)
def test_proofs_of_another_setup_hold_to_the_bit(case: Case) -> None:
    inputs = [(i, i) for i in range(len(case.inputs))]
    check_bits(case, inputs, list(range(3, 8 * 192, 131)))


def test_inputs_of_the_other_setup_follow_from_its_sectors() -> None:
    found = json.loads((GOLDEN / "porep_post_2kib_polka_storage.json").read_text())
    post, seal = found["window_post"], found["porep"]
    assert window_inputs(post)[1:11] == post["challenges"]
    head, challenges = porep_heads(seal)
    inputs = [int(x) for x in seal["public_inputs_decimal"]]
    assert inputs[:3] == head
    for challenge, group in zip(challenges, (inputs[3:21], inputs[21:39]), strict=True):
        assert [group[0], *group[15:]] == [challenge] * 4
        # both kinds of parents are nodes; the base graph's come before their child
        assert all(parent < challenge for parent in group[1:7])
        assert all(parent < 64 for parent in group[7:15])
