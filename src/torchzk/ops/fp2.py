"""Reference arithmetic in Fp2 = Fp[u] / (u^2 + 1) over `[2, L, *batch]`, in plain PyTorch."""

from __future__ import annotations

import torch

from torchzk.errors import LayoutError
from torchzk.ops import field as fp
from torchzk.ops import wide
from torchzk.ops.chunks import over_chunks
from torchzk.ops.layout import check_pair
from torchzk.params.fields import PrimeField


def _check(field: PrimeField, *xs: torch.Tensor) -> None:
    for x in xs:
        if x.ndim < 3 or x.shape[0] != 2 or x.shape != xs[0].shape:
            raise LayoutError(f"Fp2 operands are [2, L, *batch] of one shape, got {list(x.shape)}")
        check_pair(x[0], xs[0][0], field)


def fp2_add(a: torch.Tensor, b: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """a + b, elementwise.

    Args:
        a: Limb tensor `[2, L, *batch]`: c0 and c1 of c0 + c1 u.
        b: Same shape as `a`.
        field: Fp; `L = field.n_limbs`.

    Returns:
        A new limb tensor `[2, L, *batch]`, values in [0, p).

    Raises:
        LayoutError: `a` or `b` is not a pair of limb tensors of `field`.
    """
    _check(field, a, b)
    return torch.stack([fp.add(x, y, field) for x, y in zip(a, b, strict=True)])


def fp2_sub(a: torch.Tensor, b: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """a - b; see `fp2_add`."""
    _check(field, a, b)
    return torch.stack([fp.sub(x, y, field) for x, y in zip(a, b, strict=True)])


def fp2_neg(a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """-a; see `fp2_add`."""
    _check(field, a)
    return torch.stack([fp.neg(x, field) for x in a])


def fp2_mul(a: torch.Tensor, b: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """Product in Montgomery form; see `fp2_add`."""
    _check(field, a, b)

    def on_limbs(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        wide_x = torch.stack([wide.from_limbs(c, field) for c in x])
        wide_y = torch.stack([wide.from_limbs(c, field) for c in y])
        product = wide.mul_ext(wide_x, wide_y, field)
        return torch.stack([wide.to_limbs(c, field) for c in product])

    flat = [x.reshape(2, field.n_limbs, -1) for x in (a, b)]
    return over_chunks(on_limbs, *flat).view(a.shape)


def fp2_sqr(a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """Square in Montgomery form; see `fp2_add`."""
    return fp2_mul(a, a, field)


def fp2_batch_inverse(a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """Inverses in Montgomery form, zero for zero: conj(a) / (c0^2 + c1^2)."""
    _check(field, a)
    norm = fp.add(fp.mont_sqr(a[0], field), fp.mont_sqr(a[1], field), field)
    inverse = fp.batch_inverse(norm, field)
    return torch.stack(
        (fp.mont_mul(a[0], inverse, field), fp.mont_mul(fp.neg(a[1], field), inverse, field))
    )
