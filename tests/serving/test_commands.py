"""The commands: `torchzk.client` against a service, and `torchzk.serve`."""

from __future__ import annotations

import base64
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from child_environment import child_environment, run_python
from serving.services import HERE, service, write_config
from torchzk import client, client_verbs
from torchzk.circuits.registry import get_circuit
from torchzk.errors import ConfigError, InputError
from torchzk.serving.submissions import message_of
from torchzk.serving.wire import proving_pb2 as wire

HASH = "ab" * 32


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with service(write_config(tmp_path_factory.mktemp("service"))) as (_, address):
        yield address


class Asked:
    """One run of the client: its exit code, both streams, and its report."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: object) -> None:
        self.code = client.main([str(a) for a in arguments])
        self.out, self.err = capsys.readouterr()

    @property
    def report(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self.out.splitlines()[-1])
        return said


def c1(folder: Path, word: str) -> Path:
    path = folder / "c1.json"
    path.write_text(word)
    return path


def vanilla(folder: Path, *proofs: bytes) -> Path:
    path = folder / "vanilla.json"
    path.write_text(json.dumps([base64.b64encode(p).decode() for p in proofs]))
    return path


def porep(folder: Path, word: str) -> list[object]:
    return ["-t", "porep", "--c1", c1(folder, word), "--sector-num", 7, "--miner-id", 1000]


def test_submit_await_cancel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    job = "porep 1,\n2"
    flags = [*porep(tmp_path, "hold"), "--request-id", job, "--priority", "high"]
    asked = Asked(capsys, "submit", "-a", where, *flags, "--json")
    assert asked.code == 0
    assert asked.report | {"queue_position": 0} == {
        "ok": True,
        "job": job,
        "queue_position": 0,
        "joined": False,
        "warnings": [],
    }
    assert Asked(capsys, "submit", "-a", where, *flags, "--json").report["joined"] is True
    began = time.monotonic()
    asked = Asked(capsys, "await", job, "-a", where, "--timeout", "0.3", "--json")
    assert 0.3 <= time.monotonic() - began < 30
    assert (asked.code, asked.report["error"]) == (7, "NoProofError")
    assert asked.report["message"].startswith(f"{job}: timeout: the job is running and goes on")
    assert Asked(capsys, "cancel", job, "-a", where).out == "was running\n"
    assert Asked(capsys, "cancel", job, "-a", where).out == "was not running\n"
    asked = Asked(capsys, "await", job, "-a", where)
    assert asked.code == 7 and "cancelled" in asked.err and "Traceback" not in asked.err
    asked = Asked(capsys, "await", "nobody", "-a", where, "--json")
    assert (asked.code, asked.report["error"]) == (3, "NotFoundError")
    assert "AwaitProof at" in asked.report["message"]


def test_prove_writes_the_proof(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    flags = ["-t", "wpost", "--vanilla", vanilla(tmp_path, b"prove", b"x"), "--randomness", HASH]
    out = tmp_path / "proof.bin"
    asked = Asked(capsys, "prove", "-a", where, *flags, "--registered-proof", 13, "--out", out)
    assert asked.code == 0 and asked.out == ""
    assert "queue wait 0.001 s, srs load 0.002 s, synthesis 0.003 s" in asked.err
    again = Asked(capsys, "single", "-a", where, *flags, "--registered-proof", 13)
    assert bytes.fromhex(again.out.strip()) == out.read_bytes() and len(out.read_bytes()) == 192
    # base64 alone is one proof
    one = tmp_path / "one"
    one.write_text(base64.b64encode(b"prove").decode() + "\n")
    flags = ["-t", "winning", "--vanilla", one, "--randomness", "0x" + HASH]
    asked = Asked(capsys, "prove", "-a", where, *flags, "--sector-size", "2KiB", "--json")
    assert asked.code == 0 and len(asked.report["proof"]) == 384
    hashes = ["--comm-r-old", HASH, "--comm-r-new", HASH, "--comm-d-new", HASH]
    flags = ["-t", "snap", "--vanilla", vanilla(tmp_path, b"prove")]
    assert Asked(capsys, "prove", "-a", where, *flags, *hashes).code == 0


def test_a_job_file_says_what_no_flag_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shipped = HERE.parents[1] / "configs" / "inputs"
    job = tmp_path / "job.json"
    said = json.loads((shipped / "window2k_base64.json").read_text())

    def message(said: object, *flags: object, kind: str = "wpost") -> wire.SubmitProofRequest:
        job.write_text(json.dumps(said))
        arguments = ["submit", "-t", kind, "--vanilla", job, *flags]
        args = client_verbs.parser().parse_args([str(a) for a in arguments])
        return message_of(client_verbs.submission_of(args))

    made = message(said)
    assert (made.sector_size, made.miner_id, made.randomness.hex()) == (
        2048,
        1000,
        said["randomness"],
    )
    assert [base64.b64encode(p).decode() for p in made.vanilla_proofs] == said["vanilla_proofs"]
    # the jobs that torchzk.prove is shown with, in the bytes that a service takes
    for kind in ("window", "winning"):
        circuit = get_circuit(kind, 2048)
        jobs = [circuit.read_job(shipped / f"{kind}2k{more}.json") for more in ("", "_base64")]
        assert jobs[0] == jobs[1]
    made = message(said, "--partition", 3, "--miner-id", 7, "--randomness", HASH)
    assert (made.partition_index, made.miner_id, made.randomness.hex()) == (3, 7, HASH)
    for wrong, words in (
        (json.loads((shipped / "window2k.json").read_text()), r"\[0\]: is JSON; a service takes"),
        ({**said, "kind": "winning"}, "kind: the job is no window"),
        ({**said, "miner": 7}, "miner"),
        ({**said, "randomness": "00"}, "randomness: must be 64 hex digits"),
        ({**said, "partition_index": 1 << 32}, r"partition_index: must be in 0\.\.4294967295"),
    ):
        with pytest.raises(InputError, match=words):
            message(wrong)
    # a flag of more bits than its field
    with pytest.raises(ConfigError, match="no request can say this: Value out of range: 429496"):
        message(said, "--partition", 1 << 32)


@pytest.mark.parametrize(
    ("word", "code", "error"),
    [
        ("fail", 3, "InputError"),
        ("expire", 7, "NoProofError"),
        ("refuse input", 3, "InputError"),
        ("refuse config", 2, "ConfigError"),
        ("refuse full", 6, "ResourceError"),
        ("refuse large", 6, "ResourceError"),
    ],
)
def test_what_a_service_refuses_has_its_exit_code(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    where: str,
    word: str,
    code: int,
    error: str,
) -> None:
    asked = Asked(capsys, "prove", "-a", where, *porep(tmp_path, word), "--json")
    assert (asked.code, asked.report["error"]) == (code, error), asked.report


def test_a_proxy_is_not_asked_for_what_is_on_this_machine(
    capsys: pytest.CaptureFixture[str], where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("grpc_proxy", "http://127.0.0.1:9")
    assert Asked(capsys, "status", "-a", where).code == 0


def test_keys_status_and_metrics(capsys: pytest.CaptureFixture[str], where: str) -> None:
    assert Asked(capsys, "preload", "wpost-32g", "-a", where).out == "wpost-32g loaded in 1500 ms\n"
    assert Asked(capsys, "preload", "wpost-32g", "-a", where).out == "wpost-32g already loaded\n"
    asked = Asked(capsys, "status", "-a", where, "--json")
    assert asked.report["keys"] == [{"circuit": "wpost-32g", "tier": "hot", "bytes": 7, "users": 0}]
    assert asked.report["devices"][1]["set_aside"] is True
    assert set(asked.report["queues"]) == {"porep-c2", "snap-update", "window-post", "winning-post"}
    asked = Asked(capsys, "status", "-a", where)
    assert asked.code == 0 and re.search(r"wpost-32g +hot +7", asked.out), asked.out
    assert re.search(r"window-post x", asked.out) and "set aside" in asked.out
    assert Asked(capsys, "evict", "wpost-32g", "-a", where).out == "wpost-32g 7 bytes freed\n"
    assert Asked(capsys, "evict", "wpost-32g", "-a", where).out == "wpost-32g was not loaded\n"
    assert "torchzk_jobs_accepted_total" in Asked(capsys, "metrics", "-a", where).out
    asked = Asked(capsys, "preload", "wpost-33g", "-a", where)
    assert asked.code == 3 and "did you mean wpost-32g?" in asked.err


def test_bench_prints_what_cuzks_tool_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    # none of the four ends before all of them are there
    flags = [*porep(tmp_path, "meet 4"), "-c", 4, "-j", 4]
    # cuzk's word for it
    asked = Asked(capsys, "batch", "--addr", where, *flags)
    assert asked.code == 0
    lines = asked.out.splitlines()
    assert lines[0] == "=== Batch Benchmark ===" and lines[1] == "proof type:  porep"
    pattern = r"  \[\d/4\] COMPLETED — \d+\.\ds \(prove=4 ms, queue=1 ms\)"
    assert [bool(re.fullmatch(pattern, line)) for line in lines[5:9]] == [True] * 4, asked.out
    assert "completed:     4" in lines and "failed:        0" in lines
    assert re.search(r"throughput:    [\d.]+ proofs/min \(\d+\.\ds/proof\)", asked.out)
    asked = Asked(capsys, "bench", "-a", where, *flags, "--json")
    assert asked.report["completed"] == 4 and asked.report["total_seconds"] > 0
    asked = Asked(capsys, "bench", "-a", where, *porep(tmp_path, "fail"))
    assert asked.code == 7 and "3 of 3 proofs failed: sectors[0]" in asked.err
    asked = Asked(capsys, "bench", "-a", where, *porep(tmp_path, "refuse full"))
    assert asked.code == 7 and "resource exhausted" in asked.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["submit", "-t", "porep"], 2, "--c1: a porep needs it"),
        (["submit", "-t", "winning", "--c1", "c1.json"], 2, "--vanilla: a winning needs it"),
        (["submit", "-t", "porep", "--c1", "none.json"], 3, "No such file"),
        (["submit", "-t", "other"], 2, "invalid choice"),
        (["submit", "-t", "winning", "--randomness", "abcd"], 2, "must be 32 bytes as hex"),
        (["submit", "-t", "winning", "--vanilla", "v"], 3, "randomness: must have 32 bytes"),
        (["submit", "-t", "winning", "--vanilla", "bad", "--randomness", HASH], 3, "no base64"),
        (["submit", "-t", "winning", "--vanilla", "empty", "--randomness", HASH], 3, "is none"),
        (["submit", "-t", "porep", "--c1", "v", "--sector-size", "3KiB"], 3, "3072 is no size"),
        (["bench", "-t", "porep", "--c1", "v", "--count", "0"], 2, "must be 1 to 100000"),
        (["prove", "-t", "porep", "--c1", "v", "--out", "."], 2, "is a folder"),
        (["status", "-a", "ftp://127.0.0.1:1"], 2, "unknown scheme 'ftp'"),
        (["status", "-a", "127.0.0.1"], 2, "must be HOST:PORT or unix:///PATH"),
        (["status", "--ca", "none.pem"], 2, "none.pem: No such file"),
        (["status", "--certificate", "v"], 2, "go together"),
        (["status", "--token-file", "token", "-a", "example.org:1"], 2, "is another machine"),
        (["status", "-a", "unix:///tmp/none.sock"], 6, "nobody answers there"),
        (["status", "-a", "http://127.0.0.1:1"], 6, "unavailable: nobody answers there"),
        ([], 2, "required: verb"),
        (["nothing"], 2, "invalid choice"),
    ],
)
def test_what_the_client_refuses(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("v").write_text('["YWJj"]')
    Path("bad").write_text('["YWJj", "?"]')
    Path("empty").write_text("[]")
    Path("token").write_text("x" * 16)
    Path("token").chmod(0o600)
    asked = Asked(capsys, *arguments)
    assert asked.code == code, asked.err
    assert message in asked.err and "Traceback" not in asked.err


def serve(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(HERE / "fake_serve.py"), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=child_environment(),
    )


def test_serve_says_where_and_what_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path, f"listen: unix://{tmp_path}/zk.sock\n")
    with serve("--config", config) as process:
        assert process.stdout
        where = process.stdout.readline().strip()
        assert where == f"unix://{tmp_path}/zk.sock"
        assert Asked(capsys, "submit", "-a", where, *porep(tmp_path, "queue")).code == 0
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "warning: proves nothing of 1 circuits" in said
    assert "1 jobs have not ended; they go on at the next start" in said


def test_serve_checks_its_config_first(tmp_path: Path) -> None:
    config = write_config(tmp_path, "token_file: none\n")
    with serve("--config", config, "--json") as process:
        out, _ = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "token_file: " in json.loads(out)["message"]
    with serve("--config", write_config(tmp_path), "--check-config", "--json") as process:
        out, said = process.communicate(timeout=120)
    assert process.returncode == 0 and json.loads(out)["circuits"] == ["winning-2KiB"]
    assert "proves nothing" not in said


def test_serve_says_what_is_taken_before_it_loads_anything(tmp_path: Path, where: str) -> None:
    texts = [f"listen: {where}\n", f"listen: 127.0.0.1:0\nstatus_listen: {where}\n"]
    for text, key in zip(texts, ("listen", "status_listen"), strict=True):
        with serve("--config", write_config(tmp_path, text)) as process:
            _, said = process.communicate(timeout=120)
        assert process.returncode == 2 and "proves nothing" not in said
        assert f"{key}: cannot listen on {where}: another process does" in said
    with serve("--config", write_config(tmp_path, "listen: 127.0.0.1:7\n"), "--check-config") as p:
        out, _ = p.communicate(timeout=120)
    assert out == "would listen on 127.0.0.1:7, and serve winning-2KiB\n"


def test_neither_command_waits_for_torch() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, torchzk.client_verbs, torchzk.serve; print('torch' in sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
        env=child_environment(),
    )
    assert done.stdout == "False\n"


def test_without_grpc_the_client_says_what_to_install() -> None:
    text = "import sys; sys.modules['grpc'] = None; from torchzk.client import main; "
    done = run_python("-c", text + "sys.exit(main(['status']))")
    assert done.returncode == 2, done.stderr
    assert "ConfigError: grpc is not installed; pip install 'torchzk[serve]'" in done.stderr
    assert "Traceback" not in done.stderr
