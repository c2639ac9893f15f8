"""Proves, and sends itself a signal while some stage runs.

    python tests/stop_at_stage.py STAGE SIGNAL SECONDS [arguments of torchzk.prove]

The signal, a number, comes SECONDS after the stage was first entered.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from torchzk import prove
from torchzk.scheduler.sinks import Run


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

    Run.opened = opened  # type: ignore[method-assign]
    threading.Thread(target=stop, daemon=True).start()
    return prove.run(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]))
