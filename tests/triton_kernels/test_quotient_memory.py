"""What quotients take of memory is what they say, to the byte: by launches that compute nothing."""

from __future__ import annotations

from collections.abc import Callable

import torch

from memory_tracker import peak_bytes
from torchzk import triton_kernels
from torchzk.params.domains import Domain
from torchzk.triton_kernels.ntt import Tables
from torchzk.triton_kernels.ntt_split import powers, powers_bytes
from torchzk.triton_kernels.quotient import quotient_bytes, scales, tables_bytes
from torchzk.triton_kernels.quotient_in_turn import held_in_turn_bytes, quotient_in_turn_bytes
from triton_kernels.rehearsal import rehearsing

CPU = torch.device("cpu")
DOMAIN = Domain(12)


def zeros(name: str = "") -> torch.Tensor:
    return torch.zeros(8, DOMAIN.size, dtype=torch.int32)


def second(call: Callable[[], object]) -> int:
    """The peak of a second call: making what is kept takes memory of the host too."""
    with rehearsing():
        call()
        return peak_bytes(call, CPU)


def test_all_three_at_once() -> None:
    x = zeros()
    got = second(lambda: triton_kernels.quotient(x, x, x, DOMAIN))
    assert got == quotient_bytes(DOMAIN) - tables_bytes(DOMAIN.log_n)


def test_in_turn() -> None:
    for log_split in (1, 2, 3, 5, 12, 30):
        kept = tables_bytes(max(12 - log_split, 0)) + powers_bytes(12)

        def run(log_split: int = log_split) -> None:
            triton_kernels.quotient_in_turn(zeros, DOMAIN, log_split=log_split)

        assert second(run) == quotient_in_turn_bytes(DOMAIN, log_split) - kept


def test_in_turn_while_a_vector_is_made() -> None:
    extra = 10 * 32 * DOMAIN.size
    kept = tables_bytes(9) + powers_bytes(12)

    def vector(name: str) -> torch.Tensor:
        if name != "b":
            # so large that the peak is there
            torch.ones(extra, dtype=torch.uint8)
        return zeros()

    got = second(lambda: triton_kernels.quotient_in_turn(vector, DOMAIN)) - extra
    assert got == held_in_turn_bytes(DOMAIN) - kept


def test_tables_are_counted() -> None:
    with rehearsing():
        for log_n in (0, 1, 2, 7, 12):
            domain = Domain(log_n)
            high, low, _ = powers(log_n, CPU)
            assert powers_bytes(log_n) == 4 * (high.numel() + low.numel())
            tables = Tables.of(domain, log_n, CPU)
            kept = (tables.roots, tables.short, tables.one_over_n, scales(domain, tables.code, CPU))
            assert tables_bytes(log_n) == 4 * sum(x.numel() for x in kept)
