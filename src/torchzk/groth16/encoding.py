"""Points to bytes and back, in the convention of zcash and blst.

A number of Fp is 48 big-endian bytes; an Fp2 coordinate is written c1 first. The three top bits of
the first byte are flags: compressed, infinity, and (compressed only) which of the two y it is.
Source: spec/groth16.md section 7.

Reading is a chain of small steps, each of which raises the error class its `Origin` carries.
"""

from __future__ import annotations

from dataclasses import dataclass

from torchzk.errors import TorchzkError
from torchzk.params.curves import Coordinate, Curve, Point
from torchzk.params.host_points import in_subgroup
from torchzk.params.integers import coordinate_mul, is_on_curve

COMPRESSED, INFINITY, LARGER = 0x80, 0x40, 0x20
_FLAGS = COMPRESSED | INFINITY | LARGER


@dataclass(frozen=True)
class Origin:
    """Where bytes come from and which error it is when they are wrong."""

    error: type[TorchzkError]
    name: str

    def fail(self, why: str) -> TorchzkError:
        """The error to raise: what was wrong, with what."""
        return self.error(f"{self.name}: {why}")


def compressed_size(curve: Curve) -> int:
    """Bytes of a compressed point: 48 in G1, 96 in G2."""
    return curve.degree * curve.field.n_bytes


def uncompressed_size(curve: Curve) -> int:
    """Bytes of an uncompressed point: 96 in G1, 192 in G2."""
    return 2 * compressed_size(curve)


def encode_compressed(curve: Curve, point: Point) -> bytes:
    """x and the sign of y, or the flag of infinity and zeros."""
    if point is None:
        return bytes([COMPRESSED | INFINITY]) + bytes(compressed_size(curve) - 1)
    x, y = point
    raw = _coordinate_bytes(curve, x)
    sign = LARGER if is_larger(y, curve.field.modulus) else 0
    return bytes([raw[0] | COMPRESSED | sign]) + raw[1:]


def encode_uncompressed(curve: Curve, point: Point) -> bytes:
    """x and y without flags, or the flag of infinity and zeros."""
    if point is None:
        return bytes([INFINITY]) + bytes(uncompressed_size(curve) - 1)
    return _coordinate_bytes(curve, point[0]) + _coordinate_bytes(curve, point[1])


def decode_compressed(curve: Curve, raw: bytes, origin: Origin) -> Point:
    """Inverse of `encode_compressed` for finite points, with every check.

    Raises:
        origin.error: Length, flags, number not below the modulus, no such point, wrong subgroup.
    """
    check_length(raw, compressed_size(curve), origin)
    flags = check_flags(raw, origin, compressed=True)
    if flags & INFINITY:
        raise infinity_error(raw, origin)
    (x,) = read_coordinates(curve, raw, origin)
    p = curve.field.modulus
    cube = coordinate_mul(coordinate_mul(x, x, p), x, p)
    y = square_root(tuple((c + b) % p for c, b in zip(cube, curve.b, strict=True)), p)
    if y is None:
        raise origin.fail(f"no point of {curve.name} has this x")
    if is_larger(y, p) != bool(flags & LARGER):
        y = tuple(-c % p for c in y)
    check_subgroup(curve, (x, y), origin)
    return x, y


def decode_uncompressed(curve: Curve, raw: bytes, origin: Origin) -> Point:
    """Inverse of `encode_uncompressed` for finite points, with every check.

    Raises:
        origin.error: Length, flags, number not below the modulus, off the curve, wrong subgroup.
    """
    check_length(raw, uncompressed_size(curve), origin)
    flags = check_flags(raw, origin, compressed=False)
    if flags & INFINITY:
        raise infinity_error(raw, origin)
    x, y = read_coordinates(curve, raw, origin)
    check_on_curve(curve, (x, y), origin)
    check_subgroup(curve, (x, y), origin)
    return x, y


