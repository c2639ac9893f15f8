"""docs/operate.md against the code: every metric there is, every figure from a row."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

from fake_devices import watchdog
from serving.durable import Rig, request
from torchzk.bench import performance
from torchzk.errors import QueueFullError
from torchzk.scheduler.lanes import promised
from torchzk.serving.engine import KeyReport, ProofKind
from torchzk.serving.evidence import _MOST_FOLDERS
from torchzk.serving.job_store import _LEAST_FREE
from torchzk.serving.metrics import Metrics
from torchzk.serving.serve_config import LimitConfig, ServeConfig
from torchzk.timeline import Span

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operate.md").read_text()
TABLE = {
    name: set(re.findall(r"`(\w+)`", labels))
    for name, labels in re.findall(r"^\| `(torchzk_\w+)` \|([^|]*)\|", PAGE, re.M)
}


def everything(folder: Path) -> Metrics:
    """Metrics of an engine to which everything has happened that is counted."""
    with watchdog():
        made = Rig(folder)
        report = made.run(request("a"))
        status = made.engine.status()
        made.engine.close(0.0)
    key = KeyReport(circuit_id="window-2KiB", place="device", size_bytes=5, users=1)
    metrics, kind = Metrics(), ProofKind.WINDOW
    metrics.watch(lambda: replace(status, keys=(key,)), lambda: 0.0)
    metrics.accepted(kind, request().priority)
    metrics.resumed(kind, 1)
    metrics.refused(QueueFullError("full"))
    metrics.call_refused("Prove", "UNAVAILABLE")
    metrics.partition(kind, "cpu")
    metrics.set_aside("cpu")
    metrics.store_error("piece")
    metrics.key_loaded(1.0)
    metrics.on_span(Span("cpu worker 0", "witness", 0, 1))
    metrics.on_span(Span("cpu compute lock waits", "worker 0", 0, 1))
    metrics.on_level(promised("cpu"), 5)
    metrics.planned("cpu", "window-2KiB", 5)
    metrics.ended(report)
    return metrics


def exported(folder: Path) -> dict[str, tuple[str, set[str]]]:
    """Type and labels of each metric, by the name that is asked for."""
    suffix = {"counter": "_total", "info": "_info"}
    found = {}
    for family in everything(folder).registry.collect():
        samples = [s for s in family.samples if not s.name.endswith("_created")]
        assert samples, f"nothing has counted {family.name}"
        labels = {label for s in samples for label in s.labels} - {"le"}
        assert family.documentation, f"{family.name} says nothing of itself"
        found[family.name + suffix.get(family.type, "")] = (family.type, labels)
    return found


def test_every_metric_is_on_the_page_with_its_labels_and_no_other(tmp_path: Path) -> None:
    found = exported(tmp_path)
    assert set(TABLE) == set(found)
    assert {name: labels for name, (_, labels) in found.items()} == TABLE
    for name, (kind, _) in found.items():
        (line,) = re.findall(rf"^\| `{name}` .*$", PAGE, re.M)
        assert ("| histogram: " in line) == (kind == "histogram"), line


def test_alerts_ask_for_metrics_that_are_there(tmp_path: Path) -> None:
    found = exported(tmp_path)
    alerts = PAGE.partition("## What to do when")[2]
    asked = re.findall(r"(torchzk_\w+)(?:\{(\w+)=\"(\w+)\"\})?", alerts)
    assert len(asked) >= 15
    for name, label, _ in asked:
        assert name in found and (not label or label in found[name][1]), (name, label)
    # values of labels that are closed lists are in the text that is exported
    text = everything(tmp_path / "again").text()
    for name, label, value in asked:
        if label in ("state", "error"):
            known = f'{label}="{value}"' in text or value == "KeyFileError"
            assert known, (name, label, value)


def test_every_figure_is_of_a_row() -> None:
    rows = [json.loads(x) for x in (ROOT / "runs/bench/proofs.jsonl").read_text().splitlines()]
    block = PAGE.partition("<!-- rows: cards -->")[2].partition("<!-- end -->")[0]
    shown = [line for line in block.splitlines() if re.match(r"\| \w+g \|", line)]
    # also of one that was measured again since: nobody has to fill the page at once
    of_rows = {line for row in rows for line in performance.cards([row]).splitlines()}
    assert len(shown) >= 5 and set(shown) <= of_rows
    assert performance.filled(PAGE, []).count(performance.NOTHING) == 1


def test_numbers_of_the_page_are_those_of_the_code() -> None:
    text = " ".join(PAGE.split())
    limits = LimitConfig()
    assert f"go on for `limits.drain` ({limits.drain:g} s)" in text
    assert f"{_LEAST_FREE >> 20} MiB that must be free" in text
    assert f"({_MOST_FOLDERS} folders at most)" in text
    for name in re.findall(r"`limits\.(\w+)`", PAGE):
        assert name in LimitConfig.__dataclass_fields__
    for name in ("runs", "runs_limit", "status_listen", "data", "parameter_folder", "vram_limit"):
        assert f"`{name}`" in PAGE and name in ServeConfig.__dataclass_fields__
