"""A client built from cuzk's messages alone: `python -P cuzk_client.py STUBS WHERE SCENARIO`.

It imports nothing of torchzk. What it was told goes to stdout as one JSON object.
"""

from __future__ import annotations

import base64
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import grpc

sys.path.insert(0, sys.argv[1])
import cuzk_pb2 as pb  # type: ignore[import-not-found]  # noqa: E402
import cuzk_pb2_grpc  # type: ignore[import-not-found]  # noqa: E402

MIB = 1 << 20
OPTIONS = [("grpc.max_send_message_length", 256 * MIB), ("grpc.max_receive_message_length", -1)]
WDPOST = "wdpost-1000-3-[" + " ".join(str(7 * i % 256) for i in range(32)) + "]"


def porep(word: bytes, request_id: str = "porep-1000-7", **more: Any) -> Any:
    said = {"sector_size": 34359738368, "registered_proof": 8, "priority": pb.NORMAL} | more
    return pb.SubmitProofRequest(
        request_id=request_id,
        proof_kind=pb.POREP_SEAL_COMMIT,
        vanilla_proof=word,
        sector_number=7,
        miner_id=1000,
        **said,
    )


def window(word: bytes) -> Any:
    return pb.SubmitProofRequest(
        request_id=WDPOST,
        proof_kind=pb.WINDOW_POST_PARTITION,
        sector_size=34359738368,
        registered_proof=13,
        vanilla_proofs=[word, b"second"],
        miner_id=1000,
        randomness=bytes(32),
        partition_index=3,
    )


def winning(word: bytes, request_id: str) -> Any:
    return pb.SubmitProofRequest(
        request_id=request_id,
        proof_kind=pb.WINNING_POST,
        sector_size=2048,
        vanilla_proofs=[word],
        randomness=bytes(32),
    )


def update(word: bytes) -> Any:
    return pb.SubmitProofRequest(
        request_id="snap-1000-7",
        proof_kind=pb.SNAP_DEALS_UPDATE,
        sector_size=34359738368,
        registered_proof=3,
        vanilla_proofs=[word] * 16,
        comm_r_old=bytes(32),
        comm_r_new=bytes(32),
        comm_d_new=bytes(32),
    )


def prove(stub: Any, request: Any, timeout: float = 120) -> Any:
    return stub.Prove(pb.ProveRequest(submit=request), timeout=timeout).result


def shown(result: Any) -> list[Any]:
    name = pb.AwaitProofResponse.Status.Name(result.status)
    return [result.job_id, name, result.proof.hex(), result.error_message]


def settled(stub: Any) -> str:
    """The metrics, when the service has noticed that nobody waits any more."""
    end = time.monotonic() + 120
    while True:
        text = str(stub.GetMetrics(pb.GetMetricsRequest()).prometheus_text)
        if "watchers 0\n" in text or time.monotonic() > end:
            return text
        time.sleep(0.01)


def all_calls(stub: Any) -> dict[str, Any]:
    """Each of the eight, and what comes back."""
    submitted = stub.SubmitProof(porep(b"hold"))
    held = stub.AwaitProof(pb.AwaitProofRequest(job_id=submitted.job_id, timeout_ms=80))
    status = stub.GetStatus(pb.GetStatusRequest())
    was_running = stub.CancelProof(pb.CancelProofRequest(job_id=submitted.job_id)).was_running
    cancelled = stub.AwaitProof(pb.AwaitProofRequest(job_id=submitted.job_id))
    queued = stub.SubmitProof(winning(b"queue", "winpost-1000-00ff00ff00ff00ff"))
    cancelled_queued = stub.CancelProof(pb.CancelProofRequest(job_id=queued.job_id)).was_running
    done = [prove(stub, r(b"prove")) for r in (porep_other, window, update)]
    load = [stub.PreloadSRS(pb.PreloadSrsRequest(circuit_id="wpost-32g")) for _ in range(2)]
    keys = stub.GetStatus(pb.GetStatusRequest())
    evict = [stub.EvictSRS(pb.EvictSrsRequest(circuit_id="wpost-32g")) for _ in range(2)]
    return {
        "submitted": [submitted.job_id, submitted.queue_position, submitted.assigned_gpu],
        "held": shown(held),
        "was_running": [was_running, cancelled_queued],
        "cancelled": shown(cancelled),
        "done": [shown(d) for d in done],
        "times": [getattr(done[0], f) for f in TIMES],
        "metrics": settled(stub),
        "load": [[a.already_loaded, a.load_time_ms] for a in load],
        "evict": [[a.was_loaded, a.freed_bytes] for a in evict],
        "gpus": [[g.ordinal, g.current_job_id, g.current_proof_kind] for g in status.gpus],
        "queues": {q.proof_kind: [q.pending, q.in_progress] for q in status.queues},
        "keys": [[k.circuit_id, k.tier, k.size_bytes] for k in keys.loaded_srs],
        "totals": [keys.total_proofs_completed, keys.total_proofs_failed],
        "pinned": [keys.pinned_memory_bytes, keys.pinned_memory_limit_bytes],
        "uptime": keys.uptime_seconds,
    }


