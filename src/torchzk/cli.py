"""The shell of every command: flags, exit codes, signals, and what is said on which stream.

Progress, warnings and tables go to stderr. On stdout goes what was asked for; with `--json` one
object, on the last line, whether the command went well or not.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import errno
import json
import os
import re
import select
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, get_args, get_type_hints

from rich.console import Console

from torchzk.config import Config, load_config
from torchzk.errors import (
    ConfigError,
    InputError,
    Interrupted,
    KeyFileError,
    ResourceError,
    TorchzkError,
)
from torchzk.interrupts import Signal, signals_raise
from torchzk.memory_faults import memory_reason, ran_out_of_memory
from torchzk.strict_yaml import parse_size

Report = dict[str, Any]
"""What a command says in JSON; `ok` is added. An `exit_code` in it is the command's."""

KEY_NAMES = tuple(
    name for hint in get_args(get_type_hints(Config)["keys"]) for name in get_args(hint)
)
"""What keys may be besides a file."""

_SERVING = {"grpc", "grpc_health", "grpc_reflection", "prometheus_client"}
"""Packages that the extra `serve` brings."""

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NOT_TO_BE_HAD = {errno.EACCES, errno.EPERM, errno.ENAMETOOLONG}


@dataclasses.dataclass
class Screen:
    """The terminal side of a command. `warnings` collects what was warned of."""

    console: Console
    json: bool
    warnings: list[str] = dataclasses.field(default_factory=list)

    def warn(self, message: str) -> None:
        """Say something on stderr that must not be overlooked, and keep it for the report."""
        self.warnings.append(message)
        self.line(f"warning: {message}", "bold yellow")

    def line(self, text: str, style: str | None = None) -> None:
        """One line on stderr, with nothing in it that could steer a terminal."""
        safe = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
        # a log keeps a message on one line; a terminal's own wrapping would confuse the display
        whole = not self.console.is_terminal
        self.console.print(safe, style=style, markup=False, highlight=False, soft_wrap=whole)

    def answer(self, text: str) -> None:
        """A line of result on stdout, where the report does not take its place."""
        if not self.json:
            print(text)


class _Stderr(Console):
    """Where a command says how it goes, which it does whether or not anybody listens."""

    def __init__(self) -> None:
        super().__init__(stderr=True)

    def on_broken_pipe(self) -> None:
        self.quiet = True


Command = Callable[[argparse.Namespace, Screen], Report]


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are `ConfigError`s."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False)
        self.add_argument(
            "--json", action="store_true", help="end with one JSON object on stdout, errors too"
        )

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        hint = self._nearest(message)
        raise ConfigError(f"{message}{hint}; see python -m {self.prog} --help")

    def _nearest(self, message: str) -> str:
        """Which flag may have been meant by one that there is not."""
        unknown = re.fullmatch(
            r"unrecognized arguments: (-\S{1,100}?)(=.*| .*)?", message, re.DOTALL
        )
        known = self._option_string_actions
        near = difflib.get_close_matches(unknown[1], known, n=1) if unknown else []
        return f"; did you mean {near[0]}?" if near else ""


def add_config_flags(parser: Parser, *, job: bool) -> None:
    """Add `--config` and the flags that override its keys."""
    parser.add_argument(
        "--config",
        required=True,
        metavar="FILE",
        help="YAML; looked up as given, in ./configs/ and among the shipped ones",
    )
    parser.add_argument("--device", help="auto, cpu, cuda, cuda:N, GPU-UUID, or all")
    add_backend_flag(parser)
    parser.add_argument(
        "--vram-limit", type=byte_size, metavar="SIZE", help="memory of the GPU at most, as 24GiB"
    )
    if job:
        parser.add_argument("--input", type=Path, metavar="JOB", help="the job, or a C1 output")


def add_job_flags(parser: Parser) -> None:
    """Add the flags of who proves: `--input`, any number of times, `--workers` and `--policy`."""
    parser.add_argument(
        "--input",
        dest="inputs",
        action="append",
        type=Path,
        metavar="JOB",
        help="the job, or a C1 output, or a folder of such; again for several at once",
    )
    parser.add_argument("--workers", type=int, metavar="N", help="threads a device that prove")
    names = get_args(get_type_hints(Config)["policy"])
    parser.add_argument("--policy", choices=names, help="what a worker holds a device for")


