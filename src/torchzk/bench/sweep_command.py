"""Sweep over schedules: `python -m torchzk.bench sweep CIRCUIT ...`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path

from torchzk import cli
from torchzk.bench.proof_cases import PREFIX, PROOFS, ProofBenchmark
from torchzk.bench.sweep_cases import Setting, add_flags, count, grid_of, repeats
from torchzk.errors import ConfigError
from torchzk.interrupts import loading_torch
from torchzk.scheduler.progress import Progress
from torchzk.summary import print_facts

NAME = "sweep"
_ROWS = Path("runs") / "bench" / "sweep.jsonl"
_DEFAULT = ("porep8m", "porep32g")
"""Domains of 2^22 and of 2^27."""


def parser() -> cli.Parser:
    """Of the command's arguments."""
    made = cli.Parser(
        "torchzk.bench sweep",
        "Prove sectors under every combination of schedules, and append rows to runs/bench/.",
    )
    made.add_argument(
        "circuits",
        nargs="*",
        metavar="CIRCUIT",
        help=f"as porep8m (a domain of 2^22) and porep32g (2^27); {' '.join(_DEFAULT)} if none",
    )
    add_flags(made)
    made.add_argument(
        "--sectors",
        type=_count,
        metavar="N",
        help="sectors that go through each; 2 and twice as many as are in flight if not said",
    )
    made.add_argument(
        "--seconds",
        type=cli.seconds,
        metavar="S",
        help="leave settings out that would end later than so many seconds after the start",
    )
    made.add_argument(
        "--profile-kernels",
        type=cli.seconds,
        metavar="SECONDS",
        help="look at every kernel for so long in each setting; slows them down",
    )
    made.add_argument(
        "--partitions",
        type=_count,
        metavar="N",
        help="prove the first N partitions of each sector alone; s a proof is then of so many",
    )
    made.add_argument(
        "--no-witness-graph",
        action="store_false",
        dest="witness_graph",
        help="as in a config: compute witnesses by no CUDA graph",
    )
    made.add_argument(
        "--device", default="auto", help="auto, cpu, cuda, cuda:N, several with commas, or all"
    )
    cli.add_backend_flag(made)
    made.add_argument(
        "--resume",
        action="store_true",
        help="leave out settings that the file of rows has already, of this commit and device",
    )
    made.add_argument(
        "--no-pictures", action="store_true", help="keep a trace of each setting, and draw none"
    )
    made.add_argument("--list", action="store_true", help="print the settings and do nothing")
    made.add_argument("--out", type=Path, default=_ROWS, metavar="FILE", help=f"rows ({_ROWS})")
    made.add_argument("--commit", metavar="TEXT", help="what rows say of the code, if not git")
    made.add_argument(
        "--inputs", type=Path, metavar="DIR", default=Path("runs") / "inputs", help="job files"
    )
    return made


def sweep_circuits(wrong: list[str], args: argparse.Namespace, screen: cli.Screen) -> cli.Report:
    """Sweep, and print the table; rows that are not right go to `wrong`."""
    circuits = list(dict.fromkeys(_circuit(name) for name in args.circuits or _DEFAULT))
    settings = grid_of(args).settings()
    same = {c: repeats(settings, c.partitions_of(args.partitions), args.sectors) for c in circuits}
    told = [
        {"circuit": circuit.short, "setting": setting.name, "as_workers": first.workers}
        for circuit, found in same.items()
        for setting, first in found.items()
    ]
    if args.list:
        for setting in settings:
            screen.answer(setting.name + _as_fewer(setting, same))
        return {"settings": [setting.name for setting in settings], "repeats": told}
    with Progress(screen.console) as progress:
        watched = progress.watcher
        with loading_torch(watched):
            # late: what is wrong with a flag is said without waiting for it
            from torchzk.bench.sweep_session import run_sweep
        wanted = {c: [s for s in settings if s not in found] for c, found in same.items()}
        rows, left_out = run_sweep(wanted, args, watched, screen.warn)
    from torchzk.bench.sweep_table import print_sweep, write_picture

    print_sweep(screen.console, rows, {c.short: found for c, found in same.items()})
    picture = args.out.with_suffix(".png")
    drawn = write_picture(rows, picture)
    facts = [("rows", f"{len(rows)}, in {args.out}", "")]
    facts += [("picture", str(picture), "")] if drawn else []
    facts += [("left out", f"{n} of {c} for want of time", "") for c, n in _counted(left_out)]
    print_facts(screen.console, facts)
    wrong += [
        f"{row['name']}, {row['policy']}: {row.get('error', 'not the same bytes')}"
        for row in rows
        if not row["right"]
    ]
    for fault in wrong:
        screen.line(f"WRONG: {fault}", "bold red")
    return {
        "ok": not wrong,
        "wrong": wrong,
        "rows": rows,
        "repeats": told,
        "left_out": [f"{circuit}: {setting.name}" for circuit, setting in left_out],
        "picture": str(picture) if drawn else None,
    }


def _as_fewer(setting: Setting, same: Mapping[ProofBenchmark, Mapping[Setting, Setting]]) -> str:
    """What a setting is not run for, and with which circuits where that is not with all."""
    fewer: dict[int, list[str]] = {}
    for circuit, found in same.items():
        if setting in found:
            fewer.setdefault(found[setting].workers, []).append(circuit.short)
    said = [
        f"as {count(n, 'worker')}" + ("" if len(names) == len(same) else f" ({', '.join(names)})")
        for n, names in fewer.items()
    ]
    return f": {', '.join(said)}" if said else ""


def _counted(left_out: list[tuple[str, Setting]]) -> list[tuple[str, int]]:
    circuits = dict.fromkeys(circuit for circuit, _ in left_out)
    return [(circuit, sum(c == circuit for c, _ in left_out)) for circuit in circuits]


def _circuit(name: str) -> ProofBenchmark:
    known = {p.short: p for p in PROOFS}
    found = known.get(name.removeprefix(PREFIX))
    if found is None:
        raise ConfigError(f"no circuit is called {name:.80}; there are {', '.join(known)}")
    return found


def _count(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,3}", text):
        raise argparse.ArgumentTypeError(f"{text:.80} is no number above 0")
    return int(text)
