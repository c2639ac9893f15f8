"""The whole service, as its command starts it, proves for a client of cuzk; keys and all."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from serving.services import REAL, cuzk_client, make_stubs, service
from torchzk import api
from torchzk.config import CircuitConfig, Config


def config_of(folder: Path, kind: str) -> Path:
    path = folder / "serve.yaml"
    path.write_text(
        f"""
circuits: [{{kind: {kind}, sector_size: 2KiB, keys: dev}}]
listen: 127.0.0.1:0
data: data
device: cpu
backend: torch
key_cache: keys
block_cache: blocks
runs: runs
runs_every: 1s
runs_limit: {{count: 3}}
"""
    )
    return path


def verify(folder: Path, kind: str, job_file: Path, proof: bytes) -> None:
    """Against the key that the service has made."""
    config = Config(
        circuit=CircuitConfig(kind=kind, sector_size=2048),  # type: ignore[arg-type]
        keys="dev",
        key_cache=folder / "keys",
        block_cache=folder / "blocks",
        device="cpu",
        backend="torch",
    )
    session = api.open_session(config)
    job = api.load_job(session, job_file)
    api.verify(session, job, proof, api.get_verifying_key(session))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("window", "sector2k_a_window1"),
        pytest.param(
            "winning",
            "sector2k_a_winning",
            marks=pytest.mark.full("a key of 19,000 constraints and a proof, a minute and a half"),
        ),
    ],
)
def test_a_proof_for_cuzks_client(golden: Path, tmp_path: Path, kind: str, name: str) -> None:
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    make_stubs(stubs)
    job_file = golden / "jobs" / f"{name}.bincode.json"
    shutil.copy(job_file, stubs / "job.json")
    config = config_of(tmp_path, kind)
    with service(config, REAL) as (process, where):
        said = cuzk_client(stubs, where, "real")
        assert said["bad"][1] == "FAILED" and "is not the Poseidon hash" in said["bad"][3]
        job_id, status, proof, message = said["done"]
        assert (job_id, status, message) == ("real", "COMPLETED", "")
        verify(tmp_path, kind, job_file, bytes.fromhex(proof))
        assert said["unknown"] == "NOT_FOUND"
        counted = 'torchzk_calls_refused_total{call="AwaitProof",status="NOT_FOUND"} 1.0'
        assert counted in said["metrics"].splitlines()
        # as the machine does when it has had enough
        process.kill()
        process.wait()
    with service(config, REAL) as (process, where):
        again = cuzk_client(stubs, where, "real")
        # what it has proved it has proved
        assert again["done"] == said["done"] and again["seconds"] < 2
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert process.stderr and '"event": "stopped", "jobs_left": 0' in process.stderr.read()
    # one more may be there that was being written when the process was killed
    traces = [path.read_text() for path in (tmp_path / "runs").glob("*/trace.json")]
    assert 1 <= len(traces) <= 4 and '"ph": "X"' in "".join(traces)
