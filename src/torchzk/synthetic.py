"""Make a job of a sector that nobody sealed: `python -m torchzk.synthetic --name N --out FILE ...`.

For tests and benchmarks at any registered size; such a sector stores nothing.
"""

from __future__ import annotations

import argparse
import difflib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from torchzk import cli
from torchzk.circuits.job_head import JOB_KINDS
from torchzk.circuits.registered import REGISTERED_SEALS, RegisteredSeal, default_seal
from torchzk.circuits.sectors import SECTOR_SHAPES
from torchzk.config import check_device_name
from torchzk.errors import ConfigError
from torchzk.files import make_folder
from torchzk.interrupts import loading_torch
from torchzk.proof_file import check_writable
from torchzk.scheduler.progress import Progress
from torchzk.strict_yaml import parse_size
from torchzk.summary import print_facts, size


def _parser() -> cli.Parser:
    parser = cli.Parser(
        "torchzk.synthetic", "Make a job file of a sector that nobody sealed, for tests."
    )
    parser.add_argument(
        "--name", type=_name, required=True, help="ASCII text that ticket and seed are hashes of"
    )
    parser.add_argument(
        "--sector-size", type=_size, required=True, metavar="SIZE", help="bytes, or 32GiB"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the job file")
    parser.add_argument("--kind", choices=JOB_KINDS, default="porep", help="of the job")
    parser.add_argument("--sector-id", type=cli.u64, default=7, metavar="N", help="7 by default")
    parser.add_argument(
        "--miner-id", type=cli.miner_id, default=1000, metavar="N", help="1000 by default"
    )
    parser.add_argument(
        "--registered-proof", metavar="NAME", help="by default StackedDrg{SIZE}V1_1"
    )
    parser.add_argument("--device", default="cpu", help="auto, cpu (the default), cuda or cuda:N")
    return parser


def _name(text: str) -> str:
    if not text.isascii() or not text:
        raise argparse.ArgumentTypeError(f"{text!a:.80} is no ASCII text")
    return text


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as e:
        raise argparse.ArgumentTypeError(str(e)) from e


def _registered(sector_size: int, name: str | None) -> RegisteredSeal:
    """The registered seal proof that the flags name.

    Raises:
        ConfigError: There is none, or a synthetic sector cannot have it.
    """
    found = default_seal(sector_size)
    if found is None:
        known = dict.fromkeys(s.sector_size for s in REGISTERED_SEALS)
        sizes = ", ".join(SECTOR_SHAPES[n].name for n in known)
        raise ConfigError(f"--sector-size {sector_size}: no registered proof; there are {sizes}")
    if name is None:
        return found
    fit = {s.name: s for s in REGISTERED_SEALS if s.sector_size == sector_size and s.by_seed_alone}
    if name not in fit:
        near = difflib.get_close_matches(name[:100], fit, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(fit)}"
        raise ConfigError(
            f"--registered-proof {name:.80}: no seal proof of {sector_size} byte sectors whose "
            f"challenges follow from the seed alone; {hint}"
        )
    return fit[name]


def _synthetic(args: argparse.Namespace, screen: cli.Screen) -> cli.Report:
    registered = _registered(args.sector_size, args.registered_proof)
    check_device_name(args.device)
    make_folder(args.out.parent)
    check_writable(args.out)
    start = time.perf_counter()
    with Progress(screen.console) as progress:
        watched = progress.watcher
        with loading_torch(watched):
            # late: what is wrong with a flag is said without waiting for it
            import torch

            from torchzk.backends import load_backend
            from torchzk.circuits.synthetic import SectorName, make_sector
            from torchzk.circuits.synthetic_jobs import write_job
            from torchzk.scheduler.devices import find_device
        device = find_device(args.device)
        if device.type == "cpu":
            # as in a session: threads wait for each other longer than they work
            torch.set_num_threads(1)
        of = SectorName(args.name, registered, args.sector_id, args.miner_id)
        sector = make_sector(of, load_backend("torch"), device, watched)
        with watched.span("write"):
            sha256 = write_job(args.out, sector, args.kind)
    report: cli.Report = {
        "kind": args.kind,
        "name": args.name,
        "registered_proof": registered.name,
        "sector_size": args.sector_size,
        "sector_id": args.sector_id,
        "miner_id": args.miner_id,
        "comm_d": sector.tree_d.root.hex(),
        "comm_r": sector.comm_r.hex(),
        "replica_id": sector.replica_id.hex(),
        "device": str(device),
        "seconds": time.perf_counter() - start,
        "out": str(args.out),
        "bytes": args.out.stat().st_size,
        "sha256": sha256,
    }
    print_facts(
        screen.console,
        [
            ("sector", f"{registered.name}, synthetic: it stores nothing", ""),
            ("comm_r", report["comm_r"], ""),
            ("job", f"{args.kind}, {args.out}, {size(report['bytes'])}", ""),
            ("sha256", sha256, ""),
        ],
    )
    screen.answer(str(args.out))
    return report


def run(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return cli.execute(_parser(), _synthetic, argv)


if __name__ == "__main__":
    sys.exit(run())
