"""YAML to frozen dataclasses, refusing whatever the dataclass does not say.

A value is read by the type of its field and never guessed: `no` is text, `0100` is no integer,
tags and duplicate keys are refused. Every message carries file, line and dotted key.
"""

from __future__ import annotations

import difflib
import re
import types
import typing
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml

from torchzk.errors import ConfigError, one_line
from torchzk.small_files import read_small

_Dataclass = TypeVar("_Dataclass")
_UNITS = {"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}
_DIGITS = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
_MAX_BYTES = 1 << 14
"""Several times any config; a parser in Python takes a second for ten times as much."""
_MOST_WORDS = 500
_DEEPEST = 20
_PLAIN = {"tag:yaml.org,2002:str", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}

ByteSize = Annotated[int, "bytes"]
"""A number of bytes: in a file a positive integer, or text such as `32GiB`."""

Seconds = Annotated[float, "seconds"]
"""A duration: in a file a decimal number with its unit, `us`, `ms` or `s`, such as `17.5ms`."""

Decimal = Annotated[float, "decimal"]
"""A decimal number from 0 up, such as `0.034`."""


def parse_size(text: str) -> int:
    """Bytes of `2048` or `2KiB`; raises ValueError for anything else, fractions included."""
    match = re.fullmatch(r"([1-9][0-9]{0,18}) ?(B|KiB|MiB|GiB|TiB)?", text)
    if match is None:
        raise ValueError(
            f"{text[:80]!r} is no size; write bytes as an integer, or 2KiB, 8MiB, 32GiB"
        )
    return int(match[1]) << _UNITS[match[2] or "B"]


def parse_seconds(text: str) -> float:
    """Seconds of `213ms`, `1.3 s` or `18us`; raises ValueError for anything else."""
    match = re.fullmatch(rf"({_DIGITS}) ?(us|ms|s)", text)
    if match is None:
        raise ValueError(f"{text[:80]!r} is no duration; write a number and us, ms or s: 17.5ms")
    return float(match[1]) / {"us": 10**6, "ms": 10**3, "s": 1}[match[2]]


def parse_decimal(text: str) -> float:
    """The number `0.034`; raises ValueError for anything else, signs and exponents included."""
    if re.fullmatch(_DIGITS, text) is None:
        raise ValueError(f"{text[:80]!r} is no decimal number from 0 up, such as 0.034")
    return float(text)


_MEASURES = {
    "bytes": (parse_size, "a size such as 2KiB"),
    "seconds": (parse_seconds, "a duration such as 17.5ms"),
    "decimal": (parse_decimal, "a number such as 0.034"),
}
"""How a value is read whose type is `Annotated` with this word, and how a message calls it."""


class _Composer(yaml.SafeLoader):
    """Composes nodes without resolving what a plain scalar might mean."""

    yaml_implicit_resolvers: dict[str, Any] = {}

    def fetch_flow_collection_start(self, token: type[yaml.Token]) -> None:
        # every token is held against every bracket that is open
        if self.flow_level >= _DEEPEST:
            raise yaml.YAMLError(f"more than {_DEEPEST} brackets inside each other")
        super().fetch_flow_collection_start(token)


def read(cls: type[_Dataclass], path: Path) -> _Dataclass:
    """The dataclass `cls` from the YAML file `path`; its paths are relative to the file's folder.

    Raises:
        ConfigError: With file, line and dotted key of the fault.
    """
    try:
        raw = read_small(path, _MAX_BYTES)
        if len(raw) > _MAX_BYTES:
            raise ConfigError(f"{path}: longer than {_MAX_BYTES} bytes, so no config")
        node = yaml.compose(raw.decode(), Loader=_Composer)
    except OSError as e:
        raise ConfigError(f"{path}: {e.strerror}") from e
    except UnicodeDecodeError as e:
        raise ConfigError(f"{path}: not UTF-8 text (byte {e.start})") from e
    except yaml.MarkedYAMLError as e:
        line = f":{e.problem_mark.line + 1}" if e.problem_mark else ""
        raise ConfigError(
            f"{path}{line}: not YAML: {one_line(e.problem or e.context, _MOST_WORDS)}"
        ) from e
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as e:
        # the last two of an escape that is no character, a version of too many digits
        why = one_line(" ".join(str(e).split()), _MOST_WORDS)
        raise ConfigError(f"{path}: not YAML: {why}") from e
    return typing.cast(_Dataclass, _Reader(path).build(cls, node, ""))


@dataclass(frozen=True)
class _Reader:
    path: Path

    def build(self, cls: Any, node: yaml.Node | None, at: str) -> Any:
        """A dataclass from a mapping; `at` is the dotted prefix of its keys."""
        if not isinstance(node, yaml.MappingNode) or node.tag not in _PLAIN:
            raise self.fault(
                node, at.rstrip(".") or "config", "must be a mapping of keys to values"
            )
        hints = _hints(cls)
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else "?"
            if name not in hints:
                raise self.fault(key, f"{at}{name}", f"unknown key{_nearest(name, hints, at)}")
            if name in found:
                raise self.fault(key, f"{at}{name}", "given twice")
            found[name] = self.value(hints[name], value, f"{at}{name}")
        for f in fields(cls):
            if f.name not in found and f.default is MISSING and f.default_factory is MISSING:
                raise self.fault(node, f"{at}{f.name}", "missing")
        try:
            return cls(**found)
        except ConfigError as e:
            name, _, why = one_line(e, _MOST_WORDS).partition(": ")
            first = name.partition(".")[0]
            key = next((k for k, _ in node.value if k.value == first), node)
            raise self.fault(key, f"{at}{name}", why) from e

    def value(self, hint: Any, node: yaml.Node, at: str) -> Any:
        """One value of the type `hint`."""
        # what may be absent is read like what must be there
        hint = options[0] if len(options := _options(hint)) == 1 else hint
        if isinstance(hint, type) and is_dataclass(hint):
            return self.build(hint, node, f"{at}.")
        if typing.get_origin(hint) is tuple:
            if not isinstance(node, yaml.SequenceNode) or node.tag not in _PLAIN:
                raise self.fault(node, at, "must be a list")
            member = typing.get_args(hint)[0]
            return tuple(self.value(member, n, f"{at}[{i}]") for i, n in enumerate(node.value))
        if not isinstance(node, yaml.ScalarNode) or node.tag not in _PLAIN:
            raise self.fault(node, at, f"must be {_spell(hint)}")
        for option in _options(hint):
            value = self.scalar(option, node, at)
            if value is not None:
                return value
        shown = "nothing" if node.value == "" else repr(node.value[:80])
        raise self.fault(node, at, f"must be {_spell(hint)}, got {shown}")

    def scalar(self, hint: Any, node: yaml.ScalarNode, at: str) -> Any:
        """The scalar as `hint`, or None where it is none."""
        # quotes and block styles make text, whatever it looks like
        text, plain = node.value, node.style is None
        if typing.get_origin(hint) is Literal:
            return text if text in typing.get_args(hint) else None
        if typing.get_origin(hint) is Annotated:
            try:
                return _measure(hint)[0](text)
            except ValueError as e:
                raise self.fault(node, at, str(e)) from e
        if hint is int:
            return int(text) if plain and re.fullmatch(r"0|[1-9][0-9]{0,18}", text) else None
        if hint is bool:
            return {"true": True, "false": False}.get(text) if plain else None
        if text == "" or "\0" in text or (plain and text in ("~", "null")):
            return None
        if any("\ud800" <= c <= "\udfff" for c in text):
            # half a character, which an escape can write, and nobody can say or find
            return None
        return self.resolve(text) if hint is Path else text

    def resolve(self, text: str) -> Path | None:
        """A path of the file, or None where it names the home of nobody."""
        try:
            return self.path.parent / Path(text).expanduser()
        except RuntimeError:
            return None

    def fault(self, node: yaml.Node | None, at: str, why: str) -> ConfigError:
        line = node.start_mark.line + 1 if node is not None else 1
        where, what = one_line(at), one_line(why, _MOST_WORDS)
        return ConfigError(f"{self.path}:{line}: {where}: {what}")


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return typing.get_type_hints(cls, include_extras=True)


def _options(hint: Any) -> tuple[Any, ...]:
    """The members of a union, None left out; absent is said by leaving the key out."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return tuple(o for o in typing.get_args(hint) if o is not types.NoneType)
    return (hint,)


def _measure(hint: Any) -> tuple[Callable[[str], float], str]:
    return _MEASURES[typing.get_args(hint)[1]]


def _spell(hint: Any) -> str:
    names = {int: "an integer", bool: "true or false", Path: "a path", str: "text"}
    options = []
    for option in _options(hint):
        if typing.get_origin(option) is Literal:
            options += [str(a) for a in typing.get_args(option)]
        else:
            options.append(names.get(option) or _measure(option)[1])
    return " or ".join(options)


def _nearest(name: str, known: typing.Iterable[str], at: str) -> str:
    match = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {at}{match[0]}?" if match else f"; known: {', '.join(sorted(known))}"
