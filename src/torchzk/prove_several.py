"""Several jobs of one circuit proved at once: `python -m torchzk.prove --input A --input B`.

Jobs are read and checked while others are proved, partitions of several are in work together, and
one that fails fails alone: the exit code is then that of the first that did.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from torchzk import cli
from torchzk.config import Config
from torchzk.errors import ConfigError
from torchzk.proof_file import SUFFIXES, ProofFormat, write_proof
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
    from torchzk.api import Keys, Outcome, Session


def prove_several(
    args: argparse.Namespace, screen: cli.Screen, config: Config, files: Sequence[Path]
) -> cli.Report:
    """Prove the jobs of all files; proofs are written as soon as they are there.

    Args:
        args: Of `torchzk.prove`; `out` is the folder to write to.

    Raises:
        ConfigError: A flag that is for one job, or two proofs would have one name.
    """
    if args.randomness is not None or args.check:
        raise ConfigError("--randomness and --check are for one job, and here are several")
    names = _names(files)
    if args.out is not None:
        _make_folder(args.out)
    with recorded_sessions(config, screen, "prove") as (run, sessions):
        from torchzk import api

        if args.profile_kernels is not None:
            watch_kernels(run, args.profile_kernels, screen, len(files))
        with api.open_sites(sessions) as sites:
            sources: Mapping[str, Path] = dict(zip(names, files, strict=True))
            folder = args.out or run.folder()
            attach_profiler(run, sessions[0])
            jobs = []
            for outcome in api.prove_many(
                sites, sources, miner_id=args.miner_id, sector_number=args.sector_number
            ):
                jobs.append(_ended(screen, outcome, sources[outcome.name], folder, args.format))
            run.planned |= sessions[0].plan.stage_bytes
            proven = [job for job in jobs if job["ok"]]
            if proven:
                warn_of(screen, insecure_key=sites[0].keys.insecure, zero_knowledge=True)
            run.facts["outcome"] = f"{len(proven)} of {len(jobs)} verified"
            report = _report(run, sessions, sites[0].keys, jobs)
    show_run(screen, run, report)
    _show(screen, run, report)
    if args.timeline_lines is not None:
        write_lines(args.timeline_lines, run)
    if args.out is None:
        for job in proven:
            screen.answer(f"{job['name']} {job['proof']}")
    return report


def _names(files: Iterable[Path]) -> list[str]:
    """What proofs are called: the files' names without their ends."""
    names = [path.name.partition(".")[0] or path.name for path in files]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ConfigError(f"input: two jobs are called {min(twice)}, and so would their proofs be")
    return names


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise ConfigError(f"--out {path}: is to be a folder of proofs: {e.strerror}") from e


def _ended(
    screen: cli.Screen, outcome: Outcome, path: Path, folder: Path | None, how: ProofFormat
) -> cli.Report:
    """The report of one job, its proof written."""
    head = {"name": outcome.name, "input": str(path)}
    if outcome.result is None:
        # without a result it ended with an error
        said = cli.error_report(cast("BaseException", outcome.error))
        screen.line(f"{outcome.name}: {said['error']}: {outcome.error}", "bold red")
        return head | {"ok": False} | said
    result = outcome.result
    out = folder / f"{outcome.name}{SUFFIXES[how]}" if folder else None
    if out is not None:
        write_proof(out, result.proof, how)
    count = partitions(result.partitions)
    screen.line(f"{outcome.name}: verified, {count}, after {result.seconds:.2f} s", "bold green")
    return head | {
        "ok": True,
        "proof": result.proof.hex(),
        "partitions": result.partitions,
        "verified": True,
        "seconds": result.seconds,
        "zero_knowledge": result.zero_knowledge,
        "out": str(out) if out else None,
    }


def _report(
    run: Run, sessions: Sequence[Session], keys: Keys, jobs: Sequence[cli.Report]
) -> cli.Report:
    failed = [job for job in jobs if not job["ok"]]
    faults = [
        {
            "exit_code": job["exit_code"],
            "error": job["error"],
            "message": f"{job['name']}: {job['message']}",
        }
        for job in failed
    ]
    return {
        "ok": not failed,
        # of the first, as one job alone would have said it
        **(faults[0] if faults else {"exit_code": 0}),
        "circuit": sessions[0].circuit.name,
        "jobs": list(jobs),
        "verified": not failed,
        "total_seconds": run.record().seconds,
        "key": keys.source,
        "key_sha256": keys.sha256,
        "insecure_key": keys.insecure,
        "device": ", ".join(str(session.device) for session in sessions),
        **backend_report(sessions[0]),
        **use_report(run),
    }


def _show(screen: cli.Screen, run: Run, report: cli.Report) -> None:
    rows = [
        ("circuit", f"{report['circuit']} on {run.facts['device']}", ""),
        ("backend", run.facts["backend"], ""),
    ]
    for job in report["jobs"]:
        if job["ok"]:
            rows.append((job["name"], f"verified, {partitions(job['partitions'])}", "bold green"))
            rows.append(("", job["out"] or shortened(job["proof"], 24), ""))
        else:
            rows.append((job["name"], f"{job['error']}: {job['message']}", "bold red"))
    rows += [
        ("key", report["key"], ""),
        key_is(report["insecure_key"]),
        ("peak memory", size(report["peak_rss_bytes"]), ""),
        ("timeline", report["run"] or "not kept", ""),
    ]
    print_facts(screen.console, rows)
