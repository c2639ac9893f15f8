"""The whole service, as its command starts it, proves for a client of cuzk; keys and all.

Where there is CUDA, all four kinds. On a machine with torch, Triton, pytest and what they need, but
without a network, carry the wheels (`pip download --no-deps`) of `constraints.txt` for grpcio,
grpcio-tools, grpcio-health-checking, grpcio-reflection, protobuf, prometheus-client and
py-arkworks-bls12381, and then

    python3 -m pip install -q --no-index --no-deps --upgrade --target /tmp/site WHEELS
    PYTHONPATH=/tmp/site:src python3 -m pytest -q tests/serving/test_real_service.py
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from serving.real_jobs import FLAGS, IDS, JOBS, ON_CUDA, config_of, unpack, verify
from serving.services import REAL, cuzk_client, make_stubs, service
from torchzk import client

NAMES = {
    "window": "window_post",
    "winning": "winning_post",
    "update": "snap_update",
    "porep": "porep_c2",
}
POSTS = ("window", "winning")
OF_SECTORS = pytest.param(
    ("porep", "update"),
    marks=() if ON_CUDA else pytest.mark.full("keys and proofs of half an hour on a CPU"),
    id="porep and update",
)


@pytest.mark.parametrize("kinds", [pytest.param(POSTS, id="window and winning"), OF_SECTORS])
def test_proofs_for_cuzks_client(
    golden: Path, tmp_path: Path, dev_keys: Path, kinds: tuple[str, ...]
) -> None:
    stubs = tmp_path / "stubs"
    (stubs / "jobs").mkdir(parents=True)
    make_stubs(stubs)
    jobs = {kind: unpack(golden / JOBS[kind], stubs / "jobs", kind) for kind in kinds}
    config = config_of(tmp_path, dev_keys, kinds)
    with service(config, REAL) as (process, where):
        said = cuzk_client(stubs, where, "real")
        for kind, job in jobs.items():
            _, status, proof, message = said["bad"][kind]
            assert (status, proof) == ("FAILED", "") and "is not the Poseidon hash" in message
            job_id, status, proof, message = said["done"][kind]
            assert (status, message) == ("COMPLETED", "") and job_id.startswith(kind)
            verify(dev_keys, kind, job, bytes.fromhex(proof))
        assert said["cancelled"][:3] == ["unwanted", "CANCELLED", ""]
        assert said["keys"] == {IDS[kind]: [True, True, False, True] for kind in kinds}
        assert said["unknown"] == "NOT_FOUND"
        counted = 'torchzk_calls_refused_total{call="AwaitProof",status="NOT_FOUND"} 1.0'
        assert counted in said["metrics"].splitlines()
        # as the machine does when it has had enough
        process.kill()
        process.wait()
    with service(config, REAL) as (process, where):
        again = cuzk_client(stubs, where, "real")
        # what it has proved it has proved
        assert again["done"] == said["done"]
        for name in map(NAMES.get, kinds):
            assert f'torchzk_jobs_joined_total{{proof_kind="{name}"}} 1.0' in again["metrics"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
        assert process.stderr and '"event": "stopped", "jobs_left": 0' in process.stderr.read()
    # one more may be there that was being written when the process was killed
    traces = [path.read_text() for path in (tmp_path / "runs").glob("*/trace.json")]
    assert 1 <= len(traces) <= 4 and '"ph": "X"' in "".join(traces)


TO_SPARE = () if ON_CUDA else (pytest.mark.full("ten proofs of seconds each"),)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("window", marks=TO_SPARE),
        pytest.param("porep", marks=OF_SECTORS.marks),
    ],
)
def test_a_winning_post_does_not_wait_for_a_hundred_others(
    golden: Path,
    tmp_path: Path,
    dev_keys: Path,
    capsys: pytest.CaptureFixture[str],
    kind: str,
) -> None:
    queued, urgent = (unpack(golden / JOBS[k], tmp_path, k) for k in (kind, "winning"))
    config = config_of(tmp_path, dev_keys, ("winning", kind))
    with service(config, REAL, tmp_path / "log") as (_, where):
        flags = [*FLAGS[kind], str(queued)]
        code = client.main(["latency", "-a", where, *flags, "--urgent", str(urgent), "--json"])
        said = json.loads(capsys.readouterr().out)
        assert code == 0, said
        assert min(said["behind"]) >= 100
        assert said["within_one_proof"], said
