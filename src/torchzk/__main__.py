"""`python -m torchzk`: which commands there are."""

from __future__ import annotations

import sys

_COMMANDS = {
    "prove": "prove a job, or several, and verify the proofs",
    "verify": "verify a proof of a job",
    "setup": "make development keys, which are insecure",
    "doctor": "look the machine over, and what would run where",
    "diagnose": "name the operation that computes wrongly",
    "serve": "prove for others, over gRPC",
    "client": "ask such a service",
    "synthetic": "make a job of a sector that nobody sealed",
    "bench": "measure and check operations and whole proofs",
    "simulate": "play a schedule through",
}


def run() -> int:
    """Print the commands; 2, since none was named."""
    rows = (f"  python -m torchzk.{name:<10} {what}\n" for name, what in _COMMANDS.items())
    sys.stderr.write(f"There are these commands, each with --help:\n{''.join(rows)}")
    return 2


if __name__ == "__main__":
    sys.exit(run())
