"""How to tell that memory ran out, whoever says so; and how to let go of what a fault holds."""

from __future__ import annotations

import traceback

_WORDS = ("out of memory", "can't allocate memory", "defaultcpuallocator", "alloc_failed")
"""What torch, CUDA and Triton say of it, in small letters."""


def ran_out_of_memory(e: BaseException | None) -> bool:
    """Whether an error came of the host's or a device's memory running out.

    torch has an error of its own for what its allocator refuses; of modules, events or pinned
    memory CUDA says so itself. So may what fails while such an error is on its way.
    """
    seen: set[int] = set()
    while isinstance(e, RuntimeError | MemoryError) and id(e) not in seen:
        said = str(e).lower()
        if isinstance(e, MemoryError) or any(words in said for words in _WORDS):
            return True
        seen.add(id(e))
        e = e.__cause__ or e.__context__
    return False


def memory_reason(e: BaseException) -> str:
    """Such an error in few words."""
    sentences = str(e).strip().partition("\n")[0].split(". ")
    return ". ".join(sentences[:2]) or "an allocation failed"


def forget_frames(error: BaseException) -> None:
    """Let go of what the frames of an error hold: tensors that nobody else knows of.

    The error keeps its traceback, the frames lose their variables. Frames that still run stay.
    """
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        e = left.pop()
        if e is not None and id(e) not in seen:
            seen.add(id(e))
            traceback.clear_frames(e.__traceback__)
            left += (e.__cause__, e.__context__)
