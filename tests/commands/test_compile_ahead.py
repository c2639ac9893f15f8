"""Kernels are compiled before they are checked, watched, and nobody else's work."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console

from torchzk import api, backends, cli, doctor_tests
from torchzk.backends import BackendChoice, KernelVariant
from torchzk.config import CircuitConfig, Config
from torchzk.recorded import recorded_session
from torchzk.scheduler.session import Session

FAULT = "poseidon_kernel: ptxas has no registers"


@dataclasses.dataclass(frozen=True)
class Warmed:
    """As `torchzk.triton_kernels.warm.Warmed`, which needs Triton."""

    kernels: int = 114
    compiled: int = 113
    seconds: float = 21.5
    failed: tuple[str, ...] = (FAULT,)


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done, by a backend with kernels that is made up."""
    done: list[str] = []

    def compile_ahead(name: str, device: torch.device, advance: Any = float) -> Warmed:
        advance(0.5)
        done.append(f"compile {name}")
        return Warmed()

    def variant_on(name: str, device: torch.device) -> KernelVariant:
        done.append(f"check {name}")
        return KernelVariant("ptx", "3.6.0", "ptx on a GPU")

    monkeypatch.setattr(backends, "compile_ahead", compile_ahead)
    monkeypatch.setattr(backends, "variant_on", variant_on)
    monkeypatch.setattr(Session, "variant", lambda s: variant_on(s.choice.name, s.device))
    return done


def screen() -> tuple[cli.Screen, Callable[[], str]]:
    text = StringIO()
    return cli.Screen(Console(file=text, width=200), json=False), text.getvalue


def test_a_session_begins_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, order: list[str]
) -> None:
    opened = api.open_sessions

    def with_kernels(*args: Any) -> list[Session]:
        choice = BackendChoice("triton")
        return [dataclasses.replace(session, choice=choice) for session in opened(*args)]

    monkeypatch.setattr(api, "open_sessions", with_kernels)
    circuit = CircuitConfig(kind="window", sector_size=2048)
    config = Config(circuit=circuit, keys="dev", device="cpu", runs=tmp_path)
    shown, _ = screen()
    with recorded_session(config, shown, "prove") as (run, _):
        assert order == ["compile triton", "check triton"]
    assert run.facts["backend"] == "triton, ptx on a GPU"
    assert shown.warnings == [f"a kernel does not compile: {FAULT}"]
    names = [span.name for span in run.spans]
    assert names.index("compile kernels") < names.index("check kernels")


def test_the_doctor_does_it_first_and_says_how_long_it_took(
    monkeypatch: pytest.MonkeyPatch, order: list[str]
) -> None:
    answers = SimpleNamespace(known_answers=lambda *_: [])
    monkeypatch.setitem(sys.modules, "torchzk.scheduler.known_answers", answers)
    monkeypatch.setattr(backends, "load_backend", lambda name: None)
    shown, text = screen()
    report = doctor_tests.answers_of(shown, "triton", torch.device("cpu"))
    assert order == ["compile triton", "check triton"]
    assert report["compiled"] == dataclasses.asdict(Warmed())
    assert [row.split() for row in text().splitlines() if "kernels compiled" in row] == [
        ["kernels", "compiled", "113", "of", "114", "21.50", "s"]
    ]
    assert shown.warnings == [f"a kernel does not compile: {FAULT}"]


def test_nothing_is_compiled_where_there_are_no_kernels() -> None:
    for name in ("torch", "triton"):
        assert backends.compile_ahead(name, torch.device("cpu")) is None
    assert backends.compile_ahead("torch", torch.device("cuda", 0)) is None
