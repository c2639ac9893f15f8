"""`torchzk.doctor --memory-test`, where there is no GPU and where one is broken."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch

from torchzk import doctor, doctor_tests
from torchzk.config import load_config
from torchzk.scheduler import devices, machine, memory_test, nvml
from torchzk.scheduler.memory_test import MemoryTest

UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"


def run(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, dict[str, Any], str]:
    code = doctor.run(["--config", "window2k.yaml", *flags, "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out), err


@pytest.mark.parametrize("flags", [["--device", "cpu"], ["--device", "cuda:99"]])
def test_it_is_for_gpus(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, report, err = run(capsys, "--memory-test", "1", *flags)
    assert (code, report["error"]) == (2, "ConfigError")
    assert "--memory-test: is for GPUs" in report["message"]
    # before anything is tried
    assert "known answers" not in err


@pytest.mark.parametrize("wrong", [0, 1234])
def test_a_gpu_whose_memory_is_tested(
    wrong: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A GPU that there is not: what is asked of it is answered here."""
    gpu = machine.Gpu("cuda:0", "H", "9.0", 1 << 37, UUID)
    counted = nvml.MemoryErrors(3, 0, 2, remapping_failed=bool(wrong))
    monkeypatch.setattr(machine, "gpus", lambda: [gpu])
    monkeypatch.setattr(nvml, "memory_errors", {UUID: counted}.get)
    monkeypatch.setattr(devices, "why_none", lambda: None)
    monkeypatch.setattr(doctor, "gpus_of", lambda _: [torch.device("cuda:0")])
    monkeypatch.setattr(doctor, "self_test", lambda *_: [])
    asked: list[tuple[torch.device, float]] = []

    def tested(device: torch.device, seconds: float, advance: Any) -> MemoryTest:
        asked.append((device, seconds))
        advance(1.0)
        return MemoryTest("cuda:0", 130 << 30, 60, wrong)

    monkeypatch.setattr(memory_test, "run_memory_test", tested)
    code, report, err = run(capsys, "--memory-test", "2.5", "--device", "cpu")
    assert asked == [(torch.device("cuda:0"), 2.5)]
    assert "130.0 GiB" in err and "60 times" in err
    assert "corrected 3, uncorrected 0" in err
    if wrong:
        assert (code, report["error"]) == (6, "ResourceError")
        assert "the memory of cuda:0 is faulty: 1,234 words" in report["message"]
        assert any("cuda:0 has faulty memory" in warning for warning in report["warnings"])
        assert "WRONG" in err
    else:
        assert code == 0 and report["memory_tests"][0]["wrong"] == 0
        assert report["memory_errors"]["cuda:0"]["corrected"] == 3
        assert report["warnings"] == []


def test_devices_are_those_of_all_configs(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"auto": ["cuda:0"], "all": ["cuda:0", "cuda:1"], "cpu": ["cpu"]}
    monkeypatch.setattr(devices, "find_devices", lambda d: list(map(torch.device, there[d])))
    config = load_config("window2k.yaml")
    configs = [replace(config, device=name) for name in there]
    assert doctor_tests.gpus_of(configs) == [torch.device("cuda:0"), torch.device("cuda:1")]
