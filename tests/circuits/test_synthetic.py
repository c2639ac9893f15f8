"""Synthetic sectors, byte by byte those that the reference accepts."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from torchzk.backends import Backend
from torchzk.circuits.c1_file import read_c1
from torchzk.circuits.job_head import JobKind
from torchzk.circuits.registered import REGISTERED_SEALS, PostKind, default_seal
from torchzk.circuits.serde_json import CompactJson
from torchzk.circuits.synthetic import SectorName, SyntheticSector, make_sector
from torchzk.circuits.synthetic_jobs import job_text, post_proof
from torchzk.errors import ConfigError
from torchzk.timeline import Span, Timeline

LARGE = pytest.mark.full("5 s a sector")
SECTORS = [
    "synth2k",
    "synth8m",
    "synth512m",
    pytest.param("synth32g", marks=LARGE),
    pytest.param("synth64g", marks=LARGE),
]
POST_KINDS: tuple[PostKind, ...] = ("winning", "window")
JOB_KINDS: tuple[JobKind, ...] = ("winning", "window", "update")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sector_of(name: str, size: int, backend: Backend, device: torch.device) -> SyntheticSector:
    registered = default_seal(size)
    assert registered is not None
    return make_sector(SectorName(name, registered, 7, 1000), backend, device, Timeline())


@pytest.mark.parametrize("name", SECTORS)
def test_files(name: str, golden: Path, backend: Backend, device: torch.device) -> None:
    expected: dict[str, Any] = json.loads((golden / "synthetic.json").read_text())["sectors"][name]
    sector = sector_of(name, expected["sector_size"], backend, device)
    assert sector.of.registered.name == expected["registered_proof"]
    assert {
        "comm_d": sector.tree_d.root.hex(),
        "comm_c": sector.tree_c.root.hex(),
        "comm_r_last": sector.tree_r.root.hex(),
        "comm_r": sector.comm_r.hex(),
        "replica_id": sector.replica_id.hex(),
    }.items() <= expected.items()
    whole = "".join(job_text(sector, "porep"))
    assert {"bytes": len(whole), "sha256": digest(whole)} == expected["c1"]
    for post in POST_KINDS:
        if "vanilla_sha256" in expected.get(post, {}):
            proofs = CompactJson().text([post_proof(sector, post)])
            assert digest(proofs) == expected[post]["vanilla_sha256"]
    for kind in JOB_KINDS:
        if "job_sha256" in expected.get(kind, {}):
            job = "".join(job_text(sector, kind))
            assert len(job) == expected[kind]["bytes"]
            assert digest(job) == expected[kind]["job_sha256"]


def test_the_vectors_cover_every_kind(golden: Path) -> None:
    sectors = json.loads((golden / "synthetic.json").read_text())["sectors"]
    assert {kind for kind in JOB_KINDS for s in sectors.values() if kind in s} == set(JOB_KINDS)
    assert "job_sha256" in sectors["synth8m"]["update"]
    assert "vanilla_sha256" in sectors["synth32g"]["window"]


def test_jobs_of_another_sector(backend: Backend, device: torch.device) -> None:
    """Everything follows from what the sector is made from."""
    a = sector_of("a", 2048, backend, device)
    b = sector_of("b", 2048, backend, device)
    again = sector_of("a", 2048, backend, device)
    for kind in ("porep", *JOB_KINDS):
        texts = ["".join(job_text(s, kind)) for s in (a, b, again)]
        assert texts[0] == texts[2] != texts[1]
        json.loads(texts[1])


def test_challenged_nodes_may_be_parents(backend: Backend, device: torch.device) -> None:
    """Two challenges among 64 nodes: sooner or later one is the other's parent."""
    for i in range(40):
        sector = sector_of(f"clash {i}", 2048, backend, device)
        rows = sector.parents
        if any(node in rows[other] for node in rows for other in rows if node != other):
            break
    else:
        pytest.fail("no name gave a challenged parent")
    proofs = json.loads("".join(job_text(sector, "porep")))["vanilla_proofs"]["StackedDrg2KiBV1"]
    labels = {
        proof["labeling_proofs"][0]["node"]: proof["replica_column_proofs"]["c_x"]["column"]["rows"]
        for proof in proofs[0]
    }
    seen = 0
    for proof in proofs[0]:
        columns = proof["replica_column_proofs"]
        for parent in (*columns["drg_parents"], *columns["exp_parents"]):
            column = parent["column"]
            if column["index"] in labels:
                assert column["rows"] == labels[column["index"]]
                seen += 1
    assert seen


def test_c1_outputs_are_read_back(backend: Backend, device: torch.device) -> None:
    sector = sector_of("read back", 8 << 20, backend, device)
    c1 = read_c1("".join(job_text(sector, "porep")).encode(), sector.shape)
    assert (c1.registered, c1.n_partitions) == (sector.of.registered, 1)
    read = (c1.comm_r, c1.comm_d, c1.replica_id, c1.seed, c1.ticket)
    tree_d = sector.tree_d.root
    assert read == (sector.comm_r, tree_d, sector.replica_id, sector.seed, sector.ticket)
    place = c1.template.integer_names.index("labeling_proofs[0].node")
    assert tuple(c1.integers[0, :, place].tolist()) == sector.challenges[0]
    place = c1.template.element_names.index("comm_r_last_proof.data.Single.leaf")
    leaves = [sector.columns[node][-1] for node in sector.challenges[0]]
    assert [bytes(x) for x in c1.elements[0, :, place]] == leaves


def test_stages_are_spans(backend: Backend, device: torch.device) -> None:
    spans: list[Span] = []
    registered = default_seal(2048)
    assert registered is not None
    name = SectorName("a", registered, 7, 1000)
    make_sector(name, backend, device, Timeline(on_close=spans.append))
    assert [span.name for span in spans] == ["challenges", "labels", "TreeC", "TreeR"]


@pytest.mark.parametrize("number", [10, 15])
def test_challenges_must_not_depend_on_comm_r(number: int) -> None:
    with pytest.raises(ConfigError, match=r"comm_r of a synthetic sector on its challenges"):
        SectorName("a", REGISTERED_SEALS[number], 7, 1000)


def test_names_are_ascii() -> None:
    with pytest.raises(ConfigError, match="ASCII"):
        SectorName("é", REGISTERED_SEALS[5], 7, 1000)
