"""Every bad C1 output is one `InputError` that names the place, at once."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bad_input import Change, R, drop, put, put_inside
from c1_samples import compact, parsed, proofs, same, sample
from torchzk.circuits import layout_json
from torchzk.circuits.c1 import C1
from torchzk.circuits.c1_file import read_c1
from torchzk.circuits.json_input import Node, parse_json
from torchzk.circuits.porep_shapes import porep_shape
from torchzk.errors import InputError

SMALL = porep_shape(2048)
FIRST = r"vanilla_proofs.StackedDrg2KiBV1\[0\]\[0\]"


def at(path: str, value: object) -> Change:
    """Put `value` at a path inside the first challenge's proof."""

    return lambda output: put_inside(proofs(output)[0][0], path, value)


def less(path: str) -> Change:
    """Drop the last item of a list inside the first challenge's proof."""

    def change(output: dict[str, Any]) -> None:
        inside: Any = proofs(output)[0][0]
        for step in path.split("."):
            inside = inside[int(step) if step.isdigit() else step]
        inside.pop()

    return change


COLUMN = "replica_column_proofs.c_x.column"
LEVEL = "comm_r_last_proof.data.Single.path.path.0"
RULES: list[tuple[Change, str]] = [
    *((drop(key), f"the key '{key}' is missing") for key in ("comm_r", "seed", "vanilla_proofs")),
    (drop("registered_proof"), "the key 'registered_proof' is missing"),
    (put(comm_x=0), "the key 'comm_x' is unknown"),
    (put(registered_proof="StackedDrg2KiBV2"), "is no registered seal proof; did you mean"),
    (put(registered_proof="StackedDrgWindow2KiBV1"), "is no registered seal proof"),
    (put(registered_proof="StackedDrg32GiBV1_1"), "is of 34359738368 byte sectors"),
    (put(registered_proof=5), "registered_proof: must be a string"),
    (put(registered_proof="StackedDrg2KiBV1_2_Feat_NonInteractivePoRep"), "have 13 .*, has 1"),
    (put(comm_r=[0] * 32), "comm_r: is all zero"),
    (put(comm_d=[0] * 32), "comm_d: is all zero"),
    (put(seed=[0] * 32), "seed: is all zero"),
    (put(comm_r=R), "comm_r: is no field element"),
    (put(comm_d=R), "comm_d: is no field element"),
    (put(replica_id=[255] * 32), "replica_id: is no field element"),
    (put(ticket=[0] * 31), "ticket: must have 32 elements, has 31"),
    (put(ticket="00" * 32), "ticket: must be a list, is"),
    (put(seed=[256] + [0] * 31), r"seed\[0\]: must be a byte, is 256"),
    (put(seed=[-1] + [0] * 31), r"seed\[0\]: must be a byte, is -1"),
    (put(seed=[1.0] + [0] * 31), r"seed\[0\]: must be a byte, is 1.0"),
    (put(seed=[True] + [0] * 31), r"seed\[0\]: must be a byte, is true"),
    (put(vanilla_proofs=[]), "vanilla_proofs: must be an object"),
    (put(vanilla_proofs={}), "the key 'StackedDrg2KiBV1' is missing"),
    (put(vanilla_proofs={"StackedDrg2KiBV1_1": []}), "'StackedDrg2KiBV1_1' is unknown; did"),
    (put(vanilla_proofs={"StackedDrg2KiBV1": []}), "must have 1 elements, has 0"),
    (put(vanilla_proofs={"StackedDrg2KiBV1": [[]]}), r"\[0\]: must have 2 elements, has 0"),
    (put(vanilla_proofs={"StackedDrg2KiBV1": [[1, 2]]}), rf"{FIRST}: must be an object, is 1"),
    (
        put(vanilla_proofs={"StackedDrg2KiBV1": [["value of the text, number 0"] * 2]}),
        "be an object",
    ),
    (at("extra", 0), rf"{FIRST}: the key 'extra' is unknown"),
    (at(f"{COLUMN}.index", 64), rf"{FIRST}.{COLUMN}.index: must be in 0..63, is 64"),
    (at(f"{COLUMN}.index", -1), "index: must be in 0..63, is -1"),
    (at(f"{COLUMN}.index", 1.5), "index: must be an integer, is 1.5"),
    (at(f"{COLUMN}.index", 10**30), "index: must be in 0..63"),
    (at(f"{COLUMN}.index", "1"), "index: must be an integer, is '1'"),
    (at(f"{COLUMN}._h", 0), f"{COLUMN}._h: must be null, is 0"),
    (less(f"{COLUMN}.rows"), "rows: must have 2 elements, has 1"),
    (at(f"{COLUMN}.rows.1", R), r"\[0\]\[0\].*rows\[1\]: is no field element"),
    (at(f"{COLUMN}.rows.0.3", 256), r"rows\[0\]\[3\]: must be a byte, is 256"),
    (at(f"{COLUMN}.rows.0.3", -0.0), r"rows\[0\]\[3\]: must be a byte, is -0.0"),
    (at(f"{LEVEL}.index", 8), r"path\[0\].index: must be in 0..7, is 8"),
    (less(f"{LEVEL}.hashes"), r"path\[0\].hashes: must have 7 elements, has 6"),
    (at(f"{LEVEL}.hashes.2", R), r"path\[0\].hashes\[2\]: is no field element"),
    (at("comm_d_proofs.data.Single.leaf", R), r"comm_d_proofs.data.Single.leaf: is no field"),
    (less("comm_d_proofs.data.Single.path.path"), "path: must have 6 elements, has 5"),
    (less("comm_r_last_proof.data.Single.path.path"), "path: must have 2 elements, has 1"),
    (at("comm_r_last_proof.data", {"Sub": {}}), "the key 'Sub' is unknown"),
    (less("replica_column_proofs.drg_parents"), "drg_parents: must have 6 elements, has 5"),
    (less("replica_column_proofs.exp_parents"), "exp_parents: must have 8 elements, has 7"),
    (less("labeling_proofs"), "labeling_proofs: must have 2 elements, has 1"),
    (less("labeling_proofs.1.parents"), r"labeling_proofs\[1\].parents: must have 37 .* has 36"),
    (at("labeling_proofs.0.layer_index", 3), "layer_index: must be in 0..2, is 3"),
    (at("labeling_proofs.0.node", 1 << 40), "node: must be in 0..63"),
    (at("encoding_proof.parents.36", R), r"encoding_proof.parents\[36\]: is no field element"),
    (at("encoding_proof", None), "encoding_proof: must be an object, is null"),
]


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(("change", "message"), RULES)
def test_rules(change: Change, message: str) -> None:
    output = parsed("sector2k_a")
    change(output)
    for source in (output, compact(output)):
        with pytest.raises(InputError, match=message):
            read_c1(source, SMALL)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put(SectorSize=8 << 20), "SectorSize: is of 8388608 byte sectors, .* PoRep of 2048"),
        (put(SectorSize="2048"), "SectorSize: must be an integer"),
        (put(SectorNum=-1), "SectorNum: must be in"),
        (put(Miner=1000), "the key 'Miner' is unknown"),
        (drop("SectorSize"), "the key 'SectorSize' is missing"),
        (drop("Phase1Out"), "the key 'Phase1Out' is missing"),
        (put(Phase1Out=7), "Phase1Out: must be a string, is 7"),
        (put(Phase1Out=""), "Phase1Out: is empty"),
        (put(Phase1Out="e30=\n"), "Phase1Out: is no base64"),
        (put(Phase1Out="e30"), "Phase1Out: is no base64"),
        (put(Phase1Out="e3 0="), "Phase1Out: is no base64"),
        (put(Phase1Out=" e30="), "Phase1Out: is no base64"),
        (put(Phase1Out="é"), "Phase1Out: is no base64"),
        (put(Phase1Out="e30="), "C1: Phase1Out: the key 'vanilla_proofs' is missing"),
        (put(Phase1Out="W10="), "C1: Phase1Out: must be an object, is a list"),
        (put(Phase1Out="ew=="), "C1: Phase1Out: is not JSON: .* line 1 column 2"),
    ],
)
def test_wrapper(change: Change, message: str) -> None:
    wrapper = json.loads(sample("sector2k_a_c1_wrapper.json"))
    change(wrapper)
    with pytest.raises(InputError, match=message):
        read_c1(compact(wrapper), SMALL)


