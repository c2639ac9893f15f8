"""Which variable each point of a query belongs to, on a device, as small as the blocks are.

Source: spec/groth16.md section 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from torchzk.device_cache import kept_by_device
from torchzk.groth16.density import Touched, density
from torchzk.groth16.r1cs import Array, R1cs
from torchzk.groth16.streams import Mark


@dataclass(frozen=True, eq=False)
class AuxIndex:
    """Indices of some aux: of the prologue, then of each copy, where they are as far on."""

    head: torch.Tensor
    """int32 `[h]`: of the prologue."""
    own: torch.Tensor
    """int32 `[o]`: of the first copy."""
    stride: int
    """Aux of one copy."""

    def piece(self, start: int, stop: int) -> torch.Tensor:
        """Indices `start` to `stop`, int32; to make them takes at most two copies' more."""
        h, o = self.head.shape[0], self.own.shape[0]
        begin, end = max(start - h, 0), max(stop - h, 0)
        # the copies in which it begins and before which it ends
        first, last = (begin // o, -(-end // o)) if end > begin else (0, 0)
        if last - first <= 2:
            copies = [
                self.own[max(begin - k * o, 0) : end - k * o] + k * self.stride
                for k in range(first, last)
            ]
        else:
            ks = torch.arange(first, last, dtype=torch.int32, device=self.own.device)
            whole = (self.own + (ks * self.stride).unsqueeze(1)).flatten()
            copies = [whole[begin - first * o : end - first * o]]
        parts = [x for x in (self.head[start:stop], *copies) if len(x)]
        return parts[0] if len(parts) == 1 else torch.cat([self.head[:0], *parts])


@dataclass(frozen=True, eq=False)
class QueryVariables:
    """The variables of a query in the key's order."""

    inputs: torch.Tensor
    """int64 `[i]`: indices of its inputs, which come first."""
    n_aux: int
    index: AuxIndex | None
    """Of its aux; None if these are all there are."""

    @property
    def n_inputs(self) -> int:
        return self.inputs.shape[0]

    def __len__(self) -> int:
        return self.n_inputs + self.n_aux


@kept_by_device(8)
def query_variables(r1cs: R1cs, device: torch.device) -> Mapping[str, QueryVariables]:
    """The variables of the queries l, a, b_g1 and b_g2, kept for a circuit on a device."""
    dense = density(r1cs)
    b = _variables(r1cs, dense.b_inputs.written_out(), dense.b_aux, device)
    # A is dense over inputs, L over aux; see `Density`
    inputs = np.ones(r1cs.n_inputs, dtype=np.bool_)
    found = {
        "l": QueryVariables(_indices(~inputs, device).long(), r1cs.n_aux, None),
        "a": _variables(r1cs, inputs, dense.a_aux, device),
        "b_g1": b,
        "b_g2": b,
    }
    # any stream may use them from now on
    Mark.here(device).wait()
    return found


def _variables(r1cs: R1cs, inputs: Array, aux: Touched, device: torch.device) -> QueryVariables:
    index = None
    if aux.count < r1cs.n_aux:
        own = _indices(aux.own, device) + r1cs.prologue.n_aux
        index = AuxIndex(_indices(aux.head, device), own, r1cs.block.n_aux)
    return QueryVariables(_indices(inputs, device).long(), aux.count, index)


def _indices(bits: Array, device: torch.device) -> torch.Tensor:
    """int32, of those that are set."""
    return torch.from_numpy(np.flatnonzero(bits).astype(np.int32)).to(device)
