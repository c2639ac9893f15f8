"""Number-theoretic transforms along the last axis of `[8, *batch, n]`. Reference: `ops.ntt`.

The forward transform takes stages of falling distance (Gentleman and Sande, 1966), the inverse of
rising distance (Cooley and Tukey, 1965). Three stages a pass: eight elements stay in registers.
Passes over few elements take less time than their launches: these go by plans, or by graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from torchzk.ops.layout import check_limbs
from torchzk.ops.ntt import check_vectors
from torchzk.params.domains import Domain
from torchzk.params.fields import FR
from torchzk.triton_kernels import ntt_passes, twiddles
from torchzk.triton_kernels.graphs import GRAPHS
from torchzk.triton_kernels.launch import aligned, launch, number_on, shape_on
from torchzk.triton_kernels.ntt_code import NttCode, ntt_code_on
from torchzk.triton_kernels.ntt_launch import Halves
from torchzk.triton_kernels.plans import PLANS, Recipe

# [8, *batch, n]
_Vector = torch.Tensor


@dataclass(frozen=True)
class Tables:
    """The constants of a domain's transforms on a device."""

    code: NttCode
    log_order: int
    """log2 of N, where the roots are powers of a primitive 2N-th one."""
    roots: torch.Tensor
    """As `twiddles.roots` has them."""
    short: torch.Tensor
    """As `twiddles.short_roots` has them."""
    one_over_n: torch.Tensor

    @classmethod
    def of(cls, domain: Domain, log_order: int, device: torch.device) -> Tables:
        """Those of `domain`; 2^log_order is at least half its size."""
        code = ntt_code_on(device)
        scale = twiddles.constants((pow(domain.size, -1, FR.modulus),), code, device)
        roots = twiddles.roots(log_order, code, device)
        short = twiddles.short_roots(twiddles.short_order(log_order), code, device)
        return cls(code, log_order, roots, short, scale)

    def of_pass(
        self, log_m: int, stages: int, *, coset: bool, top: bool
    ) -> tuple[torch.Tensor, bool]:
        """The table that a pass reads, and whether it is the short one."""
        # the top pass is far in long transforms; in short ones too, its kernels are fewer
        short = not top and log_m + stages - 1 + coset <= twiddles.LOG_SHORT
        return (self.short if short else self.roots), short


def ntt_dif(x: torch.Tensor, domain: Domain) -> torch.Tensor:
    """As `torchzk.ops.ntt.ntt_dif`, bit for bit."""

    def write(tables: Tables, out: _Vector, room: _Vector, rows: _Vector, x: _Vector) -> None:
        forth(room, x, domain, tables, rows, inverse=False, end=out)

    return _transform("ntt_dif", write, x, domain)


def intt_dit(x: torch.Tensor, domain: Domain) -> torch.Tensor:
    """As `torchzk.ops.ntt.intt_dit`, bit for bit."""

    def write(tables: Tables, out: _Vector, room: _Vector, rows: _Vector, x: _Vector) -> None:
        back(room, x, domain, tables, rows, inverse=True, scaled=True, end=out)

    return _transform("intt_dit", write, x, domain)


def ntt(x: torch.Tensor, domain: Domain) -> torch.Tensor:
    """As `torchzk.ops.ntt.ntt`, bit for bit."""

    def write(tables: Tables, out: _Vector, rows: _Vector, turned: _Vector, x: _Vector) -> None:
        forth(turned, x, domain, tables, rows, inverse=False)
        bit_reversed(turned, domain, out=out)

    return _transform("ntt", write, x, domain)


def intt(x: torch.Tensor, domain: Domain) -> torch.Tensor:
    """As `torchzk.ops.ntt.intt`, bit for bit."""

    def write(tables: Tables, out: _Vector, room: _Vector, rows: _Vector, x: _Vector) -> None:
        bit_reversed(x, domain, out=room)
        back(room, room, domain, tables, rows, inverse=True, scaled=True, end=out)

    return _transform("intt", write, x, domain)


def coset_scale(x: torch.Tensor, shift: int) -> torch.Tensor:
    """As `torchzk.ops.ntt.coset_scale`, bit for bit."""
    check_limbs(x, FR)
    x = aligned(x)
    out, n, n_elements = torch.empty_like(x), x.shape[-1], x.numel() // 8
    high, low, log_low = twiddles.power_factors(shift % FR.modulus, n, x.device)
    launch(
        twiddles.scale_by_powers_kernel,
        n_elements,
        shape_on(x.device, "elementwise", FR.n_limbs),
        x.device,
        *(out, x, high, low, n_elements, n, n_elements, high.shape[1], log_low),
        F=ntt_code_on(x.device).F,
    )
    return out


