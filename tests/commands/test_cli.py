"""The shell of the commands: every error's exit code, both streams, signals."""

from __future__ import annotations

import argparse
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from child_environment import child_environment
from torchzk import cli, errors

FAILURES: list[tuple[BaseException, int, str]] = [
    (errors.ConfigError("m"), 2, "ConfigError"),
    (errors.InputError("m"), 3, "InputError"),
    (errors.KeyFileError("m"), 4, "KeyFileError"),
    (errors.ProofError("m"), 5, "ProofError"),
    (errors.ResourceError("m"), 6, "ResourceError"),
    (errors.Interrupted(signal.SIGTERM), 143, "Interrupted"),
    (KeyboardInterrupt(), 130, "Interrupted"),
    (errors.UnsatisfiedError("window-2KiB", 3), 1, "UnsatisfiedError"),
    (MemoryError(), 6, "ResourceError"),
    (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate"), 6, "ResourceError"),
    (RuntimeError("CUDA error: out of memory"), 6, "ResourceError"),
    (OSError(errno.ENOSPC, "No space left on device", "/x"), 6, "ResourceError"),
    (PermissionError(errno.EACCES, "Permission denied", "/x"), 2, "ConfigError"),
    (OSError(errno.ENAMETOOLONG, "File name too long", "x" * 300), 2, "ConfigError"),
    (ModuleNotFoundError("no", name="grpc_health.v1"), 2, "ConfigError"),
    (ModuleNotFoundError("no", name="torchzk.nothing"), 1, "ModuleNotFoundError"),
    (BrokenPipeError(), 141, "Interrupted"),
    (ZeroDivisionError("m"), 1, "ZeroDivisionError"),
]


def execute(command: cli.Command, *argv: str) -> int:
    return cli.execute(cli.Parser("torchzk.test", "A command."), command, argv)


def fail_with(error: BaseException) -> cli.Command:
    def command(args: argparse.Namespace, screen: cli.Screen) -> cli.Report:
        raise error

    return command


def speak(args: argparse.Namespace, screen: cli.Screen) -> cli.Report:
    screen.warn("careful")
    screen.answer("result")
    return {"value": 7}


@pytest.mark.parametrize(("error", "code", "name"), FAILURES, ids=lambda v: str(v)[:30])
def test_exit_codes(
    error: BaseException, code: int, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(fail_with(error), "--json") == code
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert report["ok"] is False
    assert (report["error"], report["exit_code"]) == (name, code)
    assert ("Traceback" in err) == (code == 1)
    assert f"torchzk: {name}: {report['message']}" in err


def test_success_ends_with_one_json_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(speak, "--json") == 0
    out, err = capsys.readouterr()
    assert out.count("\n") == 1
    assert json.loads(out) == {"ok": True, "value": 7, "warnings": ["careful"]}
    assert "warning: careful" in err


def test_success_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(speak) == 0
    assert capsys.readouterr().out == "result\n"


@pytest.mark.parametrize("argv", [["--jso"], ["--unknown"], ["stray"]])
def test_usage_errors(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(speak, *argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "usage: torchzk.test" in err and "ConfigError: unrecognized arguments" in err


def test_a_usage_error_is_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(speak, "--json", "--unknown") == 2
    assert json.loads(capsys.readouterr().out)["error"] == "ConfigError"


def test_help_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        execute(speak, "--help")
    assert stop.value.code == 0
    assert "--json" in capsys.readouterr().out


def test_messages_cannot_steer_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(fail_with(errors.InputError("[red]a\x1b[2Jb\nc[/red]"))) == 3
    assert r"InputError: [red]a\x1b[2Jb\nc[/red]" in capsys.readouterr().err


@pytest.mark.parametrize("fault", [True, False], ids=["made an error", "swallowed"])
def test_an_interrupt_stays_one_whatever_a_library_makes_of_it(fault: bool) -> None:
    def command(args: argparse.Namespace, screen: cli.Screen) -> cli.Report:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        except KeyboardInterrupt:
            if fault:
                raise ValueError("a library that swallows interrupts") from None
        return {}

    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    try:
        assert execute(command) == 143
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])


SCRIPT = """
import sys, time
from torchzk import cli
def command(args, screen):
    screen.line("ready")
    {body}
    return {{"value": "x" * 10}}
sys.exit(cli.execute(cli.Parser("torchzk.test", ""), command, sys.argv[1:]))
"""


def start(body: str, *argv: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(body=body), *argv],
        stderr=subprocess.PIPE,
        text=True,
        env=child_environment(),
        **options,
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals(number: signal.Signals, code: int) -> None:
    child = start("time.sleep(60)", "--json", stdout=subprocess.PIPE)
    assert child.stderr is not None
    assert child.stderr.readline() == "ready\n"
    child.send_signal(number)
    out, err = child.communicate(timeout=120)
    assert child.returncode == code
    assert json.loads(out)["message"] == f"stopped by signal {int(number)}"
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("body", "argv"),
    [
        ("pass", ("--json",)),
        ("screen.answer('x' * 100_000)", ()),
        ("screen.answer('x' * 100_000)", ("--json",)),
        ("pass", ("--help",)),
    ],
)
def test_a_reader_that_left_is_told_nothing(body: str, argv: tuple[str, ...]) -> None:
    read, write = os.pipe()
    child = start(body, *argv, stdout=write)
    os.close(write)
    os.close(read)
    _, err = child.communicate(timeout=120)
    assert child.returncode == 141
    assert err.removeprefix("ready\n") == ""


def test_a_pipe_that_breaks_elsewhere_is_not_taken_for_stdout() -> None:
    child = start("raise BrokenPipeError", stdout=subprocess.PIPE)
    _, err = child.communicate(timeout=120)
    assert child.returncode == 141 and "Interrupted: stopped by signal 13" in err


def test_nobody_has_to_listen_to_how_it_goes() -> None:
    read, write = os.pipe()
    os.close(read)
    child = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(body="screen.warn('careful')"), "--json"],
        stdout=subprocess.PIPE,
        stderr=write,
        text=True,
        env=child_environment(),
    )
    os.close(write)
    out, _ = child.communicate(timeout=120)
    assert child.returncode == 0
    assert json.loads(out)["warnings"] == ["careful"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_stdout() -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        child = start("pass", "--json", stdout=full)
        _, err = child.communicate(timeout=120)
    assert child.returncode == 6
    assert "ResourceError: the disk is full" in err and "Traceback" not in err


@pytest.mark.parametrize("keys", ["dev", "dev-in-memory", "official", "some.params"])
def test_keys_that_have_a_name_are_no_files(keys: str) -> None:
    named = cli.key_named(keys)
    assert cli.config_of(argparse.Namespace(config="window2k.yaml", keys=named)).keys == named
    assert named == (Path(keys) if keys == "some.params" else keys)


@pytest.mark.parametrize("text", ["1000", "f01000", "t01000"])
def test_a_miner_by_number_or_address(text: str) -> None:
    assert cli.miner_id(text) == 1000


@pytest.mark.parametrize("text", ["f0", "f1abc", "f01000x", "F01000", "f0-1", "f0" + "9" * 20])
def test_what_is_no_miner(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="must be an integer in 0"):
        cli.miner_id(text)
