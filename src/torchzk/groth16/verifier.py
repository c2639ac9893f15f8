"""The pairing check: alone, and for several proofs at once.

Source: spec/groth16.md section 6; Groth, eprint 2016/260, section 3.2.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence

from py_arkworks_bls12381 import GT, G1Point, G2Point

from torchzk.errors import InputError, KeyFileError, ProofError
from torchzk.groth16.keys import VerifyingKey
from torchzk.groth16.proofs import Proof
from torchzk.params.curves import G1, G2
from torchzk.params.fields import FR
from torchzk.params.host_points import in_subgroup, to_g1, to_g2, to_scalar

_WEIGHT_BITS = 128


def verify(vk: VerifyingKey, proof: Proof, public_inputs: Sequence[int]) -> bool:
    """Whether the proof holds: e(A, B) = e(alpha, beta) e(sum x_i ic_i, gamma) e(C, delta).

    Args:
        public_inputs: Canonical integers without ONE, exactly as many as the key takes.

    Raises:
        KeyFileError: The key takes another number of inputs: it is of another circuit.
        InputError: An input outside [0, r).
        ProofError: A point of the proof that is at infinity, off its curve or out of its group.
    """
    _check_inputs(vk, public_inputs)
    a, b, c = _library_points(proof)
    inputs = _sum_of_multiples([to_g1(p) for p in vk.ic], [1, *public_inputs])
    return _product_is_one(
        [
            (a, b),
            (-to_g1(vk.alpha_g1), to_g2(vk.beta_g2)),
            (-inputs, to_g2(vk.gamma_g2)),
            (-c, to_g2(vk.delta_g2)),
        ]
    )


def verify_batch(
    vk: VerifyingKey, proofs: Sequence[Proof], inputs_list: Sequence[Sequence[int]]
) -> bool:
    """Whether all proofs hold, by one check of their random combination.

    With weights z_j of 128 bits a batch with a false proof passes with probability 2^-128.
    One proof gets the plain check. Arguments and errors as `verify`, one entry a proof.

    Raises:
        ProofError: No proofs, or not as many as lists of inputs.
    """
    if not proofs or len(proofs) != len(inputs_list):
        raise ProofError(f"{len(proofs)} proofs for {len(inputs_list)} lists of public inputs")
    if len(proofs) == 1:
        return verify(vk, proofs[0], inputs_list[0])
    for public_inputs in inputs_list:
        _check_inputs(vk, public_inputs)
    points = [_library_points(proof) for proof in proofs]
    weights = [1 + secrets.randbelow((1 << _WEIGHT_BITS) - 1) for _ in proofs]
    total = sum(weights)
    columns = zip(*inputs_list, strict=True)
    scalars = [sum(z * x for z, x in zip(weights, column, strict=True)) for column in columns]
    inputs = _sum_of_multiples([to_g1(p) for p in vk.ic], [total, *scalars])
    return _product_is_one(
        [
            *((a * to_scalar(z), -b) for z, (a, b, _) in zip(weights, points, strict=True)),
            (to_g1(vk.alpha_g1) * to_scalar(total), to_g2(vk.beta_g2)),
            (inputs, to_g2(vk.gamma_g2)),
            (_sum_of_multiples([c for _, _, c in points], weights), to_g2(vk.delta_g2)),
        ]
    )


def _check_inputs(vk: VerifyingKey, public_inputs: Sequence[int]) -> None:
    if len(public_inputs) != vk.n_inputs - 1:
        raise KeyFileError(
            f"the key takes {vk.n_inputs - 1} public inputs, {len(public_inputs)} are given: "
            "it is the key of another circuit"
        )
    for i, x in enumerate(public_inputs):
        if not 0 <= x < FR.modulus:
            raise InputError(f"public input {i} is not canonical, that is in [0, r)")


def _library_points(proof: Proof) -> tuple[G1Point, G2Point, G1Point]:
    """The points of a proof, whoever made it, after the checks of its byte form."""
    for name, curve, point in (("A", G1, proof.a), ("B", G2, proof.b), ("C", G1, proof.c)):
        if point is None:
            raise ProofError(f"point {name} of the proof is at infinity")
        try:
            sound = in_subgroup(curve, point)
        except ValueError as e:
            raise ProofError(f"point {name} of the proof is not on the curve") from e
        if not sound:
            raise ProofError(f"point {name} of the proof is outside the subgroup of order r")
    return to_g1(proof.a), to_g2(proof.b), to_g1(proof.c)


def _sum_of_multiples(points: Sequence[G1Point], scalars: Iterable[int]) -> G1Point:
    multipliers = [to_scalar(s) for s in scalars]
    if len(points) != len(multipliers):
        # the library would silently go by the shorter list
        raise ValueError(f"{len(points)} points, {len(multipliers)} scalars")
    return G1Point.multiexp_unchecked(list(points), multipliers)


def _product_is_one(pairs: Sequence[tuple[G1Point, G2Point]]) -> bool:
    """Whether the product of the pairings is one; points are trusted to be in their groups."""
    return GT.pairing_check([p for p, _ in pairs], [q for _, q in pairs])
