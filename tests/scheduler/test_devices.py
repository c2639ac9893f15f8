"""From names to devices."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from torchzk.config import CircuitConfig, Config
from torchzk.errors import ConfigError, ResourceError
from torchzk.scheduler import machine, nvml
from torchzk.scheduler.devices import find_device, find_devices
from torchzk.scheduler.session import open_sessions
from torchzk.strict_yaml import ByteSize
from torchzk.timeline import Timeline


def test_cpu_is_cpu() -> None:
    assert find_device("cpu") == torch.device("cpu")


def test_auto_takes_what_there_is() -> None:
    there = "cuda:0" if torch.cuda.is_available() else "cpu"
    assert find_device("auto") == torch.device(there)


@pytest.mark.parametrize("count", [0, 2])
def test_cuda_is_never_the_cpu(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    with pytest.raises(ResourceError, match=f"cuda:2: not there, {count} CUDA devices"):
        find_device("cuda:2")
    if count:
        assert find_device("cuda") == find_device("auto") == torch.device("cuda:0")
        assert find_device("cuda:1") == torch.device("cuda:1")


def test_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    every = [torch.device("cuda", k) for k in range(3)]
    assert find_devices("all") == every
    assert find_devices("cuda:2,cuda,cuda:2") == [every[2], every[0]]
    assert find_device("all") == every[0]
    with pytest.raises(ResourceError, match="not there, 3 CUDA devices"):
        find_devices("cuda:1,cuda:3")


def test_all_of_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ResourceError, match="device all: not there, 0 CUDA devices"):
        find_devices("all")


def test_refuses_other_names() -> None:
    with pytest.raises(ConfigError, match="auto, cpu, cuda"):
        find_device("mps")


def test_a_gpu_by_its_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    uuids = [f"{k:08x}-0000-1111-2222-333333333333" for k in range(3)]

    def properties(index: int) -> SimpleNamespace:
        return SimpleNamespace(major=9, minor=0, name="H", total_memory=1, uuid=uuids[index])

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    shown = [gpu.uuid for gpu in machine.gpus()]
    assert shown == [f"GPU-{uuid}" for uuid in uuids]
    assert find_device(shown[1]) == torch.device("cuda:1")
    assert find_devices(f"{shown[2]},cuda:0,cuda:2") == [
        torch.device("cuda:2"),
        torch.device("cuda:0"),
    ]
    absent = "GPU-ffffffff-0000-1111-2222-333333333333"
    with pytest.raises(ResourceError, match=f"{absent}: not there, 3 CUDA devices"):
        find_device(absent)
    with pytest.raises(ConfigError, match="UUID"):
        find_device("GPU-0")


def test_auto_says_why_it_takes_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    # a driver is there, and torch finds nothing
    monkeypatch.setattr(nvml, "driver", lambda: nvml.Driver("580.1", "580.1", "13.0"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    config = Config(
        circuit=CircuitConfig(kind="window", sector_size=ByteSize(2048)), keys="dev-in-memory"
    )
    said: list[str] = []
    open_sessions(config, Timeline(), said.append)
    assert len(said) == 1 and said[0].startswith("no GPU is used: ")
    assert "CUDA" in said[0]
    open_sessions(replace(config, device="cpu"), Timeline(), said.append)
    assert len(said) == 1
