"""The wheel, built as pip builds it and installed where no checkout is."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import torchzk

ROOT = Path(__file__).parents[2]


def run(*command: str | Path, cwd: Path) -> str:
    # what leads back to the checkout is left out, and whose caches these are
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    kept["HOME"] = str(cwd)
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, capture_output=True, text=True, timeout=120, env=kept
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    offline = ("--no-deps", "--no-build-isolation", "--no-index")
    run(*pip, "wheel", "-q", *offline, "-w", folder, ROOT, cwd=folder)
    (made,) = folder.glob("*.whl")
    return made


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        return set(archive.namelist())


def below(folder: Path) -> set[str]:
    """Files of the checkout; not what Python and editors leave behind."""
    every = (p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return {p.relative_to(folder).as_posix() for p in every if not p.name.startswith(".")}


def test_a_wheel_has_every_file_of_the_package_and_no_other(wheel: Path) -> None:
    wanted = {f"torchzk/{name}" for name in below(ROOT / "src" / "torchzk")}
    wanted |= {f"torchzk/configs/{name}" for name in below(ROOT / "configs")}
    found = {name for name in names(wheel) if ".dist-info/" not in name}
    assert found == wanted
    # as the walk itself may be wrong
    assert {
        "torchzk/py.typed",
        "torchzk/serving/live_page.html",
        "torchzk/serving/wire/proving.proto",
        "torchzk/serving/wire/proving_pb2.pyi",
        "torchzk/scheduler/official_keys.json",
        "torchzk/configs/window2k.yaml",
        "torchzk/configs/inputs/window2k.json",
        "torchzk/configs/serve/serve32g.yaml",
        "torchzk/configs/simulate/cuzk_phase9.yaml",
    } <= found


def test_a_wheel_says_what_it_is(wheel: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    info = f"torchzk-{torchzk.__version__}.dist-info"
    assert wheel.name == f"torchzk-{torchzk.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        said = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
        entries = archive.read(f"{info}/entry_points.txt").decode()
        for name in ("LICENSE-MIT", "LICENSE-APACHE"):
            assert archive.read(f"{info}/licenses/{name}") == (ROOT / name).read_bytes()
    assert (said["Name"], said["Version"]) == ("torchzk", torchzk.__version__)
    assert said["Requires-Python"] == project["requires-python"]
    assert said["License-Expression"] == project["license"]
    needed = [line for line in said.get_all("Requires-Dist", []) if "extra" not in line]
    assert len(needed) == len(project["dependencies"])
    assert set(said.get_all("Provides-Extra", [])) == set(project["optional-dependencies"])
    for name, where in project["scripts"].items():
        assert f"{name} = {where}" in entries


def test_an_installed_wheel_works_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    home, empty = tmp_path / "venv", tmp_path / "empty"
    empty.mkdir()
    venv.create(home, symlinks=True)
    python = home / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    run(*pip, "install", "-q", "--no-deps", "--no-index", wheel, cwd=empty)
    # its dependencies are those of the tests; a path, so that a checkout named there is not read
    (site,) = (home / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = run(python, "-c", "import torchzk; print(torchzk.__file__)", cwd=empty)
    assert Path(where.strip()).resolve().is_relative_to(home.resolve())
    checked = run(
        home / "bin" / "torchzk-serve",
        *("--config", "serve/serve32g.yaml", "--check-config", "--json"),
        cwd=empty,
    )
    assert "unix:///run/torchzk/torchzk.sock" in checked
    page = "from torchzk.serving.status_server import _page; print(_page()[:15])"
    assert run(python, "-c", page, cwd=empty).strip() == "<!doctype html>"
    stubs = "from torchzk.serving.wire import proving_pb2 as p; print(p.DESCRIPTOR.package)"
    assert run(python, "-c", stubs, cwd=empty).strip() == "cuzk.v1"
    plan = run(
        home / "bin" / "torchzk-prove",
        *("--config", "window2k.yaml", "--check", "--json"),
        cwd=empty,
    )
    assert '"window' in plan


def test_the_changelog_has_the_version() -> None:
    assert f"\n## {torchzk.__version__}" in (ROOT / "CHANGELOG.md").read_text()
