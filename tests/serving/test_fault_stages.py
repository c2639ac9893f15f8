"""Proofs made wrong on purpose: the stage that went wrong is named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from scheduler.small_proofs import SmallJob, small_site
from torchzk import api
from torchzk.groth16.prover import Randomisers, combine, query_sums
from torchzk.params.curves import G1, G2, Point
from torchzk.serving import fault_stages
from torchzk.serving.fault_stages import faulty_partitions, stages, write_stages
from torchzk.timeline import Timeline

JOB: Any = SmallJob((3, 4))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[api.Site]:
    made = small_site(tmp_path_factory.mktemp("keys"), torch.device("cpu"))
    yield made
    made.keys.close()


class BrokenBackend:
    """A backend one of whose operations flips a bit of what it gives."""

    def __init__(self, real: Any, operation: str) -> None:
        self._real, self._operation = real, operation

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)
        if name != self._operation:
            return real

        def broken(*args: Any, **given: Any) -> Any:
            made = real(*args, **given)
            made.view(-1)[3] ^= 1
            return made

        return broken


def sums_of(site: api.Site, index: int) -> dict[str, Point]:
    session = site.session

    def assign() -> Any:
        given = session.circuit.witness(session.backend, session.device, JOB, index)
        return session.circuit.assignment(session.backend, given)

    return query_sums(
        session.backend,
        site.keys.proving,
        session.r1cs,
        assign,
        Timeline(),
        circuit="small",
    )


def differing(site: api.Site, index: int, sums: dict[str, Point]) -> list[str]:
    return [stage.name for stage in stages(site, JOB, index, sums) if stage.differs]


def test_a_sound_proof_differs_nowhere(site: api.Site) -> None:
    found = stages(site, JOB, 0, sums_of(site, 0))
    assert [stage.name for stage in found] == [
        "witness",
        *(f"products {m}" for m in "abc"),
        "quotient",
        *(f"msm {name}" for name in sums_of(site, 0)),
    ]
    assert not any(stage.differs for stage in found)


def test_a_quotient_gone_wrong(site: api.Site) -> None:
    broken: Any = BrokenBackend(site.session.backend, "quotient")
    bad = replace(site, session=replace(site.session, backend=broken))
    vars(bad.session).update(r1cs=site.session.r1cs)
    assert differing(bad, 1, sums_of(bad, 1)) == ["quotient", "msm h"]


@pytest.mark.parametrize(("name", "curve"), [("a", G1), ("b_g2", G2), ("l", G1)])
def test_a_sum_gone_wrong(site: api.Site, name: str, curve: Any) -> None:
    sums = sums_of(site, 0) | {name: curve.generator}
    assert differing(site, 0, sums) == [f"msm {name}"]


def test_the_partition_and_the_stage_are_written(
    site: api.Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vk, made = site.keys.verifying, [sums_of(site, k) for k in range(2)]
    made[1]["h"] = G1.generator
    pieces = [combine(vk, sums, Randomisers.draw(), Timeline()).to_bytes() for sums in made]
    assert faulty_partitions(site.session, vk, JOB, pieces) == [1]
    assert faulty_partitions(site.session, vk, JOB, [b"\xff" * 192, pieces[0]]) == [0, 1]
    write_stages(tmp_path, JOB, {1: (site, made[1])})
    report = json.loads((tmp_path / "stages.json").read_text())
    assert report["1"]["first_that_differs"] == "msm h" == report["1"]["differ"][-1]
    monkeypatch.setattr(fault_stages, "MOST_ROWS", 1)
    write_stages(tmp_path, JOB, {0: (site, made[0])})
    assert "not computed again" in json.loads((tmp_path / "stages.json").read_text())["0"]
