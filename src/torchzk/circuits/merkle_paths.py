"""Merkle paths in Poseidon trees, hashed in batches, and what is compared of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from torchzk.backends import Backend
from torchzk.circuits.part_paths import MerklePart
from torchzk.params.poseidon import Poseidon


def path_nodes(
    backend: Backend,
    leaves: torch.Tensor,
    indices: torch.Tensor,
    siblings: Sequence[torch.Tensor],
) -> Iterator[torch.Tensor]:
    """The running node of many paths, a level at a time: the leaves first, the roots last.

    Args:
        backend: The operations to use.
        leaves: `[8, *batch]`
        indices: int64 `[*batch, levels]`: the node's place among its siblings.
        siblings: A tensor a level, `[8, *batch, arity - 1]`: the other children, in order.
    """
    node = leaves
    yield node
    for level, others in enumerate(siblings):
        node = backend.poseidon(
            _children(node, others.movedim(-1, 1), indices[..., level]),
            Poseidon.merkle(others.shape[-1] + 1),
        )
        yield node


def siblings_of(
    planes: torch.Tensor, paths: Sequence[MerklePart], arities: Sequence[int]
) -> tuple[torch.Tensor, ...]:
    """The siblings of some paths, a tensor a level: `[8, *batch, paths, arity - 1]`.

    Args:
        planes: `[8, *batch, n]`: the elements that the paths are among.
        paths: Of one tree shape.
        arities: Of each level, from the leaf upwards.
    """
    out, first = [], [path.siblings.start for path in paths]
    for arity in arities:
        places = torch.tensor([range(i, i + arity - 1) for i in first], device=planes.device)
        out.append(planes[..., places])
        first = [i + arity - 1 for i in first]
    return tuple(out)


def _children(node: torch.Tensor, siblings: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """`node` `[8, *batch]` put at `index` among `siblings` `[8, arity - 1, *batch]`."""
    arity = siblings.shape[1] + 1
    place = torch.arange(arity, device=index.device).view(arity, *[1] * index.ndim)
    # where in (node, siblings) each child is
    source = torch.where(place > index, place, place + 1)
    source = torch.where(place == index, torch.zeros_like(source), source)
    row = torch.cat((node.unsqueeze(1), siblings), dim=1)
    return row.gather(1, source.expand(row.shape[0], *source.shape))


def first_difference(a: torch.Tensor, b: torch.Tensor) -> int | None:
    """Flat index of the first element in which two limb tensors differ."""
    differ = (a != b).any(dim=0).flatten()
    return int(differ.to(torch.int8).argmax()) if bool(differ.any()) else None


def digits(leaf: int, arities: Sequence[int]) -> bytes:
    """Place among the siblings at each level of a leaf's path."""
    places = bytearray()
    for arity in arities:
        leaf, digit = divmod(leaf, arity)
        places.append(digit)
    return bytes(places)
