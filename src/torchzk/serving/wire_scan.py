"""How many fields a message has, before anything is made of it.

A field of two bytes becomes an object of many, so a message within its limit could still take all
memory.

Source: protobuf.dev, encoding: records of a tag and, by its wire type, a value.
"""

from __future__ import annotations

from torchzk.errors import InputError

MAX_FIELDS = 20_000
"""Several times what a window PoSt of the largest partition has, 2,349 sectors."""

_VARINT, _I64, _LENGTH, _I32 = 0, 1, 2, 5
_FIXED = {_I64: 8, _I32: 4}


def check_fields(raw: bytes, name: str, start: int = 0, depth: int = 0) -> None:
    """Raise `InputError` unless `raw` is a message of 20,000 fields at most.

    Args:
        raw: The bytes.
        name: What an error calls them.
        start: Where the message begins, which ends where `raw` does.
        depth: How many fields to open first, each the only one of its message: 1 for a message
            that wraps another.
    """
    at, fields = start, 0
    while at < len(raw):
        tag, at = _varint(raw, at, name)
        fields += 1
        if fields > MAX_FIELDS:
            raise InputError(f"{name}: has more than {MAX_FIELDS} fields")
        kind = tag & 7
        if kind == _VARINT:
            _, at = _varint(raw, at, name)
        elif kind == _LENGTH:
            length, at = _varint(raw, at, name)
            if depth and fields == 1 and at + length == len(raw):
                return check_fields(raw, name, at, depth - 1)
            at += length
        elif kind in _FIXED:
            at += _FIXED[kind]
        else:
            raise InputError(f"{name}: wire type {kind} at byte {at} is none of proto3")
    if at > len(raw):
        raise InputError(f"{name}: ends within a field")
    if depth and fields:
        raise InputError(f"{name}: has more than the one field that it wraps")
    return None


def _varint(raw: bytes, at: int, name: str) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(raw):
            break
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise InputError(f"{name}: no number ends at byte {at}")
