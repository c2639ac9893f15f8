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


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        ({"torch": "2.11.0", "triton": "not installed"}, []),
        ({"torch": "2.13.1+cpu", "triton": "3.7.1"}, []),
        ({"torch": "2.9.1", "triton": "3.10.0"}, ["torch 2.9.1 is untested", "triton 3.10.0 is"]),
        ({"torch": "3.0.0a0+git1", "triton": "3.6.0"}, ["torch 3.0.0a0+git1 is untested"]),
    ],
)
def test_what_was_never_tested_is_said(versions: dict[str, str], said: list[str]) -> None:
    found = machine.untested(versions)
    assert len(found) == len(said)
    for line, start in zip(found, said, strict=True):
        assert line.startswith(start)
    assert all("is tested with" in line for line in found)


def test_what_the_package_asks_for_and_what_is_pinned_is_tested() -> None:
    root = Path(__file__).parents[2]
    pins = dict(
        line.split("==")
        for line in (root / "constraints.txt").read_text().splitlines()
        if "==" in line
    )
    assert machine.untested(pins) == []
    project = (root / "pyproject.toml").read_text()
    for package, (first, _) in machine._TESTED.items():
        assert f'"{package}>={first[0]}.{first[1]}' in project
