"""What the page on memory says of planned peaks is what plans say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from circuit_samples import sizes_of
from torchzk.scheduler.plan import Plan, plan

pytest.importorskip("triton")

PAGE = Path(__file__).parents[2] / "docs" / "memory.md"
CIRCUITS = ("porep-32GiB", "window-32GiB", "update-32GiB")
ROWS = re.findall(r"^\| (\d+) \| (.+) \| (.+) \| (.+) \|$", PAGE.read_text(), re.MULTILINE)


def in_words(found: Plan) -> str:
    how = "key there" if found.key_stays else "side by side" if found.room.costs else "streamed"
    turns = ", in turn" if found.room.in_turn else ""
    return f"{found.peak / 1e9:.1f}, {how}{turns}"


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_planned_peaks_of_the_page(row: tuple[str, ...]) -> None:
    budget, *said = row
    peaks = [in_words(plan(sizes_of(name), "triton", int(budget) * 10**9)) for name in CIRCUITS]
    assert said == peaks


def test_what_a_witness_graph_adds() -> None:
    n, more = int(ROWS[0][0]) * 10**9, []
    for sizes in map(sizes_of, CIRCUITS):
        plain, graph = (plan(sizes, "triton", n, graph=asked) for asked in (False, True))
        assert graph.witness_graph
        more.append(f"{(graph.peak - plain.peak) / 1e9:.1f}")
    said = f"a graph adds {more[0]}, {more[1]} and {more[2]} GB to its first row."
    assert said in " ".join(PAGE.read_text().split())


def test_the_page_has_them() -> None:
    assert [row[0] for row in ROWS] == ["141", "80", "48", "24", "16"]
