"""Prove jobs: `python -m torchzk.prove --config window2k.yaml`.

Without --out the proof goes to the run's folder and, as hex, to stdout. For several jobs at once
see `prove_several`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchzk import cli
from torchzk.errors import TorchzkError
from torchzk.plan_table import planned
from torchzk.proof_file import FORMATS, SUFFIXES, check_writable, write_proof
from torchzk.prove_several import prove_several
from torchzk.recorded import (
    attach_profiler,
    backend_report,
    key_is,
    recorded_sessions,
    show_run,
    use_report,
    warn_of,
    watch_kernels,
    write_lines,
)
from torchzk.scheduler.sinks import Run
from torchzk.summary import (
    partitions,
    print_facts,
    shortened,
    size,
)

if TYPE_CHECKING:
    from torchzk.api import Job, Keys, ProofResult, Session


def _parser() -> cli.Parser:
    parser = cli.Parser("torchzk.prove", "Prove a job, or several, and verify the proofs.")
    cli.add_config_flags(parser, job=False)
    cli.add_job_flags(parser)
    parser.add_argument(
        "--miner-id",
        type=cli.miner_id,
        metavar="N",
        help="whose sectors they must be, 1000 or f01000",
    )
    parser.add_argument(
        "--sector-number",
        type=cli.u64,
        metavar="N",
        help="which sector it must be; with the miner's id replica_id of a PoRep is checked",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="PROOF",
        help="where the proof is written; of several jobs the folder",
    )
    parser.add_argument("--format", choices=FORMATS, default="raw", help="of that file")
    parser.add_argument(
        "--keys",
        type=cli.key_named,
        metavar="KEYS",
        help="dev, dev-in-memory, official, or a .params file",
    )
    parser.add_argument(
        "--randomness",
        type=Path,
        metavar="RS.json",
        help="fixed r and s of each partition; the proof is then not zero-knowledge",
    )
    parser.add_argument(
        "--timeline-lines",
        metavar="FILE",
        help="write cuzk's TIMELINE lines at the end, - for stderr",
    )
    parser.add_argument(
        "--profile-kernels",
        type=cli.seconds,
        metavar="SECONDS",
        help="look at every kernel for so long, from the third partition on; slows them down",
    )
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--plan", action="store_true", help="print what proving takes of the device and stop"
    )
    instead.add_argument(
        "--check", action="store_true", help="verify the vanilla proofs of the job and stop"
    )
    return parser


def _prove(args: argparse.Namespace, screen: cli.Screen) -> cli.Report:
    config = cli.config_of(args)
    if args.plan:
        return planned(config, screen)
    paths = cli.job_files(config, args.inputs)
    if not args.check:
        cli.check_key_file(config)
    if args.timeline_lines not in (None, "-"):
        check_writable(Path(args.timeline_lines), "--timeline-lines")
    if len(paths) > 1:
        return prove_several(args, screen, config, paths)
    if args.out is not None:
        check_writable(args.out)
    with recorded_sessions(config, screen, "prove") as (run, sessions):
        from torchzk import api

        session = sessions[0]
        if not args.check:
            api.foresee(session)
        path = paths[0] if paths else None
        job = api.load_job(session, path, miner_id=args.miner_id, sector_number=args.sector_number)
        if args.profile_kernels is not None:
            watch_kernels(run, args.profile_kernels, screen, job.n_partitions)
        fixed = api.load_randomisers(args.randomness, job) if args.randomness else None
        api.check(session, job)
        if args.check:
            run.facts["outcome"] = "input checked"
            report = _checked(run, session, job)
        else:
            with api.open_sites(sessions) as sites:
                keys = sites[0].keys
                attach_profiler(run, session)
                result = api.prove_job(sites, job, fixed)
                run.planned |= session.plan.stage_bytes
            warn_of(screen, insecure_key=result.insecure_key, zero_knowledge=result.zero_knowledge)
            run.facts["outcome"] = "verified"
            where = _keep(args, screen, run, result.proof)
            report = _proven(run, session, keys, result, where)
        report["notes"] = api.notes(session, job)
    _show(screen, run, report)
    if args.timeline_lines is not None:
        write_lines(args.timeline_lines, run)
    if not args.check and args.out is None:
        screen.answer(report["proof"])
    return report


def _keep(args: argparse.Namespace, screen: cli.Screen, run: Run, proof: bytes) -> Path | None:
    """Write the proof where it was asked for, or else into the run's folder.

    Raises what writing does where it was asked for; the proof is then in the run's folder, or at
    least on the screen: it may have taken hours.
    """
    if args.out is None:
        return _keep_in_run(args, screen, run, proof)
    try:
        write_proof(args.out, proof, args.format)
    except (OSError, TorchzkError):
        kept = _keep_in_run(args, screen, run, proof)
        screen.warn(f"the proof is {f'in {kept}' if kept else proof.hex()}")
        raise
    return Path(args.out)


def _keep_in_run(
    args: argparse.Namespace, screen: cli.Screen, run: Run, proof: bytes
) -> Path | None:
    folder = run.folder()
    if folder is None:
        return None
    path = folder / f"proof{SUFFIXES[args.format]}"
    try:
        write_proof(path, proof, args.format)
    except (OSError, TorchzkError) as e:
        screen.warn(f"the proof is not kept in the run's folder: {e}")
        return None
    return path


def _checked(run: Run, session: Session, job: Job) -> cli.Report:
    return {
        "checked": True,
        "circuit": session.circuit.name,
        "partitions": job.n_partitions,
        "device": str(session.device),
        **backend_report(session),
        "seconds": run.record().seconds,
    }


def _proven(
    run: Run, session: Session, keys: Keys, result: ProofResult, where: Path | None
) -> cli.Report:
    return {
        "circuit": session.circuit.name,
        "proof": result.proof.hex(),
        "partitions": result.partitions,
        "verified": True,
        "seconds": result.seconds,
        "total_seconds": run.record().seconds,
        "key": keys.source,
        "key_sha256": keys.sha256,
        "insecure_key": result.insecure_key,
        "zero_knowledge": result.zero_knowledge,
        "device": str(session.device),
        **backend_report(session),
        **use_report(run),
        "out": str(where) if where else None,
    }


def _show(screen: cli.Screen, run: Run, report: cli.Report) -> None:
    """The tables at the end; the run's folder is known by now."""
    show_run(screen, run, report)
    rows = [
        ("circuit", f"{report['circuit']} on {run.facts['device']}", ""),
        ("backend", run.facts["backend"], ""),
    ]
    if report.get("checked"):
        rows.append(("input", f"holds, {partitions(report['partitions'])}", "bold green"))
    else:
        count = f"{len(report['proof']) // 2} bytes, {partitions(report['partitions'])}"
        secret = report["zero_knowledge"]
        rows += [
            ("proof", f"verified, {count}, in {report['seconds']:.2f} s", "bold green"),
            ("", shortened(report["proof"], 24), ""),
            ("written to", report["out"] or "nowhere", ""),
            ("key", report["key"], ""),
            ("key sha256", report["key_sha256"], ""),
            key_is(report["insecure_key"]),
            ("zero-knowledge", "yes" if secret else "NO", "" if secret else "bold red"),
            ("peak memory", size(report["peak_rss_bytes"]), ""),
        ]
    rows += [("note", note, "bold yellow") for note in report["notes"]]
    rows.append(("timeline", report["run"] or "not kept", ""))
    if report["run"]:
        rows.append(("", f"tensorboard --logdir {run.runs}", "dim"))
    print_facts(screen.console, rows)


def run(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return cli.execute(_parser(), _prove, argv)


if __name__ == "__main__":
    sys.exit(run())
