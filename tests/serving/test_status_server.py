"""Pages of an engine: what they say, to whom, and that no client harms them."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from fake_devices import gate, watchdog
from serving.durable import Rig, request, rig
from torchzk.errors import ConfigError
from torchzk.serving.engine import EngineStatus
from torchzk.serving.serve_config import ServeConfig, ServedCircuit
from torchzk.serving.status_server import StatusServer, open_pages

TOKEN = "a token of some length"


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Rig]:
    with watchdog(), rig(tmp_path, workers=1) as r:
        yield r


def ask(
    server: StatusServer, path: str, method: str = "GET", **headers: str
) -> tuple[int, str, http.client.HTTPMessage]:
    host = server.url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=120)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        connection.close()


def test_status_has_the_fields_of_cuzk_and_ours(made: Rig) -> None:
    hook, reached, go = gate()
    made.prover.hooks = {"compute": hook}
    made.run(request("done", n=2))
    made.run(request("bad", n=1, breaks="check"))
    made.engine.submit(request("runs <b>", n=3, hooked=1))
    assert reached.wait(120)
    made.engine.submit(request("waits", n=1))
    with StatusServer(made.engine, "127.0.0.1:0") as server:
        code, body, headers = ask(server, "/status")
        go.set()
    assert code == 200 and headers["content-type"] == "application/json"
    assert "access-control-allow-origin" not in headers and headers["cache-control"] == "no-store"
    said: dict[str, Any] = json.loads(body)
    assert said["uptime_secs"] > 0 and said["memory"]["total_bytes"] > 0
    (pipeline,) = said["pipelines"]
    assert pipeline["job_id"] == "runs <b>" and pipeline["proof_kind"] == "window-post"
    assert pipeline["total_partitions"] == 3 and pipeline["partitions_done"] == 0
    assert [p["state"] for p in pipeline["partitions"]] == ["gpu", "pending", "pending"]
    assert set(pipeline["partitions"][0]) == {"index", "state", "synth_ms", "gpu_ms"}
    worker = said["gpu_workers"][0]
    assert (worker["state"], worker["current_job"]) == ("proving", "runs <b>")
    assert worker["current_partition"] == 0 and said["gpu_workers"][1]["state"] == "idle"
    assert said["synthesis"] == {"max_concurrent": 2, "active": 0}
    assert said["buffers"]["provers_in_flight"] == 1
    assert said["allocations"]["srs"][0]["circuit_id"] == "window-2KiB"
    counters = said["counters"]
    assert (counters["total_completed"], counters["total_failed"]) == (1, 1)
    assert counters["completed_by_kind"] == {"window-post": 1} and counters["queue_depth"] == 1
    ours = said["torchzk"]
    assert ours["ready"] and ours["devices"][0]["name"] == "fake:0"
    assert [job["job_id"] for job in ours["queue"]] == ["waits"]
    assert [(j["job_id"], j["state"]) for j in ours["recent"]] == [
        ("bad", "failed"),
        ("done", "completed"),
    ]
    assert ours["recent"][0]["error"] == "BrokenError"


def test_probes_and_what_is_not_there(made: Rig) -> None:
    with StatusServer(made.engine, "127.0.0.1:0") as server:
        assert ask(server, "/healthz")[:2] == (200, "ok\n")
        assert ask(server, "/readyz?verbose")[:2] == (200, "ready\n")
        assert ask(server, "/status", "HEAD")[:2] == (200, "")
        assert ask(server, "/../etc/passwd")[0] == 404 == ask(server, "/statuses")[0]
        assert ask(server, "/status", "POST")[0] == 501
        assert ask(server, "/status", host="evil.example")[0] == 403
        assert ask(server, "/status", host="127.0.0.1.evil.example:80")[0] == 403
        assert ask(server, "/status", host="127.3.4.5")[0] == 200
        made.engine.drain()
        assert ask(server, "/readyz")[:2] == (503, "takes no jobs\n")
        assert ask(server, "/healthz")[0] == 200


def test_metrics_are_what_prometheus_reads(made: Rig) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    made.run(request("winpost\n{}", n=2))
    made.engine.preload("window-2KiB")
    with StatusServer(made.engine, "127.0.0.1:0") as server:
        first, second = (ask(server, "/metrics")[1] for _ in range(2))
    families = {f.name: f for f in parser.text_string_to_metric_families(first)}
    assert {
        "torchzk_jobs_ended",
        "torchzk_job_seconds",
        "torchzk_queue_wait_seconds",
        "torchzk_key_load_seconds",
        "torchzk_vram_free_bytes",
        "torchzk_selfcheck_failures",
        "torchzk_build_info",
        "torchzk_process_resident_memory_bytes",
        "torchzk_process_swap_bytes",
    } <= families.keys()
    assert "winpost" not in first
    again = {f.name: f for f in parser.text_string_to_metric_families(second)}
    for name, family in families.items():
        if family.type in ("counter", "histogram"):
            for old, new in zip(family.samples, again[name].samples, strict=True):
                assert old.labels == new.labels and new.value >= old.value
    buckets = [s for s in families["torchzk_job_seconds"].samples if s.name.endswith("_bucket")]
    values = [s.value for s in buckets if s.labels["proof_kind"] == "window_post"]
    assert values == sorted(values) and values[-1] == 1


def test_a_token_is_wanted_for_what_tells_something(made: Rig) -> None:
    with StatusServer(made.engine, "127.0.0.1:0", token=TOKEN) as server:
        for path in ("/status", "/metrics", "/status?x"):
            for said in ({}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}):
                code, body, _ = ask(server, path, **said)
                assert code == 401 and "TOKEN" in body and TOKEN not in body
            assert ask(server, path, authorization=f"Bearer {TOKEN}")[0] == 200
        assert ask(server, "/healthz")[0] == ask(server, "/readyz")[0] == ask(server, "/")[0] == 200


@pytest.mark.parametrize(
    ("listen", "words"),
    [
        ("0.0.0.0:0", "can be reached from other machines"),
        ("unix:///tmp/x", "must be ADDRESS:PORT"),
        ("example.org:80", "numeric address"),
    ],
)
def test_addresses_that_are_refused(made: Rig, listen: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        StatusServer(made.engine, listen, token=TOKEN)


def test_pages_of_a_config(made: Rig, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef")
    token.chmod(0o600)
    circuits = (ServedCircuit(kind="window", sector_size=2048, keys="dev"),)
    config = ServeConfig(
        circuits=circuits, data=tmp_path, status_listen="127.0.0.1:0", token_file=token
    )
    with open_pages(config, made.engine, lambda _: None) as server:
        assert server is not None and ask(server, "/status")[0] == 401
        assert ask(server, "/status", authorization="Bearer 0123456789abcdef")[0] == 200
    with open_pages(replace(config, status_listen=None), made.engine, lambda _: None) as nothing:
        assert nothing is None
    for bad, words in (("0.0.0.0:9821", "other machines"), ("unix:///tmp/x", "ADDRESS:PORT")):
        with pytest.raises(ConfigError, match=f"status_listen: .*{words}"):
            replace(config, status_listen=bad)


def test_an_address_that_is_taken(made: Rig) -> None:
    there = socket.create_server(("127.0.0.1", 0))
    with there, pytest.raises(ConfigError, match="cannot listen on"):
        StatusServer(made.engine, f"127.0.0.1:{there.getsockname()[1]}")


class Resources(HTMLParser):
    """Everything a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.urls += [v for k, v in attrs if k in ("src", "href", "action", "data") and v]


