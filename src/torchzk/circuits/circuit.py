"""What a circuit is to everybody else, whatever it proves: one path leads through all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import torch

from torchzk.backends import Backend
from torchzk.circuits.block_cache import Recall, recorded
from torchzk.circuits.sectors import SectorShape
from torchzk.groth16.r1cs import Assignment, R1cs

Source = Path | bytes | Mapping[str, object]
"""A job: its file, the bytes of it, or the parsed object."""


class Job(Protocol):
    """What a circuit is to prove, typed; the rest is between the job and its circuit."""

    @property
    def kind(self) -> str: ...
    @property
    def sector_size(self) -> int: ...
    @property
    def n_partitions(self) -> int:
        """Proofs of 192 bytes that it takes."""
        ...


@dataclass(frozen=True)
class WitnessBytes:
    """What the values of a partition's variables take to compute, beside themselves."""

    given: int
    """What `Circuit.witness` returns."""
    scratch: int
    """What `Circuit.assignment` has beside that and its result at its peak, its tables included."""


_Job = TypeVar("_Job", bound=Job)
_Witness = TypeVar("_Witness")


class Circuit(ABC, Generic[_Job, _Witness]):
    """One circuit: what it proves, of which sectors, and how a job becomes an assignment."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """One of `JOB_KINDS`."""

    @property
    @abstractmethod
    def sector(self) -> SectorShape:
        """The sectors it is for."""

    @property
    @abstractmethod
    def n_inputs(self) -> int:
        """Public inputs, ONE included."""

    @property
    @abstractmethod
    def cache_identifier(self) -> str:
        """File name stem of the official parameters, without the version. spec/groth16.md 10."""

    @property
    def sector_size(self) -> int:
        """Bytes."""
        return self.sector.sector_size

    @property
    def name(self) -> str:
        """E.g. `window-2KiB`."""
        return f"{self.kind}-{self.sector.name}"

    @abstractmethod
    def r1cs(self, recall: Recall = recorded) -> R1cs:
        """The constraint system of a partition.

        Args:
            recall: Where its blocks come from; by default they are recorded, every time anew.
        """

    @abstractmethod
    def read_job(
        self, source: Source, *, miner_id: int | None = None, sector_number: int | None = None
    ) -> _Job:
        """Read what the circuit is to prove.

        Args:
            source: The job, or for a PoRep a C1 output in any of its forms.
            miner_id: Whose sectors they are, if known from elsewhere.
            sector_number: Which sector, if known from elsewhere.

        Raises:
            InputError: It cannot be read, breaks a rule of its format, or is of another miner or
                sector.
        """

    @abstractmethod
    def check_job(self, backend: Backend, device: torch.device, job: _Job) -> None:
        """Verify the vanilla proofs of a job.

        Raises:
            InputError: The first thing that does not hold; says where.
        """

    @abstractmethod
    def witness(
        self, backend: Backend, device: torch.device, job: _Job, partition: int
    ) -> _Witness:
        """What the assignment of a partition is computed from, on `device`."""

    @abstractmethod
    def assignment(self, backend: Backend, witness: _Witness) -> Assignment:
        """The value of every variable, on the device of the witness.

        The same launches for any values, so that a graph can be made of them: once it has run, it
        takes no numbers from the host, and none are read back.
        """

    @abstractmethod
    def witness_bytes(self, *, on_cpu: bool) -> WitnessBytes:
        """What `witness` and `assignment` take on a CPU or on a GPU, a function of the shape.

        What a backend's operations take beside their results is not counted.
        """

    @abstractmethod
    def most_numbers(self) -> tuple[int, int]:
        """Aux variables that may be other than 0 and 1: of the prologue, and of one copy.

        All others are bits, whatever is proven.
        """

    @abstractmethod
    def public_inputs(self, job: _Job, partition: int) -> list[int]:
        """The public inputs of a partition, without ONE, canonical."""

    def notes(self, job: _Job) -> list[str]:
        """What whoever proves the job should know of it; nothing as a rule."""
        return []


AnyCircuit = Circuit[Any, Any]
"""A circuit whose kind is not known where it is used."""


def document_of(source: Source, name: str = "job") -> str:
    """What errors call a job: its file, or what it is."""
    return str(source) if isinstance(source, Path) else name
