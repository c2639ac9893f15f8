"""Trees with upper levels, as 32 and 64 GiB sectors have them, in few challenges each."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest
import torch

from c1_samples import parsed, same, sample
from torchzk.backends import Backend, load_backend
from torchzk.circuits import synthetic, synthetic_jobs
from torchzk.circuits.c1 import C1
from torchzk.circuits.c1_file import read_c1
from torchzk.circuits.layout_json import cut_values
from torchzk.circuits.layouts import template
from torchzk.circuits.porep_layout import challenge_layout
from torchzk.circuits.porep_shapes import StackedShape, porep_shape
from torchzk.circuits.porep_slots import porep_witness
from torchzk.circuits.porep_vanilla import check_porep
from torchzk.circuits.registered import default_seal
from torchzk.circuits.synthetic import SectorName, SyntheticSector, make_sector
from torchzk.circuits.synthetic_jobs import job_text
from torchzk.circuits.update_job import load_update_job
from torchzk.circuits.update_proof import partition_layout
from torchzk.circuits.update_shapes import UpdateShape, update_shape
from torchzk.circuits.update_vanilla import check_update
from torchzk.errors import InputError
from torchzk.timeline import Timeline

SIZES = [32 << 30, 64 << 30]


def few(sector_size: int) -> StackedShape:
    """Two partitions of two challenges."""
    return replace(porep_shape(sector_size), n_challenges=2, n_partitions=2)


def few_updates(sector_size: int) -> UpdateShape:
    return replace(update_shape(sector_size), n_partitions=2, n_challenges=3, n_apex_leaves=4)


@lru_cache(maxsize=2)
def _sector(sector_size: int) -> SyntheticSector:
    registered = default_seal(sector_size)
    assert registered is not None
    name = SectorName("few", registered, 7, 1000)
    return make_sector(name, load_backend("torch"), torch.device("cpu"), Timeline())


@pytest.fixture(params=SIZES, ids=["Sub", "Top"])
def sector(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SyntheticSector:
    monkeypatch.setattr(synthetic, "porep_shape", few)
    monkeypatch.setattr(synthetic_jobs, "update_shape", few_updates)
    return _sector(request.param)


def bincode(value: Any, key: str = "") -> bytes:
    """Parsed JSON as serde's bincode, by the types of the fields (spec/porep.md section 8)."""
    if isinstance(value, int):
        return value.to_bytes(4 if key in ("layer_index", "column.index") else 8, "little")
    if isinstance(value, list):
        if len(value) == 32 and all(isinstance(x, int) for x in value):
            return bytes(value)
        return len(value).to_bytes(8, "little") + b"".join(map(bincode, value))
    out = b""
    for name, item in value.items():
        if name in ("Single", "Sub", "Top"):
            out += ("Single", "Sub", "Top").index(name).to_bytes(4, "little")
        # the index of a column is shorter than that of a path
        inside = "column.index" if (name, "rows" in value) == ("index", True) else name
        out += b"" if name == "_h" else bincode(item, inside)
    return out


def inner_bincode(output: dict[str, Any]) -> bytes:
    (proofs,) = output["vanilla_proofs"].values()
    names = ("comm_r", "comm_d", "replica_id", "seed", "ticket")
    return bincode(proofs) + b"".join(bytes(output[name]) for name in names)


def test_the_writer_writes_what_the_reference_does() -> None:
    assert inner_bincode(parsed("sector2k_a")) == sample("sector2k_a_c1_inner.bincode")


def test_porep(backend: Backend, device: torch.device, sector: SyntheticSector) -> None:
    text = "".join(job_text(sector, "porep")).encode()
    shape = few(sector.of.registered.sector_size)
    c1 = read_c1(text, shape)
    output = json.loads(text)
    assert len(cut_values(text, challenge_layout(shape))[1].values) == 4
    assert same(c1, read_c1(output, shape))
    assert same(c1, read_c1(inner_bincode(output), shape))
    check_porep(backend, device, c1, miner_id=1000, sector_number=7)
    assert porep_witness(backend, device, c1, 1).paths.arities == shape.arities
    above = "sub_proof" if shape.sector.tree_r.top == 0 else "top_proof"
    level = len(shape.arities) - 1
    for tree in ("comm_r_last_proof", "replica_column_proofs.exp_parents[5].inclusion_proof"):
        damaged = with_element(c1, f"{tree}.data.{{}}.{above}.path[0].hashes[0]")
        place = rf"^partition 1: challenge 1 \(node \d+\): {tree}: level {level}: "
        with pytest.raises(InputError, match=place.replace("[5]", r"\[5\]")):
            check_porep(backend, device, damaged)


def with_element(c1: C1, name: str) -> C1:
    """One bit of an element of the last challenge is another; `{}` stands for the variant."""
    variant = "Top" if c1.shape.sector.tree_r.top else "Sub"
    elements = c1.elements.copy()
    elements[1, 1, c1.template.element_names.index(name.format(variant)), 0] ^= 1
    return replace(c1, elements=elements)


def test_update(backend: Backend, device: torch.device, sector: SyntheticSector) -> None:
    text = "".join(job_text(sector, "update")).encode()
    shape = few_updates(sector.of.registered.sector_size)
    job = load_update_job(text, shape)
    said = json.loads(text)
    assert len(cut_values(text, partition_layout(shape))[1].values) == 2
    order = ("comm_c", "apex_leafs", "challenge_proofs")
    said["vanilla_proofs"] = [
        base64.b64encode(bincode({key: in_order(proof[key]) for key in order})).decode()
        for proof in said["vanilla_proofs"]
    ]
    packed = load_update_job(said, shape)
    assert (packed.elements == job.elements).all() and (packed.integers == job.integers).all()
    check_update(backend, device, job)
    names = template(partition_layout(shape)).element_names
    top = next(i for i, name in enumerate(names) if name.endswith("sub_proof.path[0].hashes[3]"))
    elements = job.elements.copy()
    elements[1, top, 0] ^= 1
    with pytest.raises(InputError, match="^partition 1: challenge 0 .*: proof_r_old: level"):
        check_update(backend, device, replace(job, elements=elements))


ORDER = (
    *("proof_r_old", "proof_d_new", "proof_r_new", "base_proof", "sub_proof", "top_proof"),
    *("root", "leaf", "path", "hashes", "index", "data", "Single", "Sub", "Top"),
)


def in_order(value: Any) -> Any:
    """Keys that were sorted, in the order of the fields."""
    if isinstance(value, list):
        return [in_order(x) for x in value]
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value, key=ORDER.index)}
    return value
