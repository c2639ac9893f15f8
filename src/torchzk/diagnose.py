"""Name what computes wrongly: `python -m torchzk.diagnose --config FILE`.

One partition of the job is proven, and each operation of it compared with the reference on the CPU
as it goes. For whoever has proofs that do not verify; the proof itself is kept nowhere.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from torchzk import cli
from torchzk.errors import ConfigError, ProofError
from torchzk.recorded import backend_report, recorded_session
from torchzk.summary import partitions, print_facts

if TYPE_CHECKING:
    from torchzk.api import Job, Keys, Session
    from torchzk.scheduler.checked_backend import CheckedBackend, Finding, Row

_LIMIT = 1 << 20
"""Of this many points the reference takes minutes for a sum in G2."""
_ADVICE = (
    "no operation differs: the key is another circuit's, or was damaged before it was read; "
    "take its file anew, or remove the dev key from the cache"
)


def _parser() -> cli.Parser:
    parser = cli.Parser(
        "torchzk.diagnose",
        "Prove a partition, and compare each operation with the reference on the CPU.",
    )
    cli.add_config_flags(parser, job=True)
    parser.add_argument(
        "--partition", type=cli.u64, default=0, metavar="K", help="which, 0 by default"
    )
    parser.add_argument(
        "--runs", type=cli.u64, default=1, metavar="N", help="how often, 1 by default"
    )
    parser.add_argument(
        "--reference-limit",
        type=cli.u64,
        default=_LIMIT,
        metavar="N",
        help=f"elements or points above which an operation is run twice instead, {_LIMIT} by "
        "default; fewer take less time",
    )
    return parser


def _diagnose(args: argparse.Namespace, screen: cli.Screen) -> cli.Report:
    # a graph of the witness would be one operation for all
    config = dataclasses.replace(cli.config_of(args), witness_graph=False)
    path = None if config.synthetic is not None else cli.job_file(config)
    cli.check_key_file(config)
    if not args.runs:
        raise ConfigError("--runs: once at least")
    fault: ProofError | None = None
    checked: CheckedBackend | None = None
    try:
        with recorded_session(config, screen, "diagnose") as (run, session):
            from torchzk import api
            from torchzk.scheduler.checked_backend import CheckedBackend

            api.foresee(session)
            job = api.load_job(session, path)
            if args.partition >= job.n_partitions:
                raise ConfigError(f"--partition: the job has {partitions(job.n_partitions)}")
            place = (session.backend, session.device, session.timeline)
            checked = CheckedBackend(*place, args.reference_limit)
            own = dataclasses.replace(session, backend=checked, timeline=checked.stages())
            own.take_constraints(session)
            try:
                api.check(own, job)
                with api.get_keys(session) as keys:
                    _prove(session, own, keys, job, args)
            except ProofError as e:
                fault = e
            run.facts["outcome"] = "right" if fault is None else "wrong"
    except Exception:
        if checked is not None:
            _print_rows(screen, checked.rows)
        raise
    report: cli.Report = {
        "circuit": session.circuit.name,
        "partition": args.partition,
        "runs": args.runs,
        "reference_limit": args.reference_limit,
        "device": str(session.device),
        **backend_report(session),
        "verified": fault is None,
        "first_difference": None,
        "operations": [dataclasses.asdict(row) for row in checked.rows],
        "seconds": run.record().seconds,
        "run": str(run.folder() or "") or None,
    }
    report |= _judged(fault, session, checked.rows)
    _print_rows(screen, checked.rows)
    _print_verdict(screen, report, run.facts)
    return report


def _prove(session: Session, own: Session, keys: Keys, job: Job, args: argparse.Namespace) -> None:
    """Raise `ProofError` unless every operation is right and the proof verifies, in each run."""
    from torchzk.api import Randomisers, Site
    from torchzk.groth16.proofs import read_proofs
    from torchzk.groth16.verifier import verify_batch
    from torchzk.scheduler.proof_work import prove_partition

    inputs = own.circuit.public_inputs(job, args.partition)
    for k in range(args.runs):
        with session.timeline.span(f"run {k + 1} of {args.runs}" if args.runs > 1 else "prove"):
            raw = prove_partition(Site(own, keys), job, args.partition, Randomisers.draw())
            with own.timeline.span("verify"):
                if not verify_batch(keys.verifying, read_proofs(raw, 1), [inputs]):
                    raise ProofError("the proof does not hold for this job under this key")


def _judged(fault: ProofError | None, session: Session, rows: Sequence[Row]) -> cli.Report:
    """What was found as a report says it: the verdict, and what to do about it."""
    from torchzk.scheduler.checked_backend import DifferenceError

    if fault is None:
        return {"verdict": "every operation is right, and the proof verifies"}
    finding = fault.finding if isinstance(fault, DifferenceError) else None
    advice = _advice(finding, session) if finding else _ADVICE
    if finding is None and any(row.compared == "twice" for row in rows):
        advice = "no operation differs; raise --reference-limit, or try --backend torch"
    return {
        "ok": False,
        **cli.error_report(fault),
        "message": f"{fault}; {advice}",
        "verdict": str(fault),
        "advice": advice,
        "first_difference": dataclasses.asdict(finding) if finding else None,
    }


def _advice(finding: Finding, session: Session) -> str:
    test = (
        "test this machine's memory"
        if session.device.type == "cpu"
        else f"run torchzk.doctor --device {session.device} --memory-test 60"
    )
    if finding.fault == "key":
        return f"the key is damaged in memory or in its file: {test}, and take the file anew"
    if finding.fault == "unknown":
        return f"{test}, and prove on another device"
    if finding.fault == "sometimes":
        return f"asked again, the device says something else: {test}, and prove on another device"
    other = "another device" if session.choice.name == "torch" else "--backend torch"
    return f"the device says so again, as a wrong kernel does: prove with {other}, report this row"


def _print_rows(screen: cli.Screen, rows: Sequence[Row]) -> None:
    from torchzk.scheduler.checked_backend import power

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("stage", overflow="fold")
    table.add_column("operation", overflow="fold")
    for name in ("size", "times"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("shown by", no_wrap=True)
    for name in ("device ms", "again ms"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        style = "" if row.result == "right" else "bold red"
        shown = row.compared if row.result == "right" else row.result
        ms = (f"{row.device_ms:,.1f}", f"{row.compared_ms:,.1f}")
        cells = (row.stage, row.operation, power(row.size), str(row.times), shown, *ms)
        table.add_row(*(Text(cell, style) for cell in cells))
    screen.console.print(table)
    screen.console.print()


def _print_verdict(screen: cli.Screen, report: cli.Report, facts: dict[str, str]) -> None:
    counts = {"reference": 0, "twice": 0}
    for row in report["operations"]:
        counts[row["compared"]] += row["times"]
    compared = f"{counts['reference']:,} calls against the reference"
    if counts["twice"]:
        compared += (
            f", {counts['twice']:,} larger ones against a second time on the device, "
            "where a kernel that is always wrong does not show"
        )
    wrong = "bold red" if "error" in report else "bold green"
    rows = [
        (
            "circuit",
            f"{report['circuit']} on {facts['device']}, partition {report['partition']}",
            "",
        ),
        ("backend", facts["backend"], ""),
        ("compared", compared, ""),
        ("verdict", report["verdict"], wrong),
        ("timeline", report["run"] or "not kept", ""),
    ]
    if report["backend"] == "torch":
        same = "the same code on the CPU: a fault of the machine shows, none of the code"
        rows.insert(2, ("reference", same, ""))
    if "error" in report:
        rows.insert(-1, ("what to do", report["advice"], "bold yellow"))
    print_facts(screen.console, rows)
    if "error" in report:
        screen.line(f"torchzk: {report['error']}: {report['message']}", "bold red")
    else:
        screen.answer(report["verdict"])


def run(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return cli.execute(_parser(), _diagnose, argv)


if __name__ == "__main__":
    sys.exit(run())
