"""The quotient while no more than two vectors are there. Reference: `ops.quotient`.

b, a and c are asked for one after the other, and overwritten by their transforms. Each transform is
split (`ntt_split`), so that the table of roots, and the rows between passes, are those of a shorter
domain. The coset is that of `quotient`, and where two transforms meet, the same kernels join them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torchzk.ops.quotient import Turns, splits
from torchzk.params.domains import Domain
from torchzk.params.fields import FR
from torchzk.triton_kernels import elementwise, ntt_passes, ntt_split
from torchzk.triton_kernels.launch import aligned, launch, shape_on
from torchzk.triton_kernels.ntt import Tables, back, bit_reversed, forth, passes
from torchzk.triton_kernels.ntt_launch import launch_pass
from torchzk.triton_kernels.quotient import scales, tables_bytes, vector_bytes


def quotient_in_turn(
    vector: Callable[[str], torch.Tensor], domain: Domain, *, log_split: int = 3
) -> torch.Tensor:
    """As `torchzk.ops.quotient.quotient_in_turn`, bit for bit."""
    log_split, turns = splits(log_split, domain), Turns(vector, domain)
    b = aligned(turns("b"))
    run = _InPlace(domain, log_split, b.device)
    run.to_coset(b)
    a = aligned(turns("a"))
    run.to_coset(a)
    run.multiply(a, b)
    del b
    run.from_coset(a)
    c = aligned(turns("c"))
    run.from_domain(c)
    run.combine(a, c)
    del c
    return bit_reversed(a, domain)


def quotient_in_turn_bytes(domain: Domain, log_split: int = 3) -> int:
    """The peak of `quotient_in_turn`, vectors that it takes included, and tables that it keeps."""
    short = Domain(domain.log_n - splits(log_split, domain))
    return held_in_turn_bytes(domain, log_split) + vector_bytes(domain) + vector_bytes(short)


def held_in_turn_bytes(domain: Domain, log_split: int = 3) -> int:
    """What `quotient_in_turn` holds while `vector` runs: a vector, and the tables that it keeps."""
    log_short = domain.log_n - splits(log_split, domain)
    tables = tables_bytes(log_short) + ntt_split.powers_bytes(domain.log_n)
    return vector_bytes(domain) + tables


class _InPlace:
    """The launches, on vectors that are `aligned` and of which they overwrite the first."""

    def __init__(self, domain: Domain, log_split: int, device: torch.device) -> None:
        self._domain, self._log_split, self._device = domain, log_split, device
        self._short = Domain(domain.log_n - log_split)
        self._tables = Tables.of(self._short, self._short.log_n, device)
        self._scales = scales(domain, self._tables.code, device)

    def to_coset(self, x: torch.Tensor) -> None:
        """Values on the domain to n times those on the coset."""
        self._from(x, coset=False, to_unit=False)
        self._bottom(ntt_passes.turn_kernel, (x, x, self._tables.roots))
        self._each(back, x, inverse=False, coset=True, first=1)
        ntt_split.join(x, self._domain, self._log_split, self._tables.code)

    def multiply(self, a: torch.Tensor, b: torch.Tensor) -> None:
        """a to a b."""
        n, code = self._domain.size, self._tables.code
        shape = shape_on(self._device, "elementwise", FR.n_limbs)
        args = (a, a, b, n, n, n)
        launch(elementwise.binary_kernel, n, shape, self._device, *args, OP="mul", F=code.F)

    def from_coset(self, x: torch.Tensor) -> None:
        """Values on the coset to what `combine` takes: all but pass 0 to n times coefficients."""
        self._from(x, coset=True, to_unit=False)

    def from_domain(self, x: torch.Tensor) -> None:
        """Values on the domain to n times the coefficients, bit-reversed."""
        self._from(x, coset=False, to_unit=True)

    def combine(self, x: torch.Tensor, c: torch.Tensor) -> None:
        """The quotient's coefficients, bit-reversed, from what the others make of a b and c."""
        tensors = (x, x, c, self._tables.roots, self._scales)
        self._bottom(ntt_passes.combine_kernel, tensors, n_planes=3, FINISHED=False)

    def _from(self, x: torch.Tensor, *, coset: bool, to_unit: bool) -> None:
        ntt_split.split(x, self._domain, self._log_split, self._tables.code, coset=coset)
        self._each(forth, x, inverse=True, coset=coset, to_unit=to_unit)

    def _each(self, transform: Callable[..., None], x: torch.Tensor, **how: Any) -> None:
        """`transform` of each of the short vectors, one after the other, with the same scratch."""
        rows = torch.empty(8 * self._short.size, dtype=x.dtype, device=self._device)
        for part in x.split(self._short.size, dim=1):
            transform(part, part, self._short, self._tables, rows, **how)

    def _bottom(
        self, kernel: Any, tensors: tuple[torch.Tensor, ...], n_planes: int = 2, **constants: Any
    ) -> None:
        """Pass 0 of all the short vectors at once."""
        code, n, log_n = self._tables.code, self._domain.size, self._short.log_n
        stages = passes(log_n, code)[0][1]
        args = (*tensors, *[n] * n_planes, n >> stages, log_n)
        launch_pass(kernel, n >> stages, self._device, *args, RL=stages, **constants, T=code)
