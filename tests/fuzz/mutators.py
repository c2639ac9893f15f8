"""Mutators that know a format, so that what they make gets past the first check of a reader."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

from fuzz.target import Mutator

JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 255, 256, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64),
    *(10**30, 0.5, 1e308, float("inf"), float("nan"), -0.0),
    *("", "\0", "\ud800", "\x1b[31m", "[/red]", "A" * 5000, "0" * 64, "f" * 64, "AA==", "é", "٣"),
    *([], {}, [[]], [None], {"": 0}, [0] * 31, [0] * 32, [255] * 32, [256] + [0] * 31),
    "value of the text, number 0",
)
_TIMES = 4


def json_text(data: bytes, rng: Random, plain: Callable[[bytes], bytes]) -> bytes:
    """Changes of parsed JSON, and of the bytes that base64 in it stands for."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return plain(data)
    if rng.random() < 0.2:
        return plain(data)
    for _ in range(rng.randint(1, _TIMES)):
        value = _changed(value, rng, plain)
    separators = rng.choice([(",", ":"), (",", ":"), (", ", ": "), (",\n ", " : ")])
    text = json.dumps(value, separators=separators, sort_keys=rng.random() < 0.2)
    return text.encode("utf-8", "surrogatepass")


def after_first_byte(mutate: Mutator) -> Mutator:
    """Leaves the byte that chooses a reader as it is."""

    def changed(data: bytes, rng: Random, plain: Callable[[bytes], bytes]) -> bytes:
        return data[:1] + mutate(data[1:], rng, plain)

    return changed


def slots(step: int, tokens: tuple[bytes, ...]) -> Mutator:
    """Puts whole values where values are; `step` is what all their places are multiples of."""

    def changed(data: bytes, rng: Random, plain: Callable[[bytes], bytes]) -> bytes:
        if rng.random() < 0.5 or not data:
            return plain(data)
        at, token = rng.randrange(0, len(data), step), rng.choice(tokens)
        if rng.random() < 0.2:
            return data[:at] + token + data[at:]
        return data[:at] + token + data[at + len(token) :]

    return changed


def lines(data: bytes, rng: Random, plain: Callable[[bytes], bytes]) -> bytes:
    """Moves, repeats, drops and indents lines, and puts junk behind a colon."""
    if rng.random() < 0.4:
        return plain(data)
    given = data.split(b"\n")
    k = rng.randrange(len(given))
    match rng.randrange(5):
        case 0:
            given.insert(rng.randrange(len(given) + 1), given[k])
        case 1:
            del given[k]
        case 2:
            given[k] = b" " * rng.randrange(5) + given[k].lstrip()
        case 3:
            text = json.dumps(junk(rng), ensure_ascii=rng.random() < 0.5)
            key = given[k].partition(b":")[0]
            given[k] = key + b": " + text.encode("utf-8", "replace")
        case _:
            given[k] = plain(given[k])
    return b"\n".join(given)


def _changed(value: Any, rng: Random, plain: Callable[[bytes], bytes]) -> Any:
    """The value with one change somewhere."""
    if isinstance(value, list | dict) and value and rng.random() < 0.9:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = rng.choice(keys)
        # the deeper, the more there is to change
        if rng.random() < 0.8:
            value[key] = _changed(value[key], rng, plain)
        elif isinstance(value, dict):
            _change_members(value, key, rng)
        else:
            _change_items(value, key, rng)
        return value
    if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.3:
        return value + rng.choice([-1, 1, 1 << 32])
    if isinstance(value, str) and rng.random() < 0.6:
        return _changed_text(value, rng, plain)
    return junk(rng)


def junk(rng: Random) -> Any:
    """A value that hardly any place is for."""
    return deepcopy(rng.choice(JUNK))


def _change_members(value: dict[str, Any], key: str, rng: Random) -> None:
    match rng.randrange(4):
        case 0:
            del value[key]
        case 1:
            value[key + "_"] = deepcopy(value[key])
        case 2:
            value[rng.choice(["\ud800", "\x1b", "kind", "x" * 3000])] = value.pop(key)
        case _:
            other = rng.choice(list(value))
            value[key], value[other] = value[other], value[key]


def _change_items(value: list[Any], k: int, rng: Random) -> None:
    match rng.randrange(4):
        case 0:
            del value[k]
        case 1:
            value.insert(k, deepcopy(value[k]))
        case 2:
            value.insert(k, junk(rng))
        case _:
            other = rng.randrange(len(value))
            value[k], value[other] = value[other], value[k]


def _changed_text(text: str, rng: Random, plain: Callable[[bytes], bytes]) -> str:
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        raw = b""
    if len(raw) > 40 and rng.random() < 0.8:
        return base64.b64encode(plain(raw)).decode()
    return plain(text.encode("utf-8", "surrogatepass")).decode("latin-1")
