"""Every error torchzk raises on purpose, each with the exit code a command ends with.

A class exists where a caller does something different about it. Exit codes are those of the
command table in README.md; a bug is any other exception.
"""

from __future__ import annotations


def one_line(said: object, most: int = 200) -> str:
    """Words from outside as a part of a message: printable, on one line, of `most` characters.

    A file must not move a terminal's cursor or begin a line of a log.
    """
    text = str(said)
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[:most])
    return shown if len(text) <= most else f"{shown}... ({len(text)} characters)"


class TorchzkError(Exception):
    """Base of all torchzk errors. `exit_code` is what a command returns."""

    exit_code = 1


class LayoutError(TorchzkError, ValueError):
    """A tensor breaks a contract of shape, dtype or device: a fault of the calling code."""


class UnsatisfiedError(TorchzkError):
    """The assignment does not satisfy the constraint system although its input was accepted.

    Args:
        circuit: Circuit name, e.g. `window-2KiB`.
        row: Index of the first failing constraint.
    """

    def __init__(self, circuit: str, row: int) -> None:
        super().__init__(f"{circuit}: constraint {row} is not satisfied")
        self.circuit = circuit
        self.row = row


class CacheError(TorchzkError):
    """A file that torchzk keeps for itself is damaged; it can be made again."""


class ConfigError(TorchzkError):
    """A config file or command line is missing, malformed, or asks for the impossible."""

    exit_code = 2


class InputError(TorchzkError):
    """A job, a vanilla proof or a randomness file is not what it should be."""

    exit_code = 3


class NotFoundError(InputError):
    """There is no job or no circuit of that name."""


class KeyFileError(TorchzkError):
    """A proving or verifying key is damaged, unsafe, or of another circuit."""

    exit_code = 4


class ProofError(TorchzkError):
    """Proof bytes that do not verify, or that are no proof at all."""

    exit_code = 5


class ResourceError(TorchzkError):
    """There is not enough memory, or no such device, or it is faulty."""

    exit_code = 6


class Interrupted(TorchzkError):  # noqa: N818 - no fault of anybody's
    """A signal asked the command to stop. `exit_code` is 128 plus the signal's number."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by signal {signal_number}")
        self.exit_code = 128 + signal_number


class ProtocolError(TorchzkError):
    """A rule of the scheduler was broken, e.g. both locks at once: a fault of the calling code."""


class CancelledError(TorchzkError):
    """A job ended because somebody cancelled it."""


class NoProofError(TorchzkError):
    """A job at a service has no proof: it was cancelled, came too late, or has not ended."""

    exit_code = 7


class ExpiredError(TorchzkError):
    """A job ended because its deadline passed."""


class QueueFullError(ResourceError):
    """No more jobs are taken until some of those waiting are through."""


class DrainingError(ResourceError):
    """A service takes no more jobs: it is about to stop, or has nothing left to prove with."""


class StoreError(ResourceError):
    """The jobs on disk cannot be read or written: damaged, locked by another, or not ours."""


class LockTimeoutError(ResourceError):
    """A lock of a device could not be had in time; the message names who holds it."""


class DeviceLostError(ResourceError):
    """A device failed and is set aside; its work is done elsewhere, if there is another."""
