"""What the doctor tries rather than reads: known answers of backends, and the memory of GPUs."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from torchzk import cli
from torchzk.config import Config
from torchzk.errors import ConfigError, ResourceError
from torchzk.summary import print_titled, size
from torchzk.timeline import Timeline

if TYPE_CHECKING:
    import torch

    from torchzk.backends import BackendName


def self_test(screen: cli.Screen, configs: Iterable[Config]) -> list[cli.Report]:
    """Known answers of each backend on each device that the configs take."""
    from torchzk.backends import choose_backend

    places: dict[tuple[BackendName, torch.device], str] = {}
    for config in configs:
        for device in _devices_of([config]):
            # the table of configs says what is absent
            with suppress(ResourceError, ConfigError):
                chosen = choose_backend(config.backend, device)
                places[chosen.name, device] = chosen.advice
    for advice in dict.fromkeys(filter(None, places.values())):
        screen.warn(advice)
    return [answers_of(screen, *place) for place in places]


def answers_of(screen: cli.Screen, name: BackendName, device: torch.device) -> cli.Report:
    """Its kernels compiled, then known answers of a backend on a device; shown and timed."""
    from torchzk.backends import compile_ahead, load_backend, variant_on
    from torchzk.scheduler.known_answers import known_answers

    warmed = compile_ahead(name, device)
    for fault in warmed.failed if warmed else ():
        screen.warn(f"a kernel does not compile: {fault}")
    start = time.perf_counter()
    variant = variant_on(name, device)
    checked = time.perf_counter() - start
    answers = known_answers(load_backend(name), device)
    seconds = time.perf_counter() - start
    rows = [
        (a.operation, "right" if a.right else "WRONG", f"{a.milliseconds:.1f} ms") for a in answers
    ]
    if variant:
        rows.insert(0, ("choice of the variant", variant.name, f"{checked * 1000:.1f} ms"))
    if warmed:
        done = f"{warmed.compiled} of {warmed.kernels}"
        rows.insert(0, ("kernels compiled", done, f"{warmed.seconds:.2f} s"))
    title = f"known answers: {name} on {device}{f', {variant.summary}' if variant else ''}"
    print_titled(
        screen.console, title, ("operation", "", ""), [*rows, ("all", "", f"{seconds:.2f} s")]
    )
    return {
        "backend": name,
        "device": str(device),
        "variant": variant.name if variant else None,
        "triton": variant.triton if variant else None,
        "compiled": dataclasses.asdict(warmed) if warmed else None,
        "seconds": seconds,
        "answers": [dataclasses.asdict(a) for a in answers],
    }


def gpus_of(configs: Iterable[Config]) -> list[torch.device]:
    """Every GPU that the configs take."""
    return [device for device in _devices_of(configs) if device.type == "cuda"]


def memory_of(
    screen: cli.Screen, gpus: Sequence[torch.device], seconds: float, watched: Timeline
) -> list[cli.Report]:
    """The memory of GPUs, one after the other; shown, and told as it goes on."""
    from torchzk.scheduler.memory_test import run_memory_test

    tests = []
    for device in gpus:
        with watched.span(f"memory of {device}"):
            tests.append(run_memory_test(device, seconds, watched.advance))
    rows = [
        (t.device, size(t.n_bytes), f"{t.rounds} times", "WRONG" if t.wrong else "right")
        for t in tests
    ]
    print_titled(screen.console, "memory written and read", ("", "", "", ""), rows)
    return [dataclasses.asdict(test) for test in tests]


def refuse_wrong(report: cli.Report) -> None:
    """Raise what a doctor's report calls for.

    Raises:
        ResourceError: A device computes wrongly, or a GPU's memory does not keep what is written.
    """
    wrong = [
        f"{a['operation']} of {t['backend']} on {t['device']}"
        for t in report["self_test"]
        for a in t["answers"]
        if not a["right"]
    ]
    if wrong:
        raise ResourceError(
            f"wrong answers: {', '.join(wrong)}; no proof made there can be trusted. Prove "
            "elsewhere; --memory-test 60 tells whether it is a GPU's memory"
        )
    for test in report.get("memory_tests", ()):
        if test["wrong"]:
            raise ResourceError(
                f"the memory of {test['device']} is faulty: {test['wrong']:,} words of 8 bytes "
                "were not read as they were written; prove elsewhere, and have it replaced"
            )


def _devices_of(configs: Iterable[Config]) -> list[torch.device]:
    """Every device that the configs take, as far as they are there."""
    from torchzk.scheduler.devices import find_devices

    found: dict[torch.device, None] = {}
    for config in configs:
        # the table of configs says what is absent
        with suppress(ResourceError):
            found |= dict.fromkeys(find_devices(config.device))
    return list(found)
