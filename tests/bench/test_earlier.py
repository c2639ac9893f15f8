"""Rows held against earlier ones: which one, in which direction, and how the command ends."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from torchzk import errors, ops
from torchzk.bench.__main__ import run
from torchzk.bench.earlier import EXIT_SLOWER, PERCENT, Earlier, newest, shown
from torchzk.bench.proof_table import print_proofs
from torchzk.bench.rows import read
from torchzk.errors import ConfigError, TorchzkError
from torchzk.params.curves import G1

Row = dict[str, Any]
SHIPPED = Path(__file__).parents[2] / "runs" / "bench"


def operation(figure: float, date: str = "2026-11-29T08:00:00Z", **more: Any) -> Row:
    """A row of an operation, in milliseconds unless it is said."""
    row = {"name": "ntt.2^20", "size": 1 << 20, "limit_bytes": None, "unit": "ms", "p50_s": 1.0}
    row |= {"figure": figure, "exact": True, "device": "NVIDIA H200", "backend": "triton"}
    return row | {"variant": "ptx", "commit": date[:4], "date": date} | more


def step(name: str, seconds: float, **more: Any) -> Row:
    """A row of a proof's step: of a partition its p50, of another what it is held against."""
    row = operation(seconds) | {"name": "proof.porep32g", "step": name, "right": True}
    for key in ("size", "unit", "exact", "p50_s", "limit_bytes"):
        del row[key]
    return row | {"seconds": 99.0} | more


def partition(name: str, p50: float, limit: int | None = None) -> Row:
    return step(name, 2.5, p50_s=p50, limit_bytes=limit, stages_ms={})


def held(rows: Iterable[Row], percent: float = PERCENT) -> Earlier:
    return Earlier(newest((f"rows:{n}", row) for n, row in enumerate(rows, 1)), percent)


def ratio(earlier: Earlier, row: Row) -> float | None:
    compared = earlier.compare(row)
    assert compared is not None
    return compared.ratio


def test_the_newest_by_date_whatever_the_order() -> None:
    rows = [
        operation(4.0, "2026-11-30T10:00:00Z"),
        operation(1.0, "2026-11-30T09:59:59Z"),
        operation(2.0, "2025-12-31"),
    ]
    for given in (rows, rows[::-1]):
        assert ratio(held(given), operation(2.0)) == 0.5
    # of one session the last
    assert ratio(held([operation(1.0), operation(8.0)]), operation(2.0)) == 0.25


@pytest.mark.parametrize(
    "other",
    [
        {"name": "ntt.2^20.equal"},
        {"size": 1 << 21},
        {"device": "NVIDIA H100"},
        {"backend": "torch"},
        {"variant": "plain"},
        {"limit_bytes": 1 << 30},
        {"unit": "G/s"},
        {"exact": False},
    ],
    ids=lambda other: next(iter(other)),
)
def test_rows_of_anything_else_are_passed(other: Row) -> None:
    later = operation(1.0, "2026-12-01T00:00:00Z", **other)
    assert ratio(held([operation(4.0), later]), operation(2.0)) == 0.5
    alone = held([later]).compare(operation(2.0))
    assert alone is not None and alone.before is alone.ratio is None
    assert not alone.slower and alone.report()["earlier"] is None


def test_a_step_is_held_against_the_same_step_and_limit() -> None:
    gib = 24 * 10**9
    rows = [partition("partition", 1.0), partition("24 GB", 2.0, gib)]
    rows += [step("whole", 10.0, p50_s=9.0), step("keys", 8.0)]
    earlier = held(rows)
    assert [shown(row) for row in rows] == [1.0, 2.0, 10.0, 8.0]
    assert ratio(earlier, partition("partition", 1.5)) == 1.5
    assert ratio(earlier, partition("24 GB", 1.5, gib)) == 0.75
    assert ratio(earlier, partition("48 GB", 1.5, 2 * gib)) is None
    assert ratio(earlier, step("whole", 20.0, p50_s=9.0)) == 2.0
    # a step that the host timed once is shown, and fails nothing
    keys = earlier.compare(step("keys", 80.0))
    assert keys is not None and keys.ratio == 10.0 and not keys.slower
    measured = [step("keys", 80.0), partition("24 GB", 3.0, gib)]
    assert [(c.name, c.slower) for c in earlier.judged(measured)] == [
        ("proof.porep32g, 24 GB", True)
    ]
    assert earlier.compare(step("whole", 1.0, right=False, error="ResourceError: full")) is None


@pytest.mark.parametrize("unit", ["G/s", "M/s", "GB/s"])
def test_a_rate_is_slower_where_it_is_lower(unit: str) -> None:
    earlier = held([operation(66.0, unit=unit)])
    low, high = (earlier.compare(operation(figure, unit=unit)) for figure in (33.0, 132.0))
    assert low is not None and high is not None
    assert (low.ratio, low.slower) == (2.0, True)
    assert (high.ratio, high.slower) == (0.5, False)