def test_wrapper_in_a_wrapper() -> None:
    again = base64.b64encode(sample("sector2k_a_c1_wrapper.json")).decode()
    with pytest.raises(InputError, match="Phase1Out: the key 'SectorNum' is unknown"):
        read_c1(compact({"SectorNum": 1, "Phase1Out": again, "SectorSize": 2048}), SMALL)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put(kind="window"), "kind: the job is for .window., the circuit is porep-2KiB"),
        (put(kind=7), "kind: must be a string"),
        (put(randomness="00"), "the key 'randomness' is unknown"),
        (drop("c1"), "the key 'c1' is missing"),
        (put(c1=[]), "c1: must be an object, is a list"),
        (put(sector_size=4096), "sector_size: is of 4096 byte sectors"),
        (put(miner_id=1 << 64), "miner_id: must be in"),
        (put(sector_number=True), "sector_number: must be an integer"),
        (put(registered_proof=15), "c1.registered_proof: is StackedDrg2KiBV1_1, .*NonInteractive"),
        (put(registered_proof=8), "registered_proof: StackedDrg32GiBV1_1 is of"),
    ],
)
def test_job(change: Change, message: str) -> None:
    job: dict[str, Any] = {"kind": "porep", "c1": parsed("sector2k_a")}
    change(job)
    for source in (job, compact(job)):
        with pytest.raises(InputError, match=message):
            read_c1(source, SMALL)


