"""A service over fake devices, its jobs kept, as a process: `python durable_service.py CONFIG`.

Jobs do what their payload says, as `durable.FakeProver`. Its first line on stdout is where it
listens, its last a JSON object: how many jobs are left, which were worked on more than once, and
what was wrong. Events go to `events` beside the config.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import sys
from collections import Counter
from pathlib import Path

from fake_devices import FakeDevice, FakeJob, Script, setups
from serving.durable import FakeProver, UnprovenJob
from torchzk.scheduler.service import Limits, Service
from torchzk.serving.durable_engine import DurableEngine
from torchzk.serving.engine import ProofRequest
from torchzk.serving.event_log import EventLog
from torchzk.serving.job_store import JobStore
from torchzk.serving.queue_places import QueueLimits
from torchzk.serving.serve_config import load_serve_config
from torchzk.serving.server import Server


class ForgetfulProver(FakeProver):
    """One that keeps of a request no more than how often it made its work."""

    def __init__(self, devices: list[FakeDevice]) -> None:
        super().__init__(devices)
        self.tries: Counter[bytes] = Counter()
        self.twice: list[str] = []

    def work(self, request: ProofRequest) -> FakeJob:
        script = json.loads(request.vanilla_proofs[0])
        digest = request.digest() + request.request_id.encode()
        with self.guard:
            tries = self.tries[digest]
            self.tries[digest] += 1
            if tries > script.get("bad", 0):
                self.twice.append(request.request_id)
        given = Script(
            script.get("n", 1), seconds=script.get("takes", {}), breaks=script.get("breaks")
        )
        job = UnprovenJob if tries < script.get("bad", 0) else FakeJob
        return job(request.request_id, given, self.referee)


class LeanEngine(DurableEngine):
    """One that gives back what it does not use before it says how much it has."""

    def metrics(self) -> str:
        gc.collect()
        if sys.platform == "linux":
            ctypes.CDLL(None).malloc_trim(0)
        return super().metrics()


async def serve(path: Path) -> None:
    config = load_serve_config(path)
    devices = [FakeDevice("fake:0"), FakeDevice("fake:1")]
    prover = ForgetfulProver(devices)
    with path.with_name("events").open("w") as events:
        engine = LeanEngine(
            JobStore(config.data),
            Service(setups(*devices), limits=Limits(submitted=8)).__enter__(),
            prover,
            limits=QueueLimits(config.limits.jobs, config.limits.payload_bytes),
            log=EventLog(events),
        )
        said: list[str] = []
        server = Server(config, engine, report=said.append)
        left = await server.run(started=lambda where: print(where, flush=True))
    faults = prover.referee.faults + [line for line in said if not line.startswith("stops:")]
    print(json.dumps({"left": left, "twice": prover.twice, "faults": faults}), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
