"""What rows say of clocks and commits, where tools answer and where they do not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from torchzk.bench import conditions

CUDA = torch.device("cuda", 0)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """A GPU that nvidia-smi knows; the commands it was asked."""
    commands: list[list[str]] = []

    def answer(command: list[str]) -> str:
        commands.append(command)
        return "1980, 3201, 211.13, 40, P0, 580.95.05"

    monkeypatch.setattr(conditions, "_output", answer)
    gpu = SimpleNamespace(uuid="1234-ab")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpu)
    return commands


def test_clocks_are_those_of_the_device(asked: list[list[str]]) -> None:
    assert conditions.clocks(CUDA) == {
        "sm_clock_mhz": 1980,
        "memory_clock_mhz": 3201,
        "power_w": 211.13,
        "temperature_c": 40,
        "power_state": "P0",
        "driver": "580.95.05",
    }
    assert asked[0][-1] == "--id=GPU-1234-ab"


def test_what_nobody_tells_is_none(asked: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    known = conditions.clocks(CUDA)
    for answer in (None, "", "No devices were found", "1980, 3201"):
        monkeypatch.setattr(conditions, "_output", lambda command, answer=answer: answer)
        assert conditions.clocks(CUDA) == dict.fromkeys(known)
    assert conditions.clocks(torch.device("cpu")) == dict.fromkeys(known)


def test_a_commit_is_known_named_or_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    for changes, dirty in ((" M file", True), ("", False)):
        monkeypatch.setattr(
            conditions,
            "_output",
            lambda command, changes=changes: "abc" if "rev-parse" in command else changes,
        )
        facts = conditions.standing(cpu, None)
        assert (facts["commit"], facts["dirty"]) == ("abc", dirty)
    assert conditions.standing(cpu, "mine")["commit"] == "mine"
    monkeypatch.setattr(conditions, "_output", lambda command: None)
    facts = conditions.standing(cpu, None)
    assert (facts["commit"], facts["dirty"]) == ("unknown", None)
    assert facts["device"] and facts["torch"] == torch.__version__
