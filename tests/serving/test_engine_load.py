"""A thousand jobs of sixteen clients, with all that clients do: each accepted job ends once."""

from __future__ import annotations

import gc
import json
import random
import sqlite3
import threading
import time
from collections import Counter
from pathlib import Path

from fake_devices import FakeDevice, proof, watchdog
from serving.durable import Rig, request, rig
from torchzk.errors import QueueFullError
from torchzk.scheduler.service import Limits
from torchzk.serving.engine import JobReport, JobState, Priority, ProofKind, ProofRequest
from torchzk.serving.kept_work import KeptWork
from torchzk.serving.live_job import LiveJob
from torchzk.serving.queue_places import QueueLimits

CLIENTS, JOBS = 16, 1000
ACTS = ("wait", "wait", "wait", "again", "cancel", "leave", "expire", "break", "bad")


class Client:
    """One thread that asks for proofs and does something else with every job."""

    def __init__(self, made: Rig, number: int, n_jobs: int) -> None:
        self.made, self.number, self.n_jobs = made, number, n_jobs
        self.rng = random.Random(number)
        self.asked: dict[str, tuple[str, ProofRequest]] = {}
        self.ends: Counter[str] = Counter()
        self.heard: list[JobReport] = []
        self.refused = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            for k in range(self.n_jobs):
                self.one(k)
        except BaseException as error:
            self.error = error
            raise

    def one(self, k: int) -> None:
        rng, engine = self.rng, self.made.engine
        act = rng.choice(ACTS)
        wanted = request(
            f"job {self.number}-[{k}]",
            rng.choice(list(ProofKind)),
            rng.choice(list(Priority)),
            rng.choice((0.0005, 0.01)) if act == "expire" else None,
            n=rng.choice((1, 1, 2, 4)),
            k=[self.number, k],
            **{"breaks": rng.choice(("read", "compute", "end"))} if act == "break" else {},
            **{"bad": 1} if act == "bad" else {},
        )
        job_id = self.submit(wanted)
        self.asked[job_id] = act, wanted

        def ended(report: JobReport) -> None:
            self.ends[report.job_id] += 1
            self.heard.append(report)

        leave = engine.watch(job_id, ended)
        if act == "again":
            for _ in range(3):
                assert engine.submit(wanted).job_id == job_id
        elif act == "cancel":
            time.sleep(rng.choice((0, 0, 0.005, 0.05)))
            engine.cancel(job_id)
        elif act == "leave":
            leave()
            self.ends[job_id] = self.ends[job_id]

    @property
    def told(self) -> bool:
        """Whether every end was heard of that was waited for."""
        return all(self.ends[i] for i, (act, _) in self.asked.items() if act != "leave")

    def submit(self, wanted: ProofRequest) -> str:
        while True:
            try:
                return self.made.engine.submit(wanted).job_id
            except QueueFullError:
                self.refused += 1
                time.sleep(0.02)


def in_memory() -> list[object]:
    gc.collect()
    return [o for o in gc.get_objects() if type(o) in (LiveJob, KeptWork)]


def busy(made: Rig) -> bool:
    status = made.engine.status()
    return any(status.pending.values()) or any(status.running.values())


def test_each_accepted_job_ends_once_and_in_the_right_state(tmp_path: Path) -> None:
    devices = [FakeDevice("a"), FakeDevice("b")]
    places = Limits(submitted=8)
    with (
        watchdog(),
        rig(tmp_path, *devices, limits=QueueLimits(jobs=150), places=places, patience=5.0) as r,
    ):
        clients = [Client(r, k, JOBS // CLIENTS + (k < JOBS % CLIENTS)) for k in range(CLIENTS)]
        threads = [threading.Thread(target=client.run) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [client.error for client in clients] == [None] * CLIENTS
        while busy(r) or not all(client.told for client in clients):
            time.sleep(0.01)
        reports = {report.job_id: report for report in r.engine.jobs()}
        assert len(reports) == JOBS
        states: Counter[tuple[str, JobState]] = Counter()
        for client in clients:
            for job_id, (act, wanted) in client.asked.items():
                report = r.engine.job(job_id)
                states[act, report.state] += 1
                check(act, wanted, report)
                assert client.ends[job_id] == 1 or act == "leave"
                assert client.ends[job_id] <= 1
            for heard in client.heard:
                assert (heard.state, heard.proof) == (
                    r.engine.job(heard.job_id).state,
                    r.engine.job(heard.job_id).proof,
                )
        # each of the things that can happen did
        for act in set(ACTS) - {"cancel", "expire", "break"}:
            assert states[act, JobState.COMPLETED] > 50, states
        assert states["cancel", JobState.CANCELLED] > 0, states
        assert states["expire", JobState.EXPIRED] > 0, states
        ended = sum(r.engine.totals().values())
        assert ended == JOBS and r.store.unfinished() == []
        proved = Counter(job.name for _, job in r.prover.jobs)
        twice = {name for name, n in proved.items() if n > 1}
        assert twice <= {i for c in clients for i, (act, _) in c.asked.items() if act == "bad"}
        counted = [
            line
            for line in r.engine.metrics().splitlines()
            if line.startswith("torchzk_jobs_ended_total{")
        ]
        assert sum(float(line.rpartition(" ")[2]) for line in counted) == JOBS
        # nothing of them is left in memory, as soon as the last is told
        while in_memory():
            time.sleep(0.05)
        assert list((tmp_path / "payloads").iterdir()) == []
    with sqlite3.connect(tmp_path / "jobs.sqlite") as sql:
        assert sql.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert sql.execute("SELECT count(*) FROM payloads").fetchone() == (0,)
    sql.close()


def check(act: str, wanted: ProofRequest, report: JobReport) -> None:
    n = int(json.loads(wanted.vanilla_proofs[0])["n"])
    allowed = {
        "cancel": {JobState.CANCELLED, JobState.COMPLETED},
        "expire": {JobState.EXPIRED, JobState.COMPLETED},
        "break": {JobState.FAILED},
    }.get(act, {JobState.COMPLETED})
    assert report.state in allowed, (act, report)
    assert report.proof == (proof(n) if report.state is JobState.COMPLETED else b"")
    assert (
        report.error_type
        == {
            JobState.COMPLETED: "",
            JobState.FAILED: "BrokenError",
            JobState.CANCELLED: "CancelledError",
            JobState.EXPIRED: "ExpiredError",
        }[report.state]
    )