@pytest.mark.usefixtures("soon")
def test_other_sizes_and_types() -> None:
    large = porep_shape(8 << 20)
    for form in ("c1.json", "c1_wrapper.json", "c1_api.bincode"):
        with pytest.raises(InputError, match="2048 byte sectors, the circuit is PoRep of 8388608"):
            read_c1(sample(f"sector2k_a_{form}"), large)
    with pytest.raises(InputError, match="comm_d_proofs.data.Single.path.path: must have 18 "):
        read_c1(sample("sector2k_a_c1_inner.bincode"), large)
    with pytest.raises(InputError, match="path: must have 18 elements, has 6"):
        read_c1(sample("sector2k_a_c1_inner.json"), large)
    with pytest.raises(InputError, match=r"must have 2 elements, says 18|must have 10 elements"):
        read_c1(sample("sector2k_a_c1_inner.bincode"), porep_shape(32 << 30))
    with pytest.raises(InputError, match="no PoRep of 4KiB sectors is registered"):
        read_c1(sample("sector2k_a_c1_inner.bincode"), porep_shape(4096))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b" \n",
        b"\0" * 64,
        b"\x89PNG\r\n\x1a\n\0\0\0\r",
        b"[]",
        b"null",
        b"7",
        b"NaN",
        b'{"kind":NaN}',
        b"{}",
        b'{"vanilla_proofs":[]}',
        b"\xff\xfe{",
        b"[" * 100_000,
        b'{"vanilla_proofs":' * 100_000,
        b'{"comm_d_proofs":' * 100_000,
        b'{"comm_r":' + b"9" * 1_000_000 + b"}",
        b"\x05\0\0\0\0\0\0",
        b"\x05\0\0\0\0\0\0\0" + b"\xff" * 80,
        b"\x01\0\0\0\0\0\0\0" + b"\xff" * 80,
    ],
)
@pytest.mark.usefixtures("soon")
def test_no_c1_at_all(content: bytes) -> None:
    with pytest.raises(InputError, match="^C1: "):
        read_c1(content, SMALL)


