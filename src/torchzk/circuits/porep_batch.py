"""Some partitions of a C1 output as one batch of challenges, for checks that name a place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import numpy as np

from torchzk.circuits.c1 import C1
from torchzk.circuits.layouts import Integers, Octets
from torchzk.circuits.porep_nodes import opened_nodes
from torchzk.circuits.porep_parts import PorepParts, porep_parts
from torchzk.errors import InputError


@dataclass(frozen=True, eq=False)
class PorepBatch:
    """`N` challenges of consecutive partitions, in order."""

    c1: C1
    partitions: range

    @cached_property
    def elements(self) -> Octets:
        """uint8 `[N, n, 32]`"""
        own = self.c1.elements[self.partitions.start : self.partitions.stop]
        return own.reshape(-1, *own.shape[2:])

    @cached_property
    def integers(self) -> Integers:
        """int64 `[N, m]`"""
        own = self.c1.integers[self.partitions.start : self.partitions.stop]
        return own.reshape(-1, own.shape[2])

    @cached_property
    def nodes(self) -> Integers:
        """int64 `[N, 15]`: challenged nodes and their parents as they must be."""
        return np.concatenate([opened_nodes(self.c1, k) for k in self.partitions])

    @property
    def parts(self) -> PorepParts:
        return porep_parts(self.c1.shape)

    @property
    def n_challenges(self) -> int:
        """Challenges a partition."""
        return self.c1.shape.n_challenges

    def fail(self, challenge: int, problem: str) -> NoReturn:
        """Raise `InputError` for challenge number `challenge` of the batch."""
        partition, own = divmod(challenge, self.n_challenges)
        raise InputError(
            f"partition {self.partitions[partition]}: challenge {own}"
            f" (node {self.nodes[challenge, 0]}): {problem}"
        )

    def partition_of(self, challenge: int) -> slice:
        """The challenges of the partition that a challenge of the batch is in."""
        first = challenge - challenge % self.n_challenges
        return slice(first, first + self.n_challenges)
