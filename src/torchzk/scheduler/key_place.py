"""Where the points of a run's key lie: where its plan says, as far as the host has room."""

from __future__ import annotations

from typing import Literal

from torchzk.errors import ResourceError
from torchzk.scheduler import machine
from torchzk.scheduler.plan import Place
from torchzk.scheduler.session import Session

Where = Literal["device", "host", "file"]
"""Where they lie: in memory of the device, in the host's, pinned, or in the file they are from."""

_HOST_REST = 4 << 30
"""Bytes of the host's memory that a key leaves to everything else."""


def where_of_file(session: Session, place: Place | None, n_bytes: int) -> Where:
    """Where a file's points go. A CPU reads the file, of which the system keeps what it can.

    Args:
        place: Where they shall go; None to go by the session's plan.
        n_bytes: What the points take.
    """
    if (place or _best(session)) == "device":
        return "device"
    is_pinned = session.device.type == "cuda" and _host_has(n_bytes)
    return "host" if is_pinned else "file"


def where_made(session: Session, place: Place | None, n_bytes: int) -> Place:
    """The same for a key that is in no file.

    Raises:
        ResourceError: The host has not the memory for it, with the numbers.
    """
    if session.device.type == "cpu" or (place or _best(session)) == "device":
        return "device"
    if not _host_has(n_bytes):
        there = machine.memory().usable
        raise ResourceError(
            f"the key of {session.circuit.name} takes {n_bytes / 2**30:.1f} GiB of the host's "
            f"memory, and {_HOST_REST >> 30} GiB are left to the rest, {there / 2**30:.1f} GiB "
            "are available; use keys: dev, which streams them from a file"
        )
    return "host"


def _best(session: Session) -> Place:
    return "device" if session.plan.key_stays else "host"


def _host_has(n_bytes: int) -> bool:
    return n_bytes + _HOST_REST <= machine.memory().usable
