"""What a service says of itself, as a report and as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from torchzk import cli
from torchzk.serving.wire import proving_pb2 as wire
from torchzk.summary import size


def status_report(said: wire.GetStatusResponse) -> cli.Report:
    """The report of `status`."""
    return {
        "uptime_seconds": said.uptime_seconds,
        "completed": said.total_proofs_completed,
        "failed": said.total_proofs_failed,
        "pinned_bytes": said.pinned_memory_bytes,
        "pinned_limit_bytes": said.pinned_memory_limit_bytes,
        "devices": [
            {
                "ordinal": gpu.ordinal,
                "name": gpu.name,
                "vram_total_bytes": gpu.vram_total_bytes,
                "vram_free_bytes": gpu.vram_free_bytes,
                "job": gpu.current_job_id or None,
                "kind": gpu.current_proof_kind or None,
                "set_aside": gpu.set_aside,
            }
            for gpu in said.gpus
        ],
        "keys": [
            {
                "circuit": key.circuit_id,
                "tier": wire.SRSStatus.Tier.Name(key.tier).lower(),
                "bytes": key.size_bytes,
                "users": key.ref_count,
            }
            for key in said.loaded_srs
        ],
        "queues": {
            queue.proof_kind: {"pending": queue.pending, "in_progress": queue.in_progress}
            for queue in said.queues
        },
    }


def show_status(screen: cli.Screen, report: cli.Report) -> None:
    """Print the report on stdout, where it is not printed as JSON."""
    # where nothing is pinned, as on a CPU, there is no limit either
    most = report["pinned_limit_bytes"]
    pinned = f", pinned {size(report['pinned_bytes'])}" + (f" of {size(most)}" if most else "")
    screen.answer(
        f"up {report['uptime_seconds']} s, {report['completed']} proofs completed,"
        f" {report['failed']} failed{pinned if most or report['pinned_bytes'] else ''}"
    )
    if screen.json:
        return
    devices = [(str(d["ordinal"]), d["name"], _vram(d), _work(d)) for d in report["devices"]]
    _print(screen, ("device", "name", "free", "work"), devices)
    keys = [(k["circuit"], k["tier"], size(k["bytes"]), str(k["users"])) for k in report["keys"]]
    _print(screen, ("key", "tier", "size", "users"), keys)
    queues = [
        (kind, str(n["pending"]), str(n["in_progress"])) for kind, n in report["queues"].items()
    ]
    _print(screen, ("queue", "pending", "in progress"), queues)


def _vram(device: cli.Report) -> str:
    return f"{size(device['vram_free_bytes'])} of {size(device['vram_total_bytes'])}"


def _work(device: cli.Report) -> str:
    if device["set_aside"]:
        return "set aside"
    return f"{device['kind']} {device['job']}" if device["job"] else "idle"


def _print(screen: cli.Screen, names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """A table on stdout; nothing where there are no rows."""
    if not rows:
        return
    table = Table(*names, box=box.SIMPLE)
    for row in rows:
        # a job's id is whatever its client made up
        table.add_row(*(Text("".join(c if c.isprintable() else "?" for c in x)) for x in row))
    with screen.console.capture() as captured:
        screen.console.print(table)
    screen.answer(captured.get().strip("\n"))
