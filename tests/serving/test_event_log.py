"""Events: a line of JSON each, which nobody outside can forge, and no secret in any of them."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from fake_devices import watchdog
from serving.durable import Rig, request
from torchzk.errors import ConfigError
from torchzk.serving.event_log import EventLog
from torchzk.serving.metrics import Metrics
from torchzk.serving.status_json import status_json
from torchzk.timeline import Span

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
    evidence = [p.read_text() for p in (tmp_path / "evidence").rglob("*") if p.is_file()]
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
