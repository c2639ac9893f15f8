"""The tables that end a command on a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from torchzk.scheduler.stages import stages_of
from torchzk.timeline import Span

_BAR = 24


def stage_seconds(spans: Iterable[Span]) -> dict[str, float]:
    """Seconds a stage in order of time, all partitions together, nested stages as `a / b`."""
    seconds: dict[str, float] = {}
    for stage in sorted(stages_of(spans), key=lambda s: (s.spans[0].start_ns, s.depth)):
        name = " / ".join(stage.path)
        seconds[name] = seconds.get(name, 0.0) + stage.seconds
    return seconds


def print_stages(console: Console, spans: Iterable[Span]) -> None:
    """Stages with seconds, share and a bar of it."""
    spans = tuple(spans)
    seconds = stage_seconds(spans)
    total = sum(s for name, s in seconds.items() if " / " not in name)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("stage")
    table.add_column("seconds", justify="right")
    table.add_column("share", justify="right")
    table.add_column("", width=_BAR)
    for name, value in seconds.items():
        share = value / total if total else 0.0
        depth = name.count(" / ")
        style = "dim" if depth else ""
        bar = Text("━" * round(share * _BAR), style="cyan dim" if depth else "cyan")
        shown = Text("  " * depth + name.rsplit(" / ")[-1], style=style)
        table.add_row(shown, Text(f"{value:.2f}", style), Text(f"{share:.1%}", style), bar)
    table.add_section()
    table.add_row(Text("all stages", "bold"), Text(f"{total:.2f}", "bold"), "", "")
    console.print(table)


def print_facts(console: Console, rows: Iterable[tuple[str, str, str]]) -> None:
    """Name, value and style of each fact."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value, style in rows:
        table.add_row(name, Text(value, style))
    console.print(table)


def shortened(text: str, ends: int = 16) -> str:
    """The two ends of a long hexadecimal text."""
    return text if len(text) <= 2 * ends + 3 else f"{text[:ends]}...{text[-ends:]}"


def size(n_bytes: int) -> str:
    """Bytes in the largest binary unit that they fill."""
    for unit, shift in (("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if n_bytes >= 1 << shift:
            return f"{n_bytes / (1 << shift):,.1f} {unit}"
    return f"{n_bytes} B"


def partitions(n: int) -> str:
    """A count of partitions in words."""
    return f"{n} partition{'s' if n > 1 else ''}"
