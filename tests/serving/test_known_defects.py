"""What went wrong in another service of this contract, one test each: none of it here.

Found by reading cuzk: 1 lost jobs, 2 doubled jobs, 3 calls that do nothing, 4 waiting for memory
that never comes, 5 queues that look empty, 6 requests believed until the key is loaded, 7 results
kept for ever, 8 memory by constants, 9 the environment written by threads, 10 docs that are wrong,
11 proofs that nobody checks, 12 the socket of a living service taken away.
"""

from __future__ import annotations

import ast
import gc
import json
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from c1_samples import sample
from circuit_samples import NAMES, sizes_of
from fake_devices import FakeDevice, gate, proof, until, watchdog
from serving.durable import request, rig
from serving.load_clients import call
from serving.services import HERE, service, write_config
from serving.test_circuit_sites import Keys
from serving.test_fault_stages import BrokenBackend
from serving.test_real_work import ServedCircuit, served
from serving.test_request_source import porep_request
from serving.test_server import ask, fails, submit
from torchzk import api, client, client_verbs
from torchzk.config import CircuitConfig, load_config
from torchzk.errors import ConfigError, InputError, NotFoundError, QueueFullError
from torchzk.scheduler.plan import plan
from torchzk.scheduler.service import Limits
from torchzk.serving import circuit_prover, circuit_sites, replies
from torchzk.serving.circuit_ids import circuit_name_of
from torchzk.serving.circuit_prover import CircuitProver
from torchzk.serving.circuit_sites import CircuitSites
from torchzk.serving.engine import JobState, Priority, ProofKind
from torchzk.serving.kept_work import KeptWork
from torchzk.serving.live_job import LiveJob
from torchzk.serving.metrics import KIND_LABELS
from torchzk.serving.queue_places import QueueLimits
from torchzk.serving.serve_config import LimitConfig, ServeConfig, load_serve_config
from torchzk.serving.wire import proving_pb2 as wire
from torchzk.strict_yaml import parse_seconds, parse_size

ROOT = HERE.parents[1]
DURABLE = (str(HERE / "durable_service.py"),)
Result = wire.AwaitProofResponse


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[grpc.Channel]:
    """To a service over fake devices whose jobs are kept."""
    with (
        service(write_config(tmp_path), DURABLE) as (_, where),
        grpc.insecure_channel(where) as made,
    ):
        yield made


def winning(name: str, **script: Any) -> wire.SubmitProofRequest:
    return wire.SubmitProofRequest(
        request_id=name,
        proof_kind=wire.WINNING_POST,
        sector_size=2048,
        vanilla_proofs=[json.dumps(script).encode()],
        randomness=bytes(32),
    )


def prove(channel: grpc.Channel, wanted: wire.SubmitProofRequest, timeout: float = 30) -> Any:
    said = wire.ProveRequest(submit=wanted)
    return ask(channel, "Prove", said, wire.ProveResponse, timeout).result


def counted(channel: grpc.Channel, line: str) -> float:
    """The sum of a metric's lines that begin so."""
    text = call(channel, "GetMetrics", wire.GetMetricsRequest()).prometheus_text
    lines = [x for x in text.splitlines() if x.startswith(line)]
    return sum(float(x.rpartition(" ")[2]) for x in lines)


