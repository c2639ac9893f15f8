"""What workers know of real devices; the CPU is one like any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest
import torch

from torchzk.scheduler.memory_budget import MemoryBudget
from torchzk.scheduler.service import DeviceSetup, Service
from torchzk.scheduler.worker_device import CpuDevice, CudaDevice, Device
from torchzk.timeline import Timeline


class Squares:
    """A job of tensors: each partition squares a vector."""

    n_partitions = 4

    def read(self) -> None:
        self.vectors = [torch.arange(k, k + 8) for k in range(4)]

    def check(self) -> None:
        assert len(self.vectors) == self.n_partitions

    def partition(self, index: int, device: Device, timeline: Timeline) -> Square:
        return Square(self.vectors[index], torch.device(device.name), timeline)

    def finish(self, pieces: Sequence[bytes]) -> bytes:
        return b"".join(pieces)


class Square:
    planned_bytes = 128

    def __init__(self, vector: torch.Tensor, device: torch.device, timeline: Timeline) -> None:
        self.vector, self.device, self.timeline = vector, device, timeline
        self.staged: torch.Tensor | None = None

    def prepare(self) -> None:
        self.vector = self.vector.clone()

    def stage(self) -> None:
        self.staged = self.vector.to(self.device, non_blocking=True)

    def compute(self, check: Callable[[], None]) -> None:
        assert self.staged is not None
        check()
        with self.timeline.span("square"):
            self.total = int((self.staged * self.staged).sum())

    def drop(self) -> None:
        self.staged = None

    def finish(self) -> bytes:
        return self.total.to_bytes(2, "big")


def test_jobs_of_tensors_on_the_cpu() -> None:
    budget = MemoryBudget("cpu", 200)
    with Service([DeviceSetup(CpuDevice(), budget, 2)]) as service:
        jobs = [service.submit(f"{k}", Squares()) for k in range(5)]
    expected = b"".join(sum(i * i for i in range(k, k + 8)).to_bytes(2, "big") for k in range(4))
    assert {job.result() for job in jobs} == {expected}
    assert budget.peak == 128 and budget.held == budget.trims == 0


def test_an_error_that_stays_is_the_devices_and_a_lack_of_memory_is_not() -> None:
    device = CudaDevice(torch.device("cuda", 0))
    lost = torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
    short = torch.AcceleratorError("CUDA error: out of memory")
    others = [
        short,
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("CUDA"),
        ValueError(),
    ]
    assert device.is_lost(lost) and not any(map(device.is_lost, others))
    assert not CpuDevice().is_lost(lost) and device.name == "cuda:0"


def test_free_bytes_are_the_drivers_and_those_kept_for_the_own_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def segment(device: int, stream: int, *blocks: tuple[str, int]) -> dict[str, object]:
        listed = [{"state": state, "size": size} for state, size in blocks]
        return {"device": device, "stream": stream, "blocks": listed}

    share = [1.0]
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (1000, 10000))
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda _: share[0])
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 4400)
    stream = SimpleNamespace(cuda_stream=7)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: stream)
    monkeypatch.setattr(
        torch.cuda,
        "memory_snapshot",
        lambda: [
            segment(0, 7, ("inactive", 10), ("active_allocated", 20), ("inactive", 30)),
            segment(0, 8, ("inactive", 100)),
            segment(1, 7, ("inactive", 200)),
            segment(0, 7, ("active_pending_free", 400)),
        ],
    )
    device = CudaDevice(torch.device("cuda", 0))
    assert device.free_bytes() == 1040
    # within a limit torch gets what it has not reserved, and the driver has
    seen = []
    for share[0] in (0.6, 0.5, 0.4):
        seen.append(device.free_bytes())
    assert seen == [1040, 640, 40]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_stream_of_its_own_on_cuda() -> None:
    device = CudaDevice(torch.device("cuda", 0))
    before = torch.cuda.current_stream().cuda_stream
    with device.open_stream():
        own = torch.cuda.current_stream().cuda_stream
        assert own != before
        free = device.free_bytes()
        block = torch.empty(1 << 26, dtype=torch.uint8, device="cuda")
        del block
        # kept for this stream: as good as free
        assert abs(device.free_bytes() - free) < 1 << 24
    assert torch.cuda.current_stream().cuda_stream == before
    device.trim()
