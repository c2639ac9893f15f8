"""A run of workers as a picture: a row a lane, devices on top, and their memory below."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from torchzk.scheduler import device_use
from torchzk.scheduler.device_samples import Interval
from torchzk.scheduler.gantt import (
    FAILED,
    FAINT,
    INK,
    LINE_INCHES,
    WIDTH_INCHES,
    fact_lines,
    family,
    frame,
    heading,
    lane_name,
    mix,
    note_right,
    palette,
)
from torchzk.scheduler.intervals import inside, merged, total
from torchzk.scheduler.lanes import LaneKind, in_order, lane_of, promised
from torchzk.scheduler.lock_use import lock_uses
from torchzk.scheduler.stages import RunRecord
from torchzk.timeline import Span

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROW_INCHES, _MEMORY_INCHES = 0.3, 1.5
_LEFT, _WIDTH = 0.215, 0.69
_MOST_LANES = 60
"""More lanes than this are not drawn; the trace has them all."""
_PROFILED = ", profiled"
_STEPS = {"prepare": "#B6BEC7", "stage": "#24292F", "finish": "#7D8590"}
"""Steps of a worker that have no kernels."""
_GIB = 1 << 30


def has_lanes(record: RunRecord) -> bool:
    """Whether there are workers and locks to draw."""
    return any(lane_of(span.lane).kind is LaneKind.WORKER for span in record.spans)


def draw(record: RunRecord) -> FigureCanvasAgg:
    """The lanes of a run: kernels, locks and their waits, workers, stations; memory of devices.

    From the first thing on that any of these did; what comes before is in `gantt`'s picture.
    """
    shown = _shown(record)
    rows = _rows(record, shown)
    kernels = device_use.kernel_spans(record)
    colours = palette([k.host.name for k in kernels])
    memory = _devices_with_memory(record)
    lanes_height = _ROW_INCHES * max(len(rows), 1)
    facts = fact_lines(_facts(record))
    head = 0.75 + LINE_INCHES * len(facts)
    total_height = head + lanes_height + 0.7 + (_MEMORY_INCHES + 0.45) * len(memory)
    figure = Figure(figsize=(WIDTH_INCHES, total_height), dpi=110, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    bottom = total_height - head - lanes_height
    axes = figure.add_axes((_LEFT, bottom / total_height, _WIDTH, lanes_height / total_height))
    painter = _Painter(axes, record, shown, colours, kernels)
    for y, name in enumerate(rows):
        painter.row(y, name)
    axis = record.seconds_at(shown[0]), record.seconds_at(shown[1])
    frame(axes, len(rows), axis[1], axis[0])
    for i, device in enumerate(memory):
        top = bottom - 0.62 - (_MEMORY_INCHES + 0.45) * i
        below = figure.add_axes(
            (_LEFT, (top - _MEMORY_INCHES) / total_height, _WIDTH, _MEMORY_INCHES / total_height)
        )
        _memory(below, record, device)
        below.set_xlim(axes.get_xlim())
    heading(figure, record.title, facts)
    _legend(figure, colours, total_height)
    canvas.draw()  # type: ignore[no-untyped-call]
    return canvas


def _shown(record: RunRecord) -> Interval:
    """From the first span of a worker, a lock or a station to the run's end."""
    ends = [span.end_ns for span in record.spans]
    starts = [span.start_ns for span in record.spans if lane_of(span.lane).of_service]
    return min(starts, default=record.start_ns), max(ends, default=0)


def _rows(record: RunRecord, shown: Interval) -> list[str]:
    """Names of lanes in order: one of kernels a device, however many threads launched them."""
    ordered = sorted(record.spans, key=lambda s: s.start_ns)
    names = [span.lane for span in ordered if span.end_ns > shown[0]]
    left_out = (LaneKind.KERNELS, LaneKind.PARTITION)
    shown_there = _inside_stations(record)
    names = [n for n in names if lane_of(n).kind not in left_out and n not in shown_there]
    for use in device_use.device_uses(record):
        names.append(f"{use.device} kernels")
        if use.profiled is not None:
            names.append(f"{use.device} kernels{_PROFILED}")
    return in_order(names)[:_MOST_LANES]


