"""`python -m torchzk.client bench`: the same proof many times, a line each, and the sum of it.

Lines are those of cuzk's own tool; unlike there, a proof that fails makes the command fail.
"""

from __future__ import annotations

import argparse
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from torchzk import cli
from torchzk.errors import NoProofError, TorchzkError
from torchzk.serving.calls import Client
from torchzk.serving.wire import proving_pb2 as wire


@dataclass(frozen=True)
class _Outcome:
    """One proof that was asked for."""

    status: str
    seconds: float
    """As the client sees it."""
    result: wire.AwaitProofResponse | None
    """None where the call failed."""
    problem: str = ""


def bench(args: argparse.Namespace, screen: cli.Screen, client: Client) -> cli.Report:
    """Prove `args.request`, `args.count` times, each under an id of its own.

    Raises:
        NoProofError: Some of them failed; after the summary.
    """
    screen.answer("=== Batch Benchmark ===")
    for name, value in (
        ("proof type", args.type),
        ("count", args.count),
        ("concurrency", args.concurrency),
    ):
        screen.answer(f"{name + ':':12} {value}")
    screen.answer("")
    began = time.monotonic()
    outcomes: list[_Outcome] = []
    with ThreadPoolExecutor(args.concurrency) as pool:
        futures = [pool.submit(_one, args.request, client) for _ in range(args.count)]
        try:
            for future in as_completed(futures):
                outcomes.append(future.result())
                screen.answer(_line(len(outcomes), args.count, outcomes[-1]))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            client.close()
            raise
    total = time.monotonic() - began
    report = _summary(screen, outcomes, total, alone=args.concurrency == 1)
    failed = [o for o in outcomes if o.status != "COMPLETED"]
    if failed:
        raise NoProofError(f"{len(failed)} of {args.count} proofs failed: {failed[0].problem}")
    return report


def _one(request: wire.SubmitProofRequest, client: Client) -> _Outcome:
    said = wire.SubmitProofRequest()
    said.CopyFrom(request)
    said.request_id = f"{request.request_id or 'bench'}-{uuid.uuid4()}"
    began = time.monotonic()
    try:
        result = client.call("Prove", wire.ProveRequest(submit=said), wire.ProveResponse).result
    except TorchzkError as e:
        return _Outcome("ERROR", time.monotonic() - began, None, str(e))
    status = wire.AwaitProofResponse.Status.Name(result.status)
    return _Outcome(status, time.monotonic() - began, result, result.error_message)


def _line(n: int, count: int, outcome: _Outcome) -> str:
    result = outcome.result or wire.AwaitProofResponse()
    times = f"prove={result.gpu_compute_ms} ms, queue={result.queue_wait_ms} ms"
    return f"  [{n}/{count}] {outcome.status} — {outcome.seconds:.1f}s ({times})"


def _summary(
    screen: cli.Screen, outcomes: Sequence[_Outcome], total: float, *, alone: bool
) -> cli.Report:
    done = [o for o in outcomes if o.status == "COMPLETED"]
    wall = [o.seconds for o in done]
    prove = [o.result.gpu_compute_ms / 1000 for o in done if o.result]
    # of proofs that overlap no time can be told to be the service's own
    overhead = [o.seconds - _proving(o.result) for o in done if o.result and alone]
    lines = [
        ("total time", f"{total:.1f}s"),
        ("completed", str(len(done))),
        ("failed", str(len(outcomes) - len(done))),
    ]
    if done:
        per_minute, each = 60 * len(done) / total, total / len(done)
        lines += [
            ("wall time", _spread(wall)),
            ("prove time", _spread(prove)),
            ("throughput", f"{per_minute:.3f} proofs/min ({each:.1f}s/proof)"),
        ]
    if overhead:
        lines.append(("overhead", _spread([1000 * s for s in overhead], "ms")))
    screen.answer("\n=== Batch Summary ===")
    for name, value in lines:
        screen.answer(f"{name + ':':14} {value}")
    return {
        "total_seconds": total,
        "completed": len(done),
        "failed": len(outcomes) - len(done),
        "wall_seconds": wall,
        "prove_seconds": prove,
        "overhead_seconds": overhead,
    }


def _proving(result: wire.AwaitProofResponse) -> float:
    """Seconds of what a prover without a service does too, of a proof of one partition."""
    return (result.srs_load_ms + result.synthesis_ms + result.gpu_compute_ms) / 1000


def _spread(values: Sequence[float], unit: str = "s") -> str:
    mean = sum(values) / len(values)
    return f"avg={mean:.1f}{unit} min={min(values):.1f}{unit} max={max(values):.1f}{unit}"
