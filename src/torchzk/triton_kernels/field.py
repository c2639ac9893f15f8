"""Field arithmetic over limb tensors `[L, *batch]`. Reference: `torchzk.ops.field`."""

from __future__ import annotations

import torch

from torchzk.ops.layout import check_limbs, check_pair
from torchzk.params.fields import PrimeField
from torchzk.triton_kernels import elementwise, inverse
from torchzk.triton_kernels.launch import flat
from torchzk.triton_kernels.variants import field_code_on


def add(a: torch.Tensor, b: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """As `torchzk.ops.field.add`, bit for bit."""
    return _binary("add", a, b, field)


def sub(a: torch.Tensor, b: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """As `torchzk.ops.field.sub`, bit for bit."""
    return _binary("sub", a, b, field)


def neg(a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """As `torchzk.ops.field.neg`, bit for bit."""
    return _unary("neg", a, field)


def mont_mul(a: torch.Tensor, b: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """As `torchzk.ops.field.mont_mul`, bit for bit."""
    return _binary("mul", a, b, field)


def mont_sqr(a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """As `torchzk.ops.field.mont_sqr`, bit for bit."""
    return _unary("sqr", a, field)


def scale(a: torch.Tensor, factor: int, field: PrimeField) -> torch.Tensor:
    """As `torchzk.ops.field.scale`, bit for bit."""
    check_limbs(a, field)
    code = field_code_on(a.device, field)
    return elementwise.scale(flat(a, code.W), factor, code).view(a.shape)


def to_mont(a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """As `torchzk.ops.field.to_mont`, bit for bit."""
    return scale(a, field.r, field)


def from_mont(a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """As `torchzk.ops.field.from_mont`, bit for bit."""
    return scale(a, field.r_inv, field)


def batch_inverse(a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """As `torchzk.ops.field.batch_inverse`, bit for bit."""
    check_limbs(a, field)
    code = field_code_on(a.device, field)
    return inverse.inverse(flat(a, code.W), code).view(a.shape)


def _unary(op: elementwise.Unary, a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    check_limbs(a, field)
    code = field_code_on(a.device, field)
    return elementwise.unary(op, flat(a, code.W), code).view(a.shape)


def _binary(
    op: elementwise.Binary, a: torch.Tensor, b: torch.Tensor, field: PrimeField
) -> torch.Tensor:
    check_pair(a, b, field)
    code = field_code_on(a.device, field)
    return elementwise.binary(op, flat(a, code.W), flat(b, code.W), code).view(a.shape)