def test_just_the_percentage_passes_and_more_does_not() -> None:
    for percent, passes, fails in ((10, 110.0, 110.001), (0, 100.0, 100.001), (25, 125.0, 126.0)):
        earlier = held([operation(100.0)], percent)
        for figure, slower in ((passes, False), (fails, True), (50.0, False)):
            compared = earlier.compare(operation(figure))
            assert compared is not None and compared.slower is slower
    rates = held([operation(110.0, unit="M/s")])
    assert [c.slower for c in rates.judged([operation(100.0, unit="M/s")])] == [False]
    assert [c.slower for c in rates.judged([operation(99.9, unit="M/s")])] == [True]


def test_what_is_said() -> None:
    (compared,) = held([operation(100.0, commit="b952bde\x1b[31m")]).judged([operation(125.0)])
    assert str(compared) == (
        r"ntt.2^20: 125 ms after 100 (b952bde\x1b[, 2026-11-29T08:00:00Z), 1.250x the time"
    )
    assert compared.report() == {
        "name": "ntt.2^20",
        "figure": 125.0,
        "unit": "ms",
        "earlier": 100.0,
        "ratio": 1.25,
        "commit": "b952bde\x1b[31m",
        "date": "2026-11-29T08:00:00Z",
    }
    # a code of its own
    kinds = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, Exception)]
    codes = {error.exit_code for error in kinds if issubclass(error, TorchzkError)}
    assert {1, 2, 7} <= codes and EXIT_SLOWER not in codes


def test_the_table_of_proofs_has_the_column() -> None:
    rows = [step("keys", 80.0), partition("partition", 1.5), partition("24 GB", 1.5, 24 * 10**9)]
    rows = [row | {"idle_ms": 0.0, "clock": "device"} for row in rows]
    wrong = step("16 GB", 1.0, right=False, error="ResourceError: it does not fit")
    earlier = held([step("keys", 8.0), partition("partition", 1.0)])
    log = io.StringIO()
    print_proofs(Console(width=60, file=log), [*rows, wrong], earlier.cell)
    lines = {line.split()[0]: line for line in log.getvalue().splitlines() if line.strip()}
    assert lines["proof"].split()[-3:] == ["earlier", "key", "result"]
    assert "10.00x 2026" in lines["keys"] and "1.50x 2026" in lines["partition"]
    assert "no row before" in lines["24"]
    assert "x 2026" not in lines["16"] and "no row" not in lines["16"]


def test_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text(f"\n{json.dumps(operation(1.0))}\n")
    (tmp_path / "a.jsonl").write_text('{"what": "rows of another kind"}\n[1]\n')
    (tmp_path / "notes.txt").write_text("no rows")
    found = list(read(tmp_path))
    places = [f"{tmp_path}/{at}" for at in ("a.jsonl:1", "a.jsonl:2", "b.jsonl:2")]
    assert [place for place, _ in found] == places
    assert list(newest(found).values()) == [operation(1.0)]
    assert list(read(tmp_path / "b.jsonl")) == found[2:]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"empty: no file of rows \(\*.jsonl\)"):
        list(read(tmp_path / "empty"))
    with pytest.raises(ConfigError, match="nowhere: cannot read rows here: No such file"):
        list(read(tmp_path / "nowhere"))
    for text in (b'{"name": ', b"\xff\xfe", b"[" * 100_000):
        (tmp_path / "a.jsonl").write_bytes(b"{}\n" + text)
        with pytest.raises(ConfigError, match=r"a.jsonl:2: not a line of JSON"):
            list(read(tmp_path))


@pytest.mark.parametrize(
    "broken",
    [{"figure": None}, {"figure": 0.0}, {"figure": -1}, {"figure": float("nan")}, {"date": None}],
    ids=str,
)
def test_a_row_without_a_figure_is_refused(broken: Row) -> None:
    with pytest.raises(ConfigError, match="rows:2: a row without a figure above 0, or"):
        held([operation(1.0), operation(1.0) | broken])


def test_the_rows_that_are_shipped_are_read() -> None:
    """Every kind of file there is; and of a name of each kind the newest is found."""
    earlier = Earlier(newest(read(SHIPPED)))
    for name in ("transforms", "field", "proofs"):
        for _, row in read(SHIPPED / f"{name}.jsonl"):
            compared = earlier.compare(row)
            if compared is not None:
                assert compared.before is not None and compared.before["date"] >= row["date"]


SMALL = ("--device", "cpu", "--size", "2^3", "--runs", "3", "--commit", "now")


def measured(folder: Path, capsys: pytest.CaptureFixture[str], *names: str) -> list[Row]:
    """Rows as the command leaves them on this machine."""
    out = folder / "measured.jsonl"
    assert run([*names, *SMALL, "--out", str(out)]) == 0
    capsys.readouterr()
    return [json.loads(line) for line in out.read_text().splitlines()]


