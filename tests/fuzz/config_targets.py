"""YAML: what to prove, what to serve, what to simulate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import yaml

from fuzz.mutators import after_first_byte, lines
from fuzz.target import Read, Target
from torchzk.config import Config, shipped_configs
from torchzk.errors import ConfigError
from torchzk.scheduler.simulation.scenario import Scenario, shipped_scenarios
from torchzk.serving.serve_config import ServeConfig, parse_address
from torchzk.strict_yaml import read as read_yaml

CLASSES = (Config, ServeConfig, Scenario)
BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b, *b, *b, *b]\ncircuits: [*c, *c, *c]\n"

WORDS = (
    *("!!str ", "!!python/object:os.system ", "&a ", "*a", "<<: ", "? ", "- ", ": ", "|\n", ">-\n"),
    *("'", '"', "%YAML 1.2\n", "---\n", "...\n", "# ", "{", "}", "[", "]", "~", "null", "\ufeff"),
    *('"\\U00110000"', '"\\ud800"', '"\\xff"', '"\\e"', "~root/x", "~nobody9/x", "unix:", "٣"),
    *("1e999", "-1", "0x10", "1_000", "2 KiB", "9999999999TiB", "1.5ms", "[::1]:1", "0.0.0.0:1"),
)


def configs() -> Iterator[bytes]:
    folder = shipped_configs()[0].parent
    for k, paths in enumerate(
        (shipped_configs()[:2], sorted((folder / "serve").glob("*.yaml")), shipped_scenarios()[:2])
    ):
        for path in paths:
            yield bytes([k]) + path.read_bytes()
    more = "circuits: [{kind: window, sector_size: 2KiB, keys: dev}]\ndata: d\n"
    more += "limits: {jobs: 3, message: 1MiB, drain: 1.5s}\nruns_limit: {count: 3, size: 2GiB}\n"
    tls = "listen: '[::1]:0'\ntls: {certificate: a, private_key: b}\ntoken_file: ~/t\n"
    yield b"\1" + (more + tls).encode()
    yield b"\1" + (more + "listen: unix:///run/x\nstatus_listen: localhost:1\n").encode()
    yield b"\1" + BOMB.encode()
    yield from (b"", b"\0", b"\0&a [*a]", b"\0\xff", b"\0" + b"[" * 200, b"\0" + b"- " * 800)
    yield b"\0%YAML 1.1\n---\n!!map {a: b}"
    yield b"\0%YAML 1." + b"1" * 1000 * 5 + b"\n---\n{}"
    for text in (r'"\UFFFFFFFF"', r'"\ud800"', r'"~\ud800"', "~nobody9/x", r'"\e[31m"', "x" * 3000):
        yield b"\0circuit: {kind: porep, sector_size: 2KiB}\nkeys: " + text.encode()
        yield b"\0" + text.encode() + b": 1"
        yield b"\1" + more.encode() + b"listen: " + text.encode()
    yield b"\1" + more.encode() + "listen: 127.0.0.1:٣٣".encode()


def open_configs(folder: Path) -> AbstractContextManager[Read]:
    path = folder / "config.yaml"

    def read(data: bytes) -> None:
        path.write_bytes(data[1:])
        cls = CLASSES[data[0] % 3 if data else 0]
        found = read_yaml(cls, path)
        said = yaml.load(data[1:].decode(), Loader=yaml.BaseLoader)
        _check(found, said)
        if isinstance(found, ServeConfig):
            for address in (found.listen, found.status_listen or "127.0.0.1:1"):
                assert parse_address(address).target.isascii() or address.startswith("unix:")
            for circuit in found.circuits:
                found.run_config(circuit)

    return nullcontext(read)


def _check(found: Any, said: Any) -> None:
    """Every key was read, and text is what the file says."""
    if is_dataclass(found):
        known = {f.name for f in fields(found)}
        assert isinstance(said, dict) and said.keys() <= known
        for name in said:
            _check(getattr(found, name), said[name])
    elif isinstance(found, tuple):
        assert isinstance(said, list)
        for one, other in zip(found, said, strict=True):
            _check(one, other)
    elif isinstance(found, str):
        assert found == said
    elif type(found) is int:
        assert found >= 0 and str(found) == said or said.endswith("B")


TARGETS = (
    Target(
        name="configs",
        open=open_configs,
        seeds=configs,
        errors=(ConfigError,),
        mutate=after_first_byte(lines),
        tokens=tuple(word.encode() for word in WORDS),
        longest=1 << 11,
        # PyYAML makes marks, tokens, events and nodes, a few hundred bytes a character
        memory=4000,
    ),
)
