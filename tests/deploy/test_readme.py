"""Every command in README, docs and configs, against the parsers: what is written can be typed."""

from __future__ import annotations

import argparse
import json
import math
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchzk import (
    __main__,
    cli,
    client_verbs,
    diagnose,
    doctor,
    prove,
    serve,
    setup,
    simulate,
    synthetic,
    verify,
)
from torchzk.bench import __main__ as bench
from torchzk.bench import performance, sweep_command

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "deploy/torchzk.service", "deploy/Containerfile")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "configs").rglob("*.yaml")),
]
PARSERS: dict[str, cli.Parser] = {
    "prove": prove._parser(),
    "verify": verify._parser(),
    "setup": setup._parser(),
    "doctor": doctor._parser(),
    "diagnose": diagnose._parser(),
    "synthetic": synthetic._parser(),
    "simulate": simulate._parser(),
    "serve": serve._parser(),
    "client": client_verbs.parser(),
    "bench": bench._parser(),
    "bench sweep": sweep_command.parser(),
    # pages name it without flags
    "bench.performance": cli.Parser("torchzk.bench.performance", ""),
}
LISTED = ("prove", "verify", "setup", "doctor", "diagnose", "synthetic")
COMMON = {"--help", "--device", "--backend", "--vram-limit"}
"""What README says of `prove`, or need not say."""


def test_the_list_of_commands_is_that_of_the_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert __main__.run() == 2
    out, err = capsys.readouterr()
    assert out == ""
    listed = re.findall(r"python -m torchzk\.(\w+) ", err)
    assert sorted(listed) == sorted(name.removeprefix("torchzk-") for name in scripts)


def commands(page: Path) -> Iterator[tuple[str, str]]:
    """Name and arguments of each command of a page; lines that go on are put together."""
    text = re.sub(r"\\\n#? *", "", page.read_text())
    text = re.sub(r"\n {20,}\[", " [", text)
    for name, rest in re.findall(r"python3? -m torchzk\.([\w.]+)([^\n`]*)", text):
        said = re.split(r"  +#|; ", rest)[0].strip(" .,'\"")
        sweep = name == "bench" and said.startswith("sweep")
        yield ("bench sweep", said.removeprefix("sweep")) if sweep else (name.rstrip("."), said)


def options(parser: argparse.ArgumentParser) -> set[str]:
    """The long flags of a parser and of its verbs."""
    found = {flag for flag in parser._option_string_actions if flag.startswith("--")}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= set().union(*map(options, action.choices.values()))
    return found


FOUND = [(page, *command) for page in PAGES for command in commands(page)]


@pytest.mark.parametrize(
    ("page", "name", "said"),
    FOUND,
    ids=[f"{page.name}: {name} {said}" for page, name, said in FOUND],
)
def test_what_is_written_can_be_typed(page: Path, name: str, said: str) -> None:
    parser = PARSERS[name]
    assert set(re.findall(r"(?<!\w)--[a-z][a-z-]*", said)) <= options(parser)
    # a form to fill in, or the name of a command without what it needs
    if said and not re.search(r"[\[|]|\.\.\.|[A-Z]{4}", said):
        parser.parse_args(shlex.split(said))


def test_commands_are_found_on_every_page_that_has_some() -> None:
    pages = {page.name for page, *_ in FOUND}
    assert {"README.md", "timeline.md", "operate.md", "serve.md", "porep512m.yaml"} <= pages
    assert any("--profile-kernels 3" in said for *_, said in FOUND)
    assert any(
        said.endswith("--registered-proof NAME] [--device D] [--json]") for *_, said in FOUND
    )


@pytest.mark.parametrize("name", LISTED)
def test_readme_has_every_flag(name: str) -> None:
    (said,) = [
        said for command, said in commands(ROOT / "README.md") if command == name and "[" in said
    ]
    named = set(re.findall(r"(?<!\w)--[a-z][a-z-]*", said))
    missing = options(PARSERS[name]) - named
    assert missing <= ({"--help"} if name == "prove" else COMMON)


