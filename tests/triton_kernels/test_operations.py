"""Every operation against the reference: interpreted, or compiled on a GPU; twice there."""

from __future__ import annotations

import pytest
import torch

from torchzk import ops, triton_kernels
from triton_kernels import operations
from triton_kernels.lanes import INTERPRETED
from triton_kernels.operations import OPERATIONS, Operation

CHOSEN = {
    name: operation
    for name, operation in OPERATIONS.items()
    if operations.there(triton_kernels, operation) and (operation.interpreted or not INTERPRETED)
}


@pytest.mark.parametrize("operation", CHOSEN.values(), ids=CHOSEN)
def test_matches_the_reference(device: torch.device, operation: Operation) -> None:
    size = operation.interpreted if INTERPRETED else operation.size
    got = operation.run(triton_kernels, device, size)
    assert operations.equal(got, operation.run(ops, torch.device("cpu"), size))
    if not INTERPRETED:
        assert operations.equal(operation.run(triton_kernels, device, size), got)


def test_equality_sees_every_bit() -> None:
    a, p = torch.arange(6), ((1,), (2,))
    assert operations.equal([a, p, [p, None]], [a.clone(), p, [p, None]])
    for other in ([a], [a + (a == 5), p, [p, None]], [a, None, [p, None]], [a, p, [p, p]]):
        assert not operations.equal([a, p, [p, None]], other)


if not INTERPRETED:

    def test_every_kernel_runs(device: torch.device) -> None:
        """So that what is watched by `sanitize.py` is all there is."""
        from torchzk.triton_kernels import graphs, plans, twiddles
        from triton_kernels import launches

        # nothing that an earlier test has left is launched again
        graphs.GRAPHS.drop()
        plans.PLANS.drop()
        twiddles.roots.cache_clear()
        twiddles.short_roots.cache_clear()
        with launches.recorded() as launched:
            for operation in CHOSEN.values():
                operation.run(triton_kernels, device, operation.size)
        assert launches.missing(launched) == []