def write(path: Path, rows: Iterable[Row]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def scaled(row: Row, times: float) -> Row:
    """A row that took so many times as long, long ago, at another commit."""
    figure = row["figure"] * times if row["unit"] == "ms" else row["figure"] / times
    return row | {"figure": figure, "date": "2000-01-01T00:00:00Z", "commit": "old"}


def test_the_command_fails_where_something_is_slower(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("ntt.2^20", "intt.2^20", "poseidon.2")
    rows = {row["name"]: row for row in measured(tmp_path, capsys, *names)}
    old = write(
        tmp_path / "old.jsonl",
        [
            scaled(rows["ntt.2^3"], 1e-3),
            scaled(rows["poseidon.2.2^3"], 1e3),
            # of another device
            scaled(rows["intt.2^3"], 1e-3) | {"device": "another"},
        ],
    )
    out = tmp_path / "out.jsonl"
    command = [*names, *SMALL, "--out", str(out), "--against", str(old)]
    assert run(command) == EXIT_SLOWER == 8
    said = capsys.readouterr().err
    table = {line.split()[0]: line for line in said.splitlines() if line.strip()}
    assert table["benchmark"].split()[-2:] == ["earlier", "result"]
    assert "x old" in table["ntt.2^3"] and "no row before" in table["intt.2^3"]
    assert "0.00x old" in table["poseidon.2.2^3"] and "exact" in table["poseidon.2.2^3"]
    slower = [line for line in said.splitlines() if line.startswith("SLOWER")]
    assert len(slower) == 1 and slower[0].startswith("SLOWER: ntt.2^3: ")
    assert "no row before: intt.2^3" in said and "WRONG" not in said
    # rows are written as without the flag, whatever it says of them
    written = [row for _, row in read(out)]
    assert [set(row) for row in written] == [set(row) for row in rows.values()]

    assert run([*command, "--json"]) == EXIT_SLOWER
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (report["ok"], report["wrong"]) == (False, []) and len(report["rows"]) == 3
    (one,) = report["slower"]
    assert (one["name"], one["unit"], one["commit"]) == ("ntt.2^3", "ms", "old")
    assert one["ratio"] == pytest.approx(one["figure"] / one["earlier"]) and one["ratio"] > 1.1
    assert report["no_row_before"] == ["intt.2^3"]


def test_the_command_passes_where_nothing_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a folder; the percentage is the caller's, and rows just appended are not earlier ones."""
    (row,) = measured(tmp_path, capsys, "ntt.2^20")
    folder = tmp_path / "rows"
    folder.mkdir()
    rows = write(folder / "rows.jsonl", [scaled(row, 1e3)])
    command = ["ntt.2^20", *SMALL, "--out", str(rows), "--against", str(folder), "--json"]
    assert run(command) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["ok"] and report["slower"] == report["no_row_before"] == []
    write(rows, [scaled(row, 1e-2)])
    # the row appended is the newest of the file by now
    assert run(command) == EXIT_SLOWER
    assert len(rows.read_text().splitlines()) == 2
    write(rows, [scaled(row, 0.2)])
    assert run([*command, "--slower", "9999"]) == 0


def test_nothing_held_against_anything_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (row,) = measured(tmp_path, capsys, "ntt.2^20")
    rows = write(tmp_path / "rows.jsonl", [scaled(row, 1.0) | {"variant": "another"}])
    command = ["ntt.2^20", *SMALL, "--out", str(rows), "--against", str(rows)]
    assert run([*command, "--json"]) == 2
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert not said["ok"] and said["error"] == "ConfigError"
    assert f"no row before of device {row['device']}, backend torch" in said["message"]
    assert said["message"].endswith(": ntt.2^3")
    # the row is there all the same, and is an earlier one from now on
    assert run([*command, "--slower", "9999"]) == 0


def test_a_wrong_result_fails_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("ntt.2^20", "msm.g1.2^20")
    rows = measured(tmp_path, capsys, *names)
    old = write(tmp_path / "old.jsonl", [scaled(row, 1e-3) for row in rows])
    monkeypatch.setattr(ops, "msm", lambda *args, **kwargs: G1.generator)
    out = str(tmp_path / "out.jsonl")
    assert run([*names, *SMALL, "--out", out, "--against", str(old), "--json"]) == 1
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert not report["ok"] and report["wrong"] == ["msm.g1.2^3"]
    # its time says nothing
    assert [one["name"] for one in report["slower"]] == ["ntt.2^3"]


def test_a_bad_path_is_said_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    command = ["ntt.2^20", *SMALL, "--out", str(out)]
    assert run([*command, "--against", str(tmp_path / "nowhere")]) == 2
    assert not out.exists()
    assert "nowhere: cannot read rows here" in capsys.readouterr().err
    assert run(["ntt.2^20", "--slower", "5"]) == 2
    assert "--slower is of --against PATH" in capsys.readouterr().err
    for percent in ("-1", "ten", "nan", ""):
        assert run(["ntt.2^20", "--against", "rows", "--slower", percent]) == 2
        assert "--slower" in capsys.readouterr().err
