"""The groups G1 and G2 of BLS12-381. A curve is data: y^2 = x^3 + b over Fp or Fp2.

Coordinates are tuples of `degree` integers: (x,) in Fp, (c0, c1) for c0 + c1 u in Fp2 with
u^2 = -1. A point is a pair of coordinates, or None at infinity.
Source: spec/groth16.md section 7; draft-irtf-cfrg-pairing-friendly-curves 4.2.1.
"""

from __future__ import annotations

from dataclasses import dataclass

from torchzk.params.fields import FP, FR, PrimeField

Coordinate = tuple[int, ...]
Point = tuple[Coordinate, Coordinate] | None
"""A point in canonical integers; None is the point at infinity."""


@dataclass(frozen=True)
class Curve:
    """The prime-order subgroup of y^2 = x^3 + b over the field of `degree` above `field`."""

    name: str
    field: PrimeField
    degree: int
    b: Coordinate
    generator: tuple[Coordinate, Coordinate]
    scalars: PrimeField = FR

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one affine point in a row tensor: [2, L] in G1, [2, 2, L] in G2."""
        return (2, *([self.degree] if self.degree > 1 else []), self.field.n_limbs)


def _hex(text: str) -> int:
    return int(text.replace(" ", ""), 16)


G1 = Curve(
    name="g1",
    field=FP,
    degree=1,
    b=(4,),
    generator=(
        (
            _hex(
                "17f1d3a73197d7942695638c4fa9ac0fc3688c4f9774b905a14e3a3f171bac58"
                "6c55e83ff97a1aeffb3af00adb22c6bb"
            ),
        ),
        (
            _hex(
                "08b3f481e3aaa0f1a09e30ed741d8ae4fcf5e095d5d00af600db18cb2c04b3ed"
                "d03cc744a2888ae40caa232946c5e7e1"
            ),
        ),
    ),
)
G2 = Curve(
    name="g2",
    field=FP,
    degree=2,
    b=(4, 4),
    generator=(
        (
            _hex(
                "024aa2b2f08f0a91260805272dc51051c6e47ad4fa403b02b4510b647ae3d177"
                "0bac0326a805bbefd48056c8c121bdb8"
            ),
            _hex(
                "13e02b6052719f607dacd3a088274f65596bd0d09920b61ab5da61bbdc7f5049"
                "334cf11213945d57e5ac7d055d042b7e"
            ),
        ),
        (
            _hex(
                "0ce5d527727d6e118cc9cdc6da2e351aadfd9baa8cbdd3a76d429a695160d12c"
                "923ac9cc3baca289e193548608b82801"
            ),
            _hex(
                "0606c4a02ea734cc32acd2b02bc28b99cb3e287e85a763af267492ab572e99ab"
                "3f370d275cec1da1aaa9075ff05f79be"
            ),
        ),
    ),
)
CURVES = {c.name: c for c in (G1, G2)}
