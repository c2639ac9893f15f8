"""Files are whole or absent."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from pathlib import Path

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
    (tmp_path / ".proof.bin.0123456789abcdef.partial").touch()
    with pytest.raises(error), atomic_write(path) as file:
        file.write(b"new")
        raise error
    assert path.read_bytes() == b"old"
    # another writer's partial file is not ours to remove
    assert names(tmp_path) == [".proof.bin.0123456789abcdef.partial", "proof.bin"]


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
