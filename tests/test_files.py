"""Files are whole or absent."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from child_environment import child_environment
from torchzk.errors import ConfigError, ResourceError
from torchzk.files import atomic_write


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "proof.bin"
    with atomic_write(path) as file:
        file.write(b"half")
        assert not path.exists()
        (partial,) = names(tmp_path)
        # neither globs nor suffixes of whole files find it
        assert partial.startswith(".proof.bin.")
        assert partial.endswith(".partial")
        file.write(b" whole")
    assert path.read_bytes() == b"half whole"
    assert names(tmp_path) == ["proof.bin"]
    (tmp_path / "plain").touch()
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
def test_whatever_stops_the_writing_leaves_the_old_file(
    error: type[BaseException], tmp_path: Path
) -> None:
    path = tmp_path / "proof.bin"
    path.write_bytes(b"old")
    with pytest.raises(error), atomic_write(path) as file:
        file.write(b"new")
        raise error
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["proof.bin"]


def test_what_dead_writers_left_goes_and_nothing_else(tmp_path: Path) -> None:
    dead = [f".{name}.0123456789abcdef.partial" for name in ("proof.bin", "a.params")]
    others = [
        ".proof.bin.partial",
        "proof.bin.0123456789abcdef.partial",
        ".proof.bin.0123456789abcdef.partial.txt",
        ".proof.bin.0123456789ABCDEF.partial",
    ]
    for name in dead + others:
        (tmp_path / name).touch()
    (tmp_path / ".folder.0123456789abcdef.partial").mkdir()
    (tmp_path / ".link.0123456789abcdef.partial").symlink_to(tmp_path / others[0])
    os.mkfifo(tmp_path / ".pipe.0123456789abcdef.partial")
    kept = sorted(set(names(tmp_path)) - set(dead))
    with atomic_write(tmp_path / "one") as first:
        first.write(b"1")
        # both live, and write to one folder
        with atomic_write(tmp_path / "one") as second:
            second.write(b"2")
        assert (tmp_path / "one").read_bytes() == b"2"
        (live,) = set(names(tmp_path)) - {*kept, "one"}
        assert live.startswith(".one.")
    assert (tmp_path / "one").read_bytes() == b"1"
    assert names(tmp_path) == sorted([*kept, "one"])


def test_writers_of_one_folder_do_not_sweep_each_other(tmp_path: Path) -> None:
    """Files are created, locked, renamed and swept at the same time; each one becomes whole."""

    def write(k: int) -> None:
        for i in range(100):
            with atomic_write(tmp_path / f"{k}") as file:
                file.write(b"%d" % i)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert names(tmp_path) == ["0", "1", "2", "3"]
    assert {path.read_bytes() for path in tmp_path.iterdir()} == {b"99"}


def test_a_file_swept_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, swept = fcntl.flock, list[str]()

    def slow(file: Any, how: int) -> None:
        if not swept:
            (name,) = names(tmp_path)
            swept.append(name)
            (tmp_path / name).unlink()
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", slow)
    with atomic_write(tmp_path / "one") as file:
        file.write(b"whole")
    assert swept and (tmp_path / "one").read_bytes() == b"whole"
    assert names(tmp_path) == ["one"]


def test_without_locks_files_are_written_and_nothing_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(file: Any, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    (tmp_path / ".a.0123456789abcdef.partial").touch()
    with atomic_write(tmp_path / "one") as file:
        file.write(b"whole")
    assert names(tmp_path) == [".a.0123456789abcdef.partial", "one"]


def test_an_old_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "proof.bin"
    path.write_bytes(b"old and longer")
    with atomic_write(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "there" / "proof.bin")
    with atomic_write(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert (tmp_path / "there" / "proof.bin").read_bytes() == b"new"


def test_what_cannot_be_written_is_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a regular file"), atomic_write(tmp_path):
        pass
    missing = tmp_path / "missing" / "proof.bin"
    with pytest.raises(ConfigError, match="cannot write to"), atomic_write(missing):
        pass
    assert names(tmp_path) == []


def test_a_full_disk_is_a_typed_error(tmp_path: Path) -> None:
    path = tmp_path / "proof.bin"
    with pytest.raises(ResourceError, match="disk is full"), atomic_write(path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert names(tmp_path) == []


def test_a_killed_process_leaves_no_whole_file(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib\n"
        "from torchzk.files import atomic_write\n"
        "with atomic_write(pathlib.Path(sys.argv[1])) as f:\n"
        "    f.write(b'half'); f.flush(); print('ready', flush=True); sys.stdin.read()\n"
    )
    path = tmp_path / "proof.bin"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=child_environment(),
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
    assert not path.exists()
    (left,) = names(tmp_path)
    assert left.endswith(".partial")
    # whoever writes next finds that nobody holds it
    with atomic_write(tmp_path / "other"):
        pass
    assert names(tmp_path) == ["other"]
