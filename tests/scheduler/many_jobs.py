"""A thousand small jobs of two kinds through one service: how each ended, and what memory did.

    PYTHONPATH=src:tests python tests/scheduler/many_jobs.py [--jobs N] [--seconds S] [--out DIR]

Window PoSts and PoReps of 2 KiB sectors, mixed priorities; one job in twenty is cancelled, some
before they are begun and some amidst, and one in twenty has bad input, unreadable or not holding.
Every job must end once: done, cancelled or refused, as it should; every proof is verified again,
apart from the service. Memory of host and device is sampled as jobs end. Rows are printed and
appended to DIR/many_jobs.jsonl as they come; when the time is over, no more jobs are handed in.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import psutil
import torch

from torchzk import api
from torchzk.backends import choose_backend, compile_ahead, load_backend
from torchzk.bench import conditions
from torchzk.bench.proof_cases import PROOFS
from torchzk.bench.proof_inputs import Inputs
from torchzk.bench.proof_measures import slope
from torchzk.circuits.circuit import Job as CircuitJob
from torchzk.circuits.circuit import Source
from torchzk.config import CircuitConfig, Config
from torchzk.errors import InputError
from torchzk.groth16.proofs import read_proofs
from torchzk.groth16.verifier import verify_batch
from torchzk.scheduler.device_budget import prepare_memory
from torchzk.scheduler.devices import find_device
from torchzk.scheduler.service import Limits
from torchzk.scheduler.synthetic_input import MINER_ID, SECTOR_NUMBER
from torchzk.scheduler.work import Job, JobState, Priority
from torchzk.timeline import Timeline

Fate = Literal["good", "cancelled", "bad"]
KINDS = ("window2k", "porep2k")
FLAT = 0.01
"""Growth of memory over the second half of all jobs, at most."""
_ENOUGH = 100
"""Jobs from which on growth says something: the first ones load and compile."""
_QUEUE = 64
_ROW_EVERY = 50


@dataclass(frozen=True)
class Kind:
    """A circuit and its job, as it should be and as it should not."""

    site: api.Site
    good: Source
    bad: Sequence[Source]

    @property
    def name(self) -> str:
        return self.site.session.circuit.name

    def read(self) -> CircuitJob:
        """The job as it should be."""
        circuit = self.site.session.circuit
        job: CircuitJob = circuit.read_job(
            self.good, miner_id=MINER_ID, sector_number=SECTOR_NUMBER
        )
        return job


@dataclass
class Sent:
    """A job that was handed in."""

    kind: Kind
    fate: Fate
    job: Job
    late: bool = False
    """Whether it had ended when it was cancelled."""

    @property
    def right(self) -> bool:
        """Whether it ended as it should."""
        if self.fate == "bad":
            return self.job.state is JobState.FAILED and isinstance(self.job.error, InputError)
        # what was at its last step is done all the same
        if self.fate == "cancelled" and self.job.state is JobState.CANCELLED:
            return not self.late
        return self.job.state is JobState.DONE


@dataclass
class Memory:
    """What host and device hold, as jobs end."""

    device: torch.device
    rows: list[dict[str, float]] = field(default_factory=list)
    _process: psutil.Process = field(default_factory=psutil.Process)

    def sample(self) -> dict[str, float]:
        found = {"rss": float(self._process.memory_info().rss)}
        if self.device.type == "cuda":
            found["reserved"] = float(torch.cuda.memory_reserved(self.device))
            found["allocated"] = float(torch.cuda.memory_allocated(self.device))
            free, total = torch.cuda.mem_get_info(self.device)
            found["of the driver"] = float(total - free)
        self.rows.append(found)
        return found

    def slopes(self) -> dict[str, float]:
        """Growth over the second half; allocated bytes go up and down with what runs."""
        half = self.rows[len(self.rows) // 2 :]
        return {name: slope([row[name] for row in half]) for name in (half[0] if half else {})}


def run_jobs(
    kinds: Sequence[Kind],
    n_jobs: int,
    seconds: float,
    seed: int,
    emit: Callable[[dict[str, Any]], None],
    share: float = 0.05,
) -> tuple[list[Sent], Counter[str], Memory]:
    """Hand jobs in, cancel some, and wait for all; how often each has ended, by name.

    Args:
        kinds: Of which each job is one.
        n_jobs: How many.
        seconds: After so many none is handed in.
        seed: Of what is drawn.
        emit: Gets a row now and then.
        share: Of jobs that are cancelled, and as many have bad input.
    """
    rng, start = random.Random(seed), time.monotonic()
    device = kinds[0].site.session.device
    sent: list[Sent] = []
    to_cancel: list[tuple[int, Sent]] = []
    ends: Counter[str] = Counter()
    guard = threading.Lock()

    def on_end(job: Job) -> None:
        with guard:
            ends[job.name] += 1

    memory = Memory(device)
    limits = Limits(submitted=_QUEUE)
    with api.ProofService([kind.site for kind in kinds], limits=limits) as service:
        for k in range(n_jobs):
            if time.monotonic() - start > seconds:
                break
            kind, draw = rng.choice(kinds), rng.random()
            fate: Fate = "cancelled" if draw < share else "bad" if draw < 2 * share else "good"
            job = service.submit_source(
                rng.choice(kind.bad) if fate == "bad" else kind.good,
                circuit=kind.name,
                name=f"job-{k}",
                priority=rng.choice(list(Priority)),
                patience=seconds + 60,
                miner_id=MINER_ID,
                sector_number=SECTOR_NUMBER,
                on_end=on_end,
            )
            sent.append(Sent(kind, fate, job))
            if fate == "cancelled":
                # some at once, others while they are read, proved or finished
                to_cancel.append(
                    (k + rng.choice((0, 1, _QUEUE // 2, _QUEUE, 2 * _QUEUE)), sent[-1])
                )
            for due in [one for one in to_cancel if one[0] <= k]:
                to_cancel.remove(due)
                cancel(due[1])
            sample = memory.sample()
            if not (k + 1) % _ROW_EVERY:
                emit({"handed_in": k + 1, "ended": sum(ends.values()), **told(start, sample)})
        for _, one in to_cancel:
            cancel(one)
        for one in sent:
            one.job.wait()
            memory.sample()
    return sent, ends, memory


def cancel(one: Sent) -> None:
    one.late = one.job.ended
    one.job.cancel()


def told(start: float, sample: Mapping[str, float]) -> dict[str, Any]:
    mib = {f"{name}_mib".replace(" ", "_"): round(n / 2**20, 1) for name, n in sample.items()}
    return {"s": round(time.monotonic() - start, 2), **mib}


def verified(sent: Sequence[Sent], jobs: Mapping[str, CircuitJob]) -> tuple[int, int]:
    """How many proofs there are, all of them different, and how many of them hold."""
    proofs, hold = set[bytes](), 0
    for one in sent:
        if one.job.state is JobState.DONE:
            raw, session = one.job.result(), one.kind.site.session
            job = jobs[one.kind.name]
            inputs = [session.circuit.public_inputs(job, k) for k in range(job.n_partitions)]
            made = read_proofs(raw, job.n_partitions)
            hold += verify_batch(one.kind.site.keys.verifying, made, inputs) and raw not in proofs
            proofs.add(raw)
    return sum(one.job.state is JobState.DONE for one in sent), hold


def summary(
    sent: Sequence[Sent], ends: Counter[str], memory: Memory, jobs: Mapping[str, CircuitJob]
) -> dict[str, Any]:
    """The last row: states by fate, ends, proofs, slopes; and whether all is as it must be."""
    states = Counter(f"{one.fate}: {one.job.state.value}" for one in sent)
    wrong = [
        f"{one.job.name} {one.fate} {one.job.state} {one.job.error}"
        for one in sent
        if not one.right
    ]
    once = len(ends) == len(sent) and set(ends.values()) == {1}
    proofs, hold = verified(sent, jobs)
    slopes = memory.slopes()
    judged = slopes if len(sent) >= _ENOUGH else {}
    grown = {n: s for n, s in judged.items() if n != "allocated" and s > FLAT}
    return {
        "jobs": len(sent),
        "states": dict(sorted(states.items())),
        "each_ended_once": once,
        "wrong": wrong[:10],
        "proofs": proofs,
        "proofs_that_hold": hold,
        "slopes": slopes,
        "grown": grown,
        "right": once and not wrong and hold == proofs and not grown,
    }


def bad_texts(good: bytes, **changed: object) -> list[bytes]:
    """Cut off, without its proofs, and with something that the proofs do not fit."""
    document = json.loads(good)
    without = {name: value for name, value in document.items() if name != "vanilla_proofs"}
    changes = [json.dumps(document | {name: value}).encode() for name, value in changed.items()]
    return [good[: len(good) // 2], json.dumps(without).encode(), *changes]


def real_kinds(device: torch.device, folder: Path, workers: int, stack: ExitStack) -> list[Kind]:
    """Both circuits on a device, their keys in memory."""
    prepare_memory(device, None)
    backend = choose_backend("auto", device).name
    compile_ahead(backend, device)
    inputs = Inputs(folder, load_backend(backend), device)
    kinds: list[Kind] = []
    for benchmark in (p for p in PROOFS if p.short in KINDS):
        path, _ = inputs.job(benchmark, Timeline())
        config = Config(
            circuit=CircuitConfig(kind=benchmark.kind, sector_size=benchmark.sector_size),
            keys="dev-in-memory",
            device=str(device),
            backend=backend,
            workers=workers,
        )
        session = api.open_session(config, beside=kinds[0].site.session if kinds else None)
        keys = stack.enter_context(api.get_keys(session))
        good = path.read_bytes()
        other = {"randomness": "00" * 32} if benchmark.kind == "window" else {"seed": [1] * 32}
        kinds.append(Kind(api.Site(session, keys), good, bad_texts(good, **other)))
    return kinds


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument(
        "--seconds", type=float, default=240.0, help="after which none is handed in"
    )
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--inputs", type=Path, default=Path("runs") / "inputs")
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--commit", help="what rows say of the code, if not git")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)

    device = find_device(args.device)
    facts = conditions.standing(device, args.commit)

    def emit(row: dict[str, Any]) -> None:
        row |= facts
        print(json.dumps(row), flush=True)
        with (args.out / "many_jobs.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")

    with ExitStack() as stack:
        kinds = real_kinds(device, args.inputs, args.workers, stack)
        jobs = {kind.name: kind.read() for kind in kinds}
        start = time.monotonic()
        sent, ends, memory = run_jobs(kinds, args.jobs, args.seconds, args.seed, emit)
        seconds = time.monotonic() - start
        row = {"asked": args.jobs, "s": seconds} | summary(sent, ends, memory, jobs)
        emit(row)
    return int(not row["right"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
