"""A plan on the terminal and in a report: what every stage takes of the device, and what fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from torchzk import cli
from torchzk.config import Config
from torchzk.interrupts import loading_torch
from torchzk.recorded import warn_of_limit
from torchzk.scheduler.progress import Progress
from torchzk.summary import bar, bar_width, print_facts, size

if TYPE_CHECKING:
    from torchzk.scheduler.plan import Plan

_BAR = 32


def planned(config: Config, screen: cli.Screen) -> cli.Report:
    """Print how a config's circuit would be proven, and return it; nothing is run.

    Raises:
        ResourceError: It cannot be, with the numbers.
    """
    with Progress(screen.console) as progress:
        watched = progress.watcher
        with loading_torch(watched):
            # late: what is wrong with a config is said without waiting for it
            from torchzk import api
        session = api.open_sessions(config, watched, screen.warn)[0]
        warn_of_limit(screen, session)
        plan = session.plan
    print_plan(screen, plan, str(session.device))
    screen.answer(one_line(plan))
    return report(plan) | {"device": str(session.device)}


def report(plan: Plan) -> cli.Report:
    """A plan as numbers."""
    return {
        "circuit": plan.circuit,
        "backend": plan.backend,
        "budget_bytes": plan.budget,
        "peak_bytes": plan.peak,
        "stage_bytes": plan.stage_bytes,
        "making_key_bytes": plan.making_key,
        "key_bytes": plan.key_bytes,
        "key_stays": plan.key_stays,
        "in_turn": plan.room.in_turn,
        "g1_points": plan.room.g1_points,
        "g2_points": plan.room.g2_points,
        "scratch_bytes": plan.room.scratch_bytes,
        "side_by_side": bool(plan.room.costs),
        "slots": plan.room.slots,
        "early_slots": plan.room.early_slots,
    }


def one_line(plan: Plan) -> str:
    """What fits, in a line."""
    return f"{size(plan.peak)} of {size(plan.budget)}: {plan.verdict}"


def print_plan(screen: cli.Screen, plan: Plan, device: str) -> None:
    """Stages with bytes and a bar of the budget, the sizes of pieces, and the verdict."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("stage")
    table.add_column("most at once", justify="right", no_wrap=True)
    # a key is made at once only where it is a development key, and before everything else
    made = plan.making_key + (plan.key_bytes if plan.key_stays else 0)
    rows = [("make a dev key", made), *plan.stage_bytes.items()]
    cells = [("stage", "most at once"), *((name, size(n_bytes)) for name, n_bytes in rows)]
    width, head = bar_width(screen.console, cells, _BAR), f"of {size(plan.budget)}"
    width = width if width >= len(head) else 0
    if width:
        table.add_column(head, width=width)
    for name, n_bytes in rows:
        share = min(1.0, n_bytes / plan.budget)
        before, top = name == rows[0][0], n_bytes == plan.peak
        style = "dim" if before else "bold" if top else ""
        colour = "red" if n_bytes > plan.budget else "cyan dim" if before else "cyan"
        drawn = bar(screen.console, width, max(share, 1 / _BAR), colour)
        table.add_row(Text(name, style), Text(size(n_bytes), style), *([drawn] if width else []))
    screen.console.print(table)
    room = plan.room
    ring = f"{room.slots} parts of it on the device, {room.early_slots} of them before the sums"
    print_facts(
        screen.console,
        [
            ("circuit", f"{plan.circuit} on {device}, backend {plan.backend}", ""),
            ("peak", f"{size(plan.peak)} of {size(plan.budget)}", "bold green"),
            ("key", f"{size(plan.key_bytes)}, {plan.key_verdict}", ""),
            *([] if plan.key_stays else [("", ring, "")]),
            ("vectors", plan.vectors_verdict, ""),
            ("points at a time", f"{room.g1_points:,} of G1, {room.g2_points:,} of G2", ""),
            ("scratch of a sum", size(room.scratch_bytes), ""),
        ],
    )
