"""Inputs, made on the device from seeds: scalars, elements, and points with known logarithms."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from torchzk.backends import Backend, BackendName
from torchzk.bench import exact
from torchzk.bench.cases import Inputs
from torchzk.ops.layout import pack, rows_to_points, unpack
from torchzk.params import integers
from torchzk.params.curves import Curve, Point
from torchzk.params.fields import FR, PrimeField

BLOCK = 1 << 20
"""Points made from their scalars; all others are sums with one of a few."""
PERIOD = 13
"""After as many elements inputs come again whose results Python's integers give."""
_MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class KnownPoints:
    """Point j of block h is (low[j] + high[h]) times the generator."""

    curve: Curve
    rows: torch.Tensor
    """Affine rows `[n, *curve.row_shape]`."""
    low: torch.Tensor
    """int32 limbs `[8, block]`."""
    high: torch.Tensor
    """int32 limbs `[8, blocks]`."""

    def sum(self, scalars: torch.Tensor) -> Point:
        """The MSM with `scalars` `[8, n]`, as one multiple of the generator."""
        return times_generator(self.curve, self.logarithm(scalars))

    def logarithm(self, scalars: torch.Tensor) -> int:
        """sum_i scalars[i] log[i]."""
        n, block = scalars.shape[1], self.low.shape[1]
        blocks = self.high.shape[1]
        by_low = torch.empty(8, block, dtype=torch.int64, device=scalars.device)
        by_high = torch.empty(8, blocks, dtype=torch.int64, device=scalars.device)
        for k, limb in enumerate(scalars):
            padded = torch.nn.functional.pad(limb, (0, blocks * block - n))
            grid = padded.view(blocks, block).long() & _MASK
            by_low[k], by_high[k] = grid.sum(0), grid.sum(1)
        return exact.dot(self.low, by_low) + exact.dot(self.high, by_high)

    def are_right(self) -> bool:
        """Whether the first and the last point of the first and the last block are what is said."""
        n, block, last = len(self.rows), self.low.shape[1], self.high.shape[1] - 1
        low, high = unpack(self.low[:, [0, block - 1, 0, (n - 1) % block]]), unpack(self.high)
        logs = [x + high[h] for x, h in zip(low, (0, 0, last, last), strict=True)]
        rows = self.rows[[0, block - 1, last * block, n - 1]]
        return rows_to_points(rows, self.curve) == [times_generator(self.curve, k) for k in logs]


def times_generator(curve: Curve, k: int) -> Point:
    """k G, on integers."""
    return integers.mul(curve, k % FR.modulus, curve.generator)


class Workshop:
    """Makes inputs for one backend on one device; keeps the last points, which cost the most."""

    def __init__(self, backend: Backend, name: BackendName, device: torch.device) -> None:
        self.backend, self.name, self.device = backend, name, device
        self._points: KnownPoints | None = None

    def forget(self) -> None:
        """Let the points go."""
        self._points = None

    def below(self, field: PrimeField, n: int, seed: int) -> torch.Tensor:
        """Random limbs `[L, n]`, uniform up to the top limb of the modulus."""
        generator = torch.Generator(self.device).manual_seed(seed)
        x = torch.empty(field.n_limbs, n, dtype=torch.int32, device=self.device)
        top = field.modulus >> 32 * (field.n_limbs - 1)
        for k in range(field.n_limbs):
            low, high = (-(1 << 31), 1 << 31) if k < field.n_limbs - 1 else (0, top)
            x[k] = torch.randint(
                low, high, (n,), generator=generator, device=self.device, dtype=torch.int64
            )
        return x

    def scalars(self, n: int, kind: Inputs, seed: int = 1) -> torch.Tensor:
        """Canonical scalars `[8, n]`."""
        x = self.below(FR, n, seed)
        if kind == "equal":
            return x[:, :1].expand(8, n).contiguous()
        if kind == "ones90":
            generator = torch.Generator(self.device).manual_seed(seed + 1)
            few = torch.rand(n, generator=generator, device=self.device) < 0.1
            return torch.where(few, x, pack([1], FR, self.device))
        if kind == "sorted":
            return x[:, x[7].argsort()].contiguous()
        if kind == "bits16":
            x[0] &= 0xFFFF
            x[1:] = 0
        return x

    def bits(self, n: int, seed: int) -> torch.Tensor:
        """bool `[n]`, one in two set."""
        generator = torch.Generator(self.device).manual_seed(seed)
        return torch.rand(n, generator=generator, device=self.device) < 0.5

    def points(self, curve: Curve, n: int) -> KnownPoints:
        """n different points, of which every logarithm is known."""
        if self._points is not None:
            if self._points.curve == curve and len(self._points.rows) == n:
                return self._points
            self._points = None
        block = min(n, BLOCK)
        blocks = -(-n // block)
        low, high = self.below(FR, block, 2), self.below(FR, blocks, 3)
        first = self.backend.fixed_base(low, curve.generator, curve)
        shifts = self.backend.fixed_base(high, curve.generator, curve)
        rows = torch.empty(n, *curve.row_shape, dtype=torch.int32, device=self.device)
        for h in range(blocks):
            part = rows[h * block : (h + 1) * block]
            shift = shifts[h].expand(len(part), *curve.row_shape)
            part.copy_(self.backend.add_affine(first[: len(part)], shift, curve))
        self._points = KnownPoints(curve, rows, low, high)
        return self._points

    def periodic(self, few: torch.Tensor, n: int) -> torch.Tensor:
        """The last axis of `few` again and again, until it is n long."""
        index = torch.arange(n, device=self.device) % few.shape[-1]
        return few.to(self.device)[..., index]