def bit_reversed(x: torch.Tensor, domain: Domain, out: torch.Tensor | None = None) -> torch.Tensor:
    """Contiguous `[..., n]` with the bits of the last index in reverse; `out` is not `x`."""
    out = torch.empty_like(x) if out is None else out
    most = shape_on(x.device, "bit reversal", FR.n_limbs)
    # squares of 2^edge words a side
    edge = min((most.block.bit_length() - 1) // 2, domain.log_n // 2)
    shape = replace(most, block=1 << 2 * edge)
    launch(
        *(ntt_passes.reverse_kernel, x.numel(), shape, x.device),
        *(out, x, x.numel(), domain.log_n),
        EDGE=edge,
    )
    return out


def passes(log_n: int, code: NttCode) -> list[tuple[int, int]]:
    """(log2 of the distance M, stages) of each pass, from distance 1 up.

    All but the last are of the largest radix, so that lanes next to each other share sectors.
    """
    most = code.max_radix_log
    return [(m, min(most, log_n - m)) for m in range(0, max(log_n, 1), most)]


def in_rows(boundary: int, n_passes: int) -> bool:
    """Whether what lies between the passes `boundary` - 1 and `boundary` is kept in rows."""
    return 2 <= boundary < n_passes


def forth(
    out: torch.Tensor,
    x: torch.Tensor,
    domain: Domain,
    tables: Tables,
    rows: torch.Tensor,
    *,
    inverse: bool,
    coset: bool = False,
    first: int | None = None,
    to_unit: bool = True,
    end: torch.Tensor | None = None,
) -> None:
    """Natural order to bit-reversed, over the domain, without 1/n; `out` may be `x`.

    Args:
        out: `[8, *batch, n]`, planes of which each is contiguous, and as far apart in `x`.
        rows: As long, for what is kept in rows; `x` itself if it starts there.
        first: The pass to begin with; the last of `passes` if None.
        to_unit: False leaves out pass 0, whose kernel makes the result canonical.
        end: Where pass 0 writes the result, by one launch, if not to `out`.
    """
    n_elements, all_passes = x.numel() // 8, passes(domain.log_n, tables.code)
    n_passes = len(all_passes)
    start = n_passes - 1 if first is None else first
    end = out if end is None else end
    with closing(Halves(x, n_passes)) as halves:
        for i in range(start, -1 if to_unit else 0, -1):
            log_m, stages = all_passes[i]
            to = rows if in_rows(i, n_passes) else out if i > 0 else end
            table, short = tables.of_pass(log_m, stages, coset=coset, top=i == n_passes - 1)
            group = number_on(x.device, "ntt group", FR.n_limbs, log_m)
            halves.launch(
                i,
                ntt_passes.forth_kernel,
                n_elements >> stages,
                (to, x, table, out.stride(0), out.stride(0)),
                (log_m, tables.log_order, group),
                whole=i == 0 and end is not out,
                RL=stages,
                INVERSE=inverse,
                COSET=coset,
                UNIT=log_m == 0,
                SHORT=short,
                IN_ROWS=in_rows(i + 1, n_passes),
                OUT_ROWS=in_rows(i, n_passes),
                T=tables.code,
            )
            x = to


def back(
    out: torch.Tensor,
    x: torch.Tensor,
    domain: Domain,
    tables: Tables,
    rows: torch.Tensor,
    *,
    inverse: bool,
    scaled: bool = False,
    coset: bool = False,
    first: int = 0,
    stop: int | None = None,
    end: torch.Tensor | None = None,
) -> None:
    """Bit-reversed order to natural; `out` may be `x`. Canonical if the last pass is among these.

    Args:
        out: `[8, *batch, n]`, planes of which each is contiguous, and as far apart in `x`.
        rows: As long, for what is kept in rows.
        scaled: Multiply by 1/n.
        coset: Values on the coset of the 2n-th root g, not on the domain.
        first: The pass to begin with.
        stop: The pass before which to end, if not after all.
        end: Where the last of all passes writes, if not to `out`.
    """
    n_elements, all_passes = x.numel() // 8, passes(domain.log_n, tables.code)
    n_passes = len(all_passes)
    end = out if end is None else end
    with closing(Halves(x, n_passes)) as halves:
        for i in range(first, n_passes if stop is None else stop):
            log_m, stages = all_passes[i]
            to = rows if in_rows(i + 1, n_passes) else out if i < n_passes - 1 else end
            table, short = tables.of_pass(log_m, stages, coset=coset, top=i == n_passes - 1)
            group = number_on(x.device, "ntt group", FR.n_limbs, log_m)
            halves.launch(
                i,
                ntt_passes.back_kernel,
                n_elements >> stages,
                (to, x, table, tables.one_over_n, out.stride(0), out.stride(0)),
                (log_m, tables.log_order, group),
                RL=stages,
                INVERSE=inverse,
                COSET=coset,
                UNIT=log_m == 0,
                SHORT=short,
                SCALED=scaled and log_m == 0,
                LAST=i == n_passes - 1,
                IN_ROWS=in_rows(i, n_passes),
                OUT_ROWS=in_rows(i + 1, n_passes),
                T=tables.code,
            )
            x = to


def launched(key: tuple[Any, ...], make: Callable[[], Recipe], *xs: torch.Tensor) -> torch.Tensor:
    """What `make()(*xs)` returns: by graphs if the vectors are short, by a plan if not.

    See `graphs.Graphs.run` and `plans.Plans.run`.
    """
    n_elements = xs[0].numel() // 8
    # of nothing, there would be nothing to capture
    if n_elements and number_on(
        xs[0].device, "ntt graph", FR.n_limbs, (n_elements - 1).bit_length()
    ):
        return GRAPHS.run(key, make, *xs)
    return PLANS.run(key, make, *xs)


def _transform(
    name: str,
    write: Callable[[Tables, _Vector, _Vector, _Vector, _Vector], None],
    x: torch.Tensor,
    domain: Domain,
) -> torch.Tensor:
    """What `write` writes to the first of its vectors; two are rooms of a recipe, the last `x`."""
    check_vectors(x, domain)
    x = aligned(x)

    def make() -> Recipe:
        tables = Tables.of(domain, max(domain.log_n - 1, 0), x.device)
        return Recipe(2, partial(write, tables))

    return launched((name, domain, ntt_code_on(x.device)), make, x)
