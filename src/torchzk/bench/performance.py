"""Put measured rows into pages of the docs: `python -m torchzk.bench.performance`.

Each table of a page stands between `<!-- rows: NAME -->` and `<!-- end -->`, and is made anew
from the last row of each step of a proof that is right. Steps may be of several commits.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from torchzk import cli
from torchzk.bench.proof_cases import PROOFS, ProofBenchmark
from torchzk.bench.proof_table import column_name, is_partition, step_name
from torchzk.bench.rows import read
from torchzk.errors import ConfigError
from torchzk.files import atomic_write

Row = dict[str, Any]
_MARKED = re.compile(r"(<!-- rows: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
NOTHING = "Not measured yet.\n"


def filled(page: str, rows: Sequence[Row]) -> str:
    """The page with the tables of these rows; a table without rows says so.

    Raises:
        ConfigError: The page marks a table that there is none of.
    """
    tables: dict[str, Callable[[Sequence[Row]], str]] = {
        "targets": targets,
        "limits": limits,
        "cards": cards,
    }
    tables |= {f"stages.{p.short}": _stages_of(p.name) for p in PROOFS}

    def table(match: re.Match[str]) -> str:
        if match[2] not in tables:
            raise ConfigError(f"the page marks rows: {match[2]}; there are {', '.join(tables)}")
        return match[1] + (tables[match[2]](rows) or NOTHING) + match[3]

    return _MARKED.sub(table, page)


def last(rows: Sequence[Row], name: str, step: str | None = None) -> list[Row]:
    """The last row of each step of a proof, those that went wrong left out, in order of steps."""
    found: dict[str, Row] = {}
    for row in rows:
        if row["name"] == name and row["right"] and step in (None, row["step"]):
            found[row["step"]] = row
    return list(found.values())


def targets(rows: Sequence[Row]) -> str:
    """What must be reached, and what was."""
    lines = []
    for proof in PROOFS:
        for row in last(rows, proof.name):
            figure, must, goal = (row.get(key) for key in ("figure", "must", "goal"))
            if figure is not None and row.get("slower") is None:
                what = f"{proof.short}, {step_name(row)}"
                cells = f"{figure:.3f} s | {_s(must)} | {_s(goal)} | {_met(row)} | {_commit(row)}"
                lines.append(f"| {what} | {cells} |")
            rss = row.get("host_rss")
            if rss:
                values = [f"{rss[k] / 2**30:.1f} GiB" for k in ("figure", "must", "goal")]
                cells = f"{' | '.join(values)} | {_met(rss)} | {_commit(row)}"
                lines.append(f"| {proof.short}, host RSS | {cells} |")
    head = "| what | measured | must | goal | reached | commit |\n"
    return _table(head + "|---|---:|---:|---:|---|---|\n", lines)


def limits(rows: Sequence[Row]) -> str:
    """One partition within limits of the device's memory: time, peak and plan."""
    lines = []
    for proof, row in _measured(rows):
        way = row["key_on"] + (", in turn" if row["in_turn"] else "")
        lines.append(
            f"| {proof.short} | {column_name(row)} | {row['p50_s']:.3f} | {way} "
            f"| {row['peak_bytes'] / 1e9:.2f} | {row['planned_bytes'] / 1e9:.2f} "
            f"| {row['plan']['figure']:.3f} | {_commit(row)} |"
        )
    head = "| proof | memory | s | key on | peak, GB | planned, GB | planned over peak | commit |\n"
    return _table(head + "|---|---|---:|---|---:|---:|---:|---|\n", lines)


def cards(rows: Sequence[Row]) -> str:
    """What one partition of a sector of GiB takes of a card and of the host, by the card's size."""
    lines = []
    for proof, row in _measured(rows):
        if proof.short.endswith("g"):
            lines.append(
                f"| {proof.short} | {column_name(row)} | {row['key_on']} "
                f"| {row['peak_bytes'] / 1e9:.1f} | {row['peak_rss_bytes'] / 1e9:.1f} "
                f"| {row['p50_s']:.2f} |"
            )
    head = "| proof | the card's memory | key on | peak, GB | host, GB | s a partition |\n"
    return _table(head + "|---|---|---|---:|---:|---:|\n", lines)


def _measured(rows: Sequence[Row]) -> Iterator[tuple[ProofBenchmark, Row]]:
    """Proofs, and the last rows of their partitions whose memory a device measured."""
    for proof in PROOFS:
        for row in last(rows, proof.name):
            if is_partition(row) and row.get("peak_bytes"):
                yield proof, row


def _stages_of(name: str) -> Callable[[Sequence[Row]], str]:
    def stages(rows: Sequence[Row]) -> str:
        found = last(rows, name, "partition")
        return _stages(found[0]) if found else ""

    return stages


def _stages(row: Row) -> str:
    """Where each millisecond of one partition goes, and the floor below it."""
    floors, total = row["floors_ms"], 1e3 * row["p50_s"]
    lines = [_stage(name, ms, floors.get(name), total) for name, ms in row["stages_ms"].items()]
    lines.append(_stage("idle between stages", row["idle_ms"], None, total))
    lines.append(_stage("first to last", total, sum(floors.values()), total))
    head = f"| stage | ms of the {row['clock']} | share | floor, ms | times the floor |\n"
    return _table(head + "|---|---:|---:|---:|---:|\n", lines)


def _table(head: str, lines: Sequence[str]) -> str:
    """Nothing where there are no lines."""
    return head + "\n".join(lines) + "\n" if lines else ""


def _stage(name: str, ms: float, floor: float | None, total: float) -> str:
    share = ms / total if total else 0.0
    below = "| |" if not floor else f"| {floor:,.1f} | {ms / floor:.2f} |"
    return f"| {name} | {ms:,.1f} | {share:.1%} {below}"


def _s(value: float | None) -> str:
    return "" if value is None else f"{value:g} s"


def _commit(row: Row) -> str:
    """That which was measured, as rows of one table may be of several."""
    return str(row.get("commit", ""))


def _met(figures: dict[str, Any]) -> str:
    if figures["reaches_goal"]:
        return "goal"
    return {True: "must", False: "no", None: ""}[figures["reaches_must"]]


def _fill(args: argparse.Namespace, screen: cli.Screen) -> cli.Report:
    changed = []
    rows = [row for _, row in read(args.rows)]
    pages = args.page or [Path("docs/performance.md"), Path("docs/operate.md")]
    try:
        texts = [page.read_text() for page in pages]
    except (OSError, ValueError) as e:
        raise ConfigError(f"{', '.join(map(str, pages))}: cannot be read: {e}") from e
    for page, text in zip(pages, texts, strict=True):
        new = filled(text, rows)
        with atomic_write(page) as file:
            file.write(new.encode())
        screen.answer(str(page))
        if new != text:
            changed.append(str(page))
    return {"pages": [str(page) for page in pages], "rows": len(rows), "changed": changed}


def run(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = cli.Parser("torchzk.bench.performance", "Put rows of proofs into pages of the docs.")
    rows = Path("runs/bench/proofs.jsonl")
    parser.add_argument("--rows", type=Path, default=rows, metavar="FILE", help=f"{rows}")
    parser.add_argument(
        "--page",
        type=Path,
        action="append",
        metavar="FILE",
        help="may be given several times; docs/performance.md and docs/operate.md",
    )
    return cli.execute(parser, _fill, argv)


if __name__ == "__main__":
    sys.exit(run())
