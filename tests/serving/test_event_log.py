"""Events: a line of JSON each, which nobody outside can forge, and no secret in any of them."""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from fake_devices import watchdog
from serving.durable import Rig, request
from torchzk.errors import ConfigError
from torchzk.scheduler.lanes import promised
from torchzk.scheduler.locks import DeviceLocks
from torchzk.scheduler.stop import Stop
from torchzk.serving.event_log import EventLog
from torchzk.serving.metrics import Metrics
from torchzk.serving.status_json import status_json
from torchzk.timeline import Span, Timeline

CANARY = "CANARY-of-a-witness"


def test_a_line_an_event_whatever_is_in_it() -> None:
    out = io.StringIO()
    log = EventLog(out, clock=lambda: 1.5)
    log("a", job_id='x\n{"event": "forged"}\r\x1b[2J\u2028é', n=3, ok=True, nothing=None)
    log("b", text="y" * 5000, proof=b"secret")  # type: ignore[arg-type]
    first, second = map(json.loads, out.getvalue().splitlines())
    assert first["event"] == "a" and first["job_id"].startswith("x\n{") and first["time"] == 1.5
    assert first["n"] == 3 and first["ok"] is True and first["nothing"] is None
    assert len(second["text"]) == 1003 and second["proof"] == "(bytes)"
    assert out.getvalue().isascii() and "\x1b" not in out.getvalue()


def test_a_log_that_cannot_be_written_stops_nobody() -> None:
    out = io.StringIO()
    log = EventLog(out)
    out.close()
    log("a")
    assert log.lost == 1


def test_no_payload_is_in_logs_metrics_or_status(tmp_path: Path) -> None:
    made = Rig(tmp_path)
    with watchdog():
        for k, bad in enumerate((None, "read", "compute", "end")):
            made.run(request(f"{k}", n=2, word=CANARY, breaks=bad))
        wanted = replace(request("refused", word=CANARY), randomness=CANARY.encode())
        with pytest.raises(ConfigError):
            made.engine.submit(replace(wanted, sector_size=1))
        # after which there is no device left
        made.run(request("bad", n=2, word=CANARY, bad=2))
        made.engine.jobs()
        told = json.dumps(status_json(made.engine)) + made.engine.metrics()
        made.engine.close(0)
    told += made.lines.getvalue()
    files = [p for p in (tmp_path / "evidence").rglob("*") if p.is_file()]
    evidence = [p.read_text() for p in files if p.name != "payload"]
    assert len(evidence) == 4 and "refused" in told
    assert CANARY not in told + "".join(evidence)


def test_stages_are_counted_by_the_letters_of_their_names() -> None:
    metrics = Metrics()
    for name in ("msm of A", "compute 3", "compute", "??", "compute (x)"):
        metrics.on_span(Span("lane", name, 0, 10**9))
    for k in range(300):
        metrics.on_span(Span("lane", "a" * (k % 40) + "b" * (k // 40 + 1), 0, 1))
    text = metrics.text()
    assert 'torchzk_stage_seconds_count{stage="msm of a"} 1.0' in text
    assert 'torchzk_stage_seconds_count{stage="other"}' in text
    assert text.count("torchzk_stage_seconds_count{") <= 101
    assert 'torchzk_stage_seconds_count{stage="compute"} 3.0' in text


def test_waits_for_locks_and_promised_bytes_by_device() -> None:
    metrics = Metrics()
    timeline = Timeline(on_close=metrics.on_span, on_level=metrics.on_level)
    locks = DeviceLocks("cuda:1", timeline, None)
    with locks.mem.held("x", Stop()), timeline.on_lane("cuda:1 worker 0").span("compute"):
        timeline.level(promised("cuda:1"), 77)
        timeline.level("host memory", 5)
    metrics.planned("cuda:1", "porep-2KiB", 99)
    text = metrics.text()
    assert 'torchzk_lock_wait_seconds_count{device="cuda:1",lock="mem"} 1.0' in text
    assert 'torchzk_stage_seconds_count{stage="compute"} 1.0' in text
    assert 'torchzk_vram_promised_bytes{device="cuda:1"} 77.0' in text
    assert 'torchzk_vram_planned_bytes{circuit="porep-2KiB",device="cuda:1"} 99.0' in text
    assert text.count("torchzk_stage_seconds_count") == 1


def test_a_log_that_nobody_reads_stops_nobody() -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb", buffering=0) as reader, os.fdopen(write, "w") as writer:
        log = EventLog(writer)
        for k in range(1000):
            log("x", text="y" * 200, k=k)
        lost = log.lost
        assert 0 < lost < 1000
        os.set_blocking(reader.fileno(), False)
        whole = b""
        while piece := reader.read(1 << 16):
            whole += piece
        log("again")
        whole += reader.read(1 << 16) or b""
    said = [json.loads(line) for line in whole.splitlines()]
    assert [line["k"] for line in said[:-2]] == list(range(1000 - lost))
    assert said[-2]["event"] == "log lost" and said[-2]["lines"] == lost
    assert said[-1]["event"] == "again"
