"""Which nodes a sector update must open. Source: spec/post_update.md section 7."""

from __future__ import annotations

from torchzk.circuits.update_shapes import UpdateShape
from torchzk.params.poseidon import Poseidon


def update_challenges(shape: UpdateShape, comm_r_new: int, partition: int) -> list[int]:
    """The numbers of the nodes that a partition opens, in circuit order.

    Args:
        shape: The circuit.
        comm_r_new: The commitment to the new replica, canonical.
        partition: k, the number of the partition.
    """
    hash_of = Poseidon.randomness().digest
    first = partition * shape.n_digests
    digests = [hash_of([comm_r_new, first + j]) for j in range(shape.n_digests)]
    mask = (1 << shape.challenge_bits) - 1
    challenges = []
    for i in range(shape.n_challenges):
        digest, place = divmod(i, shape.challenges_per_digest)
        drawn = digests[digest] >> place * shape.challenge_bits & mask
        challenges.append(drawn | partition << shape.challenge_bits)
    return challenges


def rho_index(shape: UpdateShape, node: int) -> int:
    """The h high bits of a node's number, which its randomness rho depends on."""
    return node >> shape.node_bits - shape.h


def phi(comm_d_new: int, comm_r_old: int) -> int:
    """The seed of the randomness of an update, canonical, as its arguments are."""
    return Poseidon.randomness().digest([comm_d_new, comm_r_old])
