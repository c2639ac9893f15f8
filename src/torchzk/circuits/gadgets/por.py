"""Proof of retrievability: a leaf lies under a root. Source: spec/gadgets.md section 7."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from torchzk.backends import Backend
from torchzk.circuits.gadgets.boolean import Boolean, alloc_bits
from torchzk.circuits.gadgets.insertion import INSERT_WIRES, insert, insert_wires
from torchzk.circuits.gadgets.multipack import pack_into_inputs
from torchzk.circuits.gadgets.num import bit_wires, bits_of, enforce_equal
from torchzk.circuits.recorder import ConstraintSystem, Variable
from torchzk.params.fields import FR
from torchzk.params.poseidon import Poseidon

NodeHash = Callable[[ConstraintSystem, Sequence[Variable]], Variable]
"""`gadgets.poseidon.merkle` or `gadgets.sha256.hash_numbers`."""
NodeWires = Callable[[Backend, torch.Tensor], torch.Tensor]
"""The values of a `NodeHash`: children `[8, arity, *batch]` to `[8, n, *batch]`, last the node."""


def index_bits(arity: int) -> int:
    """log2 of an arity, which is a power of two."""
    return arity.bit_length() - 1


def por(
    cs: ConstraintSystem,
    arities: Sequence[int],
    node_hash: NodeHash,
    *,
    leaf: Variable | None = None,
    root: Variable | None = None,
) -> None:
    """Constrain a Merkle path; the leaf's index becomes a public input.

    Args:
        cs: Takes the constraints.
        arities: Arity of each level from the leaf upwards; powers of two.
        node_hash: Hash of a node's children.
        leaf: An allocated leaf; allocated here by default.
        root: An allocated root; allocated here by default.
    """
    node = cs.alloc() if leaf is None else leaf
    path: list[Boolean] = []
    for arity in arities:
        bits = alloc_bits(cs, index_bits(arity))
        node = node_hash(cs, insert(cs, node, bits, cs.alloc_many(arity - 1)))
        path += bits
    pack_into_inputs(cs, path)
    enforce_equal(cs, node, cs.alloc() if root is None else root)


def por_no_challenge_input(
    cs: ConstraintSystem,
    leaf: Variable,
    bits: Sequence[Boolean],
    siblings: Sequence[Sequence[Variable]],
    root: Variable,
    node_hash: NodeHash,
) -> None:
    """Constrain a Merkle path whose bits (lowest first) and siblings exist; nothing is public."""
    node, start = leaf, 0
    for level in siblings:
        stop = start + index_bits(len(level) + 1)
        node = node_hash(cs, insert(cs, node, bits[start:stop], level))
        start = stop
    if start != len(bits):
        raise ValueError(f"{len(bits)} path bits for a path of {start}")
    enforce_equal(cs, node, root)


def level_wires(arity: int) -> int:
    """Variables that one level of a Poseidon `por` allocates."""
    hashed = Poseidon.merkle(arity).n_wires
    return index_bits(arity) + arity - 1 + INSERT_WIRES[arity] + hashed


def por_wires_bytes(arities: Sequence[int], n_paths: int) -> int:
    """What `por_wires` and the caller's last level take for so many paths, at the peak.

    A level's wires are put together while their parts are there and the caller still has those of
    the level before.
    """
    most, before = 0, 0
    for arity in arities:
        parts = level_wires(arity)
        most = max(most, before + 2 * parts + arity)
        before = parts
    return FR.n_bytes * n_paths * most


def por_wires(
    backend: Backend,
    leaf: torch.Tensor,
    indices: torch.Tensor,
    siblings: Sequence[torch.Tensor],
    node_wires: NodeWires,
) -> Iterator[torch.Tensor]:
    """The values that each level of `por` allocates, for a batch of paths.

    Args:
        backend: The operations to use.
        leaf: int32 `[8, *batch]`.
        indices: int64 `[*batch, levels]`, below the level's arity.
        siblings: A tensor a level, int32 `[8, *batch, arity - 1]`.
        node_wires: The hash of `por`.

    Yields:
        int32 `[8, n, *batch]` a level: index bits, siblings, insertion, hash. The last wire of a
        level is the node it leads to.
    """
    node = leaf
    for level, others in enumerate(siblings):
        others = others.movedim(-1, 1)
        arity = others.shape[1] + 1
        bits = bits_of(indices[..., level], index_bits(arity))
        inserted, children = insert_wires(node, bits, others)
        hashed = node_wires(backend, children)
        node = hashed[:, -1]
        yield torch.cat((bit_wires(bits), others, inserted, hashed), dim=1)


def leaf_index(indices: torch.Tensor, arities: Sequence[int]) -> torch.Tensor:
    """The public input of a path: int64 `[*batch, levels]` to the leaf's number `[*batch]`."""
    total = torch.zeros_like(indices[..., 0])
    shift = 0
    for level, arity in enumerate(arities):
        total += indices[..., level] << shift
        shift += index_bits(arity)
    return total
