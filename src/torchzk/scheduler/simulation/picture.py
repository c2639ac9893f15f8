"""A simulation for the sinks of real runs: a stretch of its steady state as a run's record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from torchzk.files import atomic_write
from torchzk.scheduler import chrome_trace, gantt
from torchzk.scheduler.simulation.outcome import Outcome
from torchzk.scheduler.stages import RunRecord

_PROOFS = 0.5
"""How many proofs' time a picture shows; the trace has everything."""
_HOST_LANES = 4
"""More lanes of the host than this are left out of a picture, as are those that only wait."""


def record_of(outcome: Outcome) -> RunRecord:
    """The whole simulation."""
    schedule = outcome.scenario.schedule
    facts = {
        "simulated:": f"{outcome.seconds_a_proof:.1f} s a proof",
        "kernels": f"{outcome.busy:.1%} busy",
        "policy": schedule.policy,
        "workers": str(schedule.workers),
        "planned memory": f"{outcome.most_planned / 2**30:.1f} GiB",
    }
    return RunRecord(outcome.scenario.title, tuple(outcome.played.record.spans), facts=facts)


def stretch_of(outcome: Outcome, proofs: float = _PROOFS) -> RunRecord:
    """The time of so many proofs, from the start of the steady state on."""
    record = record_of(outcome)
    start = round(outcome.window[0] * 1e9)
    end = start + round(proofs * outcome.seconds_a_proof * 1e9)
    spans = [
        replace(s, start_ns=max(s.start_ns, start), end_ns=min(s.end_ns, end))
        for s in record.spans
        if s.start_ns < end and s.end_ns > start
    ]
    host = {s.lane for s in spans if not s.lane.startswith("device")}
    at_work = {s.lane for s in spans if not s.name.startswith("wait for")}
    left_out = host if len(host & at_work) > _HOST_LANES else host - at_work
    spans = [s for s in spans if s.lane not in left_out]
    return replace(record, spans=tuple(spans))


def write(outcome: Outcome, folder: Path) -> list[Path]:
    """Write `trace.json`, the whole simulation, and `timeline.png`, a stretch of it."""
    folder.mkdir(parents=True, exist_ok=True)
    trace, picture = folder / "trace.json", folder / "timeline.png"
    chrome_trace.write_trace(record_of(outcome), trace)
    with atomic_write(picture) as file:
        gantt.draw(stretch_of(outcome)).print_png(file)  # type: ignore[no-untyped-call]
    return [trace, picture]
