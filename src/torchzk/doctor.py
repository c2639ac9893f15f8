"""Look the machine over: `python -m torchzk.doctor`. Starts no proof and writes nothing."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from torchzk import cli
from torchzk.config import Config, load_config, shipped_configs
from torchzk.errors import ConfigError, ResourceError, TorchzkError
from torchzk.interrupts import loading_torch
from torchzk.scheduler.progress import Progress
from torchzk.summary import size
from torchzk.timeline import Timeline

if TYPE_CHECKING:
    import torch

    from torchzk.backends import BackendName

_Row = tuple[str, ...]


def _parser() -> cli.Parser:
    parser = cli.Parser(
        "torchzk.doctor", "Show devices, versions, memory and what would run where."
    )
    parser.add_argument("--config", metavar="FILE", help="this one instead of all shipped configs")
    parser.add_argument("--device", help="auto, cpu, cuda, cuda:N or GPU-UUID, instead of the configs'")
    cli.add_backend_flag(parser)
    return parser


def _doctor(args: argparse.Namespace, screen: cli.Screen) -> cli.Report:
    names = [args.config] if args.config else [str(path) for path in shipped_configs()]
    configs = {name: load_config(name) for name in names}
    flags = {k: v for k in ("device", "backend") if (v := getattr(args, k))}
    configs = {k: dataclasses.replace(c, **flags) for k, c in configs.items()}
    with Progress(screen.console) as progress:
        report = _look_over(screen, configs, progress.watcher)
    if args.config or flags:
        _refuse_absent(configs.values())
    wrong = [
        f"{a['operation']} of {t['backend']} on {t['device']}"
        for t in report["self_test"]
        for a in t["answers"]
        if not a["right"]
    ]
    if wrong:
        raise RuntimeError(f"wrong answers, so no proof made here can be trusted: {wrong}")
    screen.answer("healthy")
    return report


def _look_over(screen: cli.Screen, configs: Mapping[str, Config], watched: Timeline) -> cli.Report:
    with loading_torch(watched):
        # late: what is wrong with a config is said without waiting for torch
        from torchzk.scheduler import machine

    memory, gpus, versions = machine.memory(), machine.gpus(), machine.versions()
    limit = memory.cgroup_limit
    rows: list[_Row] = [
        *versions.items(),
        ("cores", str(machine.cores())),
        ("memory", f"{size(memory.total)}, {size(memory.available)} available"),
        ("memory limit of the control group", size(limit) if limit else "none"),
    ]
    rows += [
        (g.name, f"{g.model}, {size(g.memory)}, compute capability {g.capability}, {g.uuid}")
        for g in gpus
    ]
    if not gpus:
        rows.append(("CUDA devices", "none"))
    disks = _disks(configs.values())
    rows += [(f"free for {what}", f"{size(free)} in {folder}") for what, folder, free in disks]
    _print(screen, "this machine", ("", ""), rows)
    for advice in machine.untested(versions):
        screen.warn(advice)

    with watched.span("plans"):
        plans = [_plan(name, config) for name, config in configs.items()]
    head = ("config", "circuit", "runs on", "keys", "input")
    _print(screen, "what would run where", head, [tuple(p[h] for h in head) for p in plans])
    by_need: dict[str, list[str]] = {}
    for plan in plans:
        by_need.setdefault(plan["takes"], []).append(plan["config"])
    takes = [(", ".join(names), need) for need, names in by_need.items() if need]
    if takes:
        _print(screen, "memory that proving takes", ("", ""), takes)
    caches = dict.fromkeys(config.key_cache for config in configs.values())
    found = [path for cache in caches for path in sorted(cache.glob("*.params"))]
    keys = [(str(path), size(path.stat().st_size)) for path in found]
    _print(screen, "dev keys in the cache", ("file", "size"), keys or [("none yet", "")])
    with watched.span("known answers"):
        tests = _self_test(screen, configs.values())
    return {
        "versions": versions,
        "cores": machine.cores(),
        "memory": dataclasses.asdict(memory),
        "devices": ["cpu", *(dataclasses.asdict(g) for g in gpus)],
        "disk_free_bytes": {str(folder): free for _, folder, free in disks},
        "configs": plans,
        "dev_keys": [str(path) for path in found],
        "self_test": tests,
    }


def _disks(configs: Iterable[Config]) -> list[tuple[str, Path, int]]:
    from torchzk.scheduler import machine

    folders = dict.fromkeys(
        pair
        for c in configs
        for pair in (("runs", c.runs), ("keys", c.key_cache), ("blocks", c.block_cache))
    )
    return [(what, folder, machine.disk_free(folder)) for what, folder in folders]


def _plan(name: str, config: Config) -> dict[str, str]:
    """What a run of this config would find, in words; nothing is opened or made."""
    from torchzk.backends import choose_backend
    from torchzk.circuits.registry import get_circuit
    from torchzk.scheduler.devices import find_device

    device, backend = config.device, str(config.backend)
    missing = {"device": "", "backend": ""}
    found, place = None, f"{device}: absent"
    try:
        found = find_device(device)
        device = f"{found}{' (auto)' if device == 'auto' else ''}"
        place = f"{backend} on {found}: absent"
        backend = str(choose_backend(config.backend, found))
        place = f"{backend.partition(' ')[0]} on {found}"
    except TorchzkError as e:
        missing["backend" if found else "device"] = str(e)
    try:
        circuit = get_circuit(config.circuit.kind, config.circuit.sector_size).name
    except TorchzkError as e:
        circuit = str(e)
    if config.keys == "dev":
        path = config.key_cache / f"{config.circuit.kind}_{config.circuit.sector_size}.params"
        keys = "dev, cached" if path.is_file() else "dev, not made yet"
    elif config.keys == "dev-in-memory":
        keys = "dev, made in memory"
    elif config.keys == "official":
        keys = f"official, of {config.parameter_folder}"
    else:
        keys = str(config.keys) if config.keys.is_file() else f"{config.keys}: absent"
    there = config.input is not None and config.input.is_file()
    named = "absent" if config.input else "synthetic" if config.synthetic else "not named"
    return {
        "config": Path(name).name,
        "circuit": circuit,
        "runs on": place,
        "device": device,
        "device_missing": missing["device"],
        "backend": backend,
        "backend_missing": missing["backend"],
        "keys": keys,
        "input": "there" if there else named,
        "takes": _takes(config) if found else "",
    }


def _takes(config: Config) -> str:
    """What proving would take of the device, as far as that is known without recording anything."""
    from torchzk import api
    from torchzk.plan_table import one_line

    try:
        session = api.open_session(config)
        if not session.recall():
            return "constraints not recorded yet; see prove --plan"
        return one_line(session.plan)
    except TorchzkError as e:
        return str(e)


def _refuse_absent(configs: Iterable[Config]) -> None:
    """Raise what a run of one of the configs would raise for its device or its backend."""
    from torchzk.backends import choose_backend
    from torchzk.scheduler.devices import find_device

    for config in configs:
        choose_backend(config.backend, find_device(config.device))


def _self_test(screen: cli.Screen, configs: Iterable[Config]) -> list[cli.Report]:
    """Known answers of each backend on each device that the configs take."""
    from torchzk.backends import choose_backend
    from torchzk.scheduler.devices import find_device

    places: dict[tuple[BackendName, torch.device], str] = {}
    for config in configs:
        # the table of configs says what is absent
        with suppress(ResourceError, ConfigError):
            device = find_device(config.device)
            chosen = choose_backend(config.backend, device)
            places[chosen.name, device] = chosen.advice
    for advice in dict.fromkeys(filter(None, places.values())):
        screen.warn(advice)
    return [_test(screen, *place) for place in places]


def _test(screen: cli.Screen, name: BackendName, device: torch.device) -> cli.Report:
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
    _print(screen, title, ("operation", "", ""), [*rows, ("all", "", f"{seconds:.2f} s")])
    return {
        "backend": name,
        "device": str(device),
        "variant": variant.name if variant else None,
        "triton": variant.triton if variant else None,
        "compiled": dataclasses.asdict(warmed) if warmed else None,
        "seconds": seconds,
        "answers": [dataclasses.asdict(a) for a in answers],
    }


def _print(screen: cli.Screen, title: str, head: _Row, rows: Iterable[_Row]) -> None:
    screen.console.print(Text(title, "bold"))
    table = Table(box=box.SIMPLE, show_header=any(head), pad_edge=False)
    for name in head:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, "bold red" if _is_bad(cell) else "") for cell in row))
    screen.console.print(table)


def _is_bad(cell: str) -> bool:
    return cell == "WRONG" or cell.endswith("absent")


def run(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return cli.execute(_parser(), _doctor, argv)


if __name__ == "__main__":
    sys.exit(run())
