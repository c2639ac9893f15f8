"""Kernels one by one: when somebody looks, and what is made of what the profiler says."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import pytest
import torch
from torch._C._autograd import DeviceType

from torchzk.scheduler.device_samples import ProfiledWindow
from torchzk.scheduler.kernel_profile import KernelWatch, look_at_kernels, windows_of
from torchzk.timeline import Timeline

SEEN = ProfiledWindow("cuda:0", (0, 10), ((1, 2),), (), 5)


@dataclass
class Event:
    """As the profiler's."""

    kind: str
    named: str
    start: int
    duration: int
    device: int = 0
    of: DeviceType = DeviceType.CUDA

    def device_type(self) -> DeviceType:
        return self.of

    def device_index(self) -> int:
        return self.device

    def activity_type(self) -> str:
        return self.kind

    def name(self) -> str:
        return self.named

    def start_ns(self) -> int:
        return self.start

    def duration_ns(self) -> int:
        return self.duration


def test_only_kernels_count_on_the_hosts_clock_and_in_the_window() -> None:
    zero = 1_000_000
    events = [
        Event("kernel", "msm", zero + 90, 20),
        Event("kernel", "msm", zero + 105, 10),
        Event("kernel", "ntt", zero + 150, 100),
        Event("kernel", "ntt", zero + 400, 50),
        Event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", zero + 120, 10),
        Event("gpu_memset", "Memset (Device)", zero + 125, 10),
        Event("gpu_user_annotation", "all of it", zero, 1000),
        Event("cuda_sync", "Event Sync", zero, 1000),
        Event("cpu_op", "aten::add", zero, 1000, of=DeviceType.CPU),
        Event("kernel", "msm", zero + 110, 1, device=3),
    ]
    first, second = windows_of(events, (100, 200), zero)
    assert first == ProfiledWindow("cuda:0", (100, 200), ((100, 115), (150, 200)), ((120, 135),), 3)
    assert (second.device, second.kernels, second.n_kernels) == ("cuda:3", ((110, 111),), 1)


def test_it_looks_once_from_the_partition_on_that_was_said() -> None:
    looks: list[float] = []
    stopped = threading.Event()

    def look(seconds: float, stop: threading.Event) -> list[ProfiledWindow]:
        looks.append(seconds)
        assert stop.wait(120)
        stopped.set()
        return [SEEN]

    watch = KernelWatch(2.5, pytest.fail, skipped=1, look=look)
    watched = Timeline(on_open=watch.opened)
    for k in range(3):
        for name in ("witness", "msm h"):
            with watched.span(name):
                assert bool(k) == (watch._thread is not None)
    # a run that ends earlier ends the look
    assert watch.take() == (SEEN,) and stopped.is_set() and looks == [2.5]
    assert watch.take() == (SEEN,)


def test_a_run_that_ends_before_says_that_nobody_looked() -> None:
    warnings: list[str] = []

    def look(_: float, __: threading.Event) -> list[ProfiledWindow]:
        pytest.fail("nobody should")

    watch = KernelWatch(1, warnings.append, look=look)
    for _ in range(2):
        watch.opened("witness")
    for _ in range(2):
        assert watch.take() == ()
        # after the end nobody looks any more
        watch.opened("witness")
    assert warnings == ["no kernels were profiled: too few partitions were begun"]


def test_the_profiler_is_there_before_a_partition_begins() -> None:
    """Its first profile holds the interpreter for seconds, which workers would wait for."""
    order: list[tuple[str, bool]] = []

    def note(what: str) -> None:
        order.append((what, threading.current_thread() is threading.main_thread()))

    def look(_: float, __: threading.Event) -> list[ProfiledWindow]:
        note("look")
        return [SEEN]

    watch = KernelWatch(1, pytest.fail, skipped=1, look=look, attach=lambda: note("attach"))
    watch.attach()
    watched = Timeline(on_open=watch.opened)
    for k in range(3):
        note(f"partition {k}")
        with watched.span("witness"):
            pass
    assert watch.take() == (SEEN,)
    assert order[:3] == [("attach", True), ("partition 0", True), ("partition 1", True)]
    assert [what for what, _ in order].count("attach") == 1 and ("look", False) in order


def test_a_profiler_that_does_not_come_is_not_tried_beside_workers() -> None:
    said: list[str] = []

    def attach() -> None:
        raise RuntimeError("no")

    def look(_: float, __: threading.Event) -> list[ProfiledWindow]:
        pytest.fail("nobody should")

    watch = KernelWatch(1, said.append, skipped=0, look=look, attach=attach)
    watch.attach()
    watch.opened("witness")
    assert watch.take() == () and watch.take() == ()
    assert said == ["kernels could not be profiled: RuntimeError: no"]


@pytest.mark.parametrize(
    ("found", "said"), [(None, "could not be profiled: RuntimeError: no"), ([], "saw no kernels")]
)
def test_what_goes_wrong_costs_a_warning(found: list[ProfiledWindow] | None, said: str) -> None:
    warnings: list[str] = []

    def look(_: float, __: threading.Event) -> list[ProfiledWindow]:
        if found is None:
            raise RuntimeError("no")
        return found

    watch = KernelWatch(1, warnings.append, skipped=0, look=look)
    watch.opened("witness")
    assert watch.take() == () and said in warnings[0]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_cupti_it_says_so() -> None:
    with pytest.raises(RuntimeError, match="no CUPTI"):
        look_at_kernels(0.01, threading.Event())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_kernels_of_another_thread_are_seen() -> None:
    x = torch.zeros(1 << 24, dtype=torch.int32, device="cuda")
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            x.add_(1)
            torch.cuda.current_stream().synchronize()

    thread = threading.Thread(target=work)
    thread.start()
    before = time.perf_counter_ns()
    (window,) = look_at_kernels(0.3, threading.Event())
    over.set()
    thread.join()
    assert window.n_kernels > 10 and before < window.window[0] < window.kernels[0][0]
    assert window.kernels[-1][1] <= window.window[1]
