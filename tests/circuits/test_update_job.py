"""Jobs of sector updates: both forms read the same; every bad one is an error with its place."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bad_input import Change, R, drop, put, put_inside
from torchzk.backends import Backend
from torchzk.circuits.layout_json import cut_values
from torchzk.circuits.layouts import Layout, Sequence, Struct, Variant, template
from torchzk.circuits.update_job import UpdateJob, load_update_job, update_public_inputs
from torchzk.circuits.update_proof import partition_layout
from torchzk.circuits.update_shapes import update_shape
from torchzk.circuits.update_slots import update_witness
from torchzk.errors import InputError, LayoutError
from update_samples import JOBS, job, witness_of

SMALL = update_shape(2048)
SIZES = {"sector2k_a_update": 2048, "synth2k_update": 2048, "synth8m_update": 8 << 20}
FIRST = r"vanilla_proofs\[0\]"


def text(name: str) -> bytes:
    return gzip.decompress((JOBS / f"{name}.json.gz").read_bytes())


def parsed(name: str = "sector2k_a_update") -> dict[str, Any]:
    """A fresh copy."""
    value: dict[str, Any] = json.loads(text(name))
    return value


def same(a: UpdateJob, b: UpdateJob) -> bool:
    plain = ("shape", "miner_id", "registered", "comm_r_old", "comm_r_new", "comm_d_new")
    return all(getattr(a, x) == getattr(b, x) for x in plain) and all(
        np.array_equal(getattr(a, x), getattr(b, x)) for x in ("elements", "integers")
    )


def follow(value: Any, path: str) -> Any:
    for step in path.replace("[", ".[").split("."):
        value = value[int(step[1:-1])] if step.startswith("[") else value[step]
    return value


@pytest.mark.parametrize(("name", "size"), SIZES.items())
def test_every_value_is_where_its_name_says(name: str, size: int) -> None:
    read, said = load_update_job(text(name), update_shape(size)), job(name)
    assert read.comm_r_new.hex() == said["comm_r_new"] and read.miner_id == said["miner_id"]
    known = template(partition_layout(read.shape))
    for partition, proof in enumerate(said["vanilla_proofs"]):
        for k, path in list(enumerate(known.element_names))[:: 1 if size == 2048 else 17]:
            assert read.elements[partition, k].tolist() == follow(proof, path)
        for k, path in enumerate(known.integer_names):
            assert read.integers[partition, k] == follow(proof, path)


def in_order(value: Any, layout: Layout) -> Any:
    """JSON with its keys in the order of a layout."""
    match layout:
        case Struct(fields):
            return {key: in_order(value[key], field) for key, field in fields}
        case Sequence(item, _):
            return [in_order(x, item) for x in value]
        case Variant(name, _, item):
            return {name: in_order(value[name], item)}
    return value


@pytest.mark.parametrize(("order", "n_cut"), [("sorted", 4), ("declared", 4), ("mixed", 0)])
def test_compact_text_is_cut(order: str, n_cut: int) -> None:
    shape = update_shape(8 << 20)
    layout, said = partition_layout(shape), parsed("synth8m_update")
    expected = load_update_job(said, shape)
    if order == "declared":
        said["vanilla_proofs"] = [in_order(proof, layout) for proof in said["vanilla_proofs"]]
    if order == "mixed":
        said["vanilla_proofs"] = [dict(reversed(x.items())) for x in said["vanilla_proofs"]]
    compact = json.dumps(said, separators=(",", ":")).encode()
    rest, cut = cut_values(compact, layout)
    assert len(cut.values) == n_cut and (len(rest) < 1000) == bool(n_cut)
    assert same(load_update_job(compact, shape), expected)


def test_both_forms_are_one(tmp_path: Path) -> None:
    expected = load_update_job(parsed(), SMALL)
    path = tmp_path / "job.json"
    path.write_bytes(text("sector2k_a_update.bincode"))
    assert same(load_update_job(path, SMALL), expected)
    assert same(load_update_job(json.dumps(parsed(), indent=1).encode(), SMALL), expected)
    more = parsed() | {"registered_proof": 0, "sector_number": 1}
    assert same(load_update_job(more, SMALL), expected)
    assert load_update_job(more, SMALL).sector_number == 1


@pytest.mark.parametrize(("name", "size"), SIZES.items())
def test_public_inputs(golden: Path, name: str, size: int) -> None:
    figures = json.loads((golden / "update_witness.json").read_text())[name]
    read = load_update_job(text(name), update_shape(size))
    for partition, expected in enumerate(figures):
        assert update_public_inputs(read, partition) == [
            int.from_bytes(bytes.fromhex(x), "little") for x in expected["public_inputs_hex_le"]
        ]
    last = read.n_partitions - 1
    assert update_public_inputs(read, last)[0] == update_public_inputs(read, 0)[0] + last


@pytest.mark.parametrize(("name", "size"), SIZES.items())
def test_witness(backend: Backend, device: torch.device, name: str, size: int) -> None:
    read = load_update_job(text(name), update_shape(size))
    for partition in {0, read.n_partitions - 1}:
        got = update_witness(backend, device, read, partition)
        expected = witness_of(job(name), partition, read.shape, device)
        for field in vars(expected):
            a, b = getattr(got, field), getattr(expected, field)
            if isinstance(b, tuple):
                assert len(a) == len(b) and all(map(torch.equal, a, b))
            else:
                assert torch.equal(a, b)
    with pytest.raises(LayoutError, match=f"no partition {read.n_partitions} of"):
        update_witness(backend, device, read, read.n_partitions)


def at(path: str, value: object) -> Change:
    """Put `value` at a path inside the first proof."""

    return lambda said: put_inside(said["vanilla_proofs"][0], path, value)


OLD = "challenge_proofs.0.proof_r_old.data.Single"


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        *((drop(key), f"the key '{key}' is missing") for key in ("kind", "comm_r_old", "miner_id")),
        (put(kind="window"), "kind: the job is for 'window', the circuit is update-2KiB"),
        (put(kind="updat"), "kind: must be one of porep, winning, window, update"),
        (put(sector_size=8 << 20), "8388608 byte sectors, the circuit is update-2KiB of 2048"),
        (put(randomness="00"), "the key 'randomness' is unknown"),
        (put(miner_id=-1), "miner_id: must be in"),
        (put(sector_number="1"), "sector_number: must be an integer"),
        (put(registered_proof=3), "registered_proof: StackedDrg32GiBV1 is of"),
        (put(registered_proof="StackedDrg2KiBV1_1"), "no registered update proof; did you mean"),
        (put(comm_r_old="00"), "comm_r_old: must be 64 hex digits"),
        (put(comm_d_new=bytes(R).hex()), "comm_d_new: is no field element"),
        (put(comm_r_new=[0] * 32), "comm_r_new: must be a string"),
        (put(vanilla_proofs={}), "vanilla_proofs: must be a list"),
        (put(vanilla_proofs=[]), "vanilla_proofs: must have 1 elements, has 0"),
        (put(vanilla_proofs=[None]), rf"{FIRST}: must be an object, is null"),
        (put(vanilla_proofs=["????"]), rf"{FIRST}: is no base64"),
        (put(vanilla_proofs=["AAAA"]), rf"{FIRST}: byte 0: value: needs 15064 bytes, 3 are left"),
        (put(vanilla_proofs=["value 0 of the text"]), rf"{FIRST}: is no base64"),
        (at("comm_c", R), rf"{FIRST}: comm_c: is no field element"),
        (at("apex_leafs", []), "apex_leafs: must have 8 elements, has 0"),
        (at("apex_leafs.7", R), r"apex_leafs\[7\]: is no field element"),
        (at("apex_leafs.7.0", 256), r"apex_leafs\[7\]\[0\]: must be a byte, is 256"),
        (at("challenge_proofs", []), "challenge_proofs: must have 10 elements, has 0"),
        (at("challenge_proofs.3", {}), r"challenge_proofs\[3\]: the key 'proof_r_old' is missing"),
        (at("extra", 1), "the key 'extra' is unknown"),
        (at(f"{OLD}.leaf", R), r"challenge_proofs\[0\].proof_r_old.data.Single.leaf: is no field"),
        (at(f"{OLD}.path.path.1.index", 8), r"path\[1\].index: must be in 0..7, is 8"),
        (at(f"{OLD}.path.path.1.index", 1.0), r"path\[1\].index: must be an integer, is 1.0"),
        (at(f"{OLD}.path.path", []), "path: must have 2 elements, has 0"),
        (at("challenge_proofs.0.proof_d_new.data", {"Sub": 0}), "the key 'Sub' is unknown"),
    ],
)
def test_rules(change: Change, message: str) -> None:
    said = parsed()
    change(said)
    compact = json.dumps(said, separators=(",", ":"), sort_keys=True).encode()
    for source in (said, compact):
        with pytest.raises(InputError, match=message):
            load_update_job(source, SMALL)


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        (31, b"\xff", "comm_c: is no field element"),
        (32, b"\x09", "byte 32: apex_leafs: must have 8 elements, says 9"),
        (296, b"\xff" * 8, "byte 296: challenge_proofs: must have 10 elements, says 1844"),
        (304, b"\x01", r"byte 304: challenge_proofs\[0\].proof_r_old.data: must be variant 0 \(Si"),
        (-8, b"\x08", r"challenge_proofs\[9\].proof_r_new.*path\[1\].index: must be below 8, is 8"),
    ],
)
def test_bincode(offset: int, value: bytes, message: str) -> None:
    said = json.loads(text("sector2k_a_update.bincode"))
    data = bytearray(base64.b64decode(said["vanilla_proofs"][0]))
    start = offset % len(data)
    data[start : start + len(value)] = value
    said["vanilla_proofs"] = [base64.b64encode(data).decode()]
    with pytest.raises(InputError, match=f"^job: {FIRST}: .*{message}"):
        load_update_job(said, SMALL)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=100), st.integers(0, 15064))
def test_random_bincode(data: bytes, keep: int) -> None:
    said = json.loads(text("sector2k_a_update.bincode"))
    whole = base64.b64decode(said["vanilla_proofs"][0])
    damaged = whole[:keep] + data
    said["vanilla_proofs"] = [base64.b64encode(damaged).decode()]
    try:
        load_update_job(said, SMALL)
    except InputError:
        return
    assert len(damaged) == len(whole)


@pytest.mark.usefixtures("soon")
def test_no_job_at_all() -> None:
    for content in (b"", b"[]", b"\0" * 99, b"{", b"[" * 100_000, b'{"apex_leafs":' * 50_000):
        with pytest.raises(InputError, match="^job: "):
            load_update_job(content, SMALL)
