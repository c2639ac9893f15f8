"""Reference passes over the values of a constraint system: their classes, some of them in
canonical form, and the first row that does not hold."""

from __future__ import annotations

import torch

from torchzk.errors import LayoutError
from torchzk.ops.chunks import chunk_size, over_chunks, ranges
from torchzk.ops.field import from_mont, mont_mul
from torchzk.ops.layout import ONE, OTHER, ZERO, check_limbs, check_pair, pack_mont
from torchzk.params.fields import FR


def classes(x: torch.Tensor) -> torch.Tensor:
    """Which elements are 0, which are 1, and which are others.

    Args:
        x: Limb tensor `[8, n]` of Fr in Montgomery form.

    Returns:
        uint8 `[n]`: `ZERO`, `ONE` or `OTHER` of the layout.

    Raises:
        LayoutError: `x` is not a limb tensor `[8, n]`.
    """
    check_vector(x)
    unit = pack_mont([1], FR, x.device)

    def of(piece: torch.Tensor) -> torch.Tensor:
        zero, one = ((piece == value).all(dim=0) for value in (0, unit))
        kinds = torch.full(zero.shape, OTHER, dtype=torch.uint8, device=x.device)
        return kinds.masked_fill_(zero, ZERO).masked_fill_(one, ONE)

    return over_chunks(of, x)


def from_mont_at(x: torch.Tensor, index: torch.Tensor | None, out: torch.Tensor) -> None:
    """Chosen elements, or all of them, from Montgomery form to canonical values.

    Args:
        x: Limb tensor `[8, n]` of Fr in Montgomery form.
        index: int32 `[k]`, all of them indices of elements of `x`; None for all, in their order.
        out: int32 `[8, k]`, written in place. It may be a slice of longer planes, and `x` itself
            if there is no index.

    Raises:
        LayoutError: Not limb tensors `[8, n]`, the lengths do not fit, or a plane of `out` is not
            contiguous.
    """
    check_at(x, index, out)
    for piece in ranges(out.shape[1], chunk_size(x.device)):
        chosen = x[:, piece] if index is None else x.index_select(1, index[piece])
        out[:, piece] = from_mont(chosen, FR)


def first_unsatisfied(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """The first row in which a b is not c.

    Args:
        a: Limb tensor `[8, n]` of Fr in Montgomery form; also `b` and `c`.

    Returns:
        int64 `[]` on the device: the row, n if there is none. Nobody waits for it here.

    Raises:
        LayoutError: Not limb tensors `[8, n]` of one shape.
    """
    check_rows_of_products(a, b, c)
    n = a.shape[1]
    first = torch.full((), n, dtype=torch.int64, device=a.device)
    for piece in ranges(n, chunk_size(a.device)):
        wrong = (mont_mul(a[:, piece], b[:, piece], FR) != c[:, piece]).any(dim=0)
        found = torch.where(wrong.any(), piece.start + wrong.to(torch.uint8).argmax(), n)
        first = torch.minimum(first, found)
    return first


def check_vector(x: torch.Tensor) -> None:
    """Raise `LayoutError` unless `x` is a limb tensor `[8, n]`."""
    check_limbs(x, FR)
    if x.ndim != 2:
        raise LayoutError(f"a vector of values is [8, n], got {list(x.shape)}")


def check_at(x: torch.Tensor, index: torch.Tensor | None, out: torch.Tensor) -> None:
    """Raise `LayoutError` unless `from_mont_at` may be called with these; indices as they are."""
    check_vector(x)
    check_vector(out)
    n = x.shape[1]
    if index is not None:
        if index.dtype != torch.int32 or index.ndim != 1:
            raise LayoutError(f"an index is int32 [k], got {index.dtype} {list(index.shape)}")
        n = len(index)
    if out.shape[1] != n or (n > 1 and out.stride(1) != 1):
        raise LayoutError(
            f"values go to [8, {n}], side by side, "
            f"got {list(out.shape)} with strides {out.stride()}"
        )
    for other in (out, index):
        if other is not None and other.device != x.device:
            raise LayoutError(f"values on {x.device}, but {other.device} is to hold or choose them")


def check_rows_of_products(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    """Raise `LayoutError` unless `first_unsatisfied` may be called with these."""
    check_vector(a)
    check_pair(a, b, FR)
    check_pair(a, c, FR)
