"""Services and cuzk's clients as processes, for tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import grpc
from google import protobuf
from grpc_tools import protoc

from child_environment import child_environment

HERE = Path(__file__).parent
FAKE = (str(HERE / "fake_service.py"),)
"""A service that proves nothing; its config comes after this."""
REAL = ("-m", "torchzk.serve", "--config")
"""The service."""
CIRCUITS = "circuits: [{kind: winning, sector_size: 2KiB, keys: dev}]\n"


def write_config(folder: Path, text: str = "listen: 127.0.0.1:0\n") -> Path:
    """A config of a service; `text` says what differs."""
    path = folder / "serve.yaml"
    path.write_text(CIRCUITS + f"data: {folder / 'data'}\n" + textwrap.dedent(text))
    return path


@contextmanager
def service(
    config: Path, command: Sequence[str] = FAKE, log: Path | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that serves, and where; it is killed at the end if it is still there.

    Args:
        log: The file of its events. By default they are in a pipe, whose 64 KiB hold some hundred:
            with more of them it waits for whoever reads.
    """
    with (
        log.open("wb") if log else nullcontext(subprocess.PIPE) as stderr,
        subprocess.Popen(
            [sys.executable, *command, str(config)],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=child_environment(),
        ) as process,
    ):
        assert process.stdout is not None
        try:
            where = process.stdout.readline().strip()
            if not where:
                _, said = process.communicate(timeout=120)
                raise AssertionError(f"the service does not start: {said}")
            yield process, where
        finally:
            process.kill()


def make_stubs(folder: Path) -> Path:
    """What cuzk's clients are built from, compiled into `folder`."""
    arguments = [f"-I{HERE}", f"--python_out={folder}", f"--grpc_python_out={folder}"]
    assert protoc.main(["protoc", *arguments, str(HERE / "cuzk.proto")]) == 0
    return folder


def cuzk_client(stubs: Path, where: str, scenario: str) -> dict[str, Any]:
    """What `cuzk_client.py` says of one scenario, in a process that knows nothing of torchzk."""
    # grpc may be where only PYTHONPATH says; what else is said there is not the client's
    packages = {str(Path(grpc.__file__).parents[1]), str(Path(protobuf.__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-P", str(HERE / "cuzk_client.py"), str(stubs), where, scenario],
        capture_output=True,
        text=True,
        timeout=1500,
        env=child_environment(PYTHONPATH=os.pathsep.join(sorted(packages))),
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said
