"""Compiles cases in as many processes as there are processors, for the compiler has one thread."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

from triton_kernels.ahead_of_time import ARCHS, Resources, measure

Results = dict[tuple[str, int], Future[Resources]]


@contextmanager
def compiling(names: Iterable[str]) -> Iterator[Results]:
    """What each case needs on each architecture, by both; what nobody waited for is dropped."""
    # spawned: a fork would copy whatever threads of torch hold
    pool = ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=get_context("spawn"))
    try:
        yield {(name, arch): pool.submit(measure, name, arch) for name in names for arch in ARCHS}
    finally:
        pool.shutdown(cancel_futures=True)
