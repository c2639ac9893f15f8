"""`python -m torchzk.client latency`: how long a winning PoSt waits behind many other proofs.

The others are submitted first. The winning PoSt comes once the first of them is worked on; when it
is proved, the others are cancelled.
"""

from __future__ import annotations

import argparse
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from torchzk import cli
from torchzk.errors import ConfigError, NotFoundError
from torchzk.serving.calls import Client, proof_of
from torchzk.serving.wire import proving_pb2 as wire

_LOOK = 0.02
"""Seconds between two looks at whether a job has begun."""
_MOST = 10
"""So many times the jobs that are to wait are submitted at most, where they are proved as fast."""


@dataclass(frozen=True)
class Wait:
    """One urgent proof behind others."""

    behind: int
    """Jobs that had not ended when it came."""
    start_seconds: float
    """Until a device took it up, by the service's clock."""
    total_seconds: float
    """Until its proof was there, by the client's."""
    ahead_seconds: float
    """The longest proof of the others that ended meanwhile, from its start; 0 if none did."""


def latency(args: argparse.Namespace, screen: cli.Screen, client: Client) -> cli.Report:
    """Let `args.urgent` wait behind `args.count` of `args.request`, `args.runs` times.

    Raises:
        NoProofError: It was not proved, or of the others none was.
        ConfigError: Somebody else's jobs are there.
    """
    there = sum(_queue_of(client))
    if there:
        raise ConfigError(f"the service has {there} jobs; measure on one that has none")
    # which loads what is not loaded, too
    alone = [_prove(client, args.request, "alone") for _ in range(2)][-1]
    _prove(client, args.urgent, "warm")
    waits = [measure_wait(client, args.request, args.urgent, args.count) for _ in range(args.runs)]
    for n, wait in enumerate(waits, 1):
        screen.answer(
            f"  [{n}/{args.runs}] behind {wait.behind} jobs: started after"
            f" {wait.start_seconds:.3f}s, proved after {wait.total_seconds:.3f}s"
        )
    longest = max(wait.start_seconds for wait in waits)
    screen.answer(f"one {args.type} alone: {alone:.3f}s; longest start: {longest:.3f}s")
    # beside others a proof takes longer than alone
    within = all(wait.start_seconds <= max(alone, wait.ahead_seconds) for wait in waits)
    return {
        "type": args.type,
        "behind": [wait.behind for wait in waits],
        "start_seconds": [wait.start_seconds for wait in waits],
        "total_seconds": [wait.total_seconds for wait in waits],
        "ahead_seconds": [wait.ahead_seconds for wait in waits],
        "alone_seconds": alone,
        "within_one_proof": within,
    }


def measure_wait(
    client: Client,
    queued: wire.SubmitProofRequest,
    urgent: wire.SubmitProofRequest,
    count: int,
) -> Wait:
    """One wait; the service is left without jobs.

    Raises:
        NoProofError: The urgent one was not proved.
    """
    jobs: list[str] = []
    try:
        while True:
            pending, running = _queue_of(client)
            missing = count - pending - running
            if missing > 0 and len(jobs) < _MOST * count:
                # some are proved while others are submitted
                jobs += [_submit(client, queued, "queued") for _ in range(missing)]
            elif running or not pending:
                break
            else:
                # a moment at which one is worked on, not one at which none has begun
                time.sleep(_LOOK)
        began = time.monotonic()
        request = wire.ProveRequest(submit=_named(urgent, "urgent"))
        result = client.call("Prove", request, wire.ProveResponse).result
        total = time.monotonic() - began
        proof_of(result)
    finally:
        ended = cancel_all(client, jobs)
    # each alike: from when a device took it up
    ahead = [r.total_ms - r.queue_wait_ms for r in ended if r.proof]
    return Wait(pending + running, result.queue_wait_ms / 1000, total, max(ahead, default=0) / 1000)


def cancel_all(client: Client, jobs: Sequence[str]) -> list[wire.AwaitProofResponse]:
    """Cancel jobs, and wait until none is there; returns what they ended with."""
    ended = []
    for job in reversed(jobs):
        with suppress(NotFoundError):
            client.call(
                "CancelProof", wire.CancelProofRequest(job_id=job), wire.CancelProofResponse
            )
    for job in jobs:
        with suppress(NotFoundError):
            request = wire.AwaitProofRequest(job_id=job)
            ended.append(client.call("AwaitProof", request, wire.AwaitProofResponse))
    return ended


def _queue_of(client: Client) -> tuple[int, int]:
    """Jobs that wait and that run."""
    said = client.call("GetStatus", wire.GetStatusRequest(), wire.GetStatusResponse)
    return sum(q.pending for q in said.queues), sum(q.in_progress for q in said.queues)


def _named(request: wire.SubmitProofRequest, what: str) -> wire.SubmitProofRequest:
    made = wire.SubmitProofRequest()
    made.CopyFrom(request)
    made.request_id = f"latency-{what}-{uuid.uuid4()}"
    return made


def _submit(client: Client, request: wire.SubmitProofRequest, what: str) -> str:
    said = client.call("SubmitProof", _named(request, what), wire.SubmitProofResponse)
    return said.job_id


def _prove(client: Client, request: wire.SubmitProofRequest, what: str) -> float:
    began = time.monotonic()
    asked = wire.ProveRequest(submit=_named(request, what))
    proof_of(client.call("Prove", asked, wire.ProveResponse).result)
    return time.monotonic() - began
