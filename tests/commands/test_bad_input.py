"""Every kind of bad input through the command: one typed error, its exit code, and quickly."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from c1_samples import parsed, proofs, sample
from curve_samples import OUTSIDE_G1
from torchzk import api, prove, verify
from torchzk.groth16.encoding import encode_uncompressed
from torchzk.params.curves import G1
from torchzk.params.fields import FP, FR

MAX_SECONDS = 10.0
"""Of the processor, so that a busy machine fails nothing; the commands use one core."""
UPDATE = {"kind": "update", "sector_size": "2KiB"}
HEAD = 868 + 96 * 23
"""Bytes of the verifying key of window PoSt at 2 KiB, which a parameter file starts with."""


@dataclass(frozen=True)
class Place:
    """A config, a key and a proof that are all good."""

    folder: Path
    key: bytes
    job: dict[str, Any]
    proof: bytes


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("good")
    golden = Path(__file__).parents[1] / "golden"
    config = replace(
        api.load_config("window2k.yaml"),
        key_cache=folder / "cache",
        block_cache=folder / "blocks",
        device="cpu",
    )
    session = api.open_session(config)
    params, _, _ = api.write_dev_keys(session, folder)
    known = json.loads((golden / "groth16" / "proofs_2kib.json").read_text())["proofs"]
    proof = next(p["proof"] for p in known if p["name"] == "sector2k_a_window 0")
    job = json.loads((golden / "jobs" / "sector2k_a_window1.json").read_text())
    return Place(folder, params.read_bytes(), job, bytes.fromhex(proof))


@dataclass(frozen=True)
class Refusal:
    """What a command said of bad input."""

    error: str
    message: str


@pytest.fixture
def refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[[Callable[[list[str]], int], int, list[str]], Refusal]:
    """Run a command that must fail: exit code, time, streams and folder are looked at."""

    def run(command: Callable[[list[str]], int], code: int, argv: list[str]) -> Refusal:
        before = {path for path in tmp_path.rglob("*") if path.is_file()}
        start = time.process_time()
        assert command([*argv, "--json"]) == code
        assert time.process_time() - start < MAX_SECONDS
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        report = json.loads(out.splitlines()[-1])
        assert (report["ok"], report["exit_code"]) == (False, code)
        after = {path for path in tmp_path.rglob("*") if path.is_file()}
        assert after == before
        return Refusal(report["error"], report["message"])

    return run


def write_config(folder: Path, **changes: object) -> str:
    config = {
        "circuit": {"kind": "window", "sector_size": "2KiB"},
        "input": "job.json",
        "keys": "dev",
        "key_cache": str(folder / "cache"),
        "block_cache": str(folder.parent / "blocks"),
        "runs": str(folder / "runs"),
        "device": "cpu",
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({**config, **changes}))
    return str(path)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"devise": "cpu"}, "device"),
        ({"device": 3}, "device"),
        ({"circuit": {"kind": "windw", "sector_size": "2KiB"}}, "circuit.kind"),
        ({"circuit": {"kind": "window", "sector_size": "2 KB"}}, "circuit.sector_size"),
        ({"circuit": {"kind": "window", "sector_size": 2049}}, "2049"),
        ({"circuit": {"kind": "window"}}, "circuit.sector_size"),
        ({"circuit": None}, "circuit"),
    ],
)
def test_config(tmp_path: Path, refused: Any, changes: dict[str, object], text: str) -> None:
    # it is there, lest its absence be what is said
    (tmp_path / "job.json").touch()
    refusal = refused(prove.run, 2, ["--config", write_config(tmp_path, **changes)])
    assert refusal.error == "ConfigError"
    assert text in refusal.message


def flip(path: list[Any]) -> None:
    """One bit of the first sibling."""
    path[0]["hashes"][0][0] ^= 1


def first(job: dict[str, Any]) -> dict[str, Any]:
    """The first sector of the first vanilla proof."""
    sector: dict[str, Any] = job["vanilla_proofs"][0]["vanilla_proof"]["sectors"][0]
    return sector


def damage(job: dict[str, Any], how: str) -> dict[str, Any]:
    """A deep copy of a job with one thing wrong."""
    job = json.loads(json.dumps(job))
    proofs = first(job)["inclusion_proofs"]
    match how:
        case "flipped":
            flip(proofs[3]["data"]["Single"]["path"]["path"])
        case "element r":
            r = list(FR.modulus.to_bytes(32, "little"))
            proofs[1]["data"]["Single"]["path"]["path"][1]["hashes"][2] = r
        case "element above r":
            first(job)["comm_c"] = [255] * 32
        case "randomness":
            job["randomness"] = job["randomness"][:-2] + "00"
        case "randomness not below r":
            job["randomness"] = "ff" * 32
        case "too few":
            proofs.pop()
        case "short path":
            proofs[0]["data"]["Single"]["path"]["path"].pop()
        case "other kind":
            job["kind"] = "winning"
        case "other size":
            job["sector_size"] = 8 << 20
        case "unknown key":
            job["sectorsize"] = 2048
    return job


@pytest.mark.parametrize(
    ("how", "texts"),
    [
        ("flipped", ["sector 1", "challenge 3", "level"]),
        ("element r", ["inclusion_proofs[1]", "hashes[2]"]),
        ("element above r", ["comm_c"]),
        ("randomness", ["sector 1", "challenge 0"]),
        ("randomness not below r", ["randomness", "top two bits"]),
        ("too few", ["inclusion_proofs"]),
        ("short path", ["path"]),
        ("other kind", ["winning", "window-2KiB"]),
        ("other size", ["8388608", "window-2KiB"]),
        ("unknown key", ["sectorsize", "sector_size"]),
    ],
)
def test_job(tmp_path: Path, place: Place, refused: Any, how: str, texts: list[str]) -> None:
    job = tmp_path / "job.json"
    job.write_text(json.dumps(damage(place.job, how)))
    argv = ["--config", write_config(tmp_path), "--input", str(job), "--out", str(tmp_path / "p")]
    refusal = refused(prove.run, 3, argv)
    assert refusal.error == "InputError"
    assert [t for t in texts if t not in refusal.message] == [], refusal.message


@pytest.mark.parametrize(
    "raw", [None, b"", b"{", b"\xff\xfe", b"[1, 2", b"proof", b"[" * 100_000, b"9" * 100_000]
)
def test_job_file(tmp_path: Path, refused: Any, raw: bytes | None) -> None:
    job = tmp_path / "job.json"
    if raw is not None:
        job.write_bytes(raw)
    argv = ["--config", write_config(tmp_path), "--input", str(job)]
    refusal = refused(prove.run, 3, argv)
    assert "job.json" in refusal.message


def test_truncated_job(tmp_path: Path, place: Place, refused: Any) -> None:
    job, whole = tmp_path / "job.json", json.dumps(place.job).encode()
    config = write_config(tmp_path)
    for length in range(1, len(whole), len(whole) // 12):
        job.write_bytes(whole[:length])
        refused(prove.run, 3, ["--config", config, "--input", str(job)])


def damaged_c1(how: str) -> bytes:
    """A C1 output of a 2 KiB sector with one thing wrong."""
    c1 = parsed("sector2k_a")
    challenge = proofs(c1)[0][1]
    match how:
        case "flipped":
            flip(challenge["comm_r_last_proof"]["data"]["Single"]["path"]["path"])
        case "label":
            challenge["labeling_proofs"][1]["parents"][0][0] ^= 1
        case "element r":
            column = challenge["replica_column_proofs"]["exp_parents"][2]["column"]
            column["rows"][0] = list(FR.modulus.to_bytes(32, "little"))
        case "comm_d" | "comm_r" | "seed":
            c1[how] = [0] * 32
        case "partition":
            proofs(c1).append(proofs(c1)[0])
        case "unregistered":
            c1["registered_proof"] = "StackedDrg3KiBV1"
        case "another size":
            return sample("real8m_c1.json")
        case "bincode":
            return sample("sector2k_a_c1_api.bincode")[:-1]
        case "wrapped":
            whole = sample("sector2k_a_c1_wrapper.json")
            return whole.replace(b'"Phase1Out":"', b'"Phase1Out":"*')
    return json.dumps(c1).encode()


@pytest.mark.parametrize(
    ("how", "texts"),
    [
        ("flipped", ["partition 0", "challenge 1", "comm_r_last", "level"]),
        ("label", ["partition 0", "challenge 1", "label"]),
        ("element r", ["vanilla_proofs[0][1]", "exp_parents[2]", "rows[0]"]),
        ("comm_d", ["comm_d", "zero"]),
        ("comm_r", ["comm_r", "zero"]),
        ("seed", ["seed", "zero"]),
        ("partition", ["StackedDrg2KiBV1", "must have 1 elements, has 2"]),
        ("unregistered", ["registered_proof", "StackedDrg2KiBV1"]),
        ("another size", ["StackedDrg8MiBV1_1", "2048"]),
        ("bincode", ["needs 32 bytes, 31 are left"]),
        ("wrapped", ["Phase1Out", "base64"]),
    ],
)
def test_c1(tmp_path: Path, refused: Any, how: str, texts: list[str]) -> None:
    job = tmp_path / "c1.json"
    job.write_bytes(damaged_c1(how))
    config = write_config(tmp_path, circuit={"kind": "porep", "sector_size": "2KiB"})
    refusal = refused(prove.run, 3, ["--config", config, "--input", str(job), "--check"])
    assert refusal.error == "InputError"
    assert [t for t in texts if t not in refusal.message] == [], refusal.message


def test_update(tmp_path: Path, refused: Any) -> None:
    text = (Path(__file__).parents[2] / "configs/inputs/update2k.json").read_text()
    job, config = tmp_path / "job.json", write_config(tmp_path, circuit=UPDATE)
    argv = ["--config", config, "--input", str(job)]
    for key, texts in (
        ("comm_r_old", ["comm_r_old"]),
        ("comm_d_new", ["comm_d_new"]),
        ("vanilla_proofs", ["vanilla_proofs: must have 1 elements, has 0"]),
    ):
        bad = json.loads(text)
        bad[key] = bad["comm_r_new"] if key.startswith("comm") else []
        job.write_text(json.dumps(bad))
        refusal = refused(prove.run, 3, argv)
        assert [t for t in texts if t not in refusal.message] == [], refusal.message


def damaged_key(key: bytes, how: str) -> bytes:
    """A parameter file with one thing wrong; point 5 of h is the one that is replaced."""
    at = HEAD + 4 + 5 * 96
    match how:
        case "empty":
            return b""
        case "truncated":
            return key[:-1]
        case "only a head":
            return key[: HEAD + 2]
        case "trailing":
            return key + b"\0"
        case "length 2^32 - 1":
            return key[:HEAD] + b"\xff" * 4 + key[HEAD + 4 :]
        case "inputs 2^32 - 1":
            return key[:864] + b"\xff" * 4 + key[868:]
        case "off the curve":
            return key[: at + 95] + bytes([key[at + 95] ^ 1]) + key[at + 96 :]
        case "not in the subgroup":
            return key[:at] + encode_uncompressed(G1, OUTSIDE_G1) + key[at + 96 :]
        case "not canonical":
            x = int.from_bytes(key[at : at + 48], "big") + FP.modulus
            return key[:at] + x.to_bytes(48, "big") + key[at + 48 :]
        case "infinity":
            return key[:at] + b"\x40" + bytes(95) + key[at + 96 :]
    raise AssertionError(how)


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("empty", "bytes"),
        ("truncated", "bytes"),
        ("only a head", "bytes"),
        ("trailing", "bytes"),
        ("length 2^32 - 1", "4294967295"),
        ("inputs 2^32 - 1", "4294967295"),
        ("off the curve", "h[5]"),
        ("not in the subgroup", "h[5]"),
        ("not canonical", "h[5]"),
        ("infinity", "h[5]"),
    ],
)
def test_key(tmp_path: Path, place: Place, refused: Any, how: str, text: str) -> None:
    key, job = tmp_path / "bad.params", tmp_path / "job.json"
    key.write_bytes(damaged_key(place.key, how))
    job.write_text(json.dumps(place.job))
    argv = ["--config", write_config(tmp_path, keys=str(key)), "--input", str(job)]
    refusal = refused(prove.run, 4, argv)
    assert refusal.error == "KeyFileError"
    assert "bad.params" in refusal.message
    assert text in refusal.message


def test_key_of_another_circuit(tmp_path: Path, place: Place, refused: Any) -> None:
    golden = Path(__file__).parents[1] / "golden"
    key, proof = tmp_path / "window.params", tmp_path / "proof"
    key.write_bytes(place.key)
    proof.write_bytes(place.proof)
    circuit = {"kind": "winning", "sector_size": "2KiB"}
    config = write_config(tmp_path, circuit=circuit, keys=str(key))
    job = str(golden / "jobs" / "sector2k_a_winning.json")
    for command, more in ((prove.run, []), (verify.run, ["--proof", str(proof)])):
        refusal = refused(command, 4, ["--config", config, "--input", job, *more])
        assert "another circuit" in refusal.message


@pytest.mark.parametrize(
    ("how", "text"),
    [("empty", "192"), ("short", "192"), ("twice", "192"), ("flag", "A"), ("sum", "hold")],
)
def test_proof(tmp_path: Path, place: Place, refused: Any, how: str, text: str) -> None:
    bad = {
        "empty": b"",
        "short": place.proof[:-1],
        "twice": place.proof * 2,
        "flag": bytes([place.proof[0] & 0x7F]) + place.proof[1:],
        # A for C: fine points, but no proof
        "sum": place.proof[:144] + place.proof[:48],
    }[how]
    key, job, proof = (tmp_path / name for name in ("good.params", "job.json", "proof"))
    key.write_bytes(place.key)
    job.write_text(json.dumps(place.job))
    proof.write_bytes(bad)
    config = write_config(tmp_path, keys=str(key))
    argv = ["--config", config, "--input", str(job), "--proof", str(proof)]
    refusal = refused(verify.run, 5, argv)
    assert refusal.error == "ProofError"
    assert text in refusal.message
