"""Proves, and sends itself a signal while some stage runs.

    python tests/stop_at_stage.py STAGE SIGNAL SECONDS [arguments of torchzk.prove]

The signal, a number, comes SECONDS after the stage was first entered.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

from torchzk import prove
from torchzk.scheduler.sinks import Run


def stages_of(folder: Path) -> dict[str, float]:
    """Seconds of every stage of the newest run; workers, locks and stations have none."""
    newest = max((folder / "runs").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    events = json.loads((newest / "trace.json").read_text())["traceEvents"]
    lanes = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    return {
        e["name"]: e["dur"] / 1e6
        for e in events
        if e["ph"] == "X" and lanes[e["pid"], e["tid"]].partition(" ")[0] in ("host", "partition")
    }


def main(stage: str, number: int, seconds: float, argv: list[str]) -> int:
    heard = Run.opened
    entered = threading.Event()

    def stop() -> None:
        entered.wait()
        time.sleep(seconds)
        os.kill(os.getpid(), number)

    def opened(run: Run, name: str) -> None:
        heard(run, name)
        if name == stage:
            entered.set()

    Run.opened = opened  # type: ignore[assignment, method-assign]
    threading.Thread(target=stop, daemon=True).start()
    return prove.run(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]))
