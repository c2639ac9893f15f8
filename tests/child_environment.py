"""The environment of the processes that tests start."""

from __future__ import annotations

import os
import sys


def child_environment(**changes: str) -> dict[str, str]:
    """This process's, in which a child imports what this process does; with `changes`."""
    # a child without PATH and HOME would not be a user's process; the package itself reads neither
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **changes}
