"""A proof as data: its points and its bytes. Source: spec/groth16.md sections 5 and 7."""

from __future__ import annotations

from dataclasses import dataclass

from torchzk.errors import ProofError
from torchzk.groth16.encoding import Origin, compressed_size, decode_compressed, encode_compressed
from torchzk.params.curves import G1, G2, Point

PROOF_BYTES = 192


@dataclass(frozen=True)
class Proof:
    """A Groth16 proof: A and C in G1, B in G2."""

    a: Point
    b: Point
    c: Point

    def to_bytes(self) -> bytes:
        """The 192 bytes A || B || C, compressed; raises `ProofError` for a point at infinity."""
        if None in (self.a, self.b, self.c):
            raise ProofError("a proof with a point at infinity is no proof")
        return (
            encode_compressed(G1, self.a)
            + encode_compressed(G2, self.b)
            + encode_compressed(G1, self.c)
        )

    @classmethod
    def from_bytes(cls, raw: bytes, name: str = "proof") -> Proof:
        """Inverse of `to_bytes`; raises `ProofError`, naming point and reason."""
        if len(raw) != PROOF_BYTES:
            raise ProofError(f"{name}: a proof has {PROOF_BYTES} bytes, got {len(raw)}")
        a, b = compressed_size(G1), compressed_size(G1) + compressed_size(G2)
        return cls(
            decode_compressed(G1, raw[:a], Origin(ProofError, f"{name}, point A")),
            decode_compressed(G2, raw[a:b], Origin(ProofError, f"{name}, point B")),
            decode_compressed(G1, raw[b:], Origin(ProofError, f"{name}, point C")),
        )


def read_proofs(raw: bytes, partitions: int) -> list[Proof]:
    """The proofs of all partitions from their concatenated bytes; raises `ProofError`."""
    if len(raw) != partitions * PROOF_BYTES:
        what = "a partition takes" if partitions == 1 else f"{partitions} partitions take"
        raise ProofError(f"proof: {what} {partitions * PROOF_BYTES} bytes, got {len(raw)}")
    pieces = (raw[i : i + PROOF_BYTES] for i in range(0, len(raw), PROOF_BYTES))
    return [Proof.from_bytes(piece, f"proof, partition {i}") for i, piece in enumerate(pieces)]
