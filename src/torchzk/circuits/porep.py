"""The StackedDrg PoRep circuit: its constraint system and its public inputs.

A partition proves of some nodes of one sealed sector that their labels follow from their parents'
labels, that their replica nodes encode the data, and that all of it lies under the commitments.
After a prologue of the commitments every challenge is the same block. Source: spec/porep.md
sections 10 and 11.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from torchzk.circuits.block_cache import Recall, recorded
from torchzk.circuits.gadgets import num, poseidon
from torchzk.circuits.gadgets.boolean import Bit, Boolean, alloc_bits
from torchzk.circuits.gadgets.multipack import CAPACITY, pack_bits, pack_into_inputs
from torchzk.circuits.gadgets.por import por
from torchzk.circuits.gadgets.sha256 import (
    hash_numbers,
    number_bits,
    reverse_in_bytes,
    sha256,
)
from torchzk.circuits.gadgets.uint32 import constant
from torchzk.circuits.labels import parent_rows, repeated
from torchzk.circuits.porep_shapes import PARENTS, StackedShape
from torchzk.circuits.recorder import ConstraintSystem, Variable
from torchzk.groth16.r1cs import Block, R1cs

NODE_BITS = 64
_LABEL_PADDING = 160
# numbers of the prologue's aux variables; the bits of replica_id follow it
REPLICA_ID, COMM_D, COMM_C, COMM_R_LAST = 0, 256, 259, 258
_INPUTS_A_CHALLENGE = 4 + PARENTS


def porep_r1cs(shape: StackedShape, recall: Recall = recorded) -> R1cs:
    """The constraint system: the commitments, then the challenges.

    Args:
        shape: The circuit.
        recall: Where the block of a challenge comes from; recorded anew by default, which takes
            some seconds and 2 GB for eleven layers.
    """
    parts = (shape.layers, shape.data_levels, shape.arities)
    block = recall(f"porep challenge {parts}", lambda: challenge_block(*parts))
    return R1cs(prologue(), block, shape.n_challenges)


def n_public_inputs(shape: StackedShape) -> int:
    """ONE, the three commitments, and 18 numbers of nodes for each challenge."""
    return 4 + shape.n_challenges * _INPUTS_A_CHALLENGE


def public_inputs(
    replica_id: int, comm_d: int, comm_r: int, challenges: Sequence[tuple[int, Sequence[int]]]
) -> list[int]:
    """The public inputs of a partition, without ONE, canonical.

    Args:
        replica_id: As a field element, as the two commitments.
        comm_d: The commitment to the data.
        comm_r: The commitment to the replica.
        challenges: Each challenged node with its 14 parents, base graph first.

    Source:
        spec/porep.md section 10.
    """
    inputs = [replica_id, comm_d, comm_r]
    for node, parents in challenges:
        inputs += [node, *parents, node, node, node]
    return inputs


@lru_cache(maxsize=1)
def prologue() -> Block:
    """The commitments, which every challenge shares."""
    cs = ConstraintSystem()
    replica_id = cs.alloc()
    num.inputize(cs, replica_id)
    num.to_bits(cs, replica_id)
    comm_d = cs.alloc()
    num.inputize(cs, comm_d)
    comm_r = cs.alloc()
    num.inputize(cs, comm_r)
    comm_r_last, comm_c = cs.alloc_many(2)
    num.enforce_equal(cs, comm_r, poseidon.merkle(cs, [comm_c, comm_r_last]))
    return cs.block()


def challenge_block(layers: int, data_levels: int, arities: tuple[int, ...]) -> Block:
    """One challenge.

    Args:
        layers: Rows of a column.
        data_levels: Levels of TreeD.
        arities: Arity of each level of TreeC and TreeR, from the leaf upwards.
    """
    head = prologue()
    cs = ConstraintSystem(head.input_columns, head.n_aux)
    data_leaf = cs.alloc()
    por(cs, (2,) * data_levels, hash_numbers, leaf=data_leaf, root=COMM_D)
    columns = []
    for _ in range(PARENTS):
        columns.append(cs.alloc_many(layers))
        por(cs, arities, poseidon.merkle, leaf=poseidon.merkle(cs, columns[-1]), root=COMM_C)
    node = alloc_bits(cs, NODE_BITS)
    pack_into_inputs(cs, node)
    labels = [_label(cs, layer, node, columns) for layer in range(1, layers + 1)]
    replica_node = num.add(cs, labels[-1], data_leaf)
    por(cs, arities, poseidon.merkle, leaf=replica_node, root=COMM_R_LAST)
    por(cs, arities, poseidon.merkle, leaf=poseidon.merkle(cs, labels), root=COMM_C)
    return cs.block()


def label_message(
    layer: int,
    replica_id: Sequence[Boolean],
    node: Sequence[Boolean],
    parents: Sequence[Sequence[Boolean]],
) -> list[Boolean]:
    """What a label is the hash of: bits of bytes, each most significant bit first.

    Args:
        layer: Counted from 1.
        replica_id: 255 bits of a number, least significant first.
        node: 64 of them.
        parents: The numbers of `parent_rows`, as bits of 255.

    Source:
        spec/porep.md sections 5 and 11.
    """
    message = number_bits(replica_id)
    message += [*constant(layer)[::-1], *node[::-1], *[False] * _LABEL_PADDING]
    for label in repeated([number_bits(bits) for bits in parents]):
        message += label
    return message


def _label(
    cs: ConstraintSystem, layer: int, node: Sequence[Boolean], columns: Sequence[Sequence[Variable]]
) -> Variable:
    """The label of `node`. Rows are decomposed again for every label that takes them."""
    parents = [num.to_bits(cs, columns[column][row]) for column, row in parent_rows(layer)]
    replica_id = [Bit(REPLICA_ID + 1 + i) for i in range(num.N_BITS)]
    digest = sha256(cs, label_message(layer, replica_id, node, parents))
    return pack_bits(cs, reverse_in_bytes(digest)[:CAPACITY])
