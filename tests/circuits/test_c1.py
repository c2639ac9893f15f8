"""C1 outputs of the reference: every form reads the same, and says what the file says."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from c1_samples import FORMS, SIZES, compact, parsed, proofs, same, sample
from torchzk.circuits.c1 import C1
from torchzk.circuits.c1_file import read_c1
from torchzk.circuits.layout_json import cut_values
from torchzk.circuits.porep_layout import challenge_layout
from torchzk.circuits.porep_shapes import porep_shape
from torchzk.circuits.registered import REGISTERED_SEALS

SMALL = porep_shape(2048)


@pytest.fixture(scope="module")
def expected() -> C1:
    """Read by the walk over parsed JSON."""
    return read_c1(parsed("sector2k_a"), SMALL)


@pytest.mark.parametrize("form", FORMS)
def test_forms(tmp_path: Path, expected: C1, form: str) -> None:
    c1 = read_c1(sample(f"sector2k_a_{form}"), SMALL)
    assert same(c1, expected)
    assert c1.registered.name == "StackedDrg2KiBV1_1"
    assert c1.sector_number == (1 if form == "c1_wrapper.json" else None)
    # not told apart by the name
    path = tmp_path / "c1.txt"
    path.write_bytes(sample(f"sector2k_a_{form}"))
    assert same(read_c1(path, SMALL), expected)


@pytest.mark.parametrize("indent", [None, 1])
def test_any_json_of_the_same_meaning(expected: C1, indent: int | None) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, list):
            return [shuffled(x) for x in value]
        if not isinstance(value, dict):
            return value
        keys = list(value)
        random.Random(len(keys)).shuffle(keys)
        return {key: shuffled(value[key]) for key in keys}

    output = parsed("sector2k_a")
    assert same(read_c1(json.dumps(output, indent=indent).encode(), SMALL), expected)
    assert same(read_c1(json.dumps(shuffled(output), indent=indent).encode(), SMALL), expected)
    half = compact(output).replace(b'"encoding_proof":', b'"encoding_proof": ', 1)
    assert same(read_c1(half, SMALL), expected)


def test_job(expected: C1) -> None:
    job = {"kind": "porep", "c1": parsed("sector2k_a")}
    assert same(read_c1(compact(job), SMALL), expected)
    assert same(read_c1(job, SMALL), expected)
    said = {
        "sector_size": 2048,
        "miner_id": 1000,
        "sector_number": 1,
        "registered_proof": "StackedDrg2KiBV1_1",
    }
    c1 = read_c1(compact(job | said), SMALL)
    assert same(c1, expected) and (c1.miner_id, c1.sector_number) == (1000, 1)


def test_proof_type_of_the_inner_form(expected: C1) -> None:
    inner = json.loads(sample("sector2k_a_c1_inner.json"))
    first = REGISTERED_SEALS[0]
    assert read_c1(inner, SMALL).registered.name == "StackedDrg2KiBV1_1"
    job = {"kind": "porep", "c1": inner, "registered_proof": 0}
    assert read_c1(job, SMALL).registered == first
    c1 = read_c1(sample("sector2k_a_c1_inner.bincode"), SMALL)
    assert c1.registered.name == "StackedDrg2KiBV1_1"


@pytest.mark.parametrize("name", SIZES)
def test_every_value_is_where_its_name_says(name: str) -> None:
    c1 = read_c1(sample(f"{name}_c1.json"), porep_shape(SIZES[name]))
    output = parsed(name)
    for key in ("comm_r", "comm_d", "replica_id", "seed", "ticket"):
        assert list(getattr(c1, key)) == output[key]
    known = c1.template
    assert c1.elements.shape[:2] == (len(proofs(output)), len(proofs(output)[0]))
    for at, challenges in ((0, proofs(output)[0]), (-1, proofs(output)[-1])):
        for challenge, proof in enumerate(challenges):
            for k, path in enumerate(known.element_names):
                assert c1.elements[at, challenge, k].tolist() == follow(proof, path)
            for k, path in enumerate(known.integer_names):
                assert c1.integers[at, challenge, k] == follow(proof, path)


def follow(value: Any, path: str) -> Any:
    for step in path.replace("[", ".[").split("."):
        value = value[int(step[1:-1])] if step.startswith("[") else value[step]
    return value


@pytest.mark.parametrize("name", SIZES)
def test_compact_text_is_cut(name: str) -> None:
    """All of it, or a large file would take seconds and the memory of ten million integers."""
    text, cut = cut_values(sample(f"{name}_c1.json"), challenge_layout(porep_shape(SIZES[name])))
    output = parsed(name)
    assert len(cut.values) == sum(len(challenges) for challenges in proofs(output))
    assert len(text) < 2000
    walked = read_c1(output, porep_shape(SIZES[name]))
    elements = np.stack([v.elements for v in cut.values])
    assert np.array_equal(elements.reshape(walked.elements.shape), walked.elements)


def test_wrapped_text_need_not_be_compact(expected: C1) -> None:
    wrapper = json.loads(sample("sector2k_a_c1_wrapper.json"))
    inside = base64.b64encode(json.dumps(parsed("sector2k_a"), indent=2).encode())
    assert same(read_c1(compact(wrapper | {"Phase1Out": inside.decode()}), SMALL), expected)