def _inside_stations(record: RunRecord) -> set[str]:
    """Lanes of jobs on which nothing is that a station's lane does not show."""
    stations = [s for s in record.spans if lane_of(s.lane).kind is LaneKind.STATION]
    found = {s.lane for s in record.spans if lane_of(s.lane).kind is LaneKind.HOST}
    for span in record.spans:
        if span.lane in found and not any(
            s.start_ns <= span.start_ns and span.end_ns <= s.end_ns for s in stations
        ):
            found.remove(span.lane)
    return found


class _Painter:
    def __init__(
        self,
        axes: Axes,
        record: RunRecord,
        shown: Interval,
        colours: dict[str, str],
        kernels: Sequence[device_use.KernelSpan],
    ) -> None:
        self._axes, self._record, self._colours, self._kernels = axes, record, colours, kernels
        self._shown, self._seconds = shown, (shown[1] - shown[0]) / 1e9 or 1.0
        self._lanes: dict[str, list[Span]] = {}
        for span in record.spans:
            self._lanes.setdefault(span.lane, []).append(span)
        self._uses = {use.device: use for use in device_use.device_uses(record)}
        self._locks = {use.name: use for use in lock_uses(record.spans)}

    def row(self, y: int, name: str) -> None:
        """Draw a lane."""
        lane = lane_of(name)
        spans = self._lanes.get(name, [])
        dim = lane.kind in (LaneKind.WAITS, LaneKind.STATION, LaneKind.HOST)
        lane_name(self._axes, y, name, FAINT if dim else INK, bold=lane.kind is LaneKind.KERNELS)
        if lane.kind is LaneKind.KERNELS and lane.device is not None:
            self._kernel_row(y, lane.device, profiled=name.endswith(_PROFILED))
        elif lane.kind is LaneKind.LOCK:
            self._bars(y, spans, "#54A24B" if "compute" in name else "#B279A2")
            note_right(self._axes, y, f"{self._locks[name].held_seconds / self._seconds:.1%}", INK)
        elif lane.kind is LaneKind.WAITS:
            self._waits(y, spans)
        elif lane.kind is LaneKind.WORKER:
            self._worker(y, name, spans)
        else:
            self._bars(y, _outermost(spans), "#9DA7B1")
            self._share(y, spans)

    def _kernel_row(self, y: int, device: str, *, profiled: bool) -> None:
        use = self._uses[device]
        if profiled and use.profiled is not None:
            # as fine as the picture can show; figures are of the exact intervals
            slack = round(self._seconds * 1e9 / 4000)
            self._intervals(y, merged(use.profiled.kernels, slack), "#24292F")
            note_right(self._axes, y, f"{use.profiled_busy or 0.0:.1%}", INK)
            return
        for span in self._kernels:
            if span.device == device:
                self._bar(y, span.interval, self._colours[family(span.host.name)])
        note_right(self._axes, y, f"{use.busy:.1%}", INK, bold=True)

    def _waits(self, y: int, spans: list[Span]) -> None:
        """A thin row a worker: several may wait at once."""
        who = in_order(span.name for span in spans)
        height = 0.8 / max(len(who), 1)
        for i, name in enumerate(who):
            at = y - 0.4 + (i + 0.5) * height
            for span in spans:
                if span.name == name:
                    self._bar(at, _interval(span), "#E8A33D", height * 0.8, least=False)
        self._share(y, spans)

    def _worker(self, y: int, name: str, spans: list[Span]) -> None:
        """Steps as pale bars, stages of kernels as they were launched inside them."""
        for span in spans:
            step = span.name.partition(" ")[0]
            if step in _STEPS:
                self._bar(y, _interval(span), _STEPS[step])
            elif step == device_use.COMPUTE:
                self._bar(y, _interval(span), "#E4E9EE")
            elif step in ("trim", "evict"):
                self._bar(y, _interval(span), FAILED)
            if span.failed:
                self._bar(y, _interval(span), "none", failed=True)
        for kernel in self._kernels:
            if kernel.worker == name:
                colour = mix(self._colours[family(kernel.host.name)], 0.25)
                self._bar(y, _interval(kernel.host), colour, 0.4)
        self._share(y, spans)

    def _share(self, y: int, spans: list[Span]) -> None:
        share = total(inside(merged(map(_interval, spans)), self._shown)) / 1e9 / self._seconds
        note_right(self._axes, y, f"{share:.1%}", FAINT)

    def _bars(self, y: float, spans: Iterable[Span], colour: str) -> None:
        for i, span in enumerate(spans):
            # neighbours that touch are told apart
            self._bar(y, _interval(span), mix(colour, 0.25 * (i % 2)), failed=span.failed)

    def _intervals(self, y: float, intervals: Iterable[Interval], colour: str) -> None:
        for interval in intervals:
            self._bar(y, interval, colour, least=False)

    def _bar(
        self,
        y: float,
        interval: Interval,
        colour: str | tuple[float, float, float],
        height: float = 0.72,
        *,
        failed: bool = False,
        least: bool = True,
    ) -> None:
        seconds = (interval[1] - interval[0]) / 1e9
        self._axes.barh(
            y,
            max(seconds, self._seconds / 1500 if least else 0),
            left=self._record.seconds_at(interval[0]),
            height=height,
            color=colour,
            edgecolor=FAILED if failed else "none",
            hatch="////" if failed else None,
            linewidth=1.0 if failed else 0,
            zorder=3,
        )


