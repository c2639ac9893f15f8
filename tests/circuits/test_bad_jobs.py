"""Every bad job is one `InputError` that names the place, at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bad_input import Change, drop, put
from torchzk.circuits.post_job import load_post_job
from torchzk.circuits.post_shapes import post_shape
from torchzk.circuits.randomness_file import load_randomisers
from torchzk.errors import InputError
from torchzk.params.fields import FR

WINDOW, WINNING = post_shape("window", 2048), post_shape("winning", 2048)
pytestmark = pytest.mark.usefixtures("soon")


@pytest.fixture
def text(golden: Path) -> bytes:
    return (golden / "jobs" / "sector2k_b_window3.json").read_bytes()


def little(value: int) -> str:
    return value.to_bytes(32, "little").hex()


def swap(job: dict[str, Any]) -> None:
    job["vanilla_proofs"][0:2] = job["vanilla_proofs"][1::-1]


def repeat(job: dict[str, Any]) -> None:
    job["vanilla_proofs"].insert(1, job["vanilla_proofs"][0])


def third(value: object) -> Change:
    return lambda job: job["vanilla_proofs"].__setitem__(2, value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put(rondomness="00"), "'rondomness' is unknown; did you mean 'randomness'"),
        (put(comm_r_old="00" * 32), "the key 'comm_r_old' is unknown"),
        (drop("kind"), "the key 'kind' is missing"),
        (drop("sector_size"), "the key 'sector_size' is missing"),
        (drop("miner_id"), "the key 'miner_id' is missing"),
        (drop("randomness"), "the key 'randomness' is missing"),
        (drop("vanilla_proofs"), "the key 'vanilla_proofs' is missing"),
        (put(kind="winning"), "kind: the job is for 'winning', the circuit is window-2KiB"),
        (put(kind="windo"), "kind: must be one of porep, winning, window, update, is 'windo'"),
        (put(kind=["window"]), "kind: must be a string, is a list"),
        (put(kind="porep"), "kind: the job is for 'porep', the circuit is window-2KiB"),
        (put(kind="update"), "kind: the job is for 'update', the circuit is window-2KiB"),
        (put(sector_size=8 << 20), "the job is for 8388608 byte sectors, .* of 2048"),
        (put(sector_size="2048"), "sector_size: must be an integer, is '2048'"),
        (put(sector_size=2048.0), "sector_size: must be an integer, is 2048.0"),
        (put(sector_size=-1), "sector_size: must be in"),
        (put(miner_id=-1), "miner_id: must be in"),
        (put(miner_id=1 << 64), "miner_id: must be in"),
        (put(miner_id=True), "miner_id: must be an integer, is true"),
        (put(miner_id="f01000"), "miner_id: must be an integer"),
        (put(registered_proof="StackedDrgWinning2KiBV1"), "is a winning PoSt"),
        (put(registered_proof=99), "registered_proof: must be in"),
        (put(partition_index=-1), "partition_index: must be in"),
        (put(partition_index=0), "at most 2 sectors, has 3"),
        (put(sector_number=9), "sector_number: sector 9 is not among"),
        (put(randomness="00" * 31), "randomness: must be 64 hex digits"),
        (put(randomness="00" * 33), "randomness: must be 64 hex digits"),
        (put(randomness="0x" + "00" * 31), "randomness: must be 64 hex digits"),
        (put(randomness=" " + "0" * 63), "randomness: must be 64 hex digits"),
        (put(randomness="0" * 64 + "\n"), "randomness: must be 64 hex digits"),
        (put(randomness=[0] * 32), "randomness: must be a string, is a list"),
        (put(randomness=little(FR.modulus)), "randomness: .* r or more.*clear the top two bits"),
        (put(randomness="ff" * 32), "randomness: .*r or more"),
        (put(vanilla_proofs=[]), "vanilla_proofs: is empty"),
        (put(vanilla_proofs={}), "vanilla_proofs: must be a list, is an object"),
        (put(vanilla_proofs="AAAA"), "vanilla_proofs: must be a list"),
        (swap, r"vanilla_proofs\[1\]: sector 2 comes after sector 3: .* strictly ascending"),
        (repeat, r"vanilla_proofs\[1\]: sector 2 comes after sector 2"),
        (third(None), r"vanilla_proofs\[2\]: must be an object, is null"),
        (third(7), r"vanilla_proofs\[2\]: must be an object, is 7"),
        (third({}), r"vanilla_proofs\[2\]: the key 'sector_id' is missing"),
        (third("????"), r"vanilla_proofs\[2\]: is no base64"),
        (third("AAAA"), r"vanilla_proofs\[2\]: byte 0: sector_id: needs 8 bytes, 3 are left"),
    ],
)
def test_rules(text: bytes, change: Change, message: str) -> None:
    job = json.loads(text)
    change(job)
    with pytest.raises(InputError, match=message):
        load_post_job(job, WINDOW)
    with pytest.raises(InputError, match=message):
        load_post_job(json.dumps(job).encode(), WINDOW)


def test_largest_randomness(text: bytes) -> None:
    job = json.loads(text) | {"randomness": little(FR.modulus - 1)}
    assert load_post_job(job, WINDOW).randomness.hex() == little(FR.modulus - 1)


def test_winning_is_one_sector(golden: Path) -> None:
    job = json.loads((golden / "jobs" / "sector2k_a_winning.bincode.json").read_text())
    with pytest.raises(InputError, match="'partition_index' is unknown"):
        load_post_job(job | {"partition_index": 0}, WINNING)
    with pytest.raises(InputError, match="vanilla_proofs: must have 1 elements, has 2"):
        load_post_job(job | {"vanilla_proofs": job["vanilla_proofs"] * 2}, WINNING)
    window = json.loads((golden / "jobs" / "sector2k_a_window1.bincode.json").read_text())
    with pytest.raises(InputError, match="inclusion_proofs: must have 66 elements, says 10"):
        load_post_job(job | {"vanilla_proofs": window["vanilla_proofs"]}, WINNING)


def test_other_sector_size(golden: Path) -> None:
    """A 2 KiB proof under a job that calls itself one of 32 GiB."""
    job = json.loads((golden / "jobs" / "sector2k_a_window1.json").read_text())
    job["sector_size"] = 32 << 30
    with pytest.raises(InputError, match="data: the key 'Single' is unknown; the keys are Sub"):
        load_post_job(job, post_shape("window", 32 << 30))


@pytest.mark.parametrize("form", ["json", "bincode.json"])
def test_truncated(golden: Path, form: str) -> None:
    text = (golden / "jobs" / f"sector2k_a_window1.{form}").read_bytes().rstrip()
    for n in [*range(200), *range(200, len(text), 257), len(text) - 1]:
        with pytest.raises(InputError):
            load_post_job(text[:n], WINDOW)


def test_no_json_objects(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    for content in (b"", b"\0" * 64, b"\x89PNG\r\n", b"[]", b"null", b"7", b'"kind"', b"NaN"):
        path.write_bytes(content)
        with pytest.raises(InputError, match="job.json: "):
            load_post_job(path, WINDOW)
    with pytest.raises(InputError, match="cannot be read"):
        load_post_job(tmp_path / "absent.json", WINDOW)
    with pytest.raises(InputError, match="not a regular file"):
        load_post_job(tmp_path, WINDOW)


@pytest.mark.parametrize("keys", [["SectorNum", "Phase1Out"], ["replica_id", "vanilla_proofs"]])
def test_c1_output(keys: list[str]) -> None:
    with pytest.raises(InputError, match="C1 output of a PoRep, the circuit is window-2KiB"):
        load_post_job(dict.fromkeys(keys, 0), WINDOW)


PAIR = {"r": "00" * 32, "s": "01" + "00" * 31}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([PAIR], "must have 2 elements, has 1"),
        ([PAIR] * 3, "must have 2 elements, has 3"),
        (PAIR, "must be a list"),
        ([PAIR, {"r": PAIR["r"]}], r"\[1\]: the key 's' is missing"),
        ([PAIR, PAIR | {"t": 1}], r"\[1\]: the key 't' is unknown"),
        ([PAIR, PAIR | {"s": "00" * 31}], r"\[1\].s: must be 64 hex digits"),
        ([PAIR, PAIR | {"s": 987654321}], r"\[1\].s: must be 64 hex digits"),
        ([PAIR, PAIR | {"s": "0x987654321"}], r"\[1\].s: must be 64 hex digits"),
        ([PAIR | {"r": little(FR.modulus)}, PAIR], r"\[0\].r: .*r or more"),
        ([PAIR | {"r": "ff" * 32}, PAIR], r"\[0\].r: .*r or more"),
    ],
)
def test_randomness_file(tmp_path: Path, content: object, message: str) -> None:
    path = tmp_path / "rs.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=message) as refused:
        load_randomisers(path, 2)
    # it may be a secret but for its form
    assert "987654321" not in str(refused.value)