def test_readme_has_every_verb_of_the_client() -> None:
    (said,) = [s for page, n, s in FOUND if page.name == "README.md" and n == "client"]
    verbs = PARSERS["client"]._subparsers
    assert verbs is not None
    (group,) = verbs._group_actions
    assert isinstance(group, argparse._SubParsersAction)
    named = set(said.split()[0].split("|"))
    assert named == {parser.prog.split()[-1] for parser in group.choices.values()}


def measured() -> dict[str, set[float]]:
    """What rows say of proofs, by the names that docs/performance.md has for it.

    Also what was measured again since: nobody has to change the page at once.
    """
    found: dict[str, set[float]] = {}
    lines = (ROOT / "runs" / "bench" / "proofs.jsonl").read_text().splitlines()
    for row in map(json.loads, lines):
        text = performance.targets([row]) + performance.limits([row])
        for what, value in re.findall(r"^\| ([^|]+) \| ([\d.]+)(?: s| GiB) \|", text, re.M):
            found.setdefault(what, set()).add(float(value))
        for proof, limit, value in re.findall(r"^\| (\w+) \| ([^|]+) \| ([\d.]+) \|", text, re.M):
            found.setdefault(f"{proof}, {limit}", set()).add(float(value))
    return found


def test_readme_has_figures_of_rows() -> None:
    readme = " ".join((ROOT / "README.md").read_text().split())
    rows = measured()

    def holds(pattern: str, *names: str, digits: int = 2) -> None:
        (said,) = re.findall(pattern, readme)
        values = re.findall(r"[\d.]+", said) if isinstance(said, str) else said
        assert len(values) == len(names)
        for value, name in zip(values, names, strict=True):
            assert float(value) in {round(v, digits) for v in rows[name]}, (value, name)

    holds(r"ten verified partitions \| ([\d.]+) s", "porep32g, whole, 10 partitions", digits=1)
    holds(r"s, ([\d.]+) GiB of host memory", "porep32g, host RSS", digits=1)
    limits = ("no limit", "80 GB", "48 GB", "24 GB", "16 GB")
    holds(r"of the device \| ([\d., ]+) s, the same", *(f"porep32g, {limit}" for limit in limits))
    holds(r"window PoSt, one partition \| ([\d.]+) s", "window32g, partition")
    holds(r"winning PoSt \| ([\d.]+) s", "winning32g, partition")
    holds(r"sector update, one of 16 partitions \| ([\d.]+) s", "update32g, partition")
    holds(r"A PoRep of 2 KiB takes ([\d.]+) s", "porep2k, whole, 1 partition")
    holds(r"made in ([\d.]+) to \d+ s", "winning32g, keys", digits=1)
    holds(r"made in [\d.]+ to (\d+) s", "porep32g, keys", digits=0)


def test_readme_has_the_figures_of_the_rows_of_a_cpu() -> None:
    readme = " ".join((ROOT / "README.md").read_text().split())
    lines = (ROOT / "runs" / "bench" / "cpu_2k.jsonl").read_text().splitlines()
    rows = {(r["what"].split(",")[0].split()[1], r["key"]): r for r in map(json.loads, lines)}
    made, cached = "made on the way", "cached"
    window, winning = "window2k.yaml", "winning2k.yaml"
    assert (
        f"{rows[window, cached]['p50_s']:.0f} s with its key in the cache and "
        f"{rows[window, made]['p50_s']:.0f} s with the key made on the way"
    ) in readme
    assert (
        f"winning PoSt {rows[winning, cached]['p50_s']:.0f} s and "
        f"{math.ceil(rows[winning, made]['p50_s'])} s."
    ) in readme
    for what, name, digits in (
        ("sector update of 2 KiB is proven", "update2k.yaml", 0),
        ("PoRep", "porep2k.yaml", 1),
    ):
        row = rows[name, made]
        took = f"{row['prove_s'] / 60:.1f} minutes and {row['peak_rss_bytes'] / 1e9:.{digits}f} GB"
        assert f"{what} in {took}" in readme
