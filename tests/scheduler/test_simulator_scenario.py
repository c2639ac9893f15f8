"""Scenarios: read strictly, checked, found by name; the values that configs did not have before."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from torchzk import strict_yaml
from torchzk.errors import ConfigError
from torchzk.scheduler.simulation.scenario import Scenario, load_scenario, shipped_scenarios
from torchzk.strict_yaml import Decimal, Seconds, parse_decimal, parse_seconds

GOOD = """\
title: t
source: s
chosen: nothing
sector: {partitions: 2}
partition:
  stages:
    - {name: a, seconds: 17.5ms, upload: 10, pieces: 2}
    - {name: b, seconds: 1 s, holds: 1KiB}
machine: {memory: 1MiB, link: 1000}
schedule: {staging: 5}
"""


def read(folder: Path, text: str) -> Scenario:
    path = folder / "scenario.yaml"
    path.write_text(text)
    return load_scenario(path)


def test_reads_stages_in_order_and_takes_defaults(tmp_path: Path) -> None:
    scenario = read(tmp_path, GOOD)
    a, b = scenario.partition.stages
    assert (a.name, a.seconds, a.upload, a.pieces, a.holds) == ("a", 0.0175, 10, 2, 0)
    assert (b.name, b.seconds, b.upload, b.holds) == ("b", 1.0, 0, 1024)
    assert scenario.schedule.policy == "two_locks" and scenario.published.busy == 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("seconds: 17.5ms", "seconds: 17.5"), r":7: partition.stages\[0\].seconds: .*no duration"),
        (("pieces: 2", "peices: 2"), r"stages\[0\].peices: unknown key; did you mean"),
        (("seconds: 1 s,", ""), r":8: partition.stages\[1\].seconds: missing"),
        (("name: b", "name: a"), r"partition.stages: names must differ, are a, a"),
        (("pieces: 2", "pieces: 0"), r"stages\[0\].pieces: must be 1 to 10000, is 0"),
        (("staging: 5", "staging: 4"), r"schedule.staging: 4 bytes are less than one piece"),
        ((", link: 1000", ""), r"machine.link: missing, and stages upload"),
        (("1MiB", "1MiB, resident: 2MiB"), r"machine.resident: more than memory"),
        (("1MiB", "1MiB, contention: -1"), r"machine.contention: '-1' is no decimal number"),
        (("partitions: 2", "partitions: 0"), r"sector.partitions: must be 1 to 10000"),
        (("{staging: 5}", "{staging: 5, policy: three_locks}"), r"must be whole or kernels or"),
        (("{staging: 5}", "{staging: 5, workers: 99999}"), r"schedule.workers: must be 1 to"),
        (("chosen: nothing", ""), r"chosen: missing"),
        (("chosen: nothing", "chosen: n\nsectors: 10001"), r"sectors: must be at most 10000"),
        (("{partitions: 2}", "{partitions: 2, reading: {cores: 9}}"), r"sector.reading.cores"),
        (("{partitions: 2}", "[2]"), r"sector: must be a mapping"),
    ],
)
def test_refuses_with_file_line_and_key(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    assert change[0] in GOOD
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, GOOD.replace(*change))


@pytest.mark.parametrize("stages", ["[]", "{a: 1}", "text", "!!seq [a]"])
def test_refuses_what_is_no_list_of_stages(tmp_path: Path, stages: str) -> None:
    head, _, rest = GOOD.partition("  stages:\n")
    text = f"{head}  stages: {stages}\n{rest[rest.index('machine') :]}"
    with pytest.raises(ConfigError, match="at least one stage|must be a list|must be a mapping"):
        read(tmp_path, text)


def test_shipped_ones_are_found_by_name_and_say_their_source() -> None:
    names = [path.stem for path in shipped_scenarios()]
    assert {"cuzk_phase7", "cuzk_phase8", "cuzk_phase9", "porep32g_resident"} <= set(names)
    for name in names:
        scenario = load_scenario(name)
        assert scenario == load_scenario(f"{name}.yaml")
        assert len(scenario.source) > 40 and len(scenario.chosen) > 20
    with pytest.raises(ConfigError, match="did you mean cuzk_phase7"):
        load_scenario("cuzk_phase70")
    with pytest.raises(ConfigError, match="no such scenario"):
        load_scenario("elsewhere/cuzk_phase7")


@pytest.mark.parametrize(
    ("text", "seconds"), [("1s", 1.0), ("17.5ms", 0.0175), ("18 us", 0.000018), ("0s", 0.0)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "1", "1.s", ".5s", "-1s", "1e3s", "1 h", "1ms ", "inf s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        parse_seconds(text)


@pytest.mark.parametrize("text", ["", "-1", "1e3", "nan", "1.", ".5", "0x1"])
def test_what_is_no_decimal(text: str) -> None:
    with pytest.raises(ValueError, match="no decimal"):
        parse_decimal(text)
    assert parse_decimal("0.034") == 0.034


@dataclasses.dataclass(frozen=True)
class Measured:
    """Measures and lists, as a file has them."""

    lasts: Seconds = 0.0
    share: Decimal = 0.0
    counts: tuple[int, ...] = ()


def test_lists_and_measures_of_any_dataclass(tmp_path: Path) -> None:
    path = tmp_path / "measured.yaml"
    path.write_text("lasts: 1.5s\nshare: 0.25\ncounts: [1, 2]\n")
    assert strict_yaml.read(Measured, path) == Measured(1.5, 0.25, (1, 2))
    for text, message in (
        ("counts: [1, x]", r"counts\[1\]: must be an integer"),
        ("counts: 1", "counts: must be a list"),
        ("lasts: [1s]", "lasts: must be a duration such as"),
        ("share: [1]", "share: must be a number such as"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=message):
            strict_yaml.read(Measured, path)
