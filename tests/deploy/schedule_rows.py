"""Rows of sweeps by what they measured, which the pages on schedules quote."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
ROOT = Path(__file__).parents[2]


def page(name: str) -> tuple[str, str]:
    """A page of docs/ as it is, and with its lines joined."""
    text = (ROOT / "docs" / f"{name}.md").read_text()
    return text, " ".join(text.split())


def rows_of(name: str) -> list[Row]:
    """Those of a GPU, in runs/bench/."""
    lines = (ROOT / "runs" / "bench" / f"{name}.jsonl").read_text().splitlines()
    rows: list[Row] = [json.loads(line) for line in lines]
    assert all(row["commit"] and row["date"] for row in rows)
    return [row for row in rows if row["device"].startswith("NVIDIA")]


def sweeps() -> list[Row]:
    """The last row of each setting."""
    return list({tuple(row[key] for key in SETTING) + also(row): row for row in ROWS}.values())


def also(row: Row) -> tuple[bool, ...]:
    """Whether kernels were looked at; and what only rows of some commits have."""
    return row["busy_by_kernels"] is not None, *(bool(row.get(key)) for key in OF_ITS_TIME)


SETTING = (
    *("circuit", "policy", "workers", "in_flight", "residency", "limit", "most_partitions"),
    *("sectors", "devices", "commit"),
)
OF_ITS_TIME = "witness_graph", "early_witness"
NEWEST = "b952bde"
ROWS = rows_of("sweep")
SWEEPS = sweeps()
G22 = [r for r in SWEEPS if r["circuit"] == "porep8m"]
FIRSTS = [r for r in SWEEPS if r["most_partitions"] == 1]
G27 = [r for r in FIRSTS if r["commit"] == NEWEST]
G27_BEFORE = [r for r in FIRSTS if r not in G27]
STREAMED = [r for r in SWEEPS if r["residency"] == "host"]
WHOLE = [r for r in SWEEPS if r["partitions"] == 10 and r["residency"] == "device"]
"""Whole sectors with the key on the GPU."""
EARLY = [r for r in WHOLE if r.get("early_witness")]
GRAPH = [r for r in WHOLE if r.get("witness_graph")]
PLAIN = [r for r in WHOLE if r not in [*EARLY, *GRAPH]]
"""Witnesses launched kernel by kernel."""


def of(rows: Sequence[Row], sectors: int, commit: str, devices: int = 1) -> Row:
    """The one row of so many sectors."""
    said = (sectors, commit, devices)
    (row,) = [r for r in rows if (r["sectors"], r["commit"], r["devices"]) == said]
    return row


EIGHT, FOUR, TWO = of(GRAPH, 8, NEWEST), of(GRAPH, 4, NEWEST), of(GRAPH, 8, NEWEST, 2)
"""Four have as many sectors a GPU as two GPUs."""
LOOKED_AT = of(GRAPH, 2, NEWEST)
FOUR_PLAIN, TWO_PLAIN = of(PLAIN, 4, "53e57e8"), of(PLAIN, 8, "53e57e8", 2)
WITHOUT, WITH = of(PLAIN, 2, "53e57e8"), of(GRAPH, 2, "53e57e8")
"""A witness graph."""
BESIDE_EARLY = of(PLAIN, 2, "8c08e90")


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"