def u64(text: str) -> int:
    """The value of a flag that is an unsigned number of 64 bits."""
    # longer digits would be refused by the interpreter in its own words
    if not (text.isascii() and text.isdigit() and len(text) <= 20 and int(text) < 1 << 64):
        raise argparse.ArgumentTypeError(f"must be an integer in 0..{(1 << 64) - 1}, is {text:.80}")
    return int(text)


def miner_id(text: str) -> int:
    """The value of a flag that is a miner's number, or its address, as f01000."""
    address = re.fullmatch(r"[ft]0(\d+)", text)
    return u64(address[1] if address else text)


def key_named(text: str) -> Any:
    """What a config's `keys` may be: one of `KEY_NAMES`, or else a path."""
    return text if text in KEY_NAMES else Path(text)


def seconds(text: str) -> float:
    """The value of a flag that is a number of seconds above 0."""
    if not re.fullmatch(r"\d{1,6}(\.\d{1,9})?", text) or not float(text):
        raise argparse.ArgumentTypeError(f"must be seconds above 0, is {text:.80}")
    return float(text)


def byte_size(text: str) -> int:
    """The value of a flag that is a number of bytes."""
    try:
        return parse_size(text)
    except ValueError as e:
        raise argparse.ArgumentTypeError(str(e)) from e


def add_backend_flag(parser: Parser) -> None:
    """Add `--backend`."""
    names = get_args(get_type_hints(Config)["backend"])
    parser.add_argument("--backend", choices=names, help="which tensor operations")


def config_of(args: argparse.Namespace) -> Config:
    """The config that the flags name, with what they override."""
    config = load_config(args.config)
    names = ("device", "backend", "vram_limit", "input", "keys", "workers", "policy")
    flags = {key: getattr(args, key, None) for key in names}
    if flags["input"] is not None:
        config = dataclasses.replace(config, synthetic=None)
    return dataclasses.replace(config, **{k: v for k, v in flags.items() if v is not None})


def check_key_file(config: Config) -> None:
    """Raise `KeyFileError` where a config names a file as its key and there is none."""
    path = config.keys
    try:
        if isinstance(path, str) or path.is_file():
            return
    except PermissionError as e:
        raise KeyFileError(f"{path}: {e.strerror}") from e
    if path.is_dir():
        raise KeyFileError(f"{path}: is a folder; name the key's file in it")
    near = difflib.get_close_matches(path.name, KEY_NAMES, n=1)
    hint = f"did you mean {near[0]}?" if near else f"or say {', '.join(KEY_NAMES)}"
    raise KeyFileError(f"{path}: no such key file; {hint}")


def job_files(config: Config, given: Sequence[Path] | None) -> list[Path]:
    """The jobs to work on: files as they are, of a folder all that are in it, by name.

    None at all where it is that of the config's synthetic sector.

    Args:
        given: By flags, instead of the config's.

    Raises:
        ConfigError: There is none, or one twice.
        InputError: The only one is not there.
    """
    if not given and config.synthetic is not None:
        return []
    named = given or [job_file(config)]
    if len(named) == 1:
        # of several each fails alone
        _check_there(named[0])
    files = [path for one in named for path in (_files_in(one) if one.is_dir() else [one])]
    twice = {path for path in files if files.count(path) > 1}
    if twice:
        raise ConfigError(f"input: {min(twice)} is given twice")
    return files


def _files_in(folder: Path) -> list[Path]:
    found = [p for p in folder.iterdir() if p.is_file() and not p.name.startswith(".")]
    if not found:
        raise ConfigError(f"input: there is no job in {folder}")
    return sorted(found)


def job_file(config: Config) -> Path:
    """The job to work on.

    Raises:
        ConfigError: Neither the config nor a flag names one.
        InputError: It is not there.
    """
    if config.input is None:
        raise ConfigError(
            "input: no job file; give --input JOB, or the key input in the config. "
            "torchzk.synthetic makes jobs for tests"
        )
    _check_there(config.input)
    return config.input