def test_the_page_needs_nothing_from_outside(made: Rig) -> None:
    with StatusServer(made.engine, "127.0.0.1:0") as server:
        (_, body, headers), (_, _, others) = ask(server, "/"), ask(server, "/")
    found = Resources()
    found.feed(body)
    assert found.urls == ["data:,"]
    assert "http" not in body.partition("<head>")[2] and "innerHTML" not in body
    policy = headers["content-security-policy"]
    nonces = set(re.findall(r"nonce-([^']+)", policy))
    assert set(re.findall(r'nonce="([^"]+)"', body)) == nonces and len(nonces) == 1
    assert "default-src 'none'" in policy and policy != others["content-security-policy"]


class BrokenEngine:
    """One that cannot say how it is."""

    def status(self) -> EngineStatus:
        raise ZeroDivisionError("secret inside")


def test_an_engine_that_fails_is_not_an_engine_that_tells(made: Rig) -> None:
    heard: list[BaseException] = []
    with StatusServer(BrokenEngine(), "127.0.0.1:0", on_error=heard.append) as server:  # type: ignore[arg-type]
        for path in ("/status", "/readyz", "/metrics"):
            code, body, _ = ask(server, path)
            assert code == 503 and "secret" not in body
    assert len(heard) == 3


def test_clients_who_say_nothing_or_too_much_keep_nobody_out(made: Rig) -> None:
    with StatusServer(made.engine, "127.0.0.1:0") as server:
        port = int(server.url.rpartition(":")[2])
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=120) as loud:
                loud.sendall(b"GET /" + b"x" * 70_000 + b" HTTP/1.0\r\n\r\n")
                assert b"414" in loud.recv(100)
            with socket.create_connection(("127.0.0.1", port), timeout=120) as junk:
                junk.sendall(b"\0\xff\r\n\r\n")
                junk.recv(100)
            codes: list[int] = []
            threads = [
                threading.Thread(target=lambda: codes.append(ask(server, "/healthz")[0]))
                for _ in range(5)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert codes == [200] * 5
        finally:
            for connection in silent:
                connection.close()
