"""Every command in README, docs and configs, against the parsers: what is written can be typed."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchzk import cli, client, doctor, prove, serve, setup, simulate, synthetic, verify
from torchzk.bench import __main__ as bench
from torchzk.bench import sweep_command

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
    "synthetic": synthetic._parser(),
    "simulate": simulate._parser(),
    "serve": serve._parser(),
    "client": client._parser(),
    "bench": bench._parser(),
    "bench sweep": sweep_command.parser(),
    # pages name it without flags
    "bench.performance": cli.Parser("torchzk.bench.performance", ""),
}
LISTED = ("prove", "verify", "setup", "doctor", "synthetic")
COMMON = {"--help", "--device", "--backend", "--vram-limit"}
"""What README says of `prove`, or need not say."""


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
    assert {"README.md", "timeline.md", "operate.md", "serve.md", "porep32g.yaml"} <= pages
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
