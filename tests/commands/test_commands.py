"""The commands from their arguments on: real keys and proofs of window PoSt at 2 KiB."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from child_environment import child_environment, run_python
from torchzk import api, doctor, prove, verify
from torchzk.backends import load_backend
from torchzk.scheduler import known_answers


@dataclass(frozen=True)
class Place:
    """A folder with keys, a config that names them, and what the making of them said."""

    folder: Path
    config: Path
    setup: dict[str, Any]


def last_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert isinstance(report, dict)
    return report


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, golden: Path) -> Place:
    folder = tmp_path_factory.mktemp("place")
    config = folder / "window.yaml"
    made = {
        "circuit": {"kind": "window", "sector_size": "2KiB"},
        "input": str(golden / "jobs" / "sector2k_a_window1.json"),
        "keys": "window_2048.params",
        "key_cache": "cache",
        "block_cache": "blocks",
        "runs": "runs",
        "device": "cpu",
    }
    config.write_text(yaml.safe_dump(made))
    flags = ("--config", config, "--out", folder, "--json")
    done = run_python("-m", "torchzk.setup", *flags, timeout=300)
    assert done.returncode == 0, done.stderr
    return Place(folder, config, json.loads(done.stdout))


@pytest.fixture(scope="module")
def golden() -> Path:
    return Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def expected(golden: Path) -> str:
    """The reference's proof for the fixed r and s, in hex."""
    text = (golden / "groth16" / "proofs_2kib.json").read_text()
    start = text.index('"b69980213b2fc3af')
    return str(json.JSONDecoder().raw_decode(text[start:])[0])


@pytest.fixture(scope="module")
def proof(place: Place, golden: Path, expected: str) -> Path:
    """A file with the proof for the fixed r and s."""
    path = place.folder / "fixed.bin"
    flags = ["--randomness", str(golden / "jobs" / "sector2k_a_window1.rs.json")]
    assert prove.run(["--config", str(place.config), "--out", str(path), *flags]) == 0
    assert path.read_bytes().hex() == expected
    return path


@pytest.mark.usefixtures("proof")
def test_given_randomness_is_written_nowhere(place: Place, golden: Path) -> None:
    (pair,) = json.loads((golden / "jobs" / "sector2k_a_window1.rs.json").read_text())
    forms = []
    for raw in map(bytes.fromhex, pair.values()):
        number = int.from_bytes(raw, "little")
        forms += [raw, raw[::-1], *(s.encode() for s in (raw.hex(), f"{number:x}", str(number)))]
    written = [path for path in (place.folder / "runs").rglob("*") if path.is_file()]
    assert len(written) > 4
    for path in written:
        said = path.read_bytes()
        assert not any(form in said for form in forms), path


def test_setup(place: Place, golden: Path) -> None:
    vk = golden / "groth16" / "window_2048.vk"
    assert (place.folder / "window_2048.vk").read_bytes() == vk.read_bytes()
    assert place.setup["ok"] and place.setup["insecure_key"]
    assert place.setup["params"] == str(place.folder / "window_2048.params")
    assert any("INSECURE" in warning for warning in place.setup["warnings"])
    run = place.folder / place.setup["run"]
    assert (run / "trace.json").is_file()


