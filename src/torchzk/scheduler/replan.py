"""Once more with less, when a device has less than the plan was told of."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from torchzk.errors import ResourceError, TorchzkError
from torchzk.memory_faults import forget_frames, memory_reason, ran_out_of_memory
from torchzk.scheduler.device_budget import free_memory
from torchzk.scheduler.plan import Plan, gib
from torchzk.scheduler.session import Session

T = TypeVar("T")


def with_replan(session: Session, run: Callable[[Plan], T]) -> T:
    """`run` with the session's plan; where memory runs out, once more with a smaller one.

    The smaller plan is made for half of what is free once `run` has let go of all it had, and what
    is kept for the next proof is given back; the key stays where it is. It is the session's plan
    from then on.

    Raises:
        ResourceError: Nothing fits into what is left, or it ran out again; with the numbers.
    """
    before = session.plan
    try:
        return run(before)
    except Exception as e:
        reason = _reason(e)
        if reason is None:
            raise
    _let_go(session)
    try:
        smaller = session.replan()
    except ResourceError as e:
        raise ResourceError(f"memory of {session.device} ran out ({reason}): {e}") from None
    session.warn(
        f"memory of {session.device} ran out ({reason}): proving again with a plan of "
        f"{gib(smaller.peak)} instead of {gib(before.peak)}"
    )
    try:
        return run(smaller)
    except Exception as e:
        reason = _reason(e)
        if reason is None:
            raise
    _let_go(session)
    raise ResourceError(
        f"memory of {session.device} ran out twice while proving {session.circuit.name}: planned "
        f"{gib(before.peak)}, then {gib(smaller.peak)}; {gib(free_memory(session.device))} are "
        f"free now ({reason}). Something else takes memory of the device: stop it, or lower "
        f"vram_limit"
    )


@contextmanager
def memory_counted(session: Session, doing: str) -> Iterator[None]:
    """What has no smaller plan: where memory runs out in the body, all that can be is given back.

    Raises:
        ResourceError: Instead of whatever the allocator raises, with the numbers.
    """
    try:
        yield
        return
    except Exception as e:
        reason = _reason(e)
        if reason is None:
            raise
    _let_go(session)
    raise ResourceError(
        f"memory of {session.device} ran out while {doing} of {session.circuit.name} ({reason}); "
        f"{gib(free_memory(session.device))} are free now. Something else takes memory of the "
        f"device: stop it, or use a device with more"
    )


def _reason(e: Exception) -> str | None:
    """What was said when memory ran out, and the tensors of its frames forgotten; else None."""
    if isinstance(e, TorchzkError) or not ran_out_of_memory(e):
        return None
    # a future and the frame that waits for it keep each other
    forget_frames(e)
    return memory_reason(e)


def _let_go(session: Session) -> None:
    """Give back all that is neither the key nor the caller's; no error is being handled by now."""
    gc.collect()
    session.forget()
