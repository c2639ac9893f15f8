"""An engine whose database, disk or devices are gone: refused with a reason, and nobody hangs."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from fake_devices import FakeDevice, gate, proof, watchdog
from serving.durable import Rig, request, rig
from torchzk.errors import DrainingError, ResourceError, StoreError
from torchzk.scheduler import machine
from torchzk.serving.engine import JobState


def test_a_database_that_is_lost_under_way_is_refused_and_nobody_hangs(tmp_path: Path) -> None:
    made = Rig(tmp_path, patience=0.05, grace=0.2)
    with watchdog():
        hook, reached, go = gate()
        made.prover.hooks = {"compute": hook}
        made.engine.submit(request("x", n=1, hooked=1))
        assert reached.wait(120)
        with sqlite3.connect(tmp_path / "jobs.sqlite", isolation_level=None) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        other.close()
        with (tmp_path / "jobs.sqlite").open("r+b") as file:
            file.write(b"\0" * 100)
        with (tmp_path / "jobs.sqlite-wal").open("r+b") as file:
            file.truncate(0)
        with pytest.raises(StoreError, match="is damaged|cannot be used"):
            for k in range(3):
                made.engine.submit(request(f"y{k}", n=1))
        assert not made.engine.status().ready
        go.set()
        assert made.end("x").proof == proof(1)
        made.engine.close(0)
        assert len(made.events("store unusable")) == 1


def test_a_full_disk_is_seen_before_it_is_met(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with watchdog(), rig(tmp_path) as r:
        assert r.engine.status().ready
        monkeypatch.setattr(machine, "disk_free", lambda _: 1000)
        r.engine._jobs.probe()
        assert not r.engine.status().ready
        assert "1,000 bytes are free" in r.events("store unusable")[0]["message"]
        # as long as there is room it is taken
        assert r.run(request("x", n=1)).state is JobState.COMPLETED
        monkeypatch.undo()
        r.engine._jobs.probe()
        assert r.engine.status().ready and len(r.events("store usable")) == 1


def test_what_many_threads_see_at_once_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2)

    def full() -> None:
        # each is kept here until the other is here as well, where that can be
        with suppress(threading.BrokenBarrierError):
            both.wait(0.2)
        raise ResourceError("the disk is full")

    with watchdog(), rig(tmp_path) as r:
        monkeypatch.setattr(r.store, "probe", full)
        threads = [threading.Thread(target=r.engine._jobs.probe) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(r.events("store unusable")) == 1


def test_a_fault_that_comes_again_and_again_is_counted_and_said_once(tmp_path: Path) -> None:
    made = Rig(tmp_path)
    with watchdog():
        for _ in range(20):
            made.engine._jobs.on_error(ResourceError("the disk is full"))
        made.engine._jobs.on_error(ResourceError("the disk is locked"))
        said = [event["message"] for event in made.events("fault")]
        assert said == ["the disk is full", "the disk is locked"]
        assert 'torchzk_store_errors_total{operation="record"} 21.0' in made.engine.metrics()
        made.engine.close(0)


def test_without_devices_jobs_fail_and_no_more_are_taken(tmp_path: Path) -> None:
    device = FakeDevice()
    with watchdog(), rig(tmp_path, device) as r:
        device.gone = True
        report = r.run(request("x", n=1))
        assert (report.state, report.error_type) == (JobState.FAILED, "DeviceLostError")
        status = r.engine.status()
        assert not status.ready and all(d.set_aside for d in status.devices)
        with pytest.raises(DrainingError, match="every device is set aside"):
            r.engine.submit(request("y", n=1))


def test_a_locked_database_holds_up_nobody_for_ever(tmp_path: Path) -> None:
    made = Rig(tmp_path, patience=0.05, grace=0.5)
    with watchdog():
        hook, reached, go = gate()
        made.prover.hooks = {"compute": hook}
        made.engine.submit(request("x", n=2, hooked=1))
        assert reached.wait(120)
        other = sqlite3.connect(tmp_path / "jobs.sqlite", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked"):
            made.engine.submit(request("y", n=1))
        assert not made.engine.status().ready
        go.set()
        report = made.end("x")
        assert report.state is JobState.COMPLETED and report.proof == proof(2)
        assert not made.engine.status().ready and made.engine.job("x").proof == proof(2)
        assert made.metric('torchzk_store_errors_total{operation="record"}') > 0
        other.execute("ROLLBACK")
        other.close()
        end = time.monotonic() + 120
        while not made.engine.status().ready:
            assert time.monotonic() < end
            time.sleep(0.02)
        assert made.run(request("y", n=1)).state is JobState.COMPLETED
        assert made.engine.close(0) == 0
    with watchdog(), rig(tmp_path) as again:
        assert again.engine.job("x").proof == proof(2)
