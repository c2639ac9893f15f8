"""Once more with less, when a device has less than the plan was told of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from torchzk.errors import ResourceError
from torchzk.scheduler.device_budget import free_memory
from torchzk.scheduler.plan import Plan
from torchzk.scheduler.session import Session

T = TypeVar("T")


def with_replan(session: Session, run: Callable[[Plan], T]) -> T:
    """`run` with the session's plan; where memory runs out, once more with a smaller one.

    The smaller plan is made for half of what is free once `run` has let go of all it had; the key
    stays where it is. It is the session's plan from then on.

    Raises:
        ResourceError: Nothing fits into what is left, or it ran out again; with the numbers.
    """
    try:
        return run(session.plan)
    except torch.OutOfMemoryError as e:
        reason = _first_line(e)
    # by now the frames that held tensors are gone, and so are those
    before = session.plan
    smaller = session.replan()
    session.warn(
        f"memory of {session.device} ran out ({reason}): proving again with a plan of "
        f"{_gib(smaller.peak)} instead of {_gib(before.peak)}"
    )
    try:
        return run(smaller)
    except torch.OutOfMemoryError as e:
        reason = _first_line(e)
    raise ResourceError(
        f"memory of {session.device} ran out twice while proving {session.circuit.name}: planned "
        f"{_gib(before.peak)}, then {_gib(smaller.peak)}; {_gib(free_memory(session.device))} are "
        f"free now ({reason}). Something else takes memory of the device: stop it, or lower "
        f"vram_limit"
    )


def _first_line(e: BaseException) -> str:
    return str(e).partition(". ")[0].splitlines()[0] if str(e) else "no memory"


def _gib(n: int) -> str:
    return f"{n / 2**30:.1f} GiB"
