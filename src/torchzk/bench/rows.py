"""Rows of results: what one benchmark gave, as a line of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchzk.bench.cases import Benchmark
from torchzk.bench.figures import SPPARK_SOURCE, Figures, figures_of
from torchzk.errors import ConfigError, one_line
from torchzk.files import make_folder

if TYPE_CHECKING:
    # it loads torch, and rows are read before that
    from torchzk.bench.timing import Times


@dataclass(frozen=True)
class Result:
    """One benchmark, run."""

    benchmark: Benchmark
    times: Times
    exact: bool
    """Whether every result that was judged is right."""
    work: float
    work_of: str
    floor: float | None
    """Seconds."""
    how: str
    against: float | None
    """Median seconds of the benchmark it is compared with."""

    @property
    def seconds(self) -> float:
        """The median."""
        return self.times.quantile(50)

    @property
    def figure(self) -> float:
        """The median in the unit of the benchmark."""
        return self.benchmark.figure(self.seconds, self.work)

    @property
    def figures(self) -> Figures:
        return figures_of(self.benchmark.name)

    @property
    def over_sppark(self) -> float | None:
        """Its time over sppark's: below 1, it is ahead."""
        sppark = self.figures.sppark
        if sppark is None:
            return None
        return self.figure / sppark if self.benchmark.unit == "ms" else sppark / self.figure

    @property
    def over_floor(self) -> float | None:
        """Its time over the floor."""
        return None if self.floor is None else self.seconds / self.floor

    @property
    def over_against(self) -> float | None:
        """Its time over that of what it is compared with."""
        return None if self.against is None else self.seconds / self.against

    @property
    def within_limit(self) -> bool | None:
        """Whether scratch memory stayed within the limit; None where either is not known."""
        limit, peak = self.benchmark.limit_bytes, self.times.peak_bytes
        return None if limit is None or peak is None else peak <= limit

    def reaches(self, target: float | None) -> bool | None:
        """Whether the figure is as good as `must` or `goal`; None if there is no such target."""
        if target is None:
            return None
        if self.figures.relative:
            return None if self.over_against is None else self.over_against <= target
        if self.benchmark.unit == "ms":
            return self.figure <= target
        return self.figure >= target

    def row(self) -> dict[str, Any]:
        """What is measured and what it is held against, for JSON."""
        b, f, times = self.benchmark, self.figures, self.times
        return {
            "name": b.name,
            "operation": b.operation,
            "size": b.size,
            "inputs": b.inputs,
            "limit_bytes": b.limit_bytes,
            "p20_s": times.quantile(20),
            "p50_s": times.quantile(50),
            "p80_s": times.quantile(80),
            "runs": len(times.runs),
            "first_call_s": times.first_call,
            "figure": self.figure,
            "unit": b.unit,
            "work": self.work,
            "work_of": self.work_of,
            "how": self.how,
            "exact": self.exact,
            "sppark": f.sppark,
            "sppark_source": SPPARK_SOURCE if f.sppark is not None else None,
            "ratio_to_sppark": self.over_sppark,
            "must": f.must,
            "goal": f.goal,
            "targets_are_ratios": f.relative,
            "reaches_must": self.reaches(f.must),
            "reaches_goal": self.reaches(f.goal),
            "against": b.against.name if b.against else None,
            "ratio_to_against": self.over_against,
            "floor_s": self.floor,
            "ratio_to_floor": self.over_floor,
            "peak_bytes": times.peak_bytes,
            "within_limit": self.within_limit,
        }


def append(path: Path, row: dict[str, Any]) -> None:
    """Add a row to a file, which is made if it is not there.

    Raises:
        ConfigError: It cannot be written.
    """
    make_folder(path.parent)
    try:
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")
    except OSError as e:
        raise ConfigError(f"{path}: cannot write rows here: {e.strerror}") from e


def read(path: Path) -> Iterator[tuple[str, Any]]:
    """Every line of a file, or of a folder's `*.jsonl` by name, after the place where it stands.

    Raises:
        ConfigError: There is no such file, one cannot be read, or a line is not JSON.
    """
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not files:
        raise ConfigError(f"{path}: no file of rows (*.jsonl) is in this folder")
    for file in files:
        try:
            lines = file.read_bytes().splitlines()
        except OSError as e:
            raise ConfigError(f"{file}: cannot read rows here: {e.strerror}") from e
        for n, line in enumerate(lines, 1):
            if line.strip():
                try:
                    yield f"{file}:{n}", json.loads(line)
                except (ValueError, RecursionError) as e:
                    raise ConfigError(f"{file}:{n}: not a line of JSON: {one_line(e)}") from e
