"""The tables at the end of a command, on terminals of every width and on streams without UTF-8."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from timeline_samples import span
from torchzk.scheduler.stages import RunRecord
from torchzk.summary import print_stages

SPANS = (
    span("host", "load torch", 0, 1_000),
    span("host", "make key", 1_000, 9_000),
    span("host", "setup: polynomials", 2_000, 6_500),
)


def shown(width: int, encoding: str = "utf-8") -> list[str]:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    print_stages(Console(file=stream, width=width), RunRecord("a run", SPANS))
    stream.flush()
    return raw.getvalue().decode(encoding).splitlines()


@pytest.mark.parametrize("width", [100, 60, 50, 40, 30])
def test_no_figure_is_cut_however_narrow(width: int) -> None:
    lines = shown(width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "…" not in text
    for figure in ("1.00", "11.1%", "8.00", "88.9%", "4.50", "50.0%", "9.00"):
        assert figure in text


@pytest.mark.parametrize(("width", "there"), [(100, True), (40, False)])
def test_bars_are_there_where_there_is_room(width: int, there: bool) -> None:
    assert ("━━━" in "".join(shown(width))) == there


def test_bars_are_of_signs_that_the_stream_has() -> None:
    lines = shown(80, "ascii")
    (made,) = [line for line in lines if "make key" in line]
    assert made.count("=") == round(24 * 8 / 9)
    assert made.isascii()