def check_length(raw: bytes, expected: int, origin: Origin) -> None:
    """Raise unless there are exactly `expected` bytes."""
    if len(raw) != expected:
        raise origin.fail(f"a point takes {expected} bytes here, got {len(raw)}")


def check_flags(raw: bytes, origin: Origin, *, compressed: bool) -> int:
    """The three flag bits of a point; raises where they contradict each other or the form."""
    flags = raw[0] & _FLAGS
    if bool(flags & COMPRESSED) != compressed:
        form = "uncompressed" if compressed else "compressed"
        raise origin.fail(f"the flag bits say {form}, the file format says otherwise")
    if flags & LARGER and (flags & INFINITY or not compressed):
        raise origin.fail("a sign flag is set where none belongs")
    return flags


def infinity_error(raw: bytes, origin: Origin) -> TorchzkError:
    """The error for bytes flagged as infinity, which may stand nowhere."""
    if raw[0] & ~_FLAGS or any(raw[1:]):
        return origin.fail("flagged as infinity, but other bits are set")
    return origin.fail("the point at infinity may not stand here")


def read_coordinates(curve: Curve, raw: bytes, origin: Origin) -> list[Coordinate]:
    """The coordinates of flagged bytes; raises unless every number is below the modulus."""
    n, d, p = curve.field.n_bytes, curve.degree, curve.field.modulus
    body = bytes([raw[0] & ~_FLAGS]) + raw[1:]
    numbers = [int.from_bytes(body[i : i + n], "big") for i in range(0, len(body), n)]
    if any(c >= p for c in numbers):
        raise origin.fail("a coordinate is not canonical, that is not below the field's modulus")
    return [tuple(reversed(numbers[i : i + d])) for i in range(0, len(numbers), d)]


def check_on_curve(curve: Curve, point: Point, origin: Origin) -> None:
    """Raise unless the point satisfies the curve's equation."""
    if is_on_curve(curve, point):
        return
    if point is not None and curve.degree == 2:
        x, y = point
        if is_on_curve(curve, (x[::-1], y[::-1])):
            raise origin.fail("not on g2; the halves of its coordinates look swapped")
    raise origin.fail(f"not on the curve of {curve.name}")


def check_subgroup(curve: Curve, point: Point, origin: Origin) -> None:
    """Raise unless a point of the curve is in the subgroup of order r."""
    if not in_subgroup(curve, point):
        raise origin.fail(f"on the curve of {curve.name}, but outside its subgroup of order r")


def is_larger(y: Coordinate, p: int) -> bool:
    """Whether y is the larger of y and -y, by c1 and, if that is 0, by c0."""
    deciding = next((c for c in reversed(y) if c), 0)
    return deciding > (p - 1) // 2


def square_root(a: Coordinate, p: int) -> Coordinate | None:
    """Some y with y^2 = a in Fp or Fp2, for p = 3 mod 4; None if a is no square."""
    if len(a) == 1:
        root = pow(a[0], (p + 1) // 4, p)
        return (root,) if root * root % p == a[0] else None
    # (x0 + x1 u)^2 = a gives x0^2 = (a0 + |a|)/2 for one of the two roots |a| of the norm
    norm = square_root(((a[0] * a[0] + a[1] * a[1]) % p,), p)
    if norm is None:
        return None
    half = (p + 1) // 2
    for length in (norm[0], -norm[0]):
        x0 = square_root(((a[0] + length) * half % p,), p)
        if x0 is None:
            continue
        if any(x0):
            return (*x0, a[1] * half * pow(x0[0], -1, p) % p)
        x1 = square_root((-a[0] % p,), p)
        if x1 is not None:
            return (*x0, *x1)
    return None


def _coordinate_bytes(curve: Curve, coordinate: Coordinate) -> bytes:
    return b"".join(c.to_bytes(curve.field.n_bytes, "big") for c in reversed(coordinate))
