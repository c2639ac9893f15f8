"""Compiles every kernel ahead of use, many at once, through Triton's own way to its cache.

Nothing depends on it: a kernel that is not compiled here is when it is first launched, alone and
with everybody waiting. Threads do, since seven eighths of the time of a compiler are spent in LLVM
and in ptxas, without the interpreter's lock; processes would have to import torch and to start CUDA
each, and to guess the keys of Triton's cache. Several sessions may do it at once: files of the
cache are replaced whole.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import triton

from torchzk.triton_kernels.catalogue import Launch, launches
from torchzk.triton_kernels.launch import arch_of, on_device

# ptxas takes up to 0.5 GiB
_MOST_THREADS = 16


@dataclass(frozen=True)
class Warmed:
    """What was compiled ahead."""

    kernels: int
    """How many there are."""
    compiled: int
    """How many of them neither this process had, nor Triton's cache on disk."""
    seconds: float
    failed: tuple[str, ...]
    """Those that did not compile, and why. Whoever launches one will see the error."""

    def __str__(self) -> str:
        failed = f", {len(self.failed)} failed: {'; '.join(self.failed)}" if self.failed else ""
        return f"{self.compiled} of {self.kernels} compiled in {self.seconds:.1f} s{failed}"


def warm(
    device: torch.device, advance: Callable[[float], None] = lambda _: None, *, threads: int = 0
) -> Warmed:
    """Compile all kernels for `device`, in PTX, which `variants.choose` tries first.

    Plain code is left to its first use: there are kernels that take minutes, and need not come.

    Args:
        device: A CUDA device of NVIDIA's.
        advance: Gets the fraction done, from 0 to 1.
        threads: How many compile at once; as many as there are processors by default.
    """
    start = time.perf_counter()
    all_launches = launches("ptx", arch_of(device))
    failed: list[str] = []
    # appended to by many threads
    hits: list[bool] = []

    def listener(*, cache_hit: bool, **_: Any) -> None:
        hits.append(cache_hit)

    pool = _Pool(threads or min(len(os.sched_getaffinity(0)), _MOST_THREADS))
    knobs = triton.knobs.compilation
    with pool, on_device(device), knobs.scope(), triton.AsyncCompileMode(pool, ignore_errors=True):
        knobs.listener = listener
        with pool.ended_by_errors():
            # keys are made here, so that threads share nothing but the compiler
            started = {f: launch for launch in all_launches if (f := _start(launch))}
            for done, future in enumerate(as_completed(started), 1):
                reason = future.exception()
                if reason is not None:
                    failed.append(f"{started[future].kernel.__name__}: {reason}")
                advance(done / len(started))
    seconds = time.perf_counter() - start
    return Warmed(len(all_launches), hits.count(False), seconds, tuple(failed))


class _Pool(ThreadPoolExecutor):
    """Threads that begin nothing more once somebody has interrupted."""

    _ended = False

    @contextmanager
    def ended_by_errors(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._ended = True
            raise

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        def unless_ended() -> Any:
            if self._ended:
                raise CancelledError
            return fn(*args, **kwargs)

        # what is cancelled in the queue, Triton would wait for without end
        return super().submit(unless_ended)


def _start(launch: Launch) -> Future[Any] | None:
    """What a thread will have compiled, or found on disk; None if this process has it."""
    limit = {} if launch.registers is None else {"maxnreg": launch.registers}
    kernel = launch.kernel.warmup(
        *launch.arguments(), **launch.constants, num_warps=launch.num_warps, **limit, grid=(1,)
    )
    return getattr(kernel, "future", None)
