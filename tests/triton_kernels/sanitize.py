"""Runs every kernel at small sizes, for compute-sanitizer to watch, and checks the results.

    export PYTHONPATH=src:tests
    python tests/triton_kernels/sanitize.py
    compute-sanitizer --tool memcheck --error-exitcode 3 python tests/triton_kernels/sanitize.py
    compute-sanitizer --tool racecheck --error-exitcode 3 python tests/triton_kernels/sanitize.py

The first run compiles, which is not to be watched; Triton keeps what it compiled. Words choose the
operations that have one of them in their name. Exits with 0 if all results are those of the
reference and, unless words chose, every kernel ran; with 1 if not; with 2 without a CUDA device.
"""

from __future__ import annotations

import os
import sys
import time
from unittest.mock import patch

# each tensor an allocation of its own, or memcheck would not see the end of one
os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"

import torch  # noqa: E402


def main(words: list[str]) -> int:
    if not torch.cuda.is_available():
        print("sanitize.py needs a CUDA device, and finds none", file=sys.stderr)
        return 2
    from torchzk import ops, triton_kernels
    from torchzk.triton_kernels import variants
    from torchzk.triton_kernels.launch import arch_of
    from torchzk.triton_kernels.tuning import NUMBERS, Number
    from triton_kernels import launches, operations

    device, cpu = torch.device("cuda", 0), torch.device("cpu")
    print(f"{variants.choose(device)}", flush=True)
    chosen = [
        operation
        for operation in operations.OPERATIONS.values()
        if not words or any(word in operation.name for word in words)
    ]
    wrong = 0
    # a graph cannot be captured where every allocation asks the driver; halves of few elements too
    values = (("ntt graph", 0), ("ntt halves", 1))
    numbers = {(op, 8, arch_of(device)): Number(((0, v),), "sanitize.py") for op, v in values}
    with launches.recorded() as launched, patch.dict(NUMBERS, numbers):
        for operation in chosen:
            if not operations.there(triton_kernels, operation):
                print(f"{operation.name:24} left out: no kernels for it", flush=True)
                continue
            expected = operation.run(ops, cpu, operation.size)
            start = time.perf_counter()
            got = operation.run(triton_kernels, device, operation.size)
            torch.cuda.synchronize(device)
            took = time.perf_counter() - start
            right = operations.equal(got, expected)
            wrong += not right
            print(f"{operation.name:24} {'right' if right else 'WRONG'} {took:8.2f} s", flush=True)
    missing = [] if words else launches.missing(launched)
    print(f"{len(launched)} kernels ran; not run: {', '.join(missing) or 'none'}")
    return 1 if wrong or missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
