"""First calls of everything, in a process that has done nothing yet, with Triton's cache or none.

    export PYTHONPATH=src:tests TRITON_CACHE_DIR=$(mktemp -d)
    python tests/triton_kernels/first_calls.py --most 120
    python tests/triton_kernels/first_calls.py --most 5

The first run finds an empty cache, the second what the first has left there. Importing torch and
starting CUDA are shown, and not counted: no kernel makes them longer. Every operation is called
twice: what the first call takes longer is counted. Exits with 1 if all that is counted takes more
seconds than `--most`; with 2 without a CUDA device.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch

DOMAINS = (13, 20, 24)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--most", type=float, default=120.0, help="seconds that may be taken")
    parser.add_argument("--alone", action="store_true", help="compile nothing ahead of use")
    args = parser.parse_args(argv)
    begin = time.perf_counter()
    import torch

    if not torch.cuda.is_available():
        print("first_calls.py needs a CUDA device, and finds none", file=sys.stderr)
        return 2
    device = torch.device("cuda", 0)
    torch.ones(1, device=device).item()
    print(f"torch and CUDA: {time.perf_counter() - begin:.2f} s; {os.cpu_count()} processors")
    counted = 0.0

    def first(name: str, call: Callable[[], object], again: bool = True) -> None:
        """Call it, and once more for what is not counted."""
        nonlocal counted
        seconds = []
        for _ in range(1 + again):
            start, known = time.perf_counter(), len(late)
            call()
            torch.cuda.synchronize(device)
            seconds.append(time.perf_counter() - start)
            if not seconds[1:]:
                names = ", ".join(late[known:])
        more = seconds[0] - sum(seconds[1:])
        counted += max(more, 0.0)
        print(f"{name:24} {more:8.2f} s{f'  compiled here: {names}' if names else ''}", flush=True)

    late: list[str] = []
    start = time.perf_counter()
    from torchzk import triton_kernels
    from torchzk.triton_kernels import variants, warm

    counted += time.perf_counter() - start
    print(f"{'import of kernels':24} {counted:8.2f} s")
    if not args.alone:
        first("compiled ahead", lambda: print(warm.warm(device)), again=False)

    import triton

    from torchzk.params.domains import Domain
    from triton_kernels.operations import OPERATIONS

    compile_ = triton.JITFunction._do_compile

    def noted(kernel: Any, *rest: Any) -> Any:
        late.append(kernel.__name__)
        return compile_(kernel, *rest)

    def transform(log_n: int) -> None:
        domain = Domain(log_n)
        x = torch.zeros(8, domain.size, dtype=torch.int32, device=device)
        for name in ("ntt", "intt", "ntt_dif", "intt_dit"):
            getattr(triton_kernels, name)(x, domain)
        triton_kernels.quotient(x, x, x, domain)
        triton_kernels.quotient_in_turn(lambda _: x.clone(), domain)

    with patch.object(triton.JITFunction, "_do_compile", noted):
        first("choice of the variant", lambda: variants.choose(device), again=False)
        for log_n in DOMAINS:
            first(f"domain of 2^{log_n}", partial(transform, log_n))
        for name, o in OPERATIONS.items():
            # chains also measure; few elements have passes of their own
            if name not in ("chain", "transforms", "quotient", "quotient in turn"):
                first(name, partial(o.run, triton_kernels, device, o.size))
    print(f"{counted:.2f} s are counted; {args.most:.0f} s may be taken")
    return 0 if counted <= args.most else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
