"""Where the variables of the EmptySectorUpdate circuit stand.

Blocks that were recorded before are taken from a cache, so what one block reads of the other is
known without recording. Source: spec/post_update.md section 10, whose order this is.
"""

from __future__ import annotations

from dataclasses import dataclass

from torchzk.circuits.gadgets.insertion import INSERT_WIRES
from torchzk.circuits.gadgets.num import N_BITS
from torchzk.circuits.gadgets.pair_wires import n_pair_wires
from torchzk.circuits.update_shapes import UpdateShape
from torchzk.params.poseidon import Poseidon

RANDOMNESS = Poseidon.randomness()
PAIR = 2
DIGEST_WIRES = 1 + RANDOMNESS.n_wires + N_BITS
"""Of one digest: its number, its hash, its bits."""


@dataclass(frozen=True)
class ProloguePlaces:
    """Numbers of the prologue's aux variables."""

    partition: range
    """Bits of the partition's number."""
    h_select: range
    """A bit for each h."""
    phi: int
    root_r_old: int
    root_r_new: int
    apex_leaves: range
    digests: int
    """The first variable of the first digest."""
    n_aux: int

    @classmethod
    def of(cls, shape: UpdateShape) -> ProloguePlaces:
        """Those of a shape."""
        # 0 is their number
        bits = range(1, 1 + shape.partition_bits + len(shape.hs))
        # the partition's number and three commitments, then the hash
        phi = bits.stop + 4 + RANDOMNESS.n_wires - 1
        comm_c = phi + 1
        apex_leaves = range(comm_c + 3, comm_c + 3 + shape.n_apex_leaves)
        hashes = 2 * Poseidon.merkle(PAIR).n_wires
        hashes += (shape.n_apex_leaves - 1) * n_pair_wires()
        path = shape.partition_bits * (1 + path_d_level())
        digests = apex_leaves.stop + hashes + path
        return cls(
            partition=bits[: shape.partition_bits],
            h_select=bits[shape.partition_bits :],
            phi=phi,
            root_r_old=comm_c + 1,
            root_r_new=comm_c + 2,
            apex_leaves=apex_leaves,
            digests=digests,
            n_aux=digests + shape.n_digests * DIGEST_WIRES,
        )

    def digest_bit(self, digest: int) -> int:
        """The lowest bit of a digest; the others follow."""
        return self.digests + (digest + 1) * DIGEST_WIRES - N_BITS


def path_d_level() -> int:
    """Variables of a level of a path in TreeD, its sibling not among them."""
    return PAIR + n_pair_wires()


def replica_path(shape: UpdateShape) -> int:
    """Variables of a path in TreeR: siblings, then insertion and hash of each level."""
    arities = shape.sector.tree_r.arities
    return sum(a - 1 + INSERT_WIRES[a] + Poseidon.merkle(a).n_wires for a in arities)


def challenge_aux(shape: UpdateShape) -> int:
    """Variables of a challenge's own."""
    randomness = 2 * len(shape.hs) + 1 + RANDOMNESS.n_wires
    leaves = 4
    apex_leaf = shape.n_apex_leaves - 1
    path_d = shape.tree_d_levels * (1 + path_d_level())
    return randomness + leaves + 2 * replica_path(shape) + apex_leaf + path_d
