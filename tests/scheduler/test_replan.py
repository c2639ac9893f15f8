"""Memory that runs out: once more with less, then an error with the numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from torchzk import api
from torchzk.errors import ResourceError
from torchzk.scheduler import machine
from torchzk.scheduler.device_budget import half_of_the_rest
from torchzk.scheduler.plan import Plan
from torchzk.scheduler.replan import with_replan


@pytest.fixture
def session(tmp_path: Path) -> tuple[api.Session, list[str]]:
    warnings: list[str] = []
    config = replace(api.load_config("window2k.yaml"), block_cache=tmp_path, device="cpu")
    return api.open_session(config, warn=warnings.append), warnings


def with_memory(monkeypatch: pytest.MonkeyPatch, n_bytes: int) -> None:
    monkeypatch.setattr(machine, "memory", lambda: machine.Memory(64 << 30, n_bytes, None))


def out_of_memory() -> torch.OutOfMemoryError:
    return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has ...")


def test_once_more_with_half_of_what_is_free(
    session: tuple[api.Session, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, warnings = session
    with_memory(monkeypatch, 16 << 30)
    given: list[Plan] = []

    def run(plan: Plan) -> str:
        given.append(plan)
        if len(given) == 1:
            raise out_of_memory()
        return "proven"

    assert with_replan(opened, run) == "proven"
    first, second = given
    assert (first.budget, second.budget) == (16 << 30, 8 << 30)
    # whatever comes next goes by the smaller one
    assert opened.plan is second
    (warning,) = warnings
    assert (
        "memory of cpu ran out (CUDA out of memory. Tried to allocate 2.00 GiB): proving" in warning
    )


def test_what_was_taken_and_is_given_back_is_planned_with_again(
    session: tuple[api.Session, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, _ = session
    with_memory(monkeypatch, 16 << 30)
    first = opened.plan
    for left in (8 << 30, 4 << 30):
        with_memory(monkeypatch, left)
        with_replan(opened, failing_once())
        assert opened.plan.budget == left // 2
    with_memory(monkeypatch, 15 << 30)
    assert opened.plan.budget == 2 << 30
    # a hundredth is missing
    with_memory(monkeypatch, (16 << 30) - (16 << 30) // 100)
    assert opened.plan is first
    with_memory(monkeypatch, 4 << 30)
    assert opened.plan is first


def failing_once() -> Callable[[Plan], None]:
    """What runs out of memory when it is called first."""
    calls: list[Plan] = []

    def run(plan: Plan) -> None:
        calls.append(plan)
        if len(calls) == 1:
            raise out_of_memory()

    return run


def test_keys_of_other_circuits_are_not_for_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A card of 100 with a key of 20 and another circuit's of 30: half of 50 is beside the own."""
    device, gib = torch.device("cuda", 0), 1 << 30
    taken = 50 * gib
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: taken)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: taken)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (50 * gib, 100 * gib))
    kept_back = 100 * gib // 64
    assert half_of_the_rest(device, None, own=20 * gib) == 20 * gib + (50 * gib - kept_back) // 2
    assert half_of_the_rest(device, None, own=0) == (50 * gib - kept_back) // 2
    # a limit that is taken already leaves but what one has
    assert half_of_the_rest(device, 40 * gib, own=20 * gib) == 20 * gib


def test_twice_is_an_error_with_the_numbers(
    session: tuple[api.Session, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, _ = session
    with_memory(monkeypatch, 16 << 30)
    calls: list[Plan] = []

    def run(plan: Plan) -> None:
        calls.append(plan)
        raise out_of_memory()

    with pytest.raises(ResourceError, match=r"ran out twice .* planned 1\.\d GiB, then 1\.\d GiB"):
        with_replan(opened, run)
    assert len(calls) == 2
    # and the session serves the next job
    assert with_replan(opened, lambda plan: plan) is opened.plan


def test_a_half_that_is_too_small_is_refused(
    session: tuple[api.Session, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, _ = session
    with_memory(monkeypatch, 16 << 30)
    assert opened.plan.budget == 16 << 30
    with_memory(monkeypatch, 1 << 30)

    def run(plan: Plan) -> None:
        raise out_of_memory()

    with pytest.raises(ResourceError, match=r"window-2KiB takes .* and 0\.5 GiB may be had"):
        with_replan(opened, run)


def test_other_errors_go_through(session: tuple[api.Session, list[str]]) -> None:
    def run(plan: Plan) -> None:
        raise ValueError("a fault")

    with pytest.raises(ValueError, match="a fault"):
        with_replan(session[0], run)
