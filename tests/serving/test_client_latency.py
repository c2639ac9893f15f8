"""`torchzk.client latency`, and the overhead that `bench` says, against a fake service."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from serving.services import service, write_config
from serving.test_commands import HASH, Asked, porep, vanilla
from serving.test_server import winning
from torchzk.client_latency import Wait, measure_wait
from torchzk.serving.calls import Service, connected
from torchzk.serving.wire import proving_pb2 as wire


def urgent(folder: Path) -> Path:
    """A job file of a winning PoSt."""
    path = folder / "urgent.json"
    proofs = json.loads(vanilla(folder, b"prove").read_text())
    said = {"kind": "winning", "sector_size": 2048, "miner_id": 1, "randomness": HASH}
    path.write_text(json.dumps({**said, "vanilla_proofs": proofs}))
    return path


def test_one_wait_behind_jobs_that_go_on(tmp_path: Path) -> None:
    with service(write_config(tmp_path)) as (_, where), connected(Service(where)) as client:
        wait = measure_wait(client, winning(b"hold"), winning(b"prove"), 5)
        assert wait == Wait(5, 0.001, wait.total_seconds, 0.0) and wait.total_seconds > 0
        status = client.call("GetStatus", wire.GetStatusRequest(), wire.GetStatusResponse)
        assert sum(q.pending + q.in_progress for q in status.queues) == 0


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = [*porep(tmp_path, "after 0.2"), "-c", 3, "--runs", 2, "--urgent", urgent(tmp_path)]
    with service(write_config(tmp_path)) as (_, where):
        asked = Asked(capsys, "latency", "-a", where, *flags, "--json")
        assert asked.code == 0, asked.err
        report = asked.report
        assert report["start_seconds"] == [0.001, 0.001] and len(report["behind"]) == 2
        assert report["alone_seconds"] >= 0.2 and report["within_one_proof"]
        # what the service says of each that ended: 10 ms in all, of which 1 waiting
        assert set(report["ahead_seconds"]) <= {0.009, 0.0}
        asked = Asked(capsys, "latency", "-a", where, *flags)
        assert "longest start: 0.001s" in asked.out and asked.out.count("started after") == 2
        assert Asked(capsys, "submit", "-a", where, *porep(tmp_path, "queue")).code == 0
        asked = Asked(capsys, "latency", "-a", where, *flags)
        assert asked.code == 2 and "the service has 1 jobs" in asked.err


def test_overhead_is_told_of_proofs_one_after_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = porep(tmp_path, "prove")
    with service(write_config(tmp_path)) as (_, where):
        report = Asked(capsys, "bench", "-a", where, *flags, "-c", 2, "--json").report
        # beside the 9 ms that its engine says it proves
        assert report["overhead_seconds"] == [s - 0.009 for s in report["wall_seconds"]]
        assert "overhead:      avg=" in Asked(capsys, "bench", "-a", where, *flags).out
        report = Asked(capsys, "bench", "-a", where, *flags, "-j", 2, "--json").report
        assert report["overhead_seconds"] == []