def _devices_with_memory(record: RunRecord) -> list[str]:
    clocked = [sample.device for sample in record.vram]
    counted = [s.name.removesuffix(promised("")) for s in record.levels if s.value]
    return list(dict.fromkeys([*clocked, *counted]))


def _memory(axes: Axes, record: RunRecord, device: str) -> None:
    """Reserved, allocated and planned bytes over time, as steps."""
    own = [sample for sample in record.vram if sample.device == device]
    # a sample is the most since the one before
    times = [record.seconds_at(sample.time_ns) for sample in own]
    for what, colour in (("reserved", "#9DA7B1"), ("allocated", "#4C78A8")):
        values = [getattr(sample.most, what) / _GIB for sample in own]
        if values:
            axes.step(times, values, where="pre", color=colour, lw=1.3, label=what)
    planned = device_use.planned_over_time(record, device)
    for i, (interval, n_bytes) in enumerate(planned):
        axes.plot(
            [record.seconds_at(at) for at in interval],
            [n_bytes / _GIB] * 2,
            color="#54A24B",
            lw=1.3,
            label="planned, of the stage" if not i else None,
        )
    levels = [sample for sample in record.levels if sample.name == promised(device)]
    if levels:
        axes.step(
            [0, *(record.seconds_at(s.time_ns) for s in levels)],
            [0, *(s.value / _GIB for s in levels)],
            where="post",
            color="#F58518",
            lw=1.3,
            label="promised, of those staged",
        )
    axes.set_ylim(bottom=0)
    axes.set_title(f"{device} memory, GiB", size=9, color=INK, loc="left")
    axes.tick_params(colors=FAINT, labelsize=8, length=0)
    axes.grid(color="#D0D7DE", linewidth=0.7)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#D0D7DE")
    axes.legend(fontsize=8, frameon=False, ncols=4, loc="lower right", bbox_to_anchor=(1, 0.97))


def _facts(record: RunRecord) -> list[str]:
    said = [f"total {record.seconds:.2f} s"]
    for use in device_use.device_uses(record):
        said.append(f"{use.device} busy by stages {use.busy:.1%} of {use.seconds:.2f} s")
        if use.profiled is not None and use.profiled_busy is not None:
            looked = (use.profiled.window[1] - use.profiled.window[0]) / 1e9
            said.append(f"by kernels {use.profiled_busy:.1%} of {looked:.2f} s")
    return said + [f"{name} {value}" for name, value in record.facts.items()]


def _legend(figure: Figure, colours: dict[str, str], height: float) -> None:
    from matplotlib.patches import Patch

    entries = [Patch(color=colour, label=name) for name, colour in colours.items()]
    entries += [Patch(color=colour, label=name) for name, colour in _STEPS.items()]
    figure.legend(
        handles=entries,
        loc="lower left",
        bbox_to_anchor=(0.015, 0.02 / height),
        ncols=min(len(entries), 11),
        fontsize=8,
        frameon=False,
        handlelength=0.9,
        columnspacing=1.1,
    )


def _outermost(spans: list[Span]) -> list[Span]:
    kept: list[Span] = []
    for span in sorted(spans, key=lambda s: (s.start_ns, -s.end_ns)):
        if not kept or span.end_ns > kept[-1].end_ns:
            kept.append(span)
    return kept


def _interval(span: Span) -> Interval:
    return span.start_ns, span.end_ns
