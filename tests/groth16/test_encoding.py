"""Points to bytes and back, against the pairing library's own encoder; and what is refused."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from py_arkworks_bls12381 import G1Point

from groth16.samples import multiple, outsider, points_of_x
from torchzk.errors import KeyFileError, ProofError
from torchzk.groth16.encoding import (
    COMPRESSED,
    INFINITY,
    LARGER,
    Origin,
    compressed_size,
    decode_compressed,
    decode_uncompressed,
    encode_compressed,
    encode_uncompressed,
    square_root,
    uncompressed_size,
)
from torchzk.params.curves import G1, G2, Curve
from torchzk.params.fields import FP
from torchzk.params.host_points import from_library, to_g1, to_g2
from torchzk.params.integers import coordinate_mul, neg

P = FP.modulus
ORIGIN = Origin(ProofError, "point T")
CURVES = pytest.mark.parametrize("curve", [G1, G2], ids=["g1", "g2"])
SCALARS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1 << 64, 1 << 200, random.Random(1).getrandbits(254)]


@CURVES
@pytest.mark.parametrize("k", SCALARS)
def test_encodings_are_the_librarys(curve: Curve, k: int) -> None:
    point = multiple(curve, k)
    element = to_g1(point) if curve is G1 else to_g2(point)

    assert encode_compressed(curve, point) == element.to_compressed_bytes()
    assert from_library(element) == point
    if isinstance(element, G1Point):
        # in G2 the library writes c0 first, the format c1
        assert encode_uncompressed(curve, point) == element.to_xy_bytes_be()


def test_g2_is_written_c1_first() -> None:
    raw = encode_uncompressed(G2, G2.generator)
    numbers = [int.from_bytes(raw[i : i + 48], "big") for i in range(0, 192, 48)]
    (x, y) = G2.generator
    assert numbers == [x[1], x[0], y[1], y[0]]
    assert raw[:4].hex() == "13e02b60"


@CURVES
@pytest.mark.parametrize("k", SCALARS)
def test_decoding_inverts_encoding(curve: Curve, k: int) -> None:
    for point in (multiple(curve, k), neg(curve, multiple(curve, k))):
        assert decode_compressed(curve, encode_compressed(curve, point), ORIGIN) == point
        assert decode_uncompressed(curve, encode_uncompressed(curve, point), ORIGIN) == point


@CURVES
def test_infinity_is_a_flag_and_zeros(curve: Curve) -> None:
    small, large = encode_compressed(curve, None), encode_uncompressed(curve, None)
    assert small == b"\xc0" + bytes(48 * curve.degree - 1)
    assert large == b"\x40" + bytes(96 * curve.degree - 1)
    with pytest.raises(ProofError, match="point T: the point at infinity may not stand here"):
        decode_compressed(curve, small, ORIGIN)
    with pytest.raises(ProofError, match="infinity may not"):
        decode_uncompressed(curve, large, ORIGIN)


@CURVES
@pytest.mark.parametrize("change", [-1, 1])
def test_other_lengths_are_refused(curve: Curve, change: int) -> None:
    small = compressed_size(curve) + change
    large = uncompressed_size(curve) + change
    with pytest.raises(ProofError, match=f"takes {small - change} bytes here, got {small}"):
        decode_compressed(curve, bytes(small), ORIGIN)
    with pytest.raises(ProofError, match=f"takes {large - change} bytes here, got {large}"):
        decode_uncompressed(curve, bytes(large), ORIGIN)


@CURVES
def test_an_empty_point_is_refused(curve: Curve) -> None:
    with pytest.raises(ProofError, match="got 0"):
        decode_compressed(curve, b"", ORIGIN)


@CURVES
@pytest.mark.parametrize("flags", range(8))
def test_of_eight_flag_combinations_only_the_right_ones_pass(curve: Curve, flags: int) -> None:
    flags <<= 5
    point = multiple(curve, 5)
    small, large = encode_compressed(curve, point), encode_uncompressed(curve, point)
    small = bytes([small[0] & 0x1F | flags]) + small[1:]
    large = bytes([large[0] & 0x1F | flags]) + large[1:]

    if flags & ~LARGER == COMPRESSED:
        assert decode_compressed(curve, small, ORIGIN) in (point, neg(curve, point))
    else:
        with pytest.raises(ProofError, match="flag"):
            decode_compressed(curve, small, ORIGIN)
    if flags == 0:
        assert decode_uncompressed(curve, large, ORIGIN) == point
    else:
        with pytest.raises(ProofError, match="flag"):
            decode_uncompressed(curve, large, ORIGIN)


@CURVES
@pytest.mark.parametrize("at", [0, 1, 47])
def test_infinity_with_other_bits_is_refused(curve: Curve, at: int) -> None:
    for raw, decode in (
        (bytearray(encode_compressed(curve, None)), decode_compressed),
        (bytearray(encode_uncompressed(curve, None)), decode_uncompressed),
    ):
        raw[at] |= 1
        with pytest.raises(ProofError, match="other bits are set"):
            decode(curve, bytes(raw), ORIGIN)


def test_infinity_with_a_sign_is_refused() -> None:
    raw = bytes([COMPRESSED | INFINITY | LARGER]) + bytes(47)
    with pytest.raises(ProofError, match="sign flag"):
        decode_compressed(G1, raw, ORIGIN)


@CURVES
def test_numbers_not_below_the_modulus_are_refused(curve: Curve) -> None:
    # 2^381 - q is small: look for a point whose coordinate plus q still fits in 381 bits
    room = (1 << 381) - P
    for i in range(2 * curve.degree):
        raw = encode_uncompressed(curve, multiple(curve, 5))
        for number in (P, P + 1, P + room - 1):
            changed = raw[: 48 * i] + number.to_bytes(48, "big") + raw[48 * (i + 1) :]
            with pytest.raises(ProofError, match="not canonical"):
                decode_uncompressed(curve, changed, ORIGIN)


@CURVES
def test_the_alias_of_a_point_is_refused(curve: Curve) -> None:
    """x + q names the same point to a lenient reader."""
    (x, y) = outsider(curve)
    alias = (x[0] + P, *x[1:])
    for raw, decode in (
        (bytearray(encode_compressed(curve, (alias, y))), decode_compressed),
        (bytearray(encode_uncompressed(curve, (alias, y))), decode_uncompressed),
    ):
        with pytest.raises(ProofError, match="not canonical"):
            decode(curve, bytes(raw), ORIGIN)


@CURVES
def test_points_off_the_curve_are_refused(curve: Curve) -> None:
    x, y = multiple(curve, 5)
    off = (x, ((y[0] + 1) % P, *y[1:]))
    with pytest.raises(ProofError, match=f"point T: not on the curve of {curve.name}"):
        decode_uncompressed(curve, encode_uncompressed(curve, off), ORIGIN)


def test_swapped_halves_are_recognised() -> None:
    x, y = multiple(G2, 5)
    swapped = (x[::-1], y[::-1])
    with pytest.raises(ProofError, match="look swapped"):
        decode_uncompressed(G2, encode_uncompressed(G2, swapped), ORIGIN)


@CURVES
def test_an_x_of_no_point_is_refused(curve: Curve) -> None:
    lonely = 0
    while (points_of_x(curve, lonely)[0] or ())[0][0] == lonely:
        lonely += 1
    raw = bytearray(compressed_size(curve))
    raw[0] |= COMPRESSED
    raw[-1] = lonely
    with pytest.raises(ProofError, match="no point"):
        decode_compressed(curve, bytes(raw), ORIGIN)


@CURVES
@pytest.mark.parametrize("first", [0, 30])
def test_points_outside_the_subgroup_are_refused(curve: Curve, first: int) -> None:
    point = outsider(curve, first)
    for encode, decode in (
        (encode_compressed, decode_compressed),
        (encode_uncompressed, decode_uncompressed),
    ):
        with pytest.raises(ProofError, match="outside its subgroup"):
            decode(curve, encode(curve, point), ORIGIN)


def test_the_caller_chooses_the_error() -> None:
    with pytest.raises(KeyFileError, match=r"ic\[3\]: "):
        decode_uncompressed(G1, bytes(96), Origin(KeyFileError, "ic[3]"))


@given(st.binary(min_size=48, max_size=48))
def test_any_bytes_are_a_point_or_an_error(raw: bytes) -> None:
    try:
        point = decode_compressed(G1, raw, ORIGIN)
    except ProofError:
        return
    assert encode_compressed(G1, point) == raw


@given(st.integers(0, P - 1), st.integers(0, P - 1))
def test_square_roots_of_squares(c0: int, c1: int) -> None:
    for y in ((c0,), (c0, c1), (c0, 0), (0, c1)):
        square = coordinate_mul(y, y, P)
        root = square_root(square, P)
        assert root in (y, tuple(-c % P for c in y))


def test_what_is_no_square_has_no_root() -> None:
    assert square_root((P - 1,), P) is None
    # every element of Fp is a square in Fp2; 1 + u is none, for its norm 2 is none in Fp
    assert square_root((P - 1, 0), P) in ((0, 1), (0, P - 1))
    assert square_root((2,), P) is None
    assert square_root((1, 1), P) is None
    assert square_root((0, 0), P) == (0, 0)
