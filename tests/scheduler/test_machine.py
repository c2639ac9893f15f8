"""What the doctor reads off the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchzk.scheduler import machine


def test_memory_limit_of_nested_control_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "job" / "step"
    inner.mkdir(parents=True)
    (inner / "memory.max").write_text("max\n")
    (inner.parent / "memory.max").write_text(f"{3 << 30}\n")
    read_text = Path.read_text

    def fake(path: Path, *args: object) -> str:
        return "0::/job/step\n" if str(path) == "/proc/self/cgroup" else read_text(path)

    monkeypatch.setattr(Path, "read_text", fake)
    monkeypatch.setattr(machine, "_CGROUPS", tmp_path)
    memory = machine.memory()
    assert memory.cgroup_limit == 3 << 30
    assert memory.usable <= 3 << 30
    (inner.parent / "memory.max").write_text("max\n")
    assert machine.memory().cgroup_limit is None


def test_disk_of_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    assert machine.disk_free(tmp_path / "a" / "b") > 0


def test_versions_name_every_package() -> None:
    versions = machine.versions()
    assert versions["numpy"][0].isdigit() and versions["python"].startswith("3.")
