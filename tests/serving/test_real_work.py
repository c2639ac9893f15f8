"""Requests proved for real, on a circuit of few constraints: by a sound device and a broken one."""

from __future__ import annotations

import io
import json
import os
import queue
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fake_devices import watchdog
from scheduler.small_proofs import ProvableCircuit, SmallJob
from scheduler.small_session import small_session
from scheduler.test_out_of_memory import OUT_OF_MEMORY, Scarce
from serving.durable import request
from serving.test_fault_stages import BrokenBackend
from torchzk import api
from torchzk.circuits.circuit import Source
from torchzk.circuits.post_shapes import post_shape
from torchzk.errors import KeyFileError, NotFoundError
from torchzk.scheduler.proof_service import ProofService
from torchzk.serving.circuit_prover import CircuitProver
from torchzk.serving.circuit_sites import CircuitSites
from torchzk.serving.durable_engine import DurableEngine
from torchzk.serving.engine import JobReport, JobState
from torchzk.serving.event_log import EventLog
from torchzk.serving.job_store import JobStore
from torchzk.serving.kept_work import KeptWork


class ServedCircuit(ProvableCircuit):
    """By the name of one that clients ask for."""

    @property
    def name(self) -> str:
        return "window-2KiB"

    def read_job(
        self, source: Source, *, miner_id: int | None = None, sector_number: int | None = None
    ) -> Any:
        return SmallJob((3, 4))


@contextmanager
def served(
    folder: Path, backend: Any = None, keys: Any = "dev-in-memory"
) -> Iterator[tuple[DurableEngine, api.Session]]:
    session = small_session(folder, keys)
    served_circuit = ServedCircuit(post_shape("window", 2048))
    session = replace(session, circuit=served_circuit, warn=lambda _: None)
    circuit = CircuitSites([session], lambda _: None)
    circuit.preload()
    if backend is not None:
        # the key is sound, and the device no more
        object.__setattr__(session, "backend", backend(session.backend))
    service = ProofService(circuit.sites()).service.__enter__()
    log = EventLog(io.StringIO())
    prover = CircuitProver([circuit], None)
    engine = DurableEngine(JobStore(folder / "data"), service, prover, log=log)
    try:
        yield engine, session
    finally:
        engine.close(120.0)
        circuit.close()


def ended(engine: DurableEngine, name: str) -> JobReport:
    got: queue.SimpleQueue[JobReport] = queue.SimpleQueue()
    wanted = replace(request(name), randomness=bytes(32))
    engine.watch(engine.submit(wanted).job_id, got.put)
    return got.get(timeout=240)


def test_a_proof_and_its_times(tmp_path: Path) -> None:
    with watchdog(), served(tmp_path) as (engine, session):
        report = ended(engine, "x")
        assert report.state is JobState.COMPLETED, report.error_message
        assert len(report.proof) == 2 * 192
        job: Any = SmallJob((3, 4))
        with api.get_keys(session) as keys:
            api.verify(session, job, report.proof, keys.verifying)
        seconds = report.seconds
        assert 0 < seconds.device < seconds.total and seconds.key_load < 1
        assert [p.state for p in report.partitions] == ["done"] * 2
        with pytest.raises(NotFoundError, match="served are: window-2KiB"):
            engine.preload("porep-2KiB")
        assert engine.evict("window-2KiB").was_loaded
        assert ended(engine, "y").state is JobState.COMPLETED
        assert engine.status().keys[0].circuit_id == "window-2KiB"


def test_a_device_that_computes_wrong_is_found_out(tmp_path: Path) -> None:
    with watchdog(), served(tmp_path, lambda b: BrokenBackend(b, "quotient")) as (engine, _):
        report = ended(engine, "x")
        assert (report.state, report.error_type) == (JobState.FAILED, "ProofError"), report
        status = engine.status()
        assert not status.ready and all(device.set_aside for device in status.devices)
        text = engine.metrics()
        assert 'torchzk_selfcheck_failures_total{proof_kind="window_post"} 2.0' in text
        assert 'torchzk_devices_set_aside_total{device="cpu"} 1.0' in text
    folders = sorted((tmp_path / "data" / "evidence").iterdir())
    assert len(folders) == 2
    for folder in folders:
        assert json.loads((folder / "fault.json").read_text())["faulty_partitions"] == [0, 1]
        found = json.loads((folder / "stages.json").read_text())
        assert {part["first_that_differs"] for part in found.values()} == {"quotient"}
        assert (folder / "payload").is_file()


def test_memory_that_runs_out_fails_a_job_at_most(tmp_path: Path) -> None:
    scarce = Scarce("msm", OUT_OF_MEMORY[0])
    with watchdog(), served(tmp_path, lambda _: scarce.backend()) as (engine, _):
        scarce.times = 2
        report = ended(engine, "twice")
        assert (report.state, report.error_type) == (JobState.FAILED, "ResourceError"), report
        assert "ran out twice" in report.error_message
        scarce.times = 1
        assert ended(engine, "once").state is JobState.COMPLETED and not scarce.times
        status = engine.status()
        assert status.ready and not any(device.set_aside for device in status.devices)
        assert "torchzk_out_of_memory_total 1.0" in engine.metrics().splitlines()


def test_a_key_file_that_goes_or_changes_while_it_is_read(tmp_path: Path) -> None:
    with api.get_keys(small_session(tmp_path, "dev")) as keys:
        assert keys.path is not None
        path, away = keys.path, tmp_path / "away.params"

    def outcome(name: str) -> tuple[str, str]:
        report = ended(engine, name)
        return report.error_type, report.error_message

    with watchdog(), served(tmp_path, keys=path) as (engine, _):
        whole = path.read_bytes()
        away.write_bytes(b"no key")
        away.replace(path)
        # the one that is open is still there
        assert outcome("another in its place") == ("", "")
        assert engine.evict("window-2KiB").was_loaded
        assert outcome("what is there is none")[0] == "KeyFileError"
        path.unlink()
        with pytest.raises(KeyFileError, match="no such key file"):
            engine.preload("window-2KiB")
        path.write_bytes(whole)
        engine.preload("window-2KiB")
        os.truncate(path, len(whole) - 1)
        assert "the file changed while it was in use" in outcome("written into")[1]
        away.write_bytes(whole)
        away.replace(path)
        assert engine.evict("window-2KiB").was_loaded
        assert outcome("moved over it") == ("", "")
        status = engine.status()
        assert status.ready and not any(device.set_aside for device in status.devices)


class HoldingWork:
    """A work that only holds a key."""

    key_seconds = 0.0

    def __init__(self) -> None:
        self.given_back = 0

    def read(self) -> None:
        """It has nothing to read."""

    def give_back(self) -> None:
        self.given_back += 1


def test_the_key_is_given_back_before_anybody_is_told_of_the_end() -> None:
    made: Any = HoldingWork()
    work = KeptWork(lambda: made, lambda *_: None, lambda _: None, {}, lambda: None)
    work.release()
    work.read()
    work.release()
    work.release()
    assert made.given_back == 1
