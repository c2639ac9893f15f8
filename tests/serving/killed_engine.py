"""An engine that is killed outright at random moments under load, again and again.

    python killed_engine.py FOLDER KILLS SEED

A process that has imported everything forks one engine after the other, kills each, and looks at
the database in between; the last one ends whatever is left. Engines write what clients hear to
FOLDER/heard, a line each, so that nothing is lost with them. Ends with 0 if all is as it must be.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from fake_devices import FakeDevice, FakeJob, proof
from serving.durable import FakeProver, Rig, request
from torchzk.scheduler.worker_device import Device
from torchzk.serving import job_store
from torchzk.serving.engine import JobReport, ProofRequest
from torchzk.timeline import Timeline

CLIENTS, AHEAD = 4, 6
"""Threads that ask for proofs, and how many jobs each has at most that have not ended."""
MOST_DEATHS = 4
"""A job that one more process dies at is given up, as it has to be."""


# of two requests one is a file, the other in the database
job_store._SMALL = 200


def wanted(name: str) -> ProofRequest:
    pad = "x" * (200 * (int(name[-1]) % 2))
    return request(name, n=len(name) % 3 + 2, name=name, pad=pad, takes={"compute": 0.004})


class TellingProver(FakeProver):
    """One that says what it is asked for, jobs of an earlier process among it."""

    def __init__(self, devices: Sequence[FakeDevice], tell: Callable[..., None]) -> None:
        super().__init__(devices)
        self.tell = tell

    def work(self, request: ProofRequest) -> FakeJob:
        self.tell("work", request.request_id)
        job = super().work(request)
        partition = job.partition

        def watched(index: int, device: Device, timeline: Timeline) -> Any:
            self.tell("part", request.request_id, index)
            return partition(index, device, timeline)

        job.partition = watched  # type: ignore[method-assign]
        return job


class Engine:
    """One process' engine, its clients, and what they hear."""

    def __init__(self, folder: Path) -> None:
        self.log = os.open(folder / "heard", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.made = Rig(
            folder / "data",
            patience=5.0,
            prover=lambda devices: TellingProver(devices, self.tell),
        )

    def tell(self, *words: Any) -> None:
        os.write(self.log, json.dumps(words).encode() + b"\n")

    def ask(self, name: str, ended: Callable[[JobReport], None]) -> None:
        accepted = self.made.engine.submit(wanted(name))
        self.tell("accepted", name, accepted.joined)
        self.made.engine.watch(accepted.job_id, ended)

    def hear(self, name: str, report: JobReport) -> None:
        self.tell("ended", name, report.state.value, report.proof.hex())


def under_load(folder: Path, generation: int, open_jobs: list[str]) -> None:
    """Ask again for what has not ended, and for new proofs for ever."""
    engine = Engine(folder)

    def client(k: int) -> None:
        places = threading.Semaphore(AHEAD)

        def ask(name: str) -> None:
            places.acquire()

            def ended(report: JobReport) -> None:
                engine.hear(name, report)
                places.release()

            engine.ask(name, ended)

        for name in open_jobs[k::CLIENTS]:
            ask(name)
        n = 0
        while True:
            ask(f"{generation}-{k}-{n}")
            n += 1

    for k in range(CLIENTS):
        threading.Thread(target=client, args=(k,), daemon=True).start()
    signal.pause()


def to_the_end(folder: Path, open_jobs: list[str]) -> None:
    engine = Engine(folder)
    waiting = threading.Semaphore(0)

    def ended(name: str) -> Callable[[JobReport], None]:
        def end(report: JobReport) -> None:
            engine.hear(name, report)
            waiting.release()

        return end

    for name in open_jobs:
        engine.ask(name, ended(name))
    for _ in open_jobs:
        assert waiting.acquire(timeout=120), engine.made.engine.status()
    while any(engine.made.engine.status().pending.values()):
        time.sleep(0.01)
    assert engine.made.engine.close(60.0) == 0


def heard(folder: Path) -> list[list[Any]]:
    path = folder / "heard"
    if not path.exists():
        return []
    # the last line may be on its way
    return [json.loads(line) for line in path.read_text().rpartition("\n")[0].splitlines()]


def open_jobs(lines: list[list[Any]]) -> list[str]:
    """Accepted, their end not heard."""
    ended = {line[1] for line in lines if line[0] == "ended"}
    names = [line[1] for line in lines if line[0] == "accepted" and line[1] not in ended]
    return list(dict.fromkeys(names))


def after_a_kill(folder: Path) -> tuple[set[tuple[str, int]], set[str]]:
    """Of the database, which is sound: pieces, and jobs that processes died at so often."""
    path = folder / "data" / "jobs.sqlite"
    if not path.exists():
        return set(), set()
    sql = sqlite3.connect(path)
    try:
        assert sql.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        if not sql.execute("SELECT 1 FROM sqlite_master WHERE name = 'jobs'").fetchone():
            return set(), set()
        query = "SELECT job_id, partition FROM pieces JOIN jobs ON job = number"
        pieces = {(name, k) for name, k in sql.execute(query)}
        query = "SELECT job_id FROM jobs WHERE state = 'queued' AND begun >= ?"
        return pieces, {name for (name,) in sql.execute(query, (MOST_DEATHS,))}
    finally:
        sql.close()


def moment(rng: random.Random, folder: Path, before: int, ends: set[str]) -> None:
    """Wait for a random moment of an engine: while it starts, or so many lines later; at any rate
    until those jobs have ended.

    Lines, and not seconds: however slow the machine is, engines die with work in their hands.
    """
    lines = rng.choice((0, rng.randint(1, 40), rng.randint(40, 200)))
    patience = time.monotonic() + 120
    while True:
        new = heard(folder)[before:]
        if len(new) >= lines and ends <= {line[1] for line in new if line[0] == "ended"}:
            break
        assert time.monotonic() < patience, f"{len(new)} of {lines} lines, {ends} are to end"
        time.sleep(0.005)
    time.sleep(rng.uniform(0, 0.01 if lines else 0.1))


def run(folder: Path, kills: int, seed: int) -> Counter[str]:
    rng, seen = random.Random(seed), Counter[str]()
    for generation in range(kills + 1):
        before, (pieces, died_at) = heard(folder), after_a_kill(folder)
        seen["pieces found after a kill"] += len(pieces)
        is_last = generation == kills
        child = os.fork()
        if not child:
            code = 1
            try:
                if is_last:
                    to_the_end(folder, open_jobs(before))
                else:
                    under_load(folder, generation, open_jobs(before))
                code = 0
            except BaseException as error:
                print(f"generation {generation}: {error!r}", file=sys.stderr, flush=True)
            finally:
                os._exit(code)
        if not is_last:
            moment(rng, folder, len(before), died_at)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == (0 if is_last else -signal.SIGKILL)
        new = heard(folder)[len(before) :]
        again = pieces & {(line[1], line[2]) for line in new if line[0] == "part"}
        assert not again, f"proved again although kept: {sorted(again)[:5]}"
    check(heard(folder), folder, seen)
    return seen


def check(lines: list[list[Any]], folder: Path, seen: Counter[str]) -> None:
    over: set[str] = set()
    accepted: set[str] = set()
    for what, name, *rest in lines:
        seen[what] += 1
        if what == "accepted":
            assert rest == [name in accepted] or rest == [True], f"{name} was lost"
            accepted.add(name)
        elif what == "ended":
            n = len(name) % 3 + 2
            assert rest == ["completed", proof(n).hex()], (name, rest)
            over.add(name)
        elif what == "work":
            assert name not in over, f"{name} is worked on after its client had its proof"
    assert accepted == over, sorted(accepted ^ over)[:5]
    sql = sqlite3.connect(folder / "data" / "jobs.sqlite")
    rows = sql.execute("SELECT job_id, state FROM jobs").fetchall()
    (total,) = sql.execute("SELECT sum(jobs) FROM totals").fetchone()
    assert sql.execute("SELECT count(*) FROM payloads").fetchone() == (0,)
    sql.close()
    assert accepted <= {name for name, _ in rows} and {s for _, s in rows} == {"completed"}
    assert total == len(rows), "a job ended twice"
    assert not list((folder / "data" / "payloads").iterdir())


if __name__ == "__main__":
    counts = run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    print(json.dumps(counts))