def test_prove_reports(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    lines = place.folder / "lines.txt"
    flags = ["--json", "--format", "base64", "--timeline-lines", str(lines)]
    assert prove.run(["--config", str(place.config), *flags]) == 0
    report = last_json(capsys)
    assert report["ok"] and report["verified"] and report["zero_knowledge"]
    assert report["insecure_key"] and report["partitions"] == 1
    assert report["key_sha256"] == place.setup["key_sha256"]
    assert len(report["proof"]) == 384
    assert (report["device"], report["backend"]) == ("cpu", "torch")
    assert report["variant"] is report["triton"] is None
    assert {"witness", "quotient", "msm h", "verify"} <= report["stages"].keys()
    out = Path(report["out"])
    assert base64.b64decode(out.read_text()).hex() == report["proof"]
    assert out.parent == Path(report["run"])
    kinds = sorted(path.name.partition(".")[0] for path in out.parent.iterdir())
    assert kinds == ["events", "lanes", "proof", "timeline", "trace"]
    events = [line.split(",", 4)[2] for line in lines.read_text().splitlines()]
    assert events[-2:] == ["GPU_START", "GPU_END"] and len(events) == 6
    cpu = report["devices"]["cpu"]
    assert 0.5 < cpu["busy_by_stages"] <= 1 and cpu["busy_by_kernels"] is None
    assert (cpu["workers"], cpu["clock"], cpu["trims"]) == (1, "host", 0)


def test_verify(place: Place, proof: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--config", str(place.config), "--proof", str(proof)]
    assert verify.run([*flags, "--key", str(place.folder / "window_2048.vk"), "--json"]) == 0
    report = last_json(capsys)
    assert report["verified"] and report["insecure_key"]
    assert report["key_sha256"] == place.setup["key_sha256"]
    # the key that the config names
    assert verify.run(flags) == 0
    assert capsys.readouterr().out == "verified\n"


def test_a_proof_of_another_length_costs_no_key(
    place: Place, proof: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def key(*_: object) -> None:
        raise AssertionError("a key was read")

    monkeypatch.setattr(api, "get_verifying_key", key)
    (tmp_path / "two").write_bytes(proof.read_bytes() * 2)
    flags = ["--config", str(place.config), "--proof", str(tmp_path / "two"), "--json"]
    assert verify.run(flags) == 5
    assert last_json(capsys)["message"].endswith("a partition takes 192 bytes, got 384")


@pytest.mark.parametrize("byte", [0, 50, 191])
def test_a_flipped_bit_is_refused(
    place: Place, proof: Path, byte: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = bytearray(proof.read_bytes())
    raw[byte] ^= 1
    (tmp_path / "bad").write_bytes(raw)
    flags = ["--config", str(place.config), "--proof", str(tmp_path / "bad"), "--json"]
    assert verify.run(flags) == 5
    assert last_json(capsys)["error"] == "ProofError"


@pytest.mark.parametrize("how", ["hex", "base64"])
def test_verify_reads_text(place: Place, proof: Path, how: str, tmp_path: Path) -> None:
    raw = proof.read_bytes()
    text = raw.hex() if how == "hex" else base64.b64encode(raw).decode()
    (tmp_path / "p").write_text(text + "\n")
    flags = ["--config", str(place.config), "--proof", str(tmp_path / "p")]
    assert verify.run([*flags, "--format", how]) == 0
    assert verify.run(flags) == 5
    (tmp_path / "p").write_text(text[:-1] + "!")
    assert verify.run([*flags, "--format", how]) == 5


def test_check_alone(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert prove.run(["--config", str(place.config), "--check", "--json"]) == 0
    report = last_json(capsys)
    assert report["checked"] and "proof" not in report


def _job(golden: Path, folder: Path, **changes: object) -> str:
    job = json.loads((golden / "jobs" / "sector2k_a_window1.json").read_text())
    path = folder / "job.json"
    path.write_text(json.dumps({**job, **changes}))
    return str(path)


def test_refusals(
    place: Place, golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One typed error each, no traceback, nothing left behind."""
    key = place.folder / "window_2048.params"
    short = tmp_path / "short.params"
    short.write_bytes(key.read_bytes()[:-1])
    randomness = tmp_path / "rs.json"
    randomness.write_text("[]")
    before = sorted(place.folder.rglob("*"))
    cases: list[tuple[int, list[str]]] = [
        (2, ["--device", "gpu"]),
        (2, ["--out", str(tmp_path / "no" / "proof")]),
        (2, ["--out", str(tmp_path)]),
        (3, ["--input", str(tmp_path / "missing.json")]),
        (3, ["--input", _job(golden, tmp_path, randomness="ff" * 32)]),
        (3, ["--randomness", str(randomness)]),
        (4, ["--keys", str(short)]),
        (4, ["--keys", str(place.folder / "window_2048.vk")]),
        (6, ["--device", "cuda:99"]),
        (2, ["--backend", "cuda"]),
    ]
    for code, flags in cases:
        assert prove.run(["--config", str(place.config), "--json", *flags]) == code, flags
        out, err = capsys.readouterr()
        assert json.loads(out)["exit_code"] == code
        assert "Traceback" not in err
    left = sorted(path for path in place.folder.rglob("*") if "runs" not in path.parts)
    assert left == [path for path in before if "runs" not in path.parts]


def test_a_config_fault_needs_no_torch(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("circuit: {kind: window, sector_size: 2KiB}\n")
    code = (
        "import sys; from torchzk import prove\n"
        "code = prove.run(['--config', 'bad.yaml'])\n"
        "assert 'torch' not in sys.modules\nsys.exit(code)"
    )
    done = run_python("-c", code, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "bad.yaml:1: keys: missing" in done.stderr


def test_terminated_while_proving(place: Place, tmp_path: Path) -> None:
    out = tmp_path / "proof.bin"
    command = [sys.executable, "-m", "torchzk.prove", "--config", place.config, "--out", out]
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=child_environment(),
    )
    assert child.stderr is not None
    while "witness" not in child.stderr.readline():
        assert child.poll() is None
    time.sleep(0.2)
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 143
    assert "Traceback" not in err and "stopped by signal 15" in err
    assert list(tmp_path.iterdir()) == []
    newest = max((place.folder / "runs").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    trace = json.loads((newest / "trace.json").read_text())
    assert trace["otherData"]["outcome"] == "interrupted"


def test_doctor(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.run(["--config", str(place.config), "--json"]) == 0
    report = last_json(capsys)
    (plan,) = report["configs"]
    assert (plan["circuit"], plan["device"], plan["input"]) == ("window-2KiB", "cpu", "there")
    assert plan["backend"] == "torch (auto: the device is cpu)"
    assert plan["runs on"] == "torch on cpu"
    assert plan["keys"] == str(place.folder / "window_2048.params")
    assert report["cores"] >= 1 and report["memory"]["total"] > report["memory"]["available"] > 0
    (test,) = report["self_test"]
    assert (test["backend"], test["device"], test["variant"]) == ("torch", "cpu", None)
    assert len(test["answers"]) == 25 and all(a["right"] for a in test["answers"])
    assert 0 < sum(a["milliseconds"] for a in test["answers"]) <= 1000 * test["seconds"]
    assert report["versions"]["torch"] != "not installed"


def test_doctor_over_all_shipped_configs(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.run([]) == 0
    out, err = capsys.readouterr()
    assert out == "healthy\n"
    assert "window2k.yaml" in err and "winning2k.yaml" in err


def test_doctor_refuses_wrong_answers(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = [known_answers.Answer("msm", True, 1.0), known_answers.Answer("ntt", False, 1.0)]
    monkeypatch.setattr(known_answers, "known_answers", lambda *_: wrong)
    assert doctor.run(["--config", str(place.config), "--json"]) == 6
    captured = capsys.readouterr()
    message = json.loads(captured.out)["message"]
    assert message.startswith("wrong answers: ntt of torch on cpu; no proof")
    assert "WRONG" in captured.err and "Traceback" not in captured.err


def test_doctor_misses_a_device(place: Place) -> None:
    assert doctor.run(["--config", str(place.config), "--device", "cuda:99"]) == 6
    # a flag counts for the shipped configs as well
    assert doctor.run(["--backend", "triton", "--device", "cuda:99"]) == 6


@pytest.mark.parametrize(
    ("operation", "wrong"),
    [
        ("mont_mul", "bls12_381.fr product"),
        ("batch_inverse", "bls12_381.fp inverse"),
        ("add_affine", "g2 addition"),
        ("msm", "g1 multi-scalar product"),
        ("ntt", "transform"),
        ("batch_add", "g1 sum"),
        ("bit_sums", "g2 bit sums"),
        ("fixed_base", "g1 multiples"),
        ("quotient", "quotient"),
        ("spmv", "matrix by vector"),
        ("spmv_transposed", "transposed matrix by vector"),
        ("spmv_copies", "matrix by copies"),
        ("classes", "classes of values"),
        ("from_mont_at", "canonical values"),
        ("first_unsatisfied", "first unsatisfied row"),
        ("poseidon", "Poseidon of arity 8"),
        ("sha256", "SHA-256"),
    ],
)
def test_known_answers_find_a_wrong_operation(
    operation: str, wrong: str, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = load_backend("torch")
    right = getattr(backend, operation)

    def broken(*args: Any) -> Any:
        result = right(*args)
        if result is None:
            # what it computes is in its last argument
            args[-1].bitwise_xor_(1)
            return None
        if isinstance(result, list):
            return [*result[:-1], None]
        return None if isinstance(result, tuple) else result ^ 1

    monkeypatch.setattr(backend, operation, broken)
    answers = known_answers.known_answers(backend, device)
    assert wrong in {a.operation for a in answers if not a.right}
    assert {a.operation for a in answers if a.right}
