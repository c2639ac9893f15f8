"""The house's own rules, walked with `ast`: imports, sizes, globals, and what the docs promise."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "torchzk"
# what protoc makes keeps its own rules
MODULES = sorted(p for p in PACKAGE.rglob("*.py") if not p.stem.endswith("_pb2"))
# each layer imports from those before it and from itself
LAYERS = (
    (
        "errors",
        "memory_faults",
        "device_cache",
        "captures",
        "files",
        "small_files",
        "timeline",
    ),
    ("params",),
    ("ops", "triton_kernels"),
    ("backends",),
    ("groth16",),
    ("circuits",),
    ("strict_yaml", "config"),
    ("scheduler",),
    ("api",),
    ("serving",),
    (
        "interrupts",
        "cli",
        "recorded",
        "summary",
        "plan_table",
        "proof_file",
        "prove",
        "prove_several",
        "setup",
        "verify",
        "doctor",
        "doctor_tests",
        "diagnose",
        "synthetic",
        "simulate",
        "serve",
        "client",
        "client_bench",
        "client_latency",
        "client_status",
        "client_verbs",
        "bench",
        "__main__",
    ),
)
LAYER_OF = {name: i for i, layer in enumerate(LAYERS) for name in layer}
COMMANDS = LAYERS[-1]


def dotted(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def imports(path: Path, *, at_run_time: bool = False) -> Iterator[str]:
    """Dotted names inside the package that a module imports, late imports included."""
    skipped: set[ast.AST] = set()
    if at_run_time:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                skipped |= set(ast.walk(node))
    for node in ast.walk(tree(path)):
        if node in skipped:
            continue
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            module = node.module or ""
            if module.partition(".")[0] == "torchzk":
                inside = module.removeprefix("torchzk").lstrip(".")
                for alias in node.names:
                    name = f"{inside}.{alias.name}".lstrip(".")
                    yield name if name in NAMES else inside
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "torchzk":
                    yield alias.name.removeprefix("torchzk").lstrip(".")


NAMES = {dotted(path) for path in MODULES}


def ids(path: Path) -> str:
    return dotted(path) or "torchzk"


def test_the_walk_finds_the_package() -> None:
    assert {"errors", "ops.field", "circuits.gadgets.num", "scheduler.sinks"} <= NAMES
    assert "scheduler.sinks" in set(imports(PACKAGE / "prove.py"))


@pytest.mark.parametrize("path", MODULES, ids=ids)
def test_imports_go_one_way(path: Path) -> None:
    own = dotted(path).partition(".")[0]
    if not own:
        assert list(imports(path)) == []
        return
    assert own in LAYER_OF, f"{own} has no layer"
    for name in imports(path):
        other = name.partition(".")[0]
        # of the package itself only its version is taken
        assert not other or LAYER_OF[other] <= LAYER_OF[own], f"{dotted(path)} imports {name}"


def test_modules_import_each_other_in_no_circle() -> None:
    graph = {
        dotted(path): set(imports(path, at_run_time=True)) - {"", dotted(path)} for path in MODULES
    }
    assert len(list(TopologicalSorter(graph).static_order())) >= len(graph) - 1


@pytest.mark.parametrize("path", MODULES, ids=ids)
def test_protocol_and_circuits_leave_arithmetic_to_a_backend(path: Path) -> None:
    if dotted(path).partition(".")[0] in ("groth16", "circuits", "scheduler"):
        allowed = {"ops.layout", "ops.csr"}
        taken = {name for name in imports(path) if name.startswith(("ops", "triton_kernels"))}
        assert taken <= allowed


@pytest.mark.parametrize("path", MODULES, ids=ids)
def test_a_module_is_small_documented_and_reads_no_environment(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 400
    if text:
        assert ast.get_docstring(tree(path)), "has no docstring"
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute):
            assert node.attr not in ("environ", "getenv", "putenv")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "print" or dotted(path) in COMMANDS
        if isinstance(node, ast.Global):
            pytest.fail(f"global {node.names}")


@pytest.mark.parametrize("path", [*MODULES, *sorted((ROOT / "tests").rglob("*.py"))], ids=str)
def test_nothing_is_left_to_do(path: Path) -> None:
    # spelt apart, or this file would find itself
    assert not re.search("TO" + "DO|FIX" + "ME|X" + "XX", path.read_text())


def architecture() -> str:
    return (ROOT / "docs" / "architecture.md").read_text()


def test_the_layers_are_those_of_the_docs() -> None:
    (block,) = re.findall(r"```\n(errors.*?)```", architecture(), re.DOTALL)
    shown = [
        {name.strip() for name in layer.split(",")} for layer in " ".join(block.split()).split("->")
    ]
    hidden = {"strict_yaml"}
    assert shown[:-1] == [set(layer) - hidden for layer in LAYERS[:-1]]
    assert shown[-1] == {"commands"}


@pytest.mark.parametrize("path", [p for p in MODULES if p.name != "__init__.py"], ids=ids)
def test_the_docs_mention_every_module(path: Path) -> None:
    package, _, rest = dotted(path).partition(".")
    assert f"`{rest or package}`" in architecture()


def test_the_docs_mention_no_module_that_is_gone() -> None:
    table = architecture().partition("## Modules")[2]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = {name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)}
    known = NAMES | {name.partition(".")[2] for name in NAMES}
    assert named - known == set()


def test_readme_has_two_commands_and_ci_runs_the_second() -> None:
    readme = (ROOT / "README.md").read_text()
    commands = re.findall(r"^    (python3 -m venv .*)$", readme, re.MULTILINE)
    prove, test = commands
    assert "-m torchzk.prove --config configs/window2k.yaml" in prove
    assert test.endswith("-m pytest -q") and "-e '.[test]'" in test
    script = (ROOT / ".ci" / "run").read_text()
    assert script.startswith("#!/usr/bin/env bash\n") and "set -euo pipefail" in script
    # it takes the command from the README rather than repeat it
    (pattern,) = re.findall(r"grep -E '([^']*)' README\.md", script)
    assert re.findall(pattern + ".*", readme, re.MULTILINE) == [f"    {test}"]
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_readme_says_every_key_of_a_config_and_every_exit_code() -> None:
    from torchzk import config, errors

    readme = (ROOT / "README.md").read_text()
    for name in config.Config.__dataclass_fields__:
        assert re.search(rf"^{name}:|`{name}`", readme, re.MULTILINE), f"README misses {name}"
    optional = re.search(r"^Optional keys: (.*?)\. ", readme, re.MULTILINE | re.DOTALL)
    assert optional
    named = re.findall(r"(?:^|, )`(\w+)`", optional[1])
    assert set(named) <= config.Config.__dataclass_fields__.keys()
    classes = [c for c in vars(errors).values() if isinstance(c, type)]
    codes = {getattr(c, "exit_code", 1) for c in classes}
    rows = set(map(int, re.findall(r"^\| (\d+)(?:, \d+)* \|", readme, re.MULTILINE)))
    assert codes <= rows


def test_every_dependency_has_its_reason() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + sum(project["optional-dependencies"].values(), [])
    names = {re.split(r"[<>=\[ ]", line)[0] for line in wanted}
    table = (ROOT / "docs" / "dependencies.md").read_text()
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| ")]
    assert names <= {name.strip() for cell in cells for name in cell.split(",")}
    pinned = {
        line.partition("==")[0]
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    assert names <= pinned
