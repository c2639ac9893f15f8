"""Look the machine over: `python -m torchzk.doctor`. Starts no proof and writes nothing."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from torchzk import cli
from torchzk.config import Config, load_config, shipped_configs
from torchzk.errors import ResourceError, TorchzkError
from torchzk.summary import size

_Row = tuple[str, ...]


def _parser() -> cli.Parser:
    parser = cli.Parser(
        "torchzk.doctor", "Show devices, versions, memory and what would run where."
    )
    parser.add_argument("--config", metavar="FILE", help="this one instead of all shipped configs")
    parser.add_argument("--device", help="auto, cpu, cuda or cuda:N, instead of the configs'")
    return parser


def _doctor(args: argparse.Namespace, screen: cli.Screen) -> cli.Report:
    names = [args.config] if args.config else [str(path) for path in shipped_configs()]
    configs = {name: load_config(name) for name in names}
    if args.device:
        configs = {k: dataclasses.replace(c, device=args.device) for k, c in configs.items()}
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

    plans = [_plan(name, config) for name, config in configs.items()]
    head = ("config", "circuit", "device", "keys", "input")
    _print(screen, "what would run where", head, [tuple(p[h] for h in head) for p in plans])
    caches = dict.fromkeys(config.key_cache for config in configs.values())
    found = [path for cache in caches for path in sorted(cache.glob("*.params"))]
    keys = [(str(path), size(path.stat().st_size)) for path in found]
    _print(screen, "dev keys in the cache", ("file", "size"), keys or [("none yet", "")])
    tests = _self_test(screen, configs.values())
    report: cli.Report = {
        "versions": versions,
        "cores": machine.cores(),
        "memory": dataclasses.asdict(memory),
        "devices": ["cpu", *(dataclasses.asdict(g) for g in gpus)],
        "disk_free_bytes": {str(folder): free for _, folder, free in disks},
        "configs": plans,
        "dev_keys": [str(path) for path in found],
        "self_test": tests,
    }
    for plan in plans:
        if plan["device_missing"] and (args.config or args.device):
            raise ResourceError(plan["device_missing"])
    wrong = [f"{t['operation']} on {t['device']}" for t in tests if not t["right"]]
    if wrong:
        raise RuntimeError(f"wrong answers, so no proof made here can be trusted: {wrong}")
    screen.answer("healthy")
    return report


def _disks(configs: Iterable[Config]) -> list[tuple[str, Path, int]]:
    from torchzk.scheduler import machine

    folders = dict.fromkeys(
        pair for c in configs for pair in (("runs", c.runs), ("keys", c.key_cache))
    )
    return [(what, folder, machine.disk_free(folder)) for what, folder in folders]


def _plan(name: str, config: Config) -> dict[str, str]:
    """What a run of this config would find, in words; nothing is opened or made."""
    from torchzk.circuits.registry import get_circuit
    from torchzk.scheduler.devices import find_device

    missing = ""
    try:
        device = f"{find_device(config.device)}{' (auto)' if config.device == 'auto' else ''}"
    except ResourceError as e:
        device, missing = f"{config.device}: absent", str(e)
    try:
        circuit = get_circuit(config.circuit.kind, config.circuit.sector_size).name
    except TorchzkError as e:
        circuit = str(e)
    if config.keys == "dev":
        path = config.key_cache / f"{config.circuit.kind}_{config.circuit.sector_size}.params"
        keys = "dev, cached" if path.is_file() else "dev, made at the first run"
    else:
        keys = str(config.keys) if config.keys.is_file() else f"{config.keys}: absent"
    there = config.input is not None and config.input.is_file()
    return {
        "config": Path(name).name,
        "circuit": circuit,
        "device": device,
        "device_missing": missing,
        "keys": keys,
        "input": "there" if there else "absent" if config.input else "not named",
    }


def _self_test(
    screen: cli.Screen, configs: Iterable[Config]
) -> list[dict[str, str | float | bool]]:
    """Known answers on each device that the configs take."""
    from torchzk.backends import load_backend
    from torchzk.scheduler.devices import find_device
    from torchzk.scheduler.known_answers import known_answers

    places = dict.fromkeys((config.backend, config.device) for config in configs)
    tests: list[dict[str, str | float | bool]] = []
    done = set()
    for backend, name in places:
        try:
            device = find_device(name)
        except ResourceError:
            # the table of configs says so
            continue
        if (backend, device) in done:
            continue
        done.add((backend, device))
        answers = known_answers(load_backend(backend), device)
        tests += [{"device": str(device), **dataclasses.asdict(a)} for a in answers]
        rows = [
            (a.operation, "right" if a.right else "WRONG", f"{a.milliseconds:.1f} ms")
            for a in answers
        ]
        _print(screen, f"known answers: {backend} on {device}", ("operation", "", ""), rows)
    return tests


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
