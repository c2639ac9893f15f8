"""Sixteen clients of a service as a process: `python load_clients.py WHERE JOBS SEED PAD`.

Each is a thread with a channel of its own, and does what clients do: waits, asks again, cancels,
leaves, hangs up, is late. The last line on stdout is what they were told, as a JSON object.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections import Counter
from typing import Any

import grpc

from fake_devices import proof
from serving.test_server import ask
from torchzk.serving.wire import proving_pb2 as wire

CLIENTS = 16
ACTS = ("wait", "poll", "again", "other", "cancel", "leave", "hang up", "late", "break", "bad")
KINDS = {
    wire.POREP_SEAL_COMMIT: (),
    wire.SNAP_DEALS_UPDATE: ("comm_r_old", "comm_r_new", "comm_d_new"),
    wire.WINDOW_POST_PARTITION: ("randomness",),
    wire.WINNING_POST: ("randomness",),
}
Result = wire.AwaitProofResponse


def channel_to(where: str) -> grpc.Channel:
    # channels of one process share a connection, unless told not to
    return grpc.insecure_channel(where, [("grpc.use_local_subchannel_pool", 1)])


class Client:
    """One thread; what it was told of each job is in `told`."""

    def __init__(self, where: str, number: int, seed: int, pad: int) -> None:
        self.where, self.number, self.pad = where, number, pad
        self.rng = random.Random(f"{seed} {number}")
        self.channel = channel_to(where)
        self.told: dict[str, list[Any]] = {}
        """By job: the act, how many partitions it has, and each answer that was an end."""
        self.full = 0
        self.error: BaseException | None = None

    def run(self, first: int, last: int) -> None:
        try:
            for k in range(first, last):
                self.one(k, self.rng.choice(ACTS))
        except BaseException as error:
            self.error = error

    def request(self, k: int, act: str, n: int) -> wire.SubmitProofRequest:
        rng = self.rng
        kind = rng.choice(list(KINDS))
        script: dict[str, Any] = {"n": n, "job": [self.number, k], "pad": "x" * self.pad}
        script["takes"] = {"compute": rng.choice((0, 0, 0.01))}
        if act == "cancel":
            # or it would be over by then, where the service has more of the machine than we
            script["takes"] = {"compute": 0.1}
        if act == "break":
            script["breaks"] = rng.choice(("read", "compute", "end"))
        if act == "bad":
            script["bad"] = 1
        raw = json.dumps(script).encode()
        porep = kind == wire.POREP_SEAL_COMMIT
        hashes: Any = {name: bytes(32) for name in KINDS[kind]}
        return wire.SubmitProofRequest(
            request_id=f"wdpost-{self.number}-[{k} 7]",
            proof_kind=kind,
            sector_size=2048,
            priority=wire.Priority.Name(rng.choice(wire.Priority.values())),
            vanilla_proof=raw if porep else b"",
            vanilla_proofs=() if porep else [raw],
            deadline_ms=rng.choice((1, 20)) if act == "late" else 0,
            **hashes,
        )

    def one(self, k: int, act: str) -> None:
        rng, n = self.rng, 4 if act == "cancel" else self.rng.choice((1, 1, 2, 4))
        wanted = self.request(k, act, n)
        job = self.submit(wanted)
        self.told[job] = [act, n]
        if act == "poll":
            while self.wait(job, rng.randrange(1, 30)).status == Result.TIMEOUT:
                pass
        elif act == "again":
            answers = [self.start(self.channel, wanted) for _ in range(3)]
            for answer in answers:
                self.note(job, answer.result().result)
        elif act == "other":
            wanted.miner_id += 1
            other = self.submit(wanted)
            assert other != job
            self.told[other] = [act, n]
            self.wait(other)
        elif act == "cancel":
            time.sleep(rng.choice((0, 0, 0.005, 0.02)))
            call(self.channel, "CancelProof", wire.CancelProofRequest(job_id=job))
        elif act == "leave":
            leaving = self.start(self.channel, wanted)
            time.sleep(rng.choice((0, 0.005)))
            leaving.cancel()
        elif act == "hang up":
            with channel_to(self.where) as own:
                self.start(own, wanted)
                time.sleep(rng.choice((0, 0.005, 0.02)))
        if act not in ("leave", "hang up") or rng.random() < 0.5:
            self.wait(job)

    def submit(self, wanted: wire.SubmitProofRequest) -> str:
        while True:
            try:
                said = call(self.channel, "SubmitProof", wanted)
            except grpc.RpcError as error:
                assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED, error
                assert "have not ended" in str(error.details())
                self.full += 1
                time.sleep(0.02)
            else:
                return str(said.job_id)

    def start(self, channel: grpc.Channel, wanted: wire.SubmitProofRequest) -> Any:
        made: Any = channel.unary_unary(
            "/cuzk.v1.ProvingEngine/Prove",
            lambda m: m.SerializeToString(),
            wire.ProveResponse.FromString,
        )
        return made.future(wire.ProveRequest(submit=wanted), timeout=120)

    def wait(self, job: str, timeout_ms: int = 0) -> Any:
        request = wire.AwaitProofRequest(job_id=job, timeout_ms=timeout_ms)
        return self.note(job, call(self.channel, "AwaitProof", request))

    def note(self, job: str, said: Any) -> Any:
        """Keep what was told, if it is an end; all that is told of a job is the same."""
        if said.status != Result.TIMEOUT:
            assert said.job_id == job, (said.job_id, job)
            whole = said.status == Result.COMPLETED
            assert said.proof == (proof(self.told[job][1]) if whole else b""), said
            self.told[job].append([Result.Status.Name(said.status), said.error_type])
        return said


def call(channel: grpc.Channel, name: str, request: Any) -> Any:
    answers = {
        "SubmitProof": wire.SubmitProofResponse,
        "AwaitProof": wire.AwaitProofResponse,
        "CancelProof": wire.CancelProofResponse,
        "GetMetrics": wire.GetMetricsResponse,
        "GetStatus": wire.GetStatusResponse,
    }
    return ask(channel, name, request, answers[name], timeout=120)


def resident(channel: grpc.Channel) -> float:
    """MiB of the service, as its metrics say."""
    text = call(channel, "GetMetrics", wire.GetMetricsRequest()).prometheus_text
    name = "torchzk_process_resident_memory_bytes "
    (line,) = [line for line in text.splitlines() if line.startswith(name)]
    return float(line.rpartition(" ")[2]) / (1 << 20)


def together(clients: list[Client], first: int, last: int) -> None:
    threads = [threading.Thread(target=client.run, args=(first, last)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    errors = [client.error for client in clients if client.error]
    if errors:
        raise errors[0]


def main(where: str, jobs: int, seed: int, pad: int) -> dict[str, Any]:
    clients = [Client(where, k, seed, pad) for k in range(CLIENTS)]
    each, mib = jobs // CLIENTS, []
    began = time.monotonic()
    with channel_to(where) as channel:
        # what the first of them take once, such as threads and buffers, is no growth
        for k in range(4):
            together(clients, k * each // 4, (k + 1) * each // 4)
            mib.append(round(resident(channel), 1))
        seconds = time.monotonic() - began
        # whoever left comes back; whoever has heard hears the same
        for client in clients:
            for job in client.told:
                client.wait(job)
        status = call(channel, "GetStatus", wire.GetStatusRequest())
    ends: Counter[str] = Counter()
    told: dict[str, Any] = {}
    for client in clients:
        for job, (act, _, *answers) in client.told.items():
            assert len({tuple(a) for a in answers}) == 1, (job, answers)
            told[job] = [act, *answers[0]]
            ends[f"{act} {answers[0][0]}"] += 1
    return {
        "told": told,
        "ends": ends,
        "full": sum(client.full for client in clients),
        "mib": mib,
        "seconds": round(seconds, 2),
        "queues": [q.pending + q.in_progress for q in status.queues],
        "busy": [gpu.current_job_id for gpu in status.gpus if gpu.current_job_id],
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], *map(int, sys.argv[2:]))))