TIMES = ("queue_wait_ms", "srs_load_ms", "synthesis_ms", "gpu_compute_ms", "total_ms")


def porep_other(word: bytes) -> Any:
    return porep(word, "ps-porep-1000-7-4711")


def code_of(call: Any) -> list[Any]:
    try:
        call()
    except grpc.RpcError as e:
        return [e.code().name, e.details()]
    return ["OK", ""]


def ids(stub: Any) -> dict[str, Any]:
    """The same id with the same and with another payload; ids of all kinds; a client that left."""
    odd = ["a,b\nTIMELINE,0,GPU_END,x", "../../etc/passwd", "\x00", "ключ 🔑", "x" * 1024, ""]
    left = code_of(lambda: prove(stub, porep(b"after 1", "left"), timeout=0.1))
    returned = prove(stub, porep(b"after 1", "left"))
    threads_saw: list[Any] = []
    threads = [
        threading.Thread(target=lambda: threads_saw.append(shown(prove(stub, porep(b"after 0.3")))))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {
        "left": left[0],
        "returned": shown(returned),
        "joined": threads_saw,
        "other": shown(prove(stub, porep(b"prove"))),
        "odd": [[x, prove(stub, porep(b"prove\n" + x.encode(), x)).job_id] for x in odd],
        "metrics": settled(stub),
    }


def refusals(stub: Any) -> dict[str, Any]:
    """Bad input of every kind, each with its code and how long it took."""
    hash31 = {"randomness": bytes(31)}
    word, known = b"prove", {"proof_kind": pb.WINNING_POST, "vanilla_proofs": [b"prove"]}
    small = {"sector_size": 2048}
    requests = {
        "empty": pb.SubmitProofRequest(),
        "unknown kind": pb.SubmitProofRequest(proof_kind=17),
        "31 bytes": pb.SubmitProofRequest(**known, **small, **hash31),
        "no size": pb.SubmitProofRequest(**known, randomness=bytes(32)),
        "odd size": pb.SubmitProofRequest(**known, randomness=bytes(32), sector_size=2049),
        "type of another kind": porep(word, registered_proof=21),
        "size of another type": porep(word, registered_proof=5),
        "no proof": porep(b""),
        "both proofs": porep(word, vanilla_proofs=[b"x"]),
        "an empty one": pb.SubmitProofRequest(
            proof_kind=pb.WINNING_POST,
            randomness=bytes(32),
            vanilla_proofs=[b"x", b""],
            **small,
        ),
        "many": winning(word, "many"),
        "hash of another kind": porep(word, comm_r_old=bytes(32)),
        "partition of another kind": porep(word, partition_index=1),
        "long id": porep(word, "x" * 10**6),
        **{name: porep(b"refuse " + name.encode()) for name in ENGINE_SAYS},
    }
    requests["many"].vanilla_proofs.extend([b"x"] * 30_000)
    said: dict[str, Any] = {}
    for name, request in requests.items():
        began = time.monotonic()
        for call in (
            lambda r=request: stub.SubmitProof(r),
            lambda r=request: prove(stub, r),
        ):
            said.setdefault(name, []).append(code_of(call))
        said[name].append(time.monotonic() - began)
    other = {
        "unwrapped": lambda: stub.Prove(pb.ProveRequest()),
        "await": lambda: stub.AwaitProof(pb.AwaitProofRequest(job_id="none")),
        "cancel": lambda: stub.CancelProof(pb.CancelProofRequest(job_id="none\n")),
        "preload": lambda: stub.PreloadSRS(pb.PreloadSrsRequest(circuit_id="../porep")),
        "preload large": lambda: stub.PreloadSRS(pb.PreloadSrsRequest(circuit_id="porep-64g")),
        "evict": lambda: stub.EvictSRS(pb.EvictSrsRequest(circuit_id="porep-33g")),
        "large await": lambda: stub.AwaitProof(pb.AwaitProofRequest(job_id="x" * 10**6)),
        "huge": lambda: stub.SubmitProof(porep(bytes(9 * MIB), "huge")),
        "failed": lambda: prove(stub, porep(b"fail", "f")),
    }
    said |= {name: code_of(call) for name, call in other.items()}
    said["failed"] = shown(prove(stub, porep(b"fail", "f")))
    said["expired"] = shown(prove(stub, porep(b"expire", "e")))
    said["after"] = shown(prove(stub, porep(b"prove", "after")))
    return said


ENGINE_SAYS = ("input", "config", "full", "large", "key", "fault")


def many(stub: Any) -> dict[str, Any]:
    """Eight winning proofs at once, and 400 calls that wait while others are answered."""
    futures = [
        stub.Prove.future(pb.ProveRequest(submit=winning(b"after 0.2\n%d" % i, f"w{i}")))
        for i in range(8)
    ]
    job = stub.SubmitProof(porep(b"hold", "held")).job_id
    waiting = [stub.AwaitProof.future(pb.AwaitProofRequest(job_id=job)) for _ in range(400)]
    began = time.monotonic()
    stub.GetStatus(pb.GetStatusRequest())
    status_seconds = time.monotonic() - began
    for future in waiting[:100]:
        future.cancel()
    results = [shown(f.result(timeout=120).result) for f in futures]
    stub.CancelProof(pb.CancelProofRequest(job_id=job))
    ends = [f.result(timeout=120).status for f in waiting[100:]]
    return {
        "winning": results,
        "status_seconds": status_seconds,
        "cancelled": [len(ends), ends.count(pb.AwaitProofResponse.CANCELLED)],
        "metrics": settled(stub),
    }


def request_of(job: Path) -> Any:
    """What is asked for by a job file, or by cuzk's wrapper of a C1 output."""
    said = json.loads(job.read_text())
    if "Phase1Out" in said:
        return pb.SubmitProofRequest(
            request_id=job.stem,
            proof_kind=pb.POREP_SEAL_COMMIT,
            sector_size=said["SectorSize"],
            vanilla_proof=job.read_bytes(),
            sector_number=said["SectorNum"],
            miner_id=1000,
        )
    kinds = {
        "window": pb.WINDOW_POST_PARTITION,
        "winning": pb.WINNING_POST,
        "update": pb.SNAP_DEALS_UPDATE,
    }
    hashes = ("randomness", "comm_r_old", "comm_r_new", "comm_d_new")
    return pb.SubmitProofRequest(
        request_id=job.stem,
        proof_kind=kinds[said["kind"]],
        sector_size=said["sector_size"],
        vanilla_proofs=[base64.b64decode(p) for p in said["vanilla_proofs"]],
        miner_id=said["miner_id"],
        **{name: bytes.fromhex(said[name]) for name in hashes if name in said},
    )


def damaged(request: Any) -> Any:
    """The same id, and a proof of which one bit is wrong."""
    bad = pb.SubmitProofRequest()
    bad.CopyFrom(request)
    if request.vanilla_proof:
        said = json.loads(request.vanilla_proof)
        inner = json.loads(base64.b64decode(said["Phase1Out"]))
        inner["comm_r"][0] ^= 1
        said["Phase1Out"] = base64.b64encode(json.dumps(inner).encode()).decode()
        bad.vanilla_proof = json.dumps(said).encode()
        return bad
    raw = bytearray(request.vanilla_proofs[0])
    raw[20] ^= 1
    bad.vanilla_proofs[0] = bytes(raw)
    return bad


def real(stub: Any) -> dict[str, Any]:
    """The jobs beside the stubs, each of them damaged and then as it is; and all eight calls."""
    requests = [request_of(job) for job in sorted((Path(sys.argv[1]) / "jobs").iterdir())]
    said: dict[str, Any] = {"bad": {}, "done": {}, "keys": {}}
    for request in requests:
        said["bad"][request.request_id] = shown(prove(stub, damaged(request)))
        # of one id, but of two payloads: a job each
        said["done"][request.request_id] = shown(prove(stub, request, timeout=1200))
    unknown = code_of(lambda: stub.AwaitProof(pb.AwaitProofRequest(job_id="none")))
    again = pb.SubmitProofRequest()
    again.CopyFrom(requests[0])
    again.request_id = "unwanted"
    job = stub.SubmitProof(again).job_id
    stub.CancelProof(pb.CancelProofRequest(job_id=job))
    said["cancelled"] = shown(stub.AwaitProof(pb.AwaitProofRequest(job_id=job)))
    for key in stub.GetStatus(pb.GetStatusRequest()).loaded_srs:
        evicted = stub.EvictSRS(pb.EvictSrsRequest(circuit_id=key.circuit_id))
        load = [stub.PreloadSRS(pb.PreloadSrsRequest(circuit_id=key.circuit_id)) for _ in range(2)]
        said["keys"][key.circuit_id] = [
            evicted.was_loaded,
            evicted.freed_bytes == key.size_bytes > 0,
            *(answer.already_loaded for answer in load),
        ]
    text = stub.GetMetrics(pb.GetMetricsRequest()).prometheus_text
    return said | {"unknown": unknown[0], "metrics": text}


if __name__ == "__main__":
    target = sys.argv[2].replace("unix://", "unix:")
    with grpc.insecure_channel(target, options=OPTIONS) as channel:
        scenarios = {"all": all_calls, "ids": ids, "refusals": refusals, "many": many, "real": real}
        print(json.dumps(scenarios[sys.argv[3]](cuzk_pb2_grpc.ProvingEngineStub(channel))))
