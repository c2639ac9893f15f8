"""Ask a proving service: `python -m torchzk.client submit|await|prove|status|...`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from torchzk import cli


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    try:
        # late: what they need is not installed everywhere
        from torchzk.client_verbs import ask, parser
    except ModuleNotFoundError as e:
        return cli.fail(e, argv)
    return cli.execute(parser(), ask, argv)


def run() -> None:
    """The installed command."""
    sys.exit(main())


if __name__ == "__main__":
    run()
