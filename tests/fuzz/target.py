"""What is fuzzed: readers of bytes from outside, and what each of them may do with any bytes.

A reader returns what it read or raises one error of its own classes, within a second, with memory
in proportion to its input. What it returns must say what the input says.
"""

from __future__ import annotations

import time
import traceback
import tracemalloc
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from torchzk.errors import TorchzkError

MOST_SECONDS = 1.0
"""Of the processor and of one thread, so that a busy machine finds nothing."""
LONGEST_MESSAGE = 2000
"""Characters: what a service sends of one."""

Read = Callable[[bytes], None]
"""Reads an input and looks at what it got; raises `AssertionError` where that is wrong."""
Mutator = Callable[[bytes, Random, Callable[[bytes], bytes]], bytes]
"""Another input from one, from chance, and from the mutator that knows nothing of formats."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A reader, or a few that are told apart by the first byte of the input."""

    name: str
    open: Callable[[Path], AbstractContextManager[Read]]
    """Makes what reads, once; it may write to a folder of its own."""
    seeds: Callable[[], Iterable[bytes]]
    """Good inputs, small ones, and bad ones that somebody thought of."""
    errors: tuple[type[TorchzkError], ...]
    """What it may raise; other errors of ours would blame somebody else."""
    mutate: Mutator | None = None
    tokens: tuple[bytes, ...] = ()
    """Words of the format."""
    longest: int = 1 << 15
    """Bytes of an input."""
    memory: int = 40
    """Bytes that may be allocated for a byte of the input: of JSON, `[],` is three bytes, and 64
    as a list in a list."""
    spare: int = 1 << 21
    """Bytes that may be allocated for any input."""


def fault_of(
    target: Target, read: Read, data: bytes, most_seconds: float = MOST_SECONDS
) -> str | None:
    """What a reader did with an input that it may not do, in a few words; None as a rule.

    Equal faults have equal words: they name the line of the package that was at fault.
    """
    start = time.thread_time()
    try:
        read(data)
    except target.errors as e:
        fault = _bad_message(e)
        if fault is not None:
            return f"{fault}, raised at {_place(e)}"
    except Exception as e:
        return f"{type(e).__name__} at {_place(e)}"
    seconds = time.thread_time() - start
    return None if seconds <= most_seconds else f"slow: {seconds:.0f} s"


def takes_too_much(target: Target, read: Read, data: bytes) -> bool:
    """Whether a reader allocates more for an input than it may.

    Whatever else runs in the process may allocate too, but not each time.
    """
    most = target.spare + target.memory * len(data)
    return all(_memory_of(read, data) > most for _ in range(3))


def _memory_of(read: Read, data: bytes) -> int:
    """The most bytes that Python and numpy had allocated at once for an input."""
    tracemalloc.start()
    try:
        read(data)
    except Exception:
        # whether it may raise that is another question
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return peak


def _bad_message(error: BaseException) -> str | None:
    """A message is one line of text that any terminal and any log can show."""
    text = str(error)
    if len(text) > LONGEST_MESSAGE:
        return f"message of {type(error).__name__} too long"
    if not text.isprintable():
        return f"message of {type(error).__name__} cannot be printed"
    return None


def _place(error: BaseException) -> str:
    """The innermost line of the package, or of the tests where it never got there."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "torchzk" in f.filename] or list(frames)
    checks = [f for f in frames[-1:] if isinstance(error, AssertionError)]
    last = (checks or ours)[-1]
    return f"{Path(last.filename).name}:{last.lineno} {last.name}"
