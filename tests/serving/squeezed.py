"""A service whose GPU another process fills: each job ends in a proof or a typed error."""

from __future__ import annotations

import random
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from robust.common import emit
from robust.squeeze import Hog
from serving.real_jobs import ON_CUDA, config_of, verify
from serving.services import REAL, service
from torchzk.serving.calls import Client, Service, connected
from torchzk.serving.engine import ProofKind
from torchzk.serving.submissions import Submission, message_of
from torchzk.serving.wire import proving_pb2 as wire

GIB = 1 << 30
STORM = 30 if ON_CUDA else 3
"""Jobs that are proved while memory comes and goes."""
Outcome = tuple[str, bytes]
"""`proof`, or the error's name; and the proof."""


class NoHog:
    """Where there is no GPU, nobody fills it."""

    def leave(self, n_bytes: int | None) -> int:
        return 0

    def close(self) -> None:
        pass


class Asker:
    """Requests of a service, by kind."""

    def __init__(self, client: Client, jobs: Mapping[str, Path]) -> None:
        self._client = client
        made = {"winning": Submission(kind=ProofKind.WINNING, vanilla=jobs["winning"])}
        if "porep" in jobs:
            made["porep"] = Submission(
                kind=ProofKind.POREP,
                c1=jobs["porep"],
                sector_size=2048,
                miner_id=1000,
                sector_number=1,
            )
        if "window" in jobs:
            made["window"] = Submission(kind=ProofKind.WINDOW, vanilla=jobs["window"])
        self._requests = made
        self._n = 0

    def submit(self, kind: str) -> str:
        self._n += 1
        request = message_of(self._requests[kind].named(f"{kind}-{self._n}"))
        return self._client.call("SubmitProof", request, wire.SubmitProofResponse).job_id

    def outcome(self, job: str) -> Outcome:
        request = wire.AwaitProofRequest(job_id=job)
        said = self._client.call("AwaitProof", request, wire.AwaitProofResponse, 60)
        if said.status == wire.AwaitProofResponse.COMPLETED:
            return "proof", said.proof
        return said.error_type or wire.AwaitProofResponse.Status.Name(said.status), b""

    def prove(self, kind: str) -> Outcome:
        return self.outcome(self.submit(kind))

    def metric(self, name: str) -> float:
        """A metric's value, over all labels; 0 where it never was."""
        said = self._client.call("GetMetrics", wire.GetMetricsRequest(), wire.GetMetricsResponse)
        rows = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", said.prometheus_text, re.MULTILINE)
        return sum(map(float, rows))

    def up(self) -> bool:
        """It takes jobs, and no device was set aside."""
        said = self._client.call("GetStatus", wire.GetStatusRequest(), wire.GetStatusResponse)
        aside = any(gpu.set_aside for gpu in said.gpus)
        return bool(said.gpus) and not aside and self.metric("torchzk_ready") == 1


@contextmanager
def storm(hog: Hog | NoHog) -> Iterator[None]:
    """Memory is taken and given back all the time, at moments that nobody chose."""
    over, draw = threading.Event(), random.Random()

    def run() -> None:
        while not over.is_set():
            hog.leave(0)
            over.wait(draw.uniform(0, 0.3))
            hog.leave(None)
            over.wait(draw.uniform(0, 0.4))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        hog.leave(None)


def squeezed(
    place: Path,
    keys: Path,
    jobs: Mapping[str, Path],
    many: str,
    keep: Callable[..., None],
) -> bool:
    """Fill the GPU around a service that proves `many` and winning PoSt; whether all was right."""
    hog = Hog() if ON_CUDA else NoHog()
    proofs: list[tuple[str, bytes]] = []
    seen: Counter[str] = Counter()
    right, log = True, place / "log"

    def step(name: str, kind: str, outcome: Outcome, **more: Any) -> str:
        """Whether it is an outcome that may be; its name."""
        nonlocal right
        said, proof = outcome
        if proof:
            proofs.append((kind, proof))
        seen[said] += 1
        ok = said in ("proof", "ResourceError")
        right &= emit("squeeze", right=ok, step=name, kind=kind, outcome=said, **more)
        return said

    try:
        config = config_of(place, keys, (many, "winning"))
        with service(config, REAL, log) as (process, where), connected(Service(where)) as client:
            ask = Asker(client, jobs)
            for name, left in (("all taken", 0), ("some left", 4 * GIB)):
                free = hog.leave(left)
                for kind in (many, "winning"):
                    step(name, kind, ask.prove(kind), free_bytes=free)
                right &= emit("squeeze", right=ask.up(), step=f"{name}: up")
            hog.leave(None)
            right &= step("given back", many, ask.prove(many)) == "proof"
            began = time.monotonic()
            with storm(hog):
                waiting = [ask.submit(many) for _ in range(STORM)]
                for job in waiting:
                    step("comes and goes", many, ask.outcome(job))
            seconds = time.monotonic() - began
            for kind in (many, "winning"):
                right &= step("after", kind, ask.prove(kind)) == "proof"
            right &= emit("squeeze", right=ask.up(), step="after: up")
            out_of_memory = ask.metric("torchzk_out_of_memory_total")
            process.send_signal(signal.SIGTERM)
            right &= emit("squeeze", right=process.wait(60) == 0, step="stopped")
    finally:
        hog.close()
    for kind, proof in proofs:
        verify(keys, kind, jobs[kind], proof)
    smaller = log.read_text().count("proving again with a plan of")
    counts = {
        "proofs": seen["proof"],
        "refused": seen["ResourceError"],
        "smaller_plans": smaller,
        "out_of_memory_total": out_of_memory,
        "storm_s": round(seconds, 3),
    }
    # otherwise it was no squeeze
    bitten = seen["ResourceError"] + smaller > 0 or not ON_CUDA
    right &= emit("squeeze", right=bitten, step="counts", **counts)
    if ON_CUDA:
        keep(
            what=f"{many} and winning 2 KiB while another process takes the GPU's memory", **counts
        )
    return right
