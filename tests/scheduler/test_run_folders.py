from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from child_environment import child_environment
from torchzk.config import RunsLimit, load_config
from torchzk.errors import ConfigError
from torchzk.scheduler.run_folders import new_folder, remove_old
from torchzk.scheduler.sinks import open_run, timeline


def make(runs: Path, number: int, size: int = 100) -> Path:
    """A run that ended, the later the higher its number; of one second from the hundredth on."""
    stamp, process = min(number, 100), max(number - 100, 0)
    folder = runs / f"20260101T{stamp:06d}Z-{7 + process}"
    (folder / "inside").mkdir(parents=True)
    (folder / "trace.json").write_bytes(bytes(size // 2))
    (folder / "inside" / "events").write_bytes(bytes(size - size // 2))
    return folder


def left(runs: Path) -> list[str]:
    return sorted(path.name for path in runs.iterdir())


def test_by_default_everything_stays(tmp_path: Path) -> None:
    made = [make(tmp_path, i) for i in range(30)]
    assert remove_old(tmp_path, RunsLimit()) == []
    assert len(left(tmp_path)) == len(made)


@pytest.mark.parametrize(
    ("limit", "stay"),
    [
        (RunsLimit(count=1), 1),
        (RunsLimit(count=4), 4),
        (RunsLimit(count=10), 10),
        (RunsLimit(count=11), 10),
        (RunsLimit(size=1000), 10),
        (RunsLimit(size=999), 9),
        (RunsLimit(size=300), 3),
        (RunsLimit(size=299), 2),
        (RunsLimit(count=5, size=300), 3),
        (RunsLimit(count=2, size=300), 2),
        # the newest, whatever it takes
        (RunsLimit(size=1), 1),
    ],
)
def test_the_oldest_go(tmp_path: Path, limit: RunsLimit, stay: int) -> None:
    # some before, some within one second, whose processes' numbers have two lengths
    made = [make(tmp_path, i) for i in range(96, 106)]
    removed = remove_old(tmp_path, limit)
    assert removed == made[: len(made) - stay]
    assert left(tmp_path) == sorted(path.name for path in made[len(made) - stay :])


def test_nothing_else_is_touched(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("kept")
    runs = tmp_path / "runs"
    for i in range(3):
        make(runs, i)
    (runs / "bench").mkdir()
    (runs / "20250101T000000Z").mkdir()
    (runs / "20250101T000000Z-1.json").write_text("")
    (runs / "20250101T000000Z-2").write_text("a file")
    (runs / "20250101T000000Z-3").symlink_to(outside)
    # and a link in a run that goes
    (runs / "20260101T000000Z-7" / "link").symlink_to(outside)
    assert len(remove_old(runs, RunsLimit(count=1))) == 2
    assert left(runs) == [
        "20250101T000000Z",
        "20250101T000000Z-1.json",
        "20250101T000000Z-2",
        "20250101T000000Z-3",
        "20260101T000002Z-7",
        "bench",
    ]
    assert (outside / "file").read_text() == "kept"
    assert remove_old(tmp_path / "none", RunsLimit(count=1)) == []


HOLDER = """
import sys, time
from pathlib import Path
from torchzk.scheduler.run_folders import new_folder
print(new_folder(Path(sys.argv[1])).path.name, flush=True)
sys.stdin.read()
"""


def test_a_run_that_is_written_to_stays_until_its_process_ends(tmp_path: Path) -> None:
    ours = new_folder(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=child_environment(),
    ) as process:
        assert process.stdout is not None
        theirs = tmp_path / process.stdout.readline().strip()
        newest = tmp_path / "29990101T000000Z-1"
        newest.mkdir()
        assert remove_old(tmp_path, RunsLimit(count=1)) == []
        ours.release()
        ours.release()
        assert remove_old(tmp_path, RunsLimit(count=1)) == [ours.path]
        process.kill()
        process.wait()
    assert remove_old(tmp_path, RunsLimit(count=1)) == [theirs]
    assert left(tmp_path) == [newest.name]


def test_each_run_makes_room_when_it_is_written(tmp_path: Path) -> None:
    folders = []
    for _ in range(5):
        with open_run(tmp_path, "t", pytest.fail, {}, RunsLimit(count=2)) as run:
            run.drawn = False
            with timeline(run).span("s"):
                folders.append(run.folder())
    assert [path for path in folders if path and path.is_dir()] == folders[-2:]
    for folder in folders[-2:]:
        assert folder is not None
        names = sorted(path.name.partition(".")[0] for path in folder.iterdir())
        assert names == ["events", "trace"]


CONFIG = "circuit: {kind: window, sector_size: 2KiB}\nkeys: dev\n"


def test_a_config_says_how_much(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(CONFIG)
    assert load_config(path).runs_limit == RunsLimit(count=None, size=None)
    path.write_text(CONFIG + "runs_limit: {count: 20, size: 1GiB}\n")
    assert load_config(path).runs_limit == RunsLimit(count=20, size=1 << 30)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{count: 0}", "runs_limit.count: must be 1 at least"),
        ("{count: many}", "runs_limit.count: must be an integer"),
        ("{size: 0}", "is no size"),
        ("{bytes: 1}", "runs_limit.bytes: unknown key"),
        ("20", "must be a mapping"),
    ],
)
def test_a_config_is_read_strictly(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(f"{CONFIG}runs_limit: {text}\n")
    with pytest.raises(ConfigError, match=why):
        load_config(path)
