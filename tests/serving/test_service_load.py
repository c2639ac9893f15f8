"""Sixteen clients at once over gRPC: each accepted job ends once, and memory does not grow."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from child_environment import child_environment
from serving.services import HERE, service, write_config

DURABLE = (str(HERE / "durable_service.py"),)
MAY_BE = {
    "cancel": {"CANCELLED": "CancelledError", "COMPLETED": ""},
    "late": {"FAILED": "ExpiredError", "COMPLETED": ""},
    "break": {"FAILED": "BrokenError"},
}
STATES = {
    "completed": ("COMPLETED", ""),
    "cancelled": ("CANCELLED", "CancelledError"),
    "expired": ("FAILED", "ExpiredError"),
    "failed": ("FAILED", "BrokenError"),
}


@pytest.mark.parametrize(
    ("jobs", "pad"),
    [(320, 1 << 18), pytest.param(1000, 1 << 17, marks=pytest.mark.full("a thousand jobs"))],
)
def test_jobs_of_sixteen_clients(tmp_path: Path, jobs: int, pad: int) -> None:
    config = write_config(tmp_path, "listen: 127.0.0.1:0\nlimits: {jobs: 3}\n")
    with service(config, DURABLE) as (process, where):
        clients = [sys.executable, str(HERE / "load_clients.py"), where, str(jobs), "8", str(pad)]
        done = subprocess.run(
            clients, env=child_environment(), capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr
        heard = json.loads(done.stdout)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
        assert process.stdout
        left = json.loads(process.stdout.read())
    assert left == {"left": 0, "twice": [], "faults": []}
    # nothing stuck
    assert heard["queues"] == [0, 0, 0, 0] and heard["busy"] == []
    told = {job: tuple(rest) for job, rest in heard["told"].items()}
    for job, (act, status, error) in told.items():
        assert MAY_BE.get(act, {"COMPLETED": ""}).get(status) == error, (job, act, status, error)
    # each of the things that can happen did
    for end in ("cancel CANCELLED", "late FAILED", "break FAILED", "again COMPLETED"):
        assert heard["ends"].get(end, 0) > 0, heard["ends"]
    for end in ("leave COMPLETED", "hang up COMPLETED", "bad COMPLETED", "other COMPLETED"):
        assert heard["ends"][end] > jobs / 100, heard["ends"]
    assert heard["full"] > 0
    check_disk(tmp_path, {job: (status, error) for job, (_, status, error) in told.items()})
    # after the first quarter: a payload of each job that stayed would be far more
    grown = heard["mib"][-1] - heard["mib"][0]
    assert grown < 0.4 * len(told) * 0.75 * pad / (1 << 20), heard["mib"]


def check_disk(folder: Path, told: dict[str, tuple[str, str]]) -> None:
    """What is written is what was told, an end a job."""
    with sqlite3.connect(folder / "data" / "jobs.sqlite") as sql:
        assert sql.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        rows = sql.execute("SELECT job_id, state FROM jobs").fetchall()
        (total,) = sql.execute("SELECT sum(jobs) FROM totals").fetchone()
        for table in ("pieces", "payloads"):
            assert sql.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    sql.close()
    assert {job: STATES[state] for job, state in rows} == told
    assert total == len(rows)
    assert list((folder / "data" / "payloads").iterdir()) == []
    events = [json.loads(line) for line in (folder / "events").read_text().splitlines()]
    for name in ("accepted", "ended"):
        assert Counter(e["job_id"] for e in events if e["event"] == name) == Counter(list(told))
    assert [e for e in events if e["event"] == "fault"] == []
