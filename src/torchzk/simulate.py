"""Play a proving schedule through without a device: `python -m torchzk.simulate`."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from rich import box
from rich.table import Table
from rich.text import Text

from torchzk import cli
from torchzk.errors import ConfigError
from torchzk.scheduler.simulation.outcome import Outcome, simulate
from torchzk.scheduler.simulation.recommend import Choice, reasons, recommend, smallest
from torchzk.scheduler.simulation.scenario import (
    PolicyName,
    Published,
    Scenario,
    load_scenario,
    shipped_scenarios,
)
from torchzk.strict_yaml import parse_size
from torchzk.summary import print_facts, size

_NEAR = 0.1
"""A simulated figure further than this from the published one is shown in red."""


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as e:
        raise argparse.ArgumentTypeError(str(e)) from e


def _parser() -> cli.Parser:
    parser = cli.Parser(
        "torchzk.simulate", "Throughput, busy and waits of a proving schedule, by simulation."
    )
    parser.add_argument(
        "scenarios",
        nargs="*",
        metavar="SCENARIO",
        help="a YAML file, or the name of a shipped one; all shipped ones if none is named",
    )
    parser.add_argument("--policy", choices=get_args(PolicyName), help="instead of the scenario's")
    for flag, what in (
        ("--workers", "workers a device"),
        ("--devices", "devices"),
        ("--in-flight", "sectors in flight"),
    ):
        parser.add_argument(flag, type=cli.u64, metavar="N", help=f"{what}, likewise")
    parser.add_argument("--memory", type=_size, metavar="SIZE", help="budget of a device, likewise")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write trace.json and timeline.png")
    parser.add_argument(
        "--recommend",
        action="store_true",
        help="try workers, buffers and budgets; say what is best",
    )
    return parser


def _simulate(args: argparse.Namespace, screen: cli.Screen) -> cli.Report:
    names = args.scenarios or [path.stem for path in shipped_scenarios()]
    alone = len(names) == 1
    if not alone and (args.out or args.recommend):
        raise ConfigError("--out and --recommend take one scenario; name it")
    scenarios = {name: _changed(load_scenario(name), args) for name in names}
    outcomes = {name: simulate(scenario) for name, scenario in scenarios.items()}
    _print_outcomes(screen, outcomes)
    report: cli.Report = {"outcomes": {name: _report(o) for name, o in outcomes.items()}}
    if alone:
        (outcome,) = outcomes.values()
        _print_waits(screen, outcome)
    if args.recommend:
        (scenario,) = scenarios.values()
        report["recommended"] = _recommend(screen, scenario)
    if args.out:
        # late: a second of imports that a table does not wait for
        from torchzk.scheduler.simulation import picture

        files = picture.write(outcome, args.out)
        report["files"] = [str(path) for path in files]
        for path in files:
            screen.answer(str(path))
    return report


def _changed(scenario: Scenario, args: argparse.Namespace) -> Scenario:
    """The scenario with what flags say; what was published is then of something else."""
    schedule = {
        "policy": args.policy,
        "workers": args.workers,
        "sectors_in_flight": args.in_flight,
    }
    machine = {"devices": args.devices, "memory": args.memory}
    schedule = {k: v for k, v in schedule.items() if v is not None}
    machine = {k: v for k, v in machine.items() if v is not None}
    if not schedule and not machine:
        return scenario
    return dataclasses.replace(
        scenario,
        schedule=dataclasses.replace(scenario.schedule, **schedule),
        machine=dataclasses.replace(scenario.machine, **machine),
        published=Published(),
    )


def _print_outcomes(screen: cli.Screen, outcomes: dict[str, Outcome]) -> None:
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("scenario", no_wrap=True)
    table.add_column("workers", no_wrap=True)
    for head in ("s a proof", "off", "busy", "off"):
        table.add_column(head, justify="right")
    table.add_column("pace of")
    if any(o.scenario.published != Published() for o in outcomes.values()):
        table.caption = "off: by how much it differs from what was published"
    for name, outcome in outcomes.items():
        schedule, published = outcome.scenario.schedule, outcome.scenario.published
        seconds, busy = outcome.compared
        table.add_row(
            Path(name).stem,
            f"{schedule.workers} {schedule.policy}",
            Text(f"{seconds:.2f}", "bold"),
            _off(seconds, published.seconds_a_proof),
            f"{busy:.1%}",
            _off(busy, published.busy),
            outcome.limit,
        )
    screen.console.print(table)


def _off(simulated: float, published: float) -> Text:
    """How far a figure is from the published one."""
    if not published:
        return Text("")
    off = simulated / published - 1
    return Text(f"{off:+.1%}", "bold red" if abs(off) > _NEAR else "green")


def _print_waits(screen: cli.Screen, outcome: Outcome) -> None:
    scenario = outcome.scenario
    rows = [("title", scenario.title), ("source", scenario.source), ("chosen", scenario.chosen)]
    published = scenario.published
    if published != Published():
        said = f"{published.seconds_a_proof:.1f} s a proof"
        rows.append(("published", f"{said}, {published.busy:.1%} busy" if published.busy else said))
    rows += [
        ("planned", f"{size(outcome.most_planned)} of {size(scenario.machine.memory)} a device"),
        ("kernels", f"{outcome.busy:.1%} busy; the link {outcome.link_busy:.1%}"),
        ("preparers", f"{outcome.preparers_busy:.1%} at work"),
        ("whole run", f"{outcome.run_seconds:.1f} s, {outcome.run_seconds_a_proof:.2f} s a proof"),
    ]
    print_facts(screen.console, [(name, value, "") for name, value in rows])
    table = Table(box=box.SIMPLE, pad_edge=False)
    for head in ("who", "waits for"):
        table.add_column(head)
    for head in ("s a partition", "of their time"):
        table.add_column(head, justify="right")
    for wait in outcome.waits:
        table.add_row(wait.who, wait.what, f"{wait.seconds:.3f}", f"{wait.share:.1%}")
    if not outcome.waits:
        table.add_row("nobody", "", "", "")
    screen.console.print(table)


def _recommend(screen: cli.Screen, scenario: Scenario) -> cli.Report:
    choices = recommend(scenario)
    table = Table(box=box.SIMPLE, pad_edge=False)
    for head in ("budget", "workers", "buffers", "s a proof", "busy", "planned"):
        table.add_column(head, justify="right")
    table.add_column("pace of")
    for choice in choices:
        table.add_row(*_cells(choice))
    screen.console.print(table)
    own = next(choice for choice in choices if choice.budget == scenario.machine.memory)
    rows = [(f"best with {size(own.budget)}", _spell(own), "bold")]
    rows += [("because", reason, "") for reason in reasons(own)]
    least = smallest(choices)
    if least is not None:
        rows.append(("smallest budget", f"{size(least.budget)}: {_spell(least)}", "bold"))
    print_facts(screen.console, rows)
    screen.answer(f"{size(own.budget)}: {_spell(own)}")
    return {
        "own": _chosen(own),
        "because": reasons(own),
        "smallest": _chosen(least) if least else None,
        "budgets": [_chosen(choice) for choice in choices],
    }


def _cells(choice: Choice) -> list[str]:
    best = choice.best
    if best is None:
        return [size(choice.budget), "", "", "", "", "", "does not fit"]
    schedule = best.scenario.schedule
    return [
        size(choice.budget),
        str(schedule.workers),
        size(schedule.staging) if schedule.staging else "none",
        f"{best.seconds_a_proof:.2f}",
        f"{best.busy:.1%}",
        size(best.most_planned),
        best.limit,
    ]


def _spell(choice: Choice) -> str:
    best = choice.best
    if best is None:
        return "one partition does not fit"
    schedule = best.scenario.schedule
    buffers = f", {size(schedule.staging)} of buffers" if schedule.staging else ""
    return (
        f"{schedule.workers} worker{'s' if schedule.workers > 1 else ''}{buffers}, "
        f"{best.seconds_a_proof:.2f} s a proof"
    )


def _chosen(choice: Choice) -> dict[str, Any]:
    best = choice.best
    schedule = best.scenario.schedule if best else None
    return {
        "budget_bytes": choice.budget,
        "workers": schedule.workers if schedule else None,
        "staging_bytes": schedule.staging if schedule else None,
        "seconds_a_proof": best.seconds_a_proof if best else None,
        "busy": best.busy if best else None,
        "planned_bytes": best.most_planned if best else None,
    }


def _report(outcome: Outcome) -> dict[str, Any]:
    published = outcome.scenario.published
    return {
        "seconds_a_proof": outcome.seconds_a_proof,
        "busy": outcome.busy,
        "jobs_busy": outcome.jobs_busy,
        "link_busy": outcome.link_busy,
        "preparers_busy": outcome.preparers_busy,
        "limit": outcome.limit,
        "planned_bytes": outcome.most_planned,
        "run_seconds": outcome.run_seconds,
        "waits": [dataclasses.asdict(wait) for wait in outcome.waits],
        "published": dataclasses.asdict(published),
        "compared": dict(zip(("seconds_a_proof", "busy"), outcome.compared, strict=True)),
    }


def run(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return cli.execute(_parser(), _simulate, argv)


if __name__ == "__main__":
    sys.exit(run())
