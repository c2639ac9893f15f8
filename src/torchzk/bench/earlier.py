"""`bench --against PATH`: rows held against the newest earlier ones of the same kind of device."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from rich.text import Text

from torchzk.bench.proof_table import shown_seconds, step_name
from torchzk.errors import ConfigError, one_line

Row = dict[str, Any]
EXIT_SLOWER = 8
"""What the command returns where something is slower; README has the table."""
PERCENT = 10.0
_SAME = ("name", "size", "step", "limit_bytes", "unit", "device", "backend", "variant")
"""What two rows have in common that are compared."""


@dataclass(frozen=True)
class Compared:
    """A row just measured and the newest one before it."""

    row: Row
    before: Row | None
    percent: float
    """More time than before that is not slower yet: just so much passes."""

    @property
    def name(self) -> str:
        """Of the benchmark; of proofs with the step."""
        name = str(self.row["name"])
        return f"{name}, {step_name(self.row)}" if "step" in self.row else name

    @property
    def unit(self) -> str:
        """Of both figures; proofs take seconds."""
        return str(self.row.get("unit", "s"))

    @property
    def ratio(self) -> float | None:
        """The time over that before, below 1 quicker; of rates the one before over this one."""
        if self.before is None:
            return None
        now, before = shown(self.row), shown(self.before)
        return now / before if self.unit in ("ms", "s") else before / now

    @property
    def judged(self) -> bool:
        """Whether slower fails: not of steps timed once by the host, which scatter by far more."""
        return "p50_s" in self.row

    @property
    def slower(self) -> bool:
        """Whether it is judged and takes more than `percent` longer."""
        ratio = self.ratio
        return self.judged and ratio is not None and ratio > 1 + self.percent / 100

    def report(self) -> Row:
        """Both figures as the table shows them, for JSON; None for what no row before says."""
        before = self.before or {}
        return {
            "name": self.name,
            "figure": shown(self.row),
            "unit": self.unit,
            "earlier": shown(before) if before else None,
            "ratio": self.ratio,
            "commit": before.get("commit"),
            "date": before.get("date"),
        }

    def __str__(self) -> str:
        now = f"{self.name}: {shown(self.row):.5g} {self.unit}"
        if self.before is None:
            return f"{now}, no row before"
        of = f"{_commit(self.before)}, {one_line(self.before['date'], 24)}"
        return f"{now} after {shown(self.before):.5g} ({of}), {self.ratio:.3f}x the time"


@dataclass(frozen=True)
class Earlier:
    """The newest row of each benchmark, as `newest` finds it before anything is measured."""

    rows: dict[str, Row]
    percent: float = PERCENT

    def compare(self, row: Row) -> Compared | None:
        """A row beside the one before; None of a wrong result, whose time says nothing."""
        return Compared(row, self.rows.get(_key(row)), self.percent) if _is_right(row) else None

    def judged(self, rows: Iterable[Row]) -> list[Compared]:
        """Those of the rows that may fail."""
        return [c for c in map(self.compare, rows) if c is not None and c.judged]

    def cell(self, row: Row) -> Text:
        """The ratio and the commit it is to, for a table; dim where it is not judged."""
        held = self.compare(row)
        if held is None:
            return Text()
        if held.before is None:
            return Text("no row before", "yellow" if held.judged else "dim")
        style = "bold red" if held.slower else "" if held.judged else "dim"
        return Text(f"{held.ratio:.2f}x {_commit(held.before)}", style)


def newest(rows: Iterable[tuple[str, Any]]) -> dict[str, Row]:
    """The newest right row of each benchmark by date, of one date the last; other rows are passed.

    Args:
        rows: Each after the place where it stands, as `rows.read` gives them.

    Raises:
        ConfigError: One of a benchmark has no figure or no date.
    """
    found = []
    for place, row in rows:
        of_benchmark = isinstance(row, dict) and "name" in row and ("unit" in row or "step" in row)
        if of_benchmark and _is_right(row):
            try:
                figure, date = shown(row), row["date"]
            except (KeyError, TypeError, ValueError, OverflowError):
                figure, date = 0.0, ""
            if not (0 < figure < math.inf and isinstance(date, str)):
                raise ConfigError(f"{place}: a row without a figure above 0, or without a date")
            found.append(row)
    return {_key(row): row for row in sorted(found, key=itemgetter("date"))}


def shown(row: Row) -> float:
    """What the table shows: an operation's figure in its unit, of a proof's step seconds."""
    return float(row["figure"] if "unit" in row else shown_seconds(row))


def _is_right(row: Row) -> bool:
    return row.get("exact", row.get("right")) is True


def _key(row: Row) -> str:
    # as text: what rows of others hold may have no hash
    return json.dumps([row.get(key) for key in _SAME])


def _commit(row: Row) -> str:
    return str(one_line(row.get("commit"))[:12])
