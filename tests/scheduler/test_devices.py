"""From names to devices."""

from __future__ import annotations

import pytest
import torch

from torchzk.errors import ConfigError, ResourceError
from torchzk.scheduler.devices import find_device, find_devices


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
