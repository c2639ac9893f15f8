"""The quotient polynomial of a proof in six transforms, as one call. Reference: `ops.quotient`.

The coset's shift is a primitive 2n-th root of unity, so its powers are constants of butterflies:
nothing is multiplied by them alone. Where two transforms meet, the last pass of one and the first
of the next read the same elements, and are one kernel.
"""

from __future__ import annotations

from functools import partial

import torch

from torchzk.errors import LayoutError
from torchzk.ops.ntt import check_vectors
from torchzk.params.domains import Domain
from torchzk.params.fields import FR
from torchzk.triton_kernels import ntt_passes, twiddles
from torchzk.triton_kernels.launch import aligned
from torchzk.triton_kernels.ntt import (
    Tables,
    back,
    bit_reversed,
    forth,
    in_rows,
    launched,
    passes,
)
from torchzk.triton_kernels.ntt_code import NttCode, ntt_code_on
from torchzk.triton_kernels.ntt_launch import launch_pass
from torchzk.triton_kernels.plans import Recipe


def quotient(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, domain: Domain) -> torch.Tensor:
    """As `torchzk.ops.quotient.quotient`, bit for bit; takes two vectors of scratch."""
    for x in (a, b, c):
        check_vectors(x, domain)
        if x.ndim != 2 or x.device != a.device:
            got = f"{list(x.shape)} on {x.device}"
            raise LayoutError(f"the quotient takes single vectors on one device, got {got}")

    def make() -> Recipe:
        tables = Tables.of(domain, domain.log_n, a.device)
        factors = scales(domain, tables.code, a.device)
        return Recipe(3, partial(_quotient, domain, tables, factors))

    return launched(("quotient", domain, ntt_code_on(a.device)), make, *map(aligned, (a, b, c)))


def quotient_bytes(domain: Domain) -> int:
    """The peak of `quotient` beside its arguments: the result, scratch, tables that it keeps."""
    return 3 * vector_bytes(domain) + tables_bytes(domain.log_n)


def vector_bytes(domain: Domain) -> int:
    """A vector over the domain."""
    return 4 * FR.n_limbs * domain.size


def tables_bytes(log_order: int) -> int:
    """The roots, those of short distances, 1 / n, and `scales`."""
    short = twiddles.short_entries(twiddles.short_order(log_order))
    entries = (1 << log_order) + 1 + short + 1 + 2
    return 4 * twiddles.WORDS * entries


def scales(domain: Domain, code: NttCode, device: torch.device) -> torch.Tensor:
    """What `combine_kernel` multiplies by: entries for n^3 and for n times what it should be."""
    # x^n - 1 is -2 on the coset
    factors = tuple(pow(-2 * domain.size**k, -1, FR.modulus) for k in (3, 1))
    return twiddles.constants(factors, code, device)


def _quotient(
    domain: Domain,
    tables: Tables,
    factors: torch.Tensor,
    out: torch.Tensor,
    one: torch.Tensor,
    two: torch.Tensor,
    three: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
) -> None:
    """The launches, on vectors that are `aligned`: a `Recipe`'s."""
    device, n, log_n = a.device, domain.size, domain.log_n
    code, table = tables.code, tables.roots
    all_passes = passes(log_n, code)
    n_passes, bottom, (top_m, top) = len(all_passes), all_passes[0][1], all_passes[-1]
    one_pass, rows = n_passes == 1, in_rows(n_passes - 1, n_passes)

    def evaluate(x: torch.Tensor, out: torch.Tensor, room: torch.Tensor, stop: int) -> None:
        """n times the values on the coset, in `out`; to before pass `stop`, so maybe in `room`."""
        forth(out, x, domain, tables, room, inverse=True, to_unit=stop == 0)
        if stop == 0:
            # the only pass there is, and `product_kernel` does it
            return
        launch_pass(
            *(ntt_passes.turn_kernel, n >> bottom, device),
            *(out, x if one_pass else out, table, n, n, n >> bottom, log_n),
            RL=bottom,
            T=code,
        )
        back(out, out, domain, tables, room, inverse=False, coset=True, first=1, stop=stop)

    evaluate(b, one, three, n_passes)
    evaluate(a, two, three, n_passes - 1)
    x = three if rows else two
    launch_pass(
        *(ntt_passes.product_kernel, n >> top, device),
        *(x, x, one, table, n, n, n, n >> top, top_m, log_n, 0),
        RL=top,
        UNIT=top_m == 0,
        ROWS=rows,
        B_ROWS=False,
        T=code,
    )
    forth(
        *(two, x, domain, tables, three),
        inverse=True,
        coset=True,
        first=n_passes - 2,
        to_unit=False,
    )
    forth(one, c, domain, tables, three, inverse=True)
    # `two` is n^3 times what it should be, `one` n times
    launch_pass(
        *(ntt_passes.combine_kernel, n >> bottom, device),
        *(two, two, one, table, factors, n, n, n),
        *(n >> bottom, log_n),
        RL=bottom,
        FINISHED=one_pass,
        T=code,
    )
    bit_reversed(two, domain, out=out)
