"""Parameter files in bellperson's layout: a verifying key, then five counted lists of points.

Nothing in the file is trusted before it is compared with the file's size, and the points stay on
disk: a query reads the bytes it needs, has the device turn them into rows and lets them go, so a
file of 47 GB costs no more memory than the pieces asked for.
Source: spec/groth16.md section 9.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

import torch

from torchzk.backends import Backend
from torchzk.errors import KeyFileError, LayoutError
from torchzk.files import atomic_write
from torchzk.groth16.encoding import Origin, decode_uncompressed, uncompressed_size
from torchzk.groth16.keys import (
    QUERIES,
    QueryLengths,
    VerifyingKey,
    check_range,
    shapes_of,
)
from torchzk.groth16.row_bytes import bytes_of_rows, rows_of_bytes
from torchzk.groth16.staging import BUFFER_BYTES, Staging
from torchzk.groth16.streams import Part, Parts, Piece, steps
from torchzk.groth16.uploads import Uploads, ahead
from torchzk.groth16.vk_file import (
    COUNT_BYTES,
    HEAD_BYTES,
    FileState,
    open_key,
    read_n_inputs,
    state_of,
    vk_from_bytes,
    vk_size,
    vk_to_bytes,
)

_POINTS_AT_ONCE = 1 << 20
"""Points that are turned to bytes at a time."""


@dataclass(frozen=True)
class ParamsFile:
    """An open parameter file: a `ProvingKey` whose points are read when they are asked for."""

    path: Path
    vk: VerifyingKey
    lengths: QueryLengths
    _starts: Mapping[str, int]
    """Byte at which the points of each query start."""
    _backend: Backend
    _file: BinaryIO
    state: FileState
    """Of the file as it was opened."""

    @classmethod
    def open(cls, path: Path, backend: Backend) -> ParamsFile:
        """Check the file's table of sizes and its verifying key, in about a second at most.

        Raises:
            KeyFileError: Missing, truncated, too long, or a bad point in the verifying key.
        """
        file = open_key(path)
        try:
            n_inputs, counts, starts = _read_table(file, path)
            file.seek(0)
            vk = vk_from_bytes(file.read(vk_size(n_inputs)), str(path))
            return cls(path, vk, QueryLengths(**counts), starts, backend, file, state_of(file))
        except BaseException:
            file.close()
            raise

    def query(self, name: str, start: int, stop: int, device: torch.device | str) -> torch.Tensor:
        """As `ProvingKey.query`, for every point canonical and not at infinity.

        That the points are on the curve and in the subgroup is `key_checks.check_points`.

        Raises:
            KeyFileError: A bad point, or the file changed since it was opened.
        """
        check_range(self.lengths, name, start, stop)
        curve, device = QUERIES[name], torch.device(device)
        rows = torch.empty(stop - start, *curve.row_shape, dtype=torch.int32, device=device)
        with _staging((stop - start) * uncompressed_size(curve), device) as staging:
            self._fill(name, staging, rows, start, stop)
        return rows

    def pieces(self, name: str, step: int, device: torch.device | str) -> Iterator[Piece]:
        """As `ProvingKey.pieces`; errors as `query`."""
        n, curve, device = self.lengths.of(name), QUERIES[name], torch.device(device)
        with _staging(min(step, n) * uncompressed_size(curve), device) as staging:
            fill = partial(self._fill, name, staging)
            yield from ahead(n, step, curve.row_shape, device, fill)

    @contextmanager
    def parts(
        self, order: Sequence[Part], device: torch.device | str, slots: int
    ) -> Iterator[Parts]:
        """As `ProvingKey.parts`; errors as `query`."""
        device, shapes = torch.device(device), shapes_of(self.lengths, order)
        n_bytes = max((_bytes_of(part) for part in order), default=0)

        def fill(number: int, rows: torch.Tensor) -> None:
            part = order[number]
            self._fill(part.query, staging, rows, part.start, part.stop)

        with (
            _staging(n_bytes, device) as staging,
            Uploads(shapes, device, fill, slots) as uploads,
        ):
            yield uploads

    def close(self) -> None:
        """Give the file back; queries fail afterwards."""
        self._file.close()

    def __enter__(self) -> ParamsFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fill(self, name: str, staging: Staging, rows: torch.Tensor, start: int, stop: int) -> None:
        """Write points `start` to `stop` of a query into `rows`; waits until they are checked."""
        curve, size = QUERIES[name], uncompressed_size(QUERIES[name])
        found: list[torch.Tensor] = []
        for first, last in steps(stop - start, BUFFER_BYTES // size):
            n = last - first
            offset = self._starts[name] + (start + first) * size
            if state_of(self._file) != self.state:
                raise self.changed()
            raw = staging.read(self._file.fileno(), offset, n * size)
            if raw is None:
                raise self.changed()
            rows[first:last], bad = rows_of_bytes(raw, curve, self._backend)
            # n stands for none of them
            found.append(torch.where(bad < n, first + bad, len(rows)))
        # one wait for all of them
        index = min(torch.stack(found).tolist()) if found else len(rows)
        if index < len(rows):
            raise self._bad_point(name, start + index)

    def changed(self) -> KeyFileError:
        """The error for a file that is not what it was when it was opened."""
        return KeyFileError(f"{self.path}: the file changed while it was in use")

    def _bad_point(self, name: str, index: int) -> KeyFileError:
        size = uncompressed_size(QUERIES[name])
        offset = self._starts[name] + index * size
        origin = Origin(KeyFileError, f"{self.path}: {name}[{index}] at byte {offset}")
        try:
            # at that place, whatever other threads read
            raw = os.pread(self._file.fileno(), size, offset)
            decode_uncompressed(QUERIES[name], raw, origin)
        except KeyFileError as e:
            return e
        return self.changed()


def check_pair(named: Path) -> None:
    """Raise `KeyFileError` where a key's `.params` and `.vk` file, both there, are of two keys.

    A proof under the one would not verify under the other. Who breaks off a setup over an older
    key may leave such a pair.

    Args:
        named: One of the two.
    """
    params, vk = named.with_suffix(".params"), named.with_suffix(".vk")
    if not (params.is_file() and vk.is_file()):
        return
    with open_key(params) as file:
        n_bytes = vk_size(read_n_inputs(file.read(HEAD_BYTES), str(params)))
        file.seek(0)
        inside = file.read(n_bytes)
    with open_key(vk) as file:
        beside = file.read(n_bytes + 1)
    if inside != beside:
        raise KeyFileError(
            f"{named}: {params.name} and {vk.name} are not of one key, as after a setup that was "
            f"broken off; make both again, or move the one away that is not wanted"
        )


def write_params(
    path: Path,
    vk: VerifyingKey,
    lengths: QueryLengths,
    pieces: Iterable[tuple[str, torch.Tensor]],
    backend: Backend,
) -> None:
    """Write a parameter file, whole or not at all.

    Args:
        lengths: Points in each query, known before the first of them is written.
        pieces: (query, rows) in the order of the file, each query in any number of pieces; rows
            are affine, in Montgomery form, on any device.

    Raises:
        LayoutError: The pieces are out of order or do not add up to `lengths`.
        KeyFileError: A point at infinity, which no reader takes.
    """
    names = list(QUERIES)
    written = dict.fromkeys(names, 0)
    current = -1
    with atomic_write(path) as file:
        file.write(vk_to_bytes(vk))
        for name, rows in pieces:
            if names.index(name) < current:
                raise LayoutError(f"a piece of query {name} after query {names[current]}")
            while current < names.index(name):
                current += 1
                file.write(lengths.of(names[current]).to_bytes(COUNT_BYTES, "big"))
            # what is made of rows on the way to the file takes several times what they do
            for start, stop in steps(len(rows), _POINTS_AT_ONCE):
                part = rows[start:stop]
                _refuse_infinity(name, written[name], part)
                file.write(bytes_of_rows(part, QUERIES[name], backend).numpy().data)
                written[name] += len(part)
        for name in names[current + 1 :]:
            file.write(lengths.of(name).to_bytes(COUNT_BYTES, "big"))
        if QueryLengths(**written) != lengths:
            raise LayoutError(f"queries of {QueryLengths(**written)} were written, not {lengths}")


def _read_table(file: BinaryIO, path: Path) -> tuple[int, dict[str, int], dict[str, int]]:
    """Inputs of the verifying key, points of each query, and where they start.

    Every count is compared with the bytes that follow it before it is used for anything.
    """
    total = os.fstat(file.fileno()).st_size
    n_inputs = read_n_inputs(file.read(HEAD_BYTES), str(path))
    at = vk_size(n_inputs)
    if at > total:
        raise KeyFileError(
            f"{path}: the count of ic at byte {HEAD_BYTES - COUNT_BYTES} says {n_inputs} points, "
            f"which end at byte {at}, but the file has {total} bytes"
        )
    counts: dict[str, int] = {}
    starts: dict[str, int] = {}
    for name, curve in QUERIES.items():
        file.seek(at)
        raw = file.read(COUNT_BYTES)
        if len(raw) < COUNT_BYTES:
            raise KeyFileError(
                f"{path}: the count of query {name} is expected at byte {at}, "
                f"but the file has {total} bytes"
            )
        counts[name] = int.from_bytes(raw, "big")
        starts[name] = at + COUNT_BYTES
        end = starts[name] + counts[name] * uncompressed_size(curve)
        if end > total:
            raise KeyFileError(
                f"{path}: the count of query {name} at byte {at} says {counts[name]} points, "
                f"which end at byte {end}, but the file has {total} bytes"
            )
        at = end
    if at != total:
        raise KeyFileError(
            f"{path}: its last query, b_g2, ends at byte {at}, but the file has {total} bytes"
        )
    return n_inputs, counts, starts


def _bytes_of(part: Part) -> int:
    return (part.stop - part.start) * uncompressed_size(QUERIES[part.query])


def _staging(n_bytes: int, device: torch.device) -> Staging:
    """What reads up to so many bytes, or as many of them at a time as its buffers hold."""
    return Staging(max(1, n_bytes), device)


def _refuse_infinity(name: str, first: int, rows: torch.Tensor) -> None:
    """Raise `KeyFileError` for a point at infinity; `first` is the index of the first point."""
    at_infinity = (rows == 0).flatten(1).all(dim=1).nonzero()
    if len(at_infinity):
        index = first + int(at_infinity[0])
        raise KeyFileError(f"{name}[{index}] is the point at infinity, which no key may hold")
