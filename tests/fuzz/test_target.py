"""What a reader may not do is found; or the targets would prove nothing."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from fuzz.target import Target, fault_of, takes_too_much
from torchzk.errors import InputError, KeyFileError


def _read(data: bytes) -> None:
    match data:
        case b"typed":
            raise InputError("byte 3: must be 4")
        case b"other's":
            raise KeyFileError("key")
        case b"bug":
            raise ZeroDivisionError
        case b"wrong":
            raise AssertionError
        case b"long":
            raise InputError("x" * 5000)
        case b"lines":
            raise InputError("a\nb")
        case b"half":
            raise InputError("\ud800")
        case b"memory":
            bytes(1 << 20)


TARGET = Target(
    name="x",
    open=lambda _: nullcontext(_read),
    seeds=lambda: [],
    errors=(InputError,),
    spare=1 << 18,
)


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"good", None),
        (b"typed", None),
        (b"other's", "KeyFileError at test_target.py"),
        (b"bug", "ZeroDivisionError at test_target.py"),
        (b"wrong", "AssertionError at test_target.py"),
        (b"long", "message of InputError too long"),
        (b"lines", "message of InputError cannot be printed"),
        (b"half", "message of InputError cannot be printed"),
    ],
)
def test_faults(data: bytes, fault: str | None) -> None:
    found = fault_of(TARGET, _read, data, most_seconds=5)
    assert (found is None) == (fault is None)
    assert found is None or found.startswith(str(fault))
    assert not takes_too_much(TARGET, _read, data)


def test_what_takes_too_long_or_too_much() -> None:
    assert fault_of(TARGET, lambda data: None, b"", most_seconds=-1) == "slow: 0 s"
    assert takes_too_much(TARGET, _read, b"memory")
