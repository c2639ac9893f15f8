"""Every point of a proving key on its curve and in its subgroup, by batches on the device.

A key file is the one input of a prover that nothing else checks: a flipped bit gives proofs that
fail, and a point outside the subgroup may give away bits of the witness.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import torch

from torchzk.backends import Backend
from torchzk.errors import KeyFileError, ResourceError
from torchzk.groth16.encoding import Origin, check_on_curve
from torchzk.groth16.keys import QUERIES, ProvingKey
from torchzk.groth16.streams import Part
from torchzk.ops.layout import rows_to_points
from torchzk.params.curves import G1, G2, Curve
from torchzk.params.host_points import in_subgroup
from torchzk.timeline import Timeline

SUBSETS = 48
"""Random subsets whose sums are tested; a bad point escapes them all with chance 2^-48."""

_SUBSETS_TO_FIND = 12
"""The same while a point that is known to be there is looked for."""

_SEARCHES = 8
"""One misses the point with chance 2^-7, so that so many in vain are the device's fault."""

_POINTS_AT_ONCE = {"cpu": 1 << 18, "cuda": 1 << 22}
"""Each time the host looks at `SUBSETS` points, which takes a GPU's work on a million."""


def check_points(
    backend: Backend,
    key: ProvingKey,
    device: torch.device | str,
    *,
    name: str = "proving key",
    timeline: Timeline | None = None,
) -> None:
    """Raise `KeyFileError` for the first bad point of any query, by query and index.

    That coordinates are canonical is checked by the key as it reads them. Here every point is
    tested for infinity and for the curve's equation, exactly. The subgroup is tested by the sums
    of random subsets (Bellare, Garay and Rabin, Fast batch verification, Eurocrypt 1998): the
    subgroup is closed, so a sound key never fails; with a bad point each sum is outside with
    probability 1/2 at least, whatever the order of that point's error, so it goes unnoticed with
    probability 2^-48 at most for a whole file. The bits are the system's, which an author of a
    key cannot foresee.

    Args:
        name: What to call the key in messages, its path say.
        timeline: Gets the fraction done.

    Raises:
        KeyFileError: A point is bad.
        ResourceError: The device does not add right.
    """
    total = sum(key.lengths.of(query) for query in QUERIES)
    done = 0
    for curve in (G1, G2):
        for batch in _batches(key, curve, _POINTS_AT_ONCE[torch.device(device).type]):
            rows = torch.cat([key.query(p.query, p.start, p.stop, device) for p in batch])
            bad = _first_off_curve(backend, rows, curve)
            if bad is not None:
                (point,) = rows_to_points(rows[bad : bad + 1], curve)
                origin = _origin(name, batch, bad)
                if point is None:
                    raise origin.fail("the point at infinity may not stand here")
                check_on_curve(curve, point, origin)
            if _some_outside(backend, rows, curve, SUBSETS):
                origin = _origin(name, batch, _first_outside(backend, rows, curve))
                raise origin.fail(f"on the curve of {curve.name}, but outside its subgroup")
            done += len(rows)
            if timeline is not None:
                timeline.advance(done / total)


def _batches(key: ProvingKey, curve: Curve, most: int) -> Iterator[list[Part]]:
    """The points of all queries in `curve`, at most `most` together."""
    batch: list[Part] = []
    room = most
    for query in (q for q, c in QUERIES.items() if c is curve):
        start, length = 0, key.lengths.of(query)
        while start < length:
            stop = min(length, start + room)
            batch.append(Part(query, start, stop))
            room -= stop - start
            start = stop
            if room == 0:
                yield batch
                batch, room = [], most
    if batch:
        yield batch


def _origin(name: str, batch: list[Part], index: int) -> Origin:
    """Name of the point at `index` of a batch."""
    for part in batch:
        if index < part.stop - part.start:
            return Origin(KeyFileError, f"{name}: {part.query}[{part.start + index}]")
        index -= part.stop - part.start
    raise IndexError(index)


def _first_off_curve(backend: Backend, rows: torch.Tensor, curve: Curve) -> int | None:
    """Index of the first point that is at infinity or does not satisfy the equation."""
    finite = (rows != 0).flatten(1).any(dim=1)
    bad = (~(backend.on_curve(rows, curve) & finite)).nonzero()
    return int(bad[0]) if len(bad) else None


def _some_outside(backend: Backend, rows: torch.Tensor, curve: Curve, subsets: int) -> bool:
    """Whether one of random subsets of the points, all on the curve, has its sum outside."""
    n = len(rows)
    drawn = torch.frombuffer(bytearray(secrets.token_bytes(8 * n)), dtype=torch.int64)
    drawn = drawn & ((1 << subsets) - 1)
    scalars = torch.zeros(curve.scalars.n_limbs, n, dtype=torch.int32)
    # the conversion keeps the low 32 bits, which is what a limb is
    scalars[0], scalars[1] = drawn.to(torch.int32), (drawn >> 32).to(torch.int32)
    sums = backend.bit_sums(scalars.to(rows.device), rows, curve, subsets)
    try:
        return not all(in_subgroup(curve, point) for point in sums)
    except ValueError:
        raise _wrong(rows.device, "a sum of points of the curve is off it") from None


def _first_outside(backend: Backend, rows: torch.Tensor, curve: Curve) -> int:
    """Index of a point outside the subgroup, by halving rows that are known to hold one."""
    for _ in range(_SEARCHES):
        low, high = 0, len(rows)
        while high - low > 1:
            middle = (low + high) // 2
            if _some_outside(backend, rows[low:middle], curve, _SUBSETS_TO_FIND):
                high = middle
            else:
                low = middle
        # few subsets are quick, and now and then all of them miss it
        if not in_subgroup(curve, rows_to_points(rows[low : low + 1], curve)[0]):
            return low
    raise _wrong(rows.device, "sums of points were outside the subgroup, and no point is")


def _wrong(device: torch.device, what: str) -> ResourceError:
    return ResourceError(
        f"{device} does not add right: {what}; try again, and see what torchzk.doctor says of it"
    )