@pytest.mark.parametrize("form", ["c1.json", "c1_wrapper.json", "c1_api.bincode"])
def test_truncated(form: str) -> None:
    data = sample(f"sector2k_a_{form}")
    for n in [*range(40), *range(40, len(data), len(data) // 40), len(data) - 1]:
        with pytest.raises(InputError):
            read_c1(data[:n], SMALL)


def test_more_than_there_should_be() -> None:
    for form in ("c1.json", "c1_inner.json", "c1_wrapper.json"):
        with pytest.raises(InputError, match="Extra data"):
            read_c1(sample(f"sector2k_a_{form}") + b"{}", SMALL)
    for form in ("c1_api.bincode", "c1_inner.bincode"):
        with pytest.raises(InputError, match="end: 1 bytes too many"):
            read_c1(sample(f"sector2k_a_{form}") + b"\0", SMALL)


def test_repeated_key() -> None:
    data = sample("sector2k_a_c1.json")
    for key in (b'"seed":', b'"labeling_proofs":', b'"_h":'):
        with pytest.raises(InputError, match="twice"):
            read_c1(data.replace(key, key + b"null," + key, 1), SMALL)


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        (0, b"\x05\0\0\0\x01", "byte 0: vanilla_proofs: must have 1 elements, says 4294967301"),
        (8, b"\x02", "byte 8: vanilla_proofs: must have 1 elements, says 2"),
        (16, b"\xff" * 8, r"byte 16: vanilla_proofs\[0\]: must have 2 elements, says 18446744073"),
        (24, b"\x01", r"byte 24: vanilla_proofs\[0\]\[0\].comm_d_proofs.data: must be variant 0"),
        (92, b"\x07", r"byte 92: .*comm_d_proofs.data.Single.path.path: must have 6 .* says 7"),
        (100, b"\x02", r"path.path\[0\].hashes: must have 1 elements, says 2"),
        (140, b"\x02", r"byte 140: .*path.path\[0\].index: must be below 2, is 2"),
        (139, b"\xff", r"vanilla_proofs\[0\]\[0\].comm_d_pr.*hashes\[0\]: is no field element"),
    ],
)
def test_bincode(offset: int, value: bytes, message: str) -> None:
    data = bytearray(sample("sector2k_a_c1_api.bincode"))
    data[offset : offset + len(value)] = value
    with pytest.raises(InputError, match=message):
        read_c1(bytes(data), SMALL)


def outcome(read: Callable[[], C1]) -> C1 | str:
    try:
        return read()
    except InputError as e:
        return str(e)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    place=st.floats(0, 1, exclude_max=True),
    length=st.integers(0, 3),
    text=st.sampled_from(["", "0", "1", "9", "00", "-", ".", "e1", " ", ",", "]", "}", "[", '"']),
)
def test_cutting_changes_nothing(place: float, length: int, text: str) -> None:
    """The fast way of reading gives what parsed JSON gives, on text that is nearly right."""
    data = sample("sector2k_a_c1.json")
    start = int(place * len(data))
    damaged = data[:start] + text.encode() + data[start + length :]
    fast = outcome(lambda: read_c1(damaged, SMALL))
    try:
        value = json.loads(damaged)
    except ValueError:
        assert isinstance(fast, str)
        return
    slow = outcome(lambda: read_c1(value, SMALL))
    if isinstance(slow, C1):
        assert isinstance(fast, C1) and same(fast, slow)
    else:
        assert fast == slow


def test_a_fault_is_found_without_reading_all_the_slow_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []

    def parse(data: bytes, document: str) -> Node:
        read.append(len(data))
        return parse_json(data, document)

    monkeypatch.setattr(layout_json, "parse_json", parse)
    data = sample("sector2k_a_c1.json")
    for name, where, most in (("leaf", "[0][0].comm_d_proofs", 0.6), ("ticket", "ticket", 0.02)):
        read.clear()
        with pytest.raises(InputError, match=re.escape(where)):
            read_c1(
                data.replace(b'"%s":[' % name.encode(), b'"%s":[999,' % name.encode(), 1), SMALL
            )
        assert len(read) == 1 and read[0] < most * len(data)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300))
def test_random_bytes(data: bytes) -> None:
    for head in (b"", b"\x05\0\0\0\0\0\0\0", b"\x01\0\0\0\0\0\0\0", b"{"):
        with pytest.raises(InputError):
            read_c1(head + data, SMALL)
