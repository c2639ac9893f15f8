"""The pairing check on proofs that hold, and on every kind that does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from groth16.samples import Case, outsider, reference_cases
from torchzk.errors import InputError, KeyFileError, ProofError
from torchzk.groth16.verifier import _sum_of_multiples, verify, verify_batch
from torchzk.params.curves import G1, G2
from torchzk.params.fields import FR
from torchzk.params.host_points import scalar_mul, to_g1
from torchzk.params.integers import add, mul, neg


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    golden = Path(__file__).parents[1] / "golden"
    return {case.name: case for case in reference_cases(golden)}


def test_the_references_proofs_hold(cases: dict[str, Case]) -> None:
    assert len(cases) == 9
    for case in cases.values():
        assert verify(case.vk, case.proof, case.inputs)


def test_no_proof_holds_for_another(cases: dict[str, Case]) -> None:
    for case in cases.values():
        for other in cases.values():
            if other is not case and other.vk == case.vk:
                assert not verify(case.vk, other.proof, case.inputs)


def test_every_input_counts(cases: dict[str, Case]) -> None:
    case = cases["sector2k_a_window 0"]
    for i, x in enumerate(case.inputs):
        inputs = [*case.inputs[:i], x ^ 1, *case.inputs[i + 1 :]]
        assert not verify(case.vk, case.proof, inputs)


@pytest.mark.parametrize("part", ["a", "b", "c"])
def test_a_negated_point_fails(part: str, cases: dict[str, Case]) -> None:
    case = cases["sector2k_a_update 0"]
    curve = G2 if part == "b" else G1
    proof = replace(case.proof, **{part: neg(curve, getattr(case.proof, part))})
    assert not verify(case.vk, proof, case.inputs)


@pytest.mark.parametrize("part", ["alpha_g1", "beta_g2", "gamma_g2", "delta_g2"])
def test_every_constant_of_the_key_counts(part: str, cases: dict[str, Case]) -> None:
    case = cases["sector2k_a_update 0"]
    curve = G1 if part.endswith("g1") else G2
    vk = replace(case.vk, **{part: neg(curve, getattr(case.vk, part))})
    assert not verify(vk, case.proof, case.inputs)


def test_a_proof_made_anew_by_anybody_holds(cases: dict[str, Case]) -> None:
    """Groth16 is malleable: A/k, k B proves the same, so proof bytes identify nothing."""
    case = cases["sector2k_a_update 0"]
    k = 12345
    proof = replace(
        case.proof,
        a=scalar_mul(G1, pow(k, -1, FR.modulus), case.proof.a),
        b=scalar_mul(G2, k, case.proof.b),
    )
    assert verify(case.vk, proof, case.inputs)


def test_inputs_of_another_circuit_are_refused(cases: dict[str, Case]) -> None:
    case = cases["sector2k_a_window 0"]
    for inputs in (case.inputs[:-1], [*case.inputs, 0], []):
        with pytest.raises(KeyFileError, match=f"takes 22 public inputs, {len(inputs)} are given"):
            verify(case.vk, case.proof, inputs)
        with pytest.raises(KeyFileError, match="another circuit"):
            verify_batch(case.vk, [case.proof] * 2, [case.inputs, inputs])


def test_inputs_that_are_not_canonical_are_refused(cases: dict[str, Case]) -> None:
    """x + r would verify as x does."""
    case = cases["sector2k_a_window 0"]
    for bad in (case.inputs[3] + FR.modulus, -1):
        inputs = [*case.inputs[:3], bad, *case.inputs[4:]]
        with pytest.raises(InputError, match="public input 3 is not canonical"):
            verify(case.vk, case.proof, inputs)
        with pytest.raises(InputError, match="public input 3"):
            verify_batch(case.vk, [case.proof] * 2, [case.inputs, inputs])


@pytest.mark.parametrize("part", ["a", "b", "c"])
def test_a_proof_of_bad_points_is_refused(part: str, cases: dict[str, Case]) -> None:
    case = cases["sector2k_a_window 0"]
    curve = G2 if part == "b" else G1
    x, y = outsider(curve)
    off = (x, ((y[0] + 1) % curve.field.modulus, *y[1:]))
    for bad, why in (((x, y), "subgroup"), (off, "not on the curve"), (None, "infinity")):
        proof = replace(case.proof, **{part: bad})
        with pytest.raises(ProofError, match=f"point {part.upper()} .*{why}"):
            verify(case.vk, proof, case.inputs)


def test_batches_hold_when_all_hold(cases: dict[str, Case]) -> None:
    some = [case for name, case in cases.items() if "window" in name]
    proofs, inputs = [c.proof for c in some], [c.inputs for c in some]
    assert len(some) == 3
    assert verify_batch(some[0].vk, proofs, inputs)
    assert verify_batch(some[0].vk, proofs[:1], inputs[:1])
    for i in range(3):
        wrong = [list(x) for x in inputs]
        wrong[i][0] ^= 1
        assert not verify_batch(some[0].vk, proofs, wrong)
    assert not verify_batch(some[0].vk, proofs, [inputs[1], inputs[0], inputs[2]])
    assert not verify_batch(some[0].vk, proofs[:1], inputs[1:2])


def test_errors_that_cancel_do_not_pass_a_batch(cases: dict[str, Case]) -> None:
    """C + D and C' - D would pass if the weights were equal."""
    one, two = cases["sector2k_b_window3 0"], cases["sector2k_b_window3 1"]
    proofs = [
        replace(one.proof, c=add(G1, one.proof.c, G1.generator)),
        replace(two.proof, c=add(G1, two.proof.c, neg(G1, G1.generator))),
    ]
    assert not verify_batch(one.vk, proofs, [one.inputs, two.inputs])


def test_a_batch_needs_proofs_with_inputs(cases: dict[str, Case]) -> None:
    case = cases["sector2k_a_window 0"]
    for n_proofs, n_inputs in ((0, 0), (1, 2), (2, 1)):
        with pytest.raises(ProofError, match=f"{n_proofs} proofs for {n_inputs} lists"):
            verify_batch(case.vk, [case.proof] * n_proofs, [case.inputs] * n_inputs)


def test_a_sum_refuses_unequal_lengths() -> None:
    with pytest.raises(ValueError, match="2 points, 1 scalars"):
        _sum_of_multiples([to_g1(G1.generator)] * 2, [1])


@pytest.mark.parametrize("k", [0, 1, 2, FR.modulus - 1, 1 << 254])
def test_library_multiples_are_those_of_integers(k: int) -> None:
    for curve in (G1, G2):
        assert scalar_mul(curve, k, curve.generator) == mul(curve, k, curve.generator)
