"""Parameter files: the reference's points, streamed and written back, and what is refused."""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from groth16.samples import mixed_order, multiple, outsider, small_vk
from torchzk.backends import Backend
from torchzk.errors import KeyFileError, LayoutError
from torchzk.groth16 import params_file, staging
from torchzk.groth16.encoding import Origin, decode_uncompressed, encode_uncompressed
from torchzk.groth16.keys import QUERIES, QueryLengths, held
from torchzk.groth16.params_file import ParamsFile, check_pair, write_params
from torchzk.groth16.streams import Part
from torchzk.groth16.vk_file import load_vk, vk_size, vk_to_bytes
from torchzk.ops.layout import points_to_rows, rows_to_points
from torchzk.params.curves import Curve

N = 20
SIZES = {name: 96 * curve.degree for name, curve in QUERIES.items()}


def counts_at() -> dict[str, int]:
    """Offset of each query's count in the golden file."""
    offsets, at = {}, vk_size(23)
    for name, size in SIZES.items():
        offsets[name] = at
        at += 4 + N * size
    return offsets


COUNTS_AT = counts_at()


@pytest.fixture
def head(golden: Path) -> Path:
    """The reference's window key with the first 20 points of every query."""
    return golden / "groth16" / "window_2048_head.params"


def changed(head: Path, folder: Path, at: int, new: bytes) -> Path:
    raw = bytearray(head.read_bytes())
    raw[at : at + len(new)] = new
    path = folder / "changed.params"
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("read", [1 << 26, 6 * 192])
def test_the_points_are_those_of_the_file(
    head: Path,
    golden: Path,
    backend: Backend,
    device: torch.device,
    read: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(params_file, "BUFFER_BYTES", read)
    monkeypatch.setattr(staging, "BUFFER_BYTES", read)
    monkeypatch.setattr(staging, "_LEAST_READ", 100)
    raw = head.read_bytes()
    with ParamsFile.open(head, backend) as params:
        assert params.lengths == QueryLengths(h=N, l=N, a=N, b_g1=N, b_g2=N)
        assert params.vk == load_vk(golden / "groth16" / "window_2048.vk")
        for name, curve in QUERIES.items():
            start = COUNTS_AT[name] + 4
            expected = [
                decode_uncompressed(
                    curve,
                    raw[start + i * SIZES[name] : start + (i + 1) * SIZES[name]],
                    Origin(KeyFileError, name),
                )
                for i in range(N)
            ]
            for first, last in ((0, N), (7, 8), (13, N), (5, 5)):
                rows = params.query(name, first, last, device)
                assert rows.device.type == device.type
                assert rows.is_contiguous()
                assert rows_to_points(rows, curve) == expected[first:last]
            for step in (1, 7, N):
                for first, last, rows in params.pieces(name, step, device):
                    assert rows.device.type == device.type
                    assert rows_to_points(rows, curve) == expected[first:last]
        key = held(params, device)
        order = mixed_order(key.lengths)
        with params.parts(order, device, 3) as parts:
            assert not parts.here
            for part in order:
                assert torch.equal(
                    parts.take(), key.query(part.query, part.start, part.stop, device)
                )
        with (
            pytest.raises(LayoutError, match="query h has"),
            params.parts([Part("h", 0, N + 1)], device, 1),
        ):
            raise AssertionError
    # the file is closed, the points are there
    assert key.lengths == params.lengths and key.vk == params.vk
    for name, curve in QUERIES.items():
        (last,) = rows_to_points(key.query(name, N - 1, N, device), curve)
        at = COUNTS_AT[name] + 4 + (N - 1) * SIZES[name]
        point = raw[at : at + SIZES[name]]
        assert last == decode_uncompressed(curve, point, Origin(KeyFileError, name))


def test_a_key_is_written_as_the_reference_writes_it(
    head: Path, backend: Backend, device: torch.device, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.params"
    with ParamsFile.open(head, backend) as params:

        def pieces() -> Iterator[tuple[str, torch.Tensor]]:
            for name in QUERIES:
                for start, stop in ((0, 1), (1, 1), (1, 14), (14, N)):
                    yield name, params.query(name, start, stop, device)

        write_params(copy, params.vk, params.lengths, pieces(), backend)
    assert copy.read_bytes() == head.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["copy.params"]


def test_empty_queries_are_written_and_read(
    backend: Backend, device: torch.device, tmp_path: Path
) -> None:
    rows = {n: points_to_rows([multiple(c, 9)], c, device) for n, c in QUERIES.items()}
    path = tmp_path / "odd.params"
    for present in ([], ["h"], ["b_g2"], ["l", "b_g1"]):
        lengths = QueryLengths(**{name: int(name in present) for name in QUERIES})
        write_params(path, small_vk(), lengths, [(n, rows[n]) for n in present], backend)
        with ParamsFile.open(path, backend) as params:
            assert params.lengths == lengths
            for name in QUERIES:
                got = params.query(name, 0, lengths.of(name), device)
                assert torch.equal(got, rows[name][: lengths.of(name)])


def test_pieces_that_do_not_fit_leave_no_file(
    backend: Backend, device: torch.device, tmp_path: Path
) -> None:
    rows = {n: points_to_rows([multiple(c, 9)], c, device) for n, c in QUERIES.items()}
    ones = QueryLengths(1, 1, 1, 1, 1)
    path = tmp_path / "bad.params"

    def write(*names: str, lengths: QueryLengths = ones) -> None:
        write_params(path, small_vk(), lengths, [(n, rows[n]) for n in names], backend)

    with pytest.raises(LayoutError, match="query h after query l"):
        write("l", "h", "a", "b_g1", "b_g2")
    with pytest.raises(LayoutError, match="were written, not"):
        write("h", "l", "a", "b_g1")
    with pytest.raises(LayoutError, match="were written, not"):
        write("h", "h", "l", "a", "b_g1", "b_g2")
    with pytest.raises(LayoutError, match="g2 points"):
        write_params(path, small_vk(), ones, [("b_g2", rows["a"])], backend)
    infinite = torch.cat((rows["l"], torch.zeros_like(rows["l"])))
    with pytest.raises(KeyFileError, match=r"l\[3\] is the point at infinity"):
        pieces = [("l", rows["l"]), ("l", rows["l"]), ("l", infinite)]
        write_params(path, small_vk(), QueryLengths(0, 4, 0, 0, 0), pieces, backend)
    assert list(tmp_path.iterdir()) == []


def test_truncated_files_are_refused(head: Path, backend: Backend, tmp_path: Path) -> None:
    raw = head.read_bytes()
    path = tmp_path / "short.params"
    edges = {at + shift for at in COUNTS_AT.values() for shift in range(-1, 6)}
    for length in sorted({*range(0, len(raw), 97), *edges, len(raw) - 1}):
        path.write_bytes(raw[:length])
        with pytest.raises(KeyFileError, match=f"short.params.* {length}"):
            ParamsFile.open(path, backend)


def test_the_missing_section_is_named(head: Path, backend: Backend, tmp_path: Path) -> None:
    raw = head.read_bytes()
    path = tmp_path / "short.params"
    for name, at in COUNTS_AT.items():
        for length, why in (
            (at, f"count of query {name} is expected at byte {at}"),
            (at + 3, f"count of query {name} is expected at byte {at}"),
            (at + 4, f"count of query {name} at byte {at} says 20 points, which end at byte"),
        ):
            path.write_bytes(raw[:length])
            with pytest.raises(KeyFileError, match=f"{why}.*the file has {length} bytes"):
                ParamsFile.open(path, backend)


@pytest.mark.parametrize("name", ["ic", *QUERIES])
@pytest.mark.parametrize("count", [0, N - 1, N + 1, (1 << 31) + N, (1 << 32) - 1])
def test_a_false_count_is_refused_at_once(
    name: str, count: int, head: Path, backend: Backend, tmp_path: Path
) -> None:
    at = 864 if name == "ic" else COUNTS_AT[name]
    path = changed(head, tmp_path, at, count.to_bytes(4, "big"))
    tracemalloc.start()
    start = time.process_time()
    with pytest.raises(KeyFileError, match=r"changed.params: .*\d"):
        ParamsFile.open(path, backend)
    assert time.process_time() - start < 1
    # nothing was allocated by what the count says
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("extra", [1, 4, 192])
def test_trailing_bytes_are_refused(
    extra: int, head: Path, backend: Backend, tmp_path: Path
) -> None:
    raw = head.read_bytes()
    path = tmp_path / "long.params"
    path.write_bytes(raw + bytes(extra))
    with pytest.raises(KeyFileError, match=f"b_g2, ends at byte {len(raw)}.*{len(raw) + extra}"):
        ParamsFile.open(path, backend)


def bad_points(curve: Curve, good: bytes) -> dict[str, bytes]:
    """Encodings that no query may hold, by the reason for it."""
    p, last = curve.field.modulus, len(good) - 48
    over = (int.from_bytes(good[last:], "big") + p).to_bytes(48, "big")
    return {
        "say compressed": bytes([good[0] | 0x80]) + good[1:],
        "sign flag": bytes([good[0] | 0x20]) + good[1:],
        "other bits": bytes([good[0] | 0x40]) + good[1:],
        "infinity may not": encode_uncompressed(curve, None),
        "not canonical": good[:last] + (over if over[0] < 0x20 else p.to_bytes(48, "big")),
        "not on the curve": bytes(len(good)),
    }


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("index", [0, 11, N - 1])
def test_a_bad_point_is_named(
    name: str, index: int, head: Path, backend: Backend, device: torch.device, tmp_path: Path
) -> None:
    at = COUNTS_AT[name] + 4 + index * SIZES[name]
    good = head.read_bytes()[at : at + SIZES[name]]
    for why, bad in bad_points(QUERIES[name], good).items():
        path = changed(head, tmp_path, at, bad)
        with ParamsFile.open(path, backend) as params:
            where = rf"changed.params: {name}\[{index}\] at byte {at}: "
            with pytest.raises(KeyFileError, match=f"{where}.*{why}"):
                params.query(name, index // 2, N, device)
            with pytest.raises(KeyFileError, match=f"{where}.*{why}"):
                for _, stop, _ in params.pieces(name, 6, device):
                    assert stop <= index
            order = mixed_order(params.lengths)
            taken: list[Part] = []
            with (
                pytest.raises(KeyFileError, match=f"{where}.*{why}"),
                params.parts(order, device, 4) as parts,
            ):
                for part in order:
                    parts.take()
                    taken.append(part)
            # those before it came, though the file was read further by then
            (torn,) = [p for p in order if p.query == name and p.start <= index < p.stop]
            assert taken == order[: order.index(torn)]
            # its neighbours are sound
            params.query(name, 0, index, device)
            params.query(name, index + 1, N, device)


@pytest.mark.parametrize("name", QUERIES)
def test_the_modulus_is_the_first_number_refused(
    name: str, head: Path, backend: Backend, device: torch.device, tmp_path: Path
) -> None:
    curve = QUERIES[name]
    p = curve.field.modulus
    at = COUNTS_AT[name] + 4
    for part in range(2 * curve.degree):
        path = changed(head, tmp_path, at + 48 * part, (p - 1).to_bytes(48, "big"))
        with ParamsFile.open(path, backend) as params:
            params.query(name, 0, 1, device)
        for number in (p, p + 1, p + (1 << 32), p + (1 << 352)):
            path = changed(head, tmp_path, at + 48 * part, number.to_bytes(48, "big"))
            refused = pytest.raises(KeyFileError, match=r"\[0\].*not canonical")
            with ParamsFile.open(path, backend) as params, refused:
                params.query(name, 0, 1, device)


def test_a_bad_point_of_the_verifying_key_is_named(
    head: Path, backend: Backend, tmp_path: Path
) -> None:
    curve = QUERIES["h"]
    path = changed(head, tmp_path, 868 + 96, encode_uncompressed(curve, outsider(curve)))
    with pytest.raises(KeyFileError, match=r"ic\[1\] at byte 964: .*subgroup"):
        ParamsFile.open(path, backend)


def test_a_file_that_changes_while_open_is_refused(
    head: Path, backend: Backend, device: torch.device, tmp_path: Path
) -> None:
    path = changed(head, tmp_path, 0, b"")
    with ParamsFile.open(path, backend) as params:
        params.query("h", 0, N, device)
        os.truncate(path, 5_000)
        with pytest.raises(KeyFileError, match="changed while it was in use"):
            params.query("b_g2", 0, N, device)


def test_a_file_that_is_replaced_while_open_stays_readable(
    head: Path, backend: Backend, device: torch.device, tmp_path: Path
) -> None:
    path = changed(head, tmp_path, 0, b"")
    with ParamsFile.open(path, backend) as params:
        before = params.query("h", 0, N, device)
        (tmp_path / "new").write_bytes(b"another key")
        (tmp_path / "new").replace(path)
        assert torch.equal(params.query("h", 0, N, device), before)


@pytest.mark.parametrize("start, stop", [(-1, 1), (2, 1), (0, N + 1)])
def test_a_range_outside_the_query_is_refused(
    start: int, stop: int, head: Path, backend: Backend, device: torch.device
) -> None:
    refused = pytest.raises(LayoutError, match="query l has 20 points")
    with ParamsFile.open(head, backend) as params, refused:
        params.query("l", start, stop, device)


def test_offsets_beyond_32_bits(backend: Backend, device: torch.device, tmp_path: Path) -> None:
    """A file of 10 GB with holes: points beyond 2^32 bytes are found, and nothing else is read."""
    n = 50_000_000
    path = tmp_path / "sparse.params"
    points = {name: multiple(curve, 77) for name, curve in QUERIES.items()}
    with path.open("wb") as file:
        file.write(vk_to_bytes(small_vk()))
        for name, curve in QUERIES.items():
            count = n if name in ("h", "l") else 1
            file.write(count.to_bytes(4, "big"))
            file.seek((count - 1) * SIZES[name], os.SEEK_CUR)
            file.write(encode_uncompressed(curve, points[name]))
    tracemalloc.start()
    with ParamsFile.open(path, backend) as params:
        assert params.lengths == QueryLengths(h=n, l=n, a=1, b_g1=1, b_g2=1)
        for name, curve in QUERIES.items():
            last = params.lengths.of(name)
            assert rows_to_points(params.query(name, last - 1, last, device), curve) == [
                points[name]
            ]
        with pytest.raises(KeyFileError, match=rf"l\[{n - 2}\] at byte 9600000972: "):
            params.query("l", n - 2, n, device)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_what_is_no_file_is_refused(backend: Backend, tmp_path: Path) -> None:
    for path in (tmp_path / "missing.params", tmp_path):
        with pytest.raises(KeyFileError, match="no such key file"):
            ParamsFile.open(path, backend)


def test_the_two_files_of_a_key_are_of_one_key(head: Path, golden: Path, tmp_path: Path) -> None:
    params, vk = tmp_path / "k.params", tmp_path / "k.vk"
    raw = (golden / "groth16" / "window_2048.vk").read_bytes()
    # alone, either is fine
    vk.write_bytes(raw)
    check_pair(vk)
    params.write_bytes(head.read_bytes())
    check_pair(vk)
    check_pair(params)
    other = raw[:-1] + bytes([raw[-1] ^ 1])
    for wrong in (other, raw[:-1], raw + b"\0", b""):
        vk.write_bytes(wrong)
        for named in (params, vk):
            with pytest.raises(KeyFileError, match="k.params and k.vk are not of one key") as e:
                check_pair(named)
            assert str(e.value).startswith(f"{named}: ")
