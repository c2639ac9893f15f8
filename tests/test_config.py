"""The strict reader of configs: what it takes, what it refuses, and how it says so."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from torchzk import backends, strict_yaml
from torchzk.config import Config, find_config, load_config, shipped_configs
from torchzk.errors import ConfigError
from torchzk.serving.serve_config import load_serve_config
from torchzk.strict_yaml import parse_size

KEYS = "dev or dev-in-memory or official or a path"
GOOD = "circuit: {kind: window, sector_size: 2KiB}\nkeys: dev\n"


def write(folder: Path, text: str | bytes, name: str = "some.yaml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def key_list(cls: Any, at: str = "") -> list[str]:
    hints = get_type_hints(cls)
    keys = []
    for f in dataclasses.fields(cls):
        nested = dataclasses.is_dataclass(hints[f.name])
        keys += key_list(hints[f.name], f"{at}{f.name}.") if nested else [f"{at}{f.name}"]
    return keys


def test_the_list_of_keys_is_frozen() -> None:
    assert key_list(Config) == [
        "circuit.kind",
        "circuit.sector_size",
        "keys",
        "input",
        "synthetic",
        "input_cache",
        "key_cache",
        "parameter_folder",
        "block_cache",
        "device",
        "backend",
        "vram_limit",
        "workers",
        "policy",
        "witness_graph",
        "runs",
        "runs_limit.count",
        "runs_limit.size",
    ]


def test_backends_are_those_of_the_backend_module() -> None:
    names = get_args(get_type_hints(Config)["backend"])
    assert names == ("auto", *get_args(backends.BackendName))


def test_a_full_config(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "circuit:\n  kind: winning\n  sector_size: 32 GiB\nkeys: sub/some.params\n"
        "input: job.json\nkey_cache: /var/keys\nparameter_folder: official\nblock_cache: blocks\n"
        "device: cuda:1\nbackend: triton\nvram_limit: 24GiB\nworkers: 3\npolicy: kernels\n"
        "runs: ../runs\n",
    )
    config = load_config(path)
    assert config.circuit.kind == "winning"
    assert config.circuit.sector_size == 32 << 30
    assert config.keys == tmp_path / "sub/some.params"
    assert config.input == tmp_path / "job.json"
    assert config.key_cache == Path("/var/keys")
    assert config.parameter_folder == tmp_path / "official"
    assert config.block_cache == tmp_path / "blocks"
    assert (config.device, config.backend) == ("cuda:1", "triton")
    assert config.vram_limit == 24 << 30
    assert (config.workers, config.policy) == (3, "kernels")
    assert config.runs == tmp_path / "../runs"


def test_defaults(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, GOOD))
    assert (config.keys, config.device, config.backend) == ("dev", "auto", "auto")
    assert config.input is None
    assert config.runs == Path("runs")
    assert config.key_cache == Path.home() / ".cache/torchzk/keys"
    assert config.parameter_folder == Path("/var/tmp/filecoin-proof-parameters")
    assert config.block_cache == Path.home() / ".cache/torchzk/blocks"
    assert config.witness_graph
    assert not load_config(write(tmp_path, GOOD + "witness_graph: false\n")).witness_graph


@pytest.mark.parametrize(("said", "graph"), [("", True), ("witness_graph: false\n", False)])
def test_a_service_has_witness_graphs_unless_told_otherwise(
    tmp_path: Path, said: str, graph: bool
) -> None:
    circuits = "circuits: [{kind: window, sector_size: 2KiB, keys: dev}]\n"
    served = load_serve_config(write(tmp_path, circuits + "data: jobs\n" + said))
    assert served.run_config(served.circuits[0]).witness_graph is graph


def test_who_has_no_home_names_the_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs as a user whom it does not know."""

    def nobody(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", lambda p: nobody(p) if str(p)[0] == "~" else p)
    with pytest.raises(ConfigError, match=r"key_cache: there is no home folder; name one, or set"):
        load_config(write(tmp_path, GOOD))
    named = load_config(write(tmp_path, f"{GOOD}key_cache: keys\nblock_cache: blocks\n"))
    assert named.key_cache == tmp_path / "keys"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("keys", "kyes"), r"some\.yaml:2: kyes: unknown key; did you mean keys\?"),
        (("kind", "knd"), r"some\.yaml:1: circuit\.knd: unknown key; did you mean circuit\.kind\?"),
        (("keys: dev", "zebra: 1"), r"2: zebra: unknown key; known: backend, block_cache, "),
        (("kind: window, ", ""), r"1: circuit\.kind: missing"),
        (("keys: dev", ""), r"keys: missing"),
        (
            ("window", "wibble"),
            r"circuit\.kind: must be porep or winning or window or update, got 'wibble'",
        ),
        (("2KiB", "2.5KiB"), r"circuit\.sector_size: '2\.5KiB' is no size"),
        (("2KiB", "2kb"), r"circuit\.sector_size: '2kb' is no size"),
        (("2KiB", "-2048"), r"is no size"),
        (("2KiB", "04000"), r"is no size"),
        (("2KiB", "true"), r"is no size"),
        (("2KiB", "[2048]"), r"must be a size such as 2KiB"),
        (("keys: dev", "keys:"), rf"2: keys: must be {KEYS}, got nothing"),
        (("keys: dev", "keys: ~"), rf"2: keys: must be {KEYS}, got '~'"),
        (("keys: dev", "keys: ~nobody-here/x"), rf"2: keys: must be {KEYS}"),
        (("keys: dev", "keys: !!python/name:os.system dev"), rf"keys: must be {KEYS}"),
        (("keys: dev", "keys: dev\nkeys: dev"), r"3: keys: given twice"),
        (("keys: dev", "keys: dev\ndevice: gpu"), r"some\.yaml:3: device: must be auto, cpu, cuda"),
        (("keys: dev", "keys: dev\ndevice: cuda:01"), r"device: must be"),
        (("keys: dev", "keys: dev\ndevice: cuda:0,cpu"), r"device: must be"),
        (("keys: dev", "keys: dev\nworkers: 0"), r"workers: must be 1 to 64, got 0"),
        (("keys: dev", "keys: dev\npolicy: none"), r"policy: must be two-locks or ahead or"),
        (
            ("keys: dev", "keys: dev\nbackend: cuda"),
            r"3: backend: must be auto or torch or triton,",
        ),
        (("keys: dev", "keys: dev\n? [1]\n: 2"), r"\?: unknown key"),
        (("{kind: window, sector_size: 2KiB}", "window"), r"circuit: must be a mapping"),
    ],
    ids=lambda v: v[1][-30:] if isinstance(v, tuple) else "",
)
def test_refuses(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    assert change[0] in GOOD
    path = write(tmp_path, GOOD.replace(*change))
    with pytest.raises(ConfigError, match=message):
        load_config(path)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "must be a mapping"),
        (b"- 1\n", "must be a mapping"),
        (b"keys: [\n", r"some\.yaml:2: not YAML: expected the node content"),
        (b"[" * 16000, "not YAML"),
        (b"\xff\xfe\xfa", "not UTF-8"),
        (b"keys: a\x00b", "not YAML"),
        (b"#" * ((1 << 14) + 1), "longer than"),
        (b"&a {circuit: *a}", "circuit.circuit: unknown key"),
        (b"a: 1\n---\nb: 2\n", "not YAML"),
    ],
    ids=["empty", "list", "open", "deep", "binary", "nul", "long", "recursive", "two documents"],
)
def test_refuses_what_is_no_config(tmp_path: Path, raw: bytes, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(write(tmp_path, raw))


def test_looks_in_configs_folder_and_among_the_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shipped = find_config("window2k.yaml")
    assert shipped in shipped_configs()
    (tmp_path / "configs").mkdir()
    own = write(tmp_path / "configs", GOOD, "window2k.yaml")
    assert find_config("window2k.yaml").resolve() == own
    given = write(tmp_path, GOOD, "window2k.yaml")
    assert find_config("window2k.yaml").resolve() == given


def test_a_misspelt_config_names_the_nearest() -> None:
    for name in ("windw2k.yaml", "window2k", "Window2k.yml"):
        with pytest.raises(ConfigError, match=r"did you mean window2k\.yaml\?"):
            find_config(name)
    with pytest.raises(ConfigError, match=r"shipped: porep2k\.yaml, "):
        find_config("nothere.yaml")


def test_a_folder_is_no_config(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder, and no config"):
        load_config(tmp_path)


KINDS = ("porep", "winning", "window", "update")


def test_every_small_shipped_config_loads_and_its_input_is_there() -> None:
    small = {f"{kind}2k.yaml" for kind in KINDS} | {"porep8m.yaml", "porep512m.yaml"}
    large = {f"{kind}32g.yaml" for kind in KINDS} | {"porep64g.yaml"}
    assert small | large == {path.name for path in shipped_configs()}
    for name in small:
        config = load_config(name)
        assert config.input is not None and config.input.is_file()


@pytest.mark.parametrize("name", [*(f"{kind}32g.yaml" for kind in KINDS), "porep64g.yaml"])
def test_large_shipped_configs_are_of_a_synthetic_sector(name: str) -> None:
    """Inputs too large to ship are made where they are wanted."""
    config = load_config(name)
    assert config.input is None and config.keys == "dev-in-memory"
    assert config.synthetic == f"synth{name[-8:-5]}"


def test_an_input_and_a_synthetic_sector_are_one_too_many(tmp_path: Path) -> None:
    given = "circuit: {kind: window, sector_size: 2KiB}\nkeys: dev\n"
    path = tmp_path / "some.yaml"
    path.write_text(f"{given}synthetic: a\n")
    assert load_config(path).synthetic == "a"
    path.write_text(f"{given}synthetic: a\ninput: b\n")
    with pytest.raises(ConfigError, match="there is an input as well"):
        load_config(path)
    for name in ("'/'", "../a", "ä", "a b", "x" * 101):
        path.write_text(f"{given}synthetic: {name}\n")
        with pytest.raises(ConfigError, match="synthetic: must be 1 to 100 letters"):
            load_config(path)


@dataclasses.dataclass(frozen=True)
class Typed:
    """Types of fields that no key of `Config` has today."""

    count: int = 0
    flag: bool = False
    name: str = ""


def test_numbers_booleans_and_text(tmp_path: Path) -> None:
    path = write(tmp_path, "count: 1000\nflag: true\nname: '1000'\n")
    assert strict_yaml.read(Typed, path) == Typed(1000, True, "1000")


@pytest.mark.parametrize(
    "line",
    ["count: 0100", "count: '1'", "count: yes", "count: true", "count: 1:30", "count: -1"]
    + ["count: 1.0", "flag: yes", "flag: 1", "flag: 'true'", "flag: True", "name:", "name: [a]"],
)
def test_guesses_no_type(tmp_path: Path, line: str) -> None:
    expected = {"count": "an integer", "flag": "true or false", "name": "text"}
    with pytest.raises(ConfigError, match=f"must be {expected[line.partition(':')[0]]}"):
        strict_yaml.read(Typed, write(tmp_path, line))


@pytest.mark.parametrize(
    ("text", "value"),
    [("2048", 2048), ("1B", 1), ("2KiB", 2048), ("8 MiB", 8 << 20), ("64GiB", 64 << 30)],
)
def test_sizes(text: str, value: int) -> None:
    assert parse_size(text) == value


@pytest.mark.parametrize("text", ["", "0", "-1", "1e3", "2 kib", "2K", "0x10", "1_000", "2KiB "])
def test_refuses_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="no size"):
        parse_size(text)
