"""Look the machine over: `python -m torchzk.doctor`. Starts no proof and writes nothing."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from torchzk import cli
from torchzk.config import Config, load_config, shipped_configs
from torchzk.doctor_tests import gpus_of, memory_of, refuse_wrong, self_test
from torchzk.errors import ConfigError, TorchzkError
from torchzk.interrupts import loading_torch
from torchzk.scheduler.progress import Progress
from torchzk.summary import print_titled, size
from torchzk.timeline import Timeline


def _parser() -> cli.Parser:
    parser = cli.Parser(
        "torchzk.doctor", "Show devices, versions, memory and what would run where."
    )
    parser.add_argument("--config", metavar="FILE", help="this one instead of all shipped configs")
    parser.add_argument(
        "--device", help="auto, cpu, cuda, cuda:N, GPU-UUID, or all, instead of the configs'"
    )
    cli.add_backend_flag(parser)
    parser.add_argument(
        "--memory-test",
        type=cli.seconds,
        metavar="SECONDS",
        help="write patterns over the free memory of the GPUs, and read them back, for so long",
    )
    return parser


def _doctor(args: argparse.Namespace, screen: cli.Screen) -> cli.Report:
    names = [args.config] if args.config else [str(path) for path in shipped_configs()]
    configs = {name: load_config(name) for name in names}
    flags = {k: v for k in ("device", "backend") if (v := getattr(args, k))}
    configs = {k: dataclasses.replace(c, **flags) for k, c in configs.items()}
    with Progress(screen.console) as progress:
        with loading_torch(progress.watcher):
            # late: what is wrong with a config is said without waiting for torch
            gpus = gpus_of(configs.values())
        if args.memory_test is not None and not gpus:
            raise ConfigError("--memory-test: is for GPUs, and here none would be used")
        report = _look_over(screen, configs, progress.watcher)
        if args.memory_test is not None:
            tests = memory_of(screen, gpus, args.memory_test, progress.watcher)
            report["memory_tests"] = tests
    if args.config or flags:
        _refuse_absent(configs.values())
    refuse_wrong(report)
    screen.answer("healthy")
    return report


def _look_over(screen: cli.Screen, configs: Mapping[str, Config], watched: Timeline) -> cli.Report:
    from torchzk.scheduler import machine, nvml
    from torchzk.scheduler.devices import why_none

    memory, gpus, versions = machine.memory(), machine.gpus(), machine.versions()
    limit, driver = memory.cgroup_limit, nvml.driver()
    errors = {gpu.name: nvml.memory_errors(gpu.uuid) for gpu in gpus}
    rows: list[tuple[str, ...]] = [
        *versions.items(),
        ("NVIDIA driver", str(driver)),
        ("cores", str(machine.cores())),
        ("memory", f"{size(memory.total)}, {size(memory.available)} available"),
        ("memory limit of the control group", size(limit) if limit else "none"),
    ]
    for gpu in gpus:
        rows.append((gpu.name, f"{gpu.model}, {size(gpu.memory)}, capability {gpu.capability}"))
        rows.append(("", gpu.uuid))
        counted = errors[gpu.name]
        rows.append((f"memory errors of {gpu.name}", str(counted or "not told by the driver")))
    if not gpus:
        rows.append(("CUDA devices", "none"))
    disks = _disks(configs.values())
    rows += [(f"free for {what}", f"{size(free)} in {folder}") for what, folder, free in disks]
    print_titled(screen.console, "this machine", ("", ""), rows)
    for advice in machine.untested(versions):
        screen.warn(advice)
    if reason := why_none():
        screen.warn(f"there is a driver of NVIDIA's, but no GPU: {reason}")
    for name, counted in errors.items():
        if counted and counted.remapping_failed:
            screen.warn(f"{name} has faulty memory that it cannot replace any more; replace it")

    with watched.span("plans"):
        plans = [_plan(name, config) for name, config in configs.items()]
    head = ("config", "circuit", "runs on", "keys", "input")
    places = [tuple(plan[h] for h in head) for plan in plans]
    print_titled(screen.console, "what would run where", head, places, whole=1)
    for advice in dict.fromkeys(filter(None, (plan["key_missing"] for plan in plans))):
        screen.warn(advice)
    by_need: dict[str, list[str]] = {}
    for plan in plans:
        by_need.setdefault(plan["takes"], []).append(plan["config"])
    takes = [(", ".join(names), need) for need, names in by_need.items() if need]
    if takes:
        print_titled(screen.console, "memory that proving takes", ("", ""), takes)
    caches = dict.fromkeys(config.key_cache for config in configs.values())
    found = [path for cache in caches for path in sorted(cache.glob("*.params"))]
    keys = [(str(path), size(path.stat().st_size)) for path in found]
    print_titled(
        screen.console, "dev keys in the cache", ("file", "size"), keys or [("none yet", "")]
    )
    with watched.span("known answers"):
        tests = self_test(screen, configs.values())
    return {
        "versions": versions,
        "cores": machine.cores(),
        "memory": dataclasses.asdict(memory),
        "driver": dataclasses.asdict(driver),
        "devices": ["cpu", *(dataclasses.asdict(g) for g in gpus)],
        "memory_errors": {k: dataclasses.asdict(e) if e else None for k, e in errors.items()},
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
    missing = {"device": "", "backend": "", "key": ""}
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
    keys, missing["key"] = _keys(config)
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
        "key_missing": missing["key"],
        "input": "there" if there else named,
        "takes": _takes(config) if found else "",
    }


def _keys(config: Config) -> tuple[str, str]:
    """Which key a config takes and whether it is there; if not, what to do, unless it is made."""
    from torchzk.circuits.registry import get_circuit
    from torchzk.scheduler.official_keys import official_file

    kind, sector_size = config.circuit.kind, config.circuit.sector_size
    if config.keys == "dev":
        path = config.key_cache / f"{kind}_{sector_size}.params"
        return "dev, cached" if path.is_file() else "dev, not made yet", ""
    if config.keys == "dev-in-memory":
        return "dev-in-memory", ""
    if config.keys == "official":
        try:
            circuit = get_circuit(kind, sector_size)
            official = official_file(circuit.cache_identifier, "params", circuit.name)
            return f"official, {official.in_folder(config.parameter_folder, circuit.name)}", ""
        except TorchzkError as e:
            return "official: absent", str(e)
    path = config.keys
    return (str(path), "") if path.is_file() else (f"{path}: absent", f"{path}: no such key file")


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


def run(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return cli.execute(_parser(), _doctor, argv)


if __name__ == "__main__":
    sys.exit(run())