def test_defect_1_jobs_that_come_at_once_all_end(tmp_path: Path) -> None:
    ends: dict[str, bytes] = {}
    # hardly any places, so that jobs wait to be picked up
    few = Limits(submitted=1, read=1, checked=1, proving=1, proved=1)
    with watchdog(), rig(tmp_path, workers=1, places=few) as r:
        hook, reached, go = gate()
        r.prover.hooks = {"compute": hook}
        # in work when they come; its first partition is what they took the place of
        r.engine.submit(request("porep", ProofKind.POREP, n=3, hooked=1))
        assert reached.wait(120)
        barrier = threading.Barrier(8)

        def one(k: int) -> None:
            barrier.wait()
            r.engine.submit(request(f"win {k}", ProofKind.WINNING, Priority.CRITICAL, n=1, k=k))

        threads = [threading.Thread(target=one, args=(k,)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        go.set()
        for name in ("porep", *(f"win {k}" for k in range(8))):
            ends[name] = r.end(name).proof
        assert len(r.prover.jobs) == 9
    assert ends == {"porep": proof(3)} | {f"win {k}": proof(1) for k in range(8)}


def test_defect_2_a_request_that_comes_again_is_proved_once(channel: grpc.Channel) -> None:
    wanted = winning("porep-1000-7", n=3, takes={"compute": 0.6})
    with pytest.raises(grpc.RpcError) as gone:
        prove(channel, wanted, timeout=0.15)
    assert gone.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    both: list[Any] = []
    threads = [
        threading.Thread(target=lambda: both.append(prove(channel, wanted))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    # the same sector, sealed again
    other = prove(channel, winning("porep-1000-7", n=2))
    for thread in threads:
        thread.join()
    for said in (*both, prove(channel, wanted)):
        assert (said.job_id, said.status, said.proof) == (
            "porep-1000-7",
            Result.COMPLETED,
            proof(3),
        )
    assert other.job_id != "porep-1000-7" and other.proof == proof(2)
    assert counted(channel, "torchzk_jobs_accepted_total{") == 2
    assert counted(channel, "torchzk_partitions_proved_total{") == 3 + 2


def test_defect_3_await_times_out_cancel_ends_and_evict_frees(
    channel: grpc.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    # two devices are at it for 25 seconds
    call(channel, "SubmitProof", winning("first", n=250, takes={"compute": 0.2}))
    for k in range(7):
        call(channel, "SubmitProof", winning(f"{k}", n=2, k=k, takes={"compute": 0.2}))

    def queues() -> Any:
        return call(channel, "GetStatus", wire.GetStatusRequest()).queues

    until(lambda: any(queue.in_progress for queue in queues()))
    began = time.monotonic()
    late = call(channel, "AwaitProof", wire.AwaitProofRequest(job_id="6", timeout_ms=100))
    assert late.status == Result.TIMEOUT and 0.1 <= time.monotonic() - began < 20
    # the last has not begun, the first has
    assert not ask_cancel(channel, "6") and ask_cancel(channel, "first")
    for job in ("6", "first"):
        said = call(channel, "AwaitProof", wire.AwaitProofRequest(job_id=job))
        assert (said.status, said.proof) == (Result.CANCELLED, b"")
    said = call(channel, "AwaitProof", wire.AwaitProofRequest(job_id="5"))
    assert said.status == Result.COMPLETED
    # the first was stopped among its partitions, the last before any
    assert counted(channel, "torchzk_partitions_proved_total{") < 6 * 2 + 250
    keys = Keys()
    monkeypatch.setattr(circuit_sites, "open_sites", keys.open_sites)
    prover = CircuitProver([sites("window", 2048)], None)
    prover.preload("window-2KiB")
    assert prover.evict("window-2KiB").was_loaded
    assert keys.there == 0 and not prover.evict("window-2KiB").was_loaded


def ask_cancel(channel: grpc.Channel, job: str) -> bool:
    said = ask(
        channel, "CancelProof", wire.CancelProofRequest(job_id=job), wire.CancelProofResponse
    )
    return bool(said.was_running)


def test_defect_4_what_can_never_fit_is_refused_with_the_numbers(tmp_path: Path) -> None:
    device = FakeDevice(capacity=100 << 30)
    limits = QueueLimits(payload_bytes=1000)
    with watchdog(), rig(tmp_path, device, limits=limits) as r:
        report = r.run(request("large", n=1, planned=120 << 30))
        assert (report.state, report.error_type) == (JobState.FAILED, "ResourceError")
        assert "takes 120.00 GiB" in report.error_message
        assert "100.00 GiB are there" in report.error_message
        with pytest.raises(QueueFullError, match=r"this one 1,[\d,]+, and 1,000 may be there"):
            r.engine.submit(request("long", n=1, pad="x" * 1500))
        # and nobody waits behind it
        assert r.run(request("next", n=1, planned=80 << 30)).state is JobState.COMPLETED


def test_defect_5_queues_count_all_that_has_not_ended(tmp_path: Path) -> None:
    hook, reached, go = gate()
    with watchdog(), rig(tmp_path, workers=1) as r:
        r.prover.hooks = {"compute": hook}
        r.engine.submit(request("running", ProofKind.POREP, n=10, hooked=1))
        assert reached.wait(120)
        for k in range(30):
            r.engine.submit(request(f"{k}", ProofKind.UPDATE, n=2, k=k))
        # as long as the scheduler needs to take up what it has places for
        time.sleep(0.2)
        said = replies.status(r.engine.status())
        assert {q.proof_kind: (q.pending, q.in_progress) for q in said.queues} == {
            "porep-c2": (0, 1),
            "snap-update": (30, 0),
            "window-post": (0, 0),
            "winning-post": (0, 0),
        }
        go.set()
        r.end("29")


def sites(kind: Any, size: int) -> CircuitSites:
    """A circuit on the CPU, with the key that `open_sites` gives it."""
    config = load_config("window2k.yaml")
    config = replace(config, circuit=CircuitConfig(kind=kind, sector_size=size), device="cpu")
    return CircuitSites([api.open_session(config)], lambda _: None)


def test_defect_6_what_contradicts_itself_costs_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = Keys()
    monkeypatch.setattr(circuit_sites, "open_sites", keys.open_sites)
    prover = CircuitProver([sites("porep", 2048), sites("porep", 8 << 20)], None)
    payload = sample("sector2k_a_c1_wrapper.json")
    good = porep_request(
        payload, miner_id=1000, sector_number=json.loads(payload)["SectorNum"], registered_proof=5
    )
    wrong: Any
    for wrong, words in (
        ({"sector_size": 8 << 20}, "2KiB|2048|8MiB|8388608"),
        ({"registered_proof": 10}, "10 was asked for"),
        ({"sector_number": 12345}, "sector number"),
    ):
        with pytest.raises(InputError, match=words):
            prover.work(replace(good, **wrong)).read()
    with pytest.raises(ConfigError, match="porep-64GiB is not served here"):
        prover.admit(replace(good, sector_size=64 << 30))
    assert keys.loaded == 0
    prover.work(good).read()
    assert keys.loaded == 1


def test_defect_7_what_has_ended_is_forgotten(tmp_path: Path) -> None:
    with watchdog(), rig(tmp_path) as r:
        for k in range(40):
            assert r.run(request(f"{k}", n=1, k=k)).state is JobState.COMPLETED
        until(lambda: not in_memory())
        assert len(r.engine.jobs()) == 40
        later = time.time() + 8 * 86400
        r.store._clock = lambda: later
        r.engine._jobs._swept = float("-inf")
        until(lambda: not r.engine.jobs())
        with pytest.raises(NotFoundError):
            r.engine.job("0")
        assert r.engine.status().completed == 40


def in_memory() -> list[object]:
    gc.collect()
    return [o for o in gc.get_objects() if type(o) in (LiveJob, KeptWork)]


def test_defect_8_memory_is_that_of_the_circuit(tmp_path: Path) -> None:
    device = FakeDevice(capacity=100)
    with watchdog(), rig(tmp_path, device, workers=5) as r:
        # 126 are those of a PoRep without interaction
        for planned, at_once, n in ((7, 5, 126), (30, 3, 20), (80, 1, 20)):
            device.peak = 0
            wanted = request(f"{planned}", n=n, planned=planned, takes={"compute": 0.003})
            assert r.run(wanted).proof == proof(n)
            # more would be a fault of the rig's referee
            assert planned <= device.peak <= planned * at_once
    peaks = {name: plan(sizes_of(name), "torch", 1 << 50).peak for name in NAMES}
    assert len(NAMES) > 10 and len(set(peaks.values())) == len(NAMES)


def writes_of_environment(source: str) -> list[int]:
    """Lines that change the process' environment."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.AugAssign):
            targets = [node.target]
        names = [ast.unparse(t.value if isinstance(t, ast.Subscript) else t) for t in targets]
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if re.search(r"environ\.(update|setdefault|pop|clear)$|putenv$|unsetenv$", called):
                names.append("environ")
        if isinstance(node, ast.stmt | ast.expr) and "environ" in {n.split(".")[-1] for n in names}:
            lines.append(node.lineno)
    return lines


def test_defect_9_nothing_writes_the_environment() -> None:
    for text in ("os.environ['A'] = 'b'", "environ.update(a='b')", "os.putenv('A', 'b')"):
        assert writes_of_environment(text) == [1]
    sources = sorted((ROOT / "src" / "torchzk").rglob("*.py"))
    assert len(sources) > 100
    assert [p.name for p in sources if writes_of_environment(p.read_text())] == []


def test_defect_10_the_page_says_what_the_code_does(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "serve.md").read_text()
    # defaults
    seen = set()
    for names, said in re.findall(r"^\| (`[a-z_.`, ]+`) \| ([^|]+) \|", page, re.M):
        for name, value in zip(re.findall(r"`([^`]+)`", names), said.split(", "), strict=False):
            cls: Any = LimitConfig if name.startswith("limits.") else ServeConfig
            default = getattr(cls, name.removeprefix("limits."), ...)
            if default is ...:
                continue
            word = value.strip("`")
            meanings = [word, *{"nowhere": [None], "none": [None], "true": [True]}.get(word, [])]
            meanings += [None] if word in ("all that is free", "2 a GPU") else []
            if re.fullmatch(r"\d+[A-Za-z]*", word):
                meanings.append(parse_seconds(word) if word.endswith("s") else parse_size(word))
            assert default in meanings, (name, value, default)
            seen.add(name)
    assert seen >= {f"limits.{n}" for n in LimitConfig.__dataclass_fields__}
    assert seen >= {"listen", "status_listen", "socket_access", "device", "workers"}
    assert "witness_graph" in seen
    # every key is used, by somebody else than who reads the file
    used = {
        node.attr
        for path in [
            *(ROOT / "src" / "torchzk" / "serving").glob("*.py"),
            Path(client_verbs.__file__),
        ]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and path.name != "serve_config.py"
    }
    own = {"device", "backend", "vram_limit", "key_cache", "parameter_folder", "block_cache"}
    own |= {"witness_graph"}
    assert ServeConfig.__dataclass_fields__.keys() - own - used == set()
    assert LimitConfig.__dataclass_fields__.keys() - used == set()
    given = load_serve_config(ROOT / "configs" / "serve" / "serve2k.yaml")
    run = given.run_config(given.circuits[0])
    assert all(getattr(run, name) == getattr(given, name) for name in own)
    # commands and flags
    for module in re.findall(r"python -m (torchzk\.\w+)", page):
        assert (ROOT / "src" / f"{module.replace('.', '/')}.py").is_file()
    for verb in ("prove", "bench", "latency", "await"):
        with pytest.raises(SystemExit):
            client.main([verb, "--help"])
    known = set(re.findall(r"--?[a-z0-9-]+", capsys.readouterr().out)) | {"--config"}
    section = page.split("## Client")[1]
    assert set(re.findall(r"(?<![\w-])--[a-z0-9-]+", section)) <= known
    # nobody is bound to by an example
    for path in (ROOT / "configs" / "serve").glob("*.yaml"):
        assert load_serve_config(path).listen.startswith(("127.0.0.1:", "unix:"))


@pytest.mark.parametrize("kind", list(ProofKind), ids=lambda kind: kind.name.lower())
def test_defect_11_proofs_of_every_kind_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: ProofKind
) -> None:
    name = circuit_name_of(kind, 2048)
    monkeypatch.setattr(ServedCircuit, "name", property(lambda _: name))
    # which stage it was takes seconds, and is others' test
    monkeypatch.setattr(circuit_prover, "write_stages", lambda *_: None)
    with watchdog(), served(tmp_path, lambda b: BrokenBackend(b, "quotient")) as (engine, _):
        over = threading.Event()
        said = request("x", kind)
        names = ("comm_r_old", "comm_r_new", "comm_d_new")
        hashes: Any = dict.fromkeys(names, bytes(32))
        said = replace(said, randomness=bytes(32), **hashes)
        engine.watch(engine.submit(said).job_id, lambda _: over.set())
        assert over.wait(240)
        report = engine.job("x")
        assert (report.state, report.error_type) == (JobState.FAILED, "ProofError"), report
        assert report.proof == b""
        line = f'torchzk_selfcheck_failures_total{{proof_kind="{KIND_LABELS[kind]}"}} 2.0'
        assert line in engine.metrics().splitlines()


def test_defect_12_the_socket_of_a_living_service_stays(tmp_path: Path) -> None:
    config = write_config(tmp_path, f"listen: unix://{tmp_path}/zk.sock\n")
    with service(config) as (_, where):
        there = (tmp_path / "zk.sock").stat().st_ino
        assert "another service answers on" in fails(config)
        assert (tmp_path / "zk.sock").stat().st_ino == there
        with grpc.insecure_channel(where.replace("unix://", "unix:")) as channel:
            assert submit(channel, b"prove") == "prove"
