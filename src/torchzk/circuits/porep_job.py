"""Jobs of a PoRep: a C1 output, and whose sector it is where that is known.

Source: spec/interface.md "Job files", spec/porep.md sections 8 and 10.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torchzk.circuits.c1 import C1
from torchzk.circuits.c1_file import read_c1
from torchzk.circuits.circuit import Source, document_of
from torchzk.circuits.job_head import agreed
from torchzk.circuits.porep_shapes import StackedShape
from torchzk.circuits.registered import RegisteredSeal


@dataclass(frozen=True, eq=False)
class PorepJob:
    """Everything that the PoRep of a sector is made from."""

    c1: C1
    miner_id: int | None
    sector_number: int | None
    """With both numbers replica_id can be checked, without them it is taken as it is."""

    @property
    def shape(self) -> StackedShape:
        return self.c1.shape

    @property
    def kind(self) -> Literal["porep"]:
        return "porep"

    @property
    def sector_size(self) -> int:
        """Bytes."""
        return self.shape.sector.sector_size

    @property
    def registered(self) -> RegisteredSeal:
        return self.c1.registered

    @property
    def n_partitions(self) -> int:
        """A non-interactive PoRep has many; they are proven one by one, and not aggregated."""
        return self.c1.n_partitions


def load_porep_job(
    source: Source,
    shape: StackedShape,
    *,
    miner_id: int | None = None,
    sector_number: int | None = None,
) -> PorepJob:
    """Read the C1 output that a circuit is to prove.

    Args:
        source: A file, its bytes, or parsed JSON, in any form of `read_c1`.
        shape: The circuit.
        miner_id: Whose sector it is, if known from elsewhere.
        sector_number: Which of the miner's, if known from elsewhere.

    Raises:
        InputError: As `read_c1`, or the file says another number.
    """
    c1 = read_c1(source, shape)
    document = document_of(source, "C1")
    return PorepJob(
        c1,
        agreed(document, "miner id", c1.miner_id, miner_id),
        agreed(document, "sector number", c1.sector_number, sector_number),
    )