def _check_there(path: Path) -> None:
    """Say at once what the reader would say after torch is loaded."""
    try:
        there = path.exists()
    except PermissionError as e:
        raise InputError(f"{path}: {e.strerror}") from e
    if not there:
        raise InputError(f"{path}: there is no such job file")


def execute(parser: Parser, command: Command, argv: Sequence[str] | None = None) -> int:
    """Run a command from its arguments to its exit code; whatever it raises becomes one.

    Known errors are one line on stderr. Anything else is a fault of ours and shows its traceback.
    Where whoever reads stdout has left, as `head` does, nothing is said at all.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    screen = Screen(_Stderr(), "--json" in arguments)
    with signals_raise() as received:
        try:
            report = command(parser.parse_args(arguments), screen)
            if received:
                # raised where Python drops errors, such as in a finaliser
                raise Signal(received[0])
            _emit(screen, {"ok": True, **report, "warnings": screen.warnings})
        except SystemExit:
            # --help
            if _reader_left():
                return _end_unread()
            raise
        except BaseException as e:
            if isinstance(e, BrokenPipeError) and _reader_left():
                return _end_unread()
            # a library may have turned the interrupt into an error of its own
            return _fail(screen, Interrupted(received[0]) if received else _known(e))
    return int(report.get("exit_code", 0))


def fail(error: BaseException, argv: Sequence[str] | None = None) -> int:
    """End a command that has no parser yet, as `execute` does one that raises; its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    return _fail(Screen(_Stderr(), "--json" in arguments), _known(error))


def _reader_left() -> bool:
    """Whether stdout is a pipe that has no other end."""
    poll = select.poll()
    try:
        poll.register(sys.stdout, 0)
    except (AttributeError, TypeError, ValueError, OSError):
        # no stdout, or none of the system's
        return False
    return bool(poll.poll(0))


def _end_unread() -> int:
    """End as a process does that SIGPIPE ends; what waits in the buffer goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + signal.SIGPIPE


def _known(e: BaseException) -> BaseException:
    """An error as the class that its exit code belongs to; unknown ones stay what they are."""
    if isinstance(e, KeyboardInterrupt):
        return Interrupted(signal.SIGINT)
    if isinstance(e, BrokenPipeError):
        return Interrupted(signal.SIGPIPE)
    if isinstance(e, ModuleNotFoundError) and (e.name or "").partition(".")[0] in _SERVING:
        return ConfigError(f"{e.name} is not installed; pip install 'torchzk[serve]'")
    if isinstance(e, OSError) and e.errno in _NOT_TO_BE_HAD and e.filename is not None:
        return ConfigError(f"{e.filename}: {e.strerror}")
    if isinstance(e, OSError) and e.errno in _FULL:
        return ResourceError(f"the disk is full: {e.filename or 'stdout'}")
    if not isinstance(e, TorchzkError) and ran_out_of_memory(e):
        return ResourceError(f"not enough memory: {memory_reason(e)}")
    return e


def error_report(e: BaseException) -> Report:
    """An error for JSON: its class, its message and its exit code, 1 where it is none of ours."""
    code = e.exit_code if isinstance(e, TorchzkError) else 1
    return {"error": type(e).__name__, "message": str(e), "exit_code": code}


def _fail(screen: Screen, e: BaseException) -> int:
    """Report an error on both streams and return its exit code."""
    said = error_report(e)
    code: int = said["exit_code"]
    if code == 1:
        screen.console.file.write("".join(traceback.format_exception(e)))
    screen.line(f"torchzk: {said['error']}: {e}", "bold red")
    try:
        _emit(screen, {"ok": False, **said, "warnings": screen.warnings})
    except OSError:
        # nobody reads, or nothing can be written: let the interpreter's own flush find no fault
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _emit(screen: Screen, report: Report) -> None:
    """The JSON line, if it is wanted, and out with everything that waits in the buffer."""
    if screen.json:
        print(json.dumps(report))
    if sys.stdout is not None:
        sys.stdout.flush()
