"""Keys in memory of the host give what keys in memory of a device give."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
import torch

from groth16.samples import mixed_order, small_vk
from replicated_r1cs import replicated
from torchzk.backends import Backend
from torchzk.errors import LayoutError, ResourceError
from torchzk.groth16 import host_key, setup
from torchzk.groth16.host_key import HostRows, held_on_host, to_host
from torchzk.groth16.keys import QUERIES, MemoryKey
from torchzk.groth16.setup import make_key, new_key
from torchzk.groth16.streams import Part
from torchzk.groth16.toxic_waste import DEV
from torchzk.timeline import Timeline

ROW = 24 * 4


@pytest.mark.parametrize("rows_of_a_slab", [1, 4, 1000])
def test_rows_lie_in_slabs(
    rows_of_a_slab: int, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_key, "SLAB_BYTES", rows_of_a_slab * ROW + ROW - 1)
    monkeypatch.setattr(host_key, "COPY_BYTES", 3 * ROW)
    rows = torch.arange(11 * 24, dtype=torch.int32, device=device).view(11, 2, 12)
    with ThreadPoolExecutor(2) as pool:
        held = HostRows(11, (2, 12), device, pool)
    for start, stop in ((0, 3), (3, 3), (3, 9), (9, 11)):
        held.write(start, rows[start:stop])
    out = torch.empty_like(rows)
    for start, stop in ((0, 11), (5, 6), (2, 10), (4, 4)):
        held.read(out[start:stop], start, stop)
        assert torch.equal(out[start:stop], rows[start:stop])
        view = held.view(start, stop)
        whole = start < stop and start // rows_of_a_slab == (stop - 1) // rows_of_a_slab
        assert (view is not None) == whole
        if view is not None:
            assert torch.equal(view, rows[start:stop].cpu())
            assert view.is_pinned() == (device.type == "cuda")
    del held, view
    gc.collect()


def test_a_key_on_the_host_is_the_key(
    backend: Backend, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "_POINTS_AT_ONCE", {"cpu": 16, "cuda": 16})
    monkeypatch.setattr("torchzk.groth16.keys._POINTS_AT_ONCE", 3)
    r1cs = replicated()
    whole = make_key(backend, r1cs, DEV, device, Timeline())
    keys = [to_host(new_key(backend, r1cs, DEV, device, Timeline()), device)]
    done: list[float] = []
    for rows_of_a_slab in (5, 1000):
        monkeypatch.setattr(host_key, "SLAB_BYTES", rows_of_a_slab * ROW)
        keys.append(held_on_host(whole, device, done.append))
    assert done == sorted(done[: len(done) // 2]) * 2 and done[-1] == 1.0
    for key in keys:
        assert (key.vk, key.lengths) == (whole.vk, whole.lengths)
        for name in QUERIES:
            n, rows = key.lengths.of(name), whole.queries[name]
            assert torch.equal(key.query(name, 0, n, device), rows)
            assert torch.equal(key.query(name, 1, 8, "cpu"), rows[1:8].cpu())
            for step in (1, 6, n):
                # each piece is looked at before the next takes its place
                for start, stop, part in key.pieces(name, step, device):
                    assert part.device.type == device.type
                    assert torch.equal(part, rows[start:stop])
            assert torch.equal(key.query(name, 2, 2, device), rows[2:2])
        order = mixed_order(key.lengths)
        with key.parts(order, device, 2) as parts:
            assert parts.here == (device.type == "cpu")
            for one in order:
                assert torch.equal(parts.take(), whole.queries[one.query][one.start : one.stop])
            with pytest.raises(LayoutError, match="no p"):
                parts.take()
    with pytest.raises(LayoutError, match="query h has"):
        keys[0].query("h", 0, keys[0].lengths.h + 1, device)
    with pytest.raises(LayoutError, match="at least one point"):
        list(keys[0].pieces("h", 0, device))


def test_parts_for_a_device_go_through_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """On torch's device without memory, on which nothing is a view."""
    rows = {name: torch.zeros(9, *curve.row_shape).int() for name, curve in QUERIES.items()}
    key = held_on_host(MemoryKey(small_vk(), rows), torch.device("cpu"))
    read: list[tuple[int, int, int]] = []
    monkeypatch.setattr(
        HostRows, "read", lambda self, out, start, stop: read.append((start, stop, len(out)))
    )
    order, threads = mixed_order(key.lengths), set(threading.enumerate())
    with key.parts(order, "meta", 2) as parts:
        assert not parts.here
        parts.widen(4)
        for part in order[:-4]:
            taken = parts.take()
            assert taken.shape == (part.stop - part.start, *QUERIES[part.query].row_shape)
            assert taken.device.type == "meta"
    # four were on their way when it ended, or not begun
    assert set(threading.enumerate()) <= threads
    expected = [(part.start, part.stop, part.stop - part.start) for part in order]
    assert read == expected[: len(read)] and len(read) >= len(order) - 4
    with pytest.raises(LayoutError, match="query h has 9 points, asked 0..10"):
        key.parts([Part("h", 0, 10)], "meta", 1)


class Driver:
    """As much of CUDA's runtime as pins memory: what is pinned, by address."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.pinned: dict[int, int] = {}

    def cudaHostRegister(self, address: int, n_bytes: int, flags: int) -> int:  # noqa: N802
        assert flags == 1 and address not in self.pinned
        if sum(self.pinned.values()) + n_bytes > self.most:
            return 2
        self.pinned[address] = n_bytes
        return 0

    def cudaHostUnregister(self, address: int) -> int:  # noqa: N802
        del self.pinned[address]
        return 0


class OnCpu(MemoryKey):
    """A key that knows no other device."""

    def __init__(self, key: MemoryKey) -> None:
        super().__init__(key.vk, key.queries)

    def query(self, name: str, start: int, stop: int, device: torch.device | str) -> torch.Tensor:
        return super().query(name, start, stop, "cpu")


def test_slabs_are_pinned_as_long_as_they_live(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[object] = []
    monkeypatch.setattr(host_key, "SLAB_BYTES", 4 * ROW)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "synchronize", waits.append)
    driver = Driver(11 * ROW)
    monkeypatch.setattr(host_key, "_cudart", lambda: driver)
    rows = torch.arange(11 * 24, dtype=torch.int32).view(11, 2, 12)
    pool = ThreadPoolExecutor(2)
    held = HostRows(11, (2, 12), torch.device("cuda"), pool)
    held.write(0, rows)
    assert sorted(driver.pinned.values()) == [3 * ROW, 4 * ROW, 4 * ROW]
    out = torch.empty_like(rows)
    held.read(out, 0, 11)
    assert torch.equal(out, rows)
    # there is no room for more, and a failure leaves nothing pinned
    with pytest.raises(ResourceError, match="cannot be pinned for cuda .CUDA error 2"):
        HostRows(8, (2, 12), torch.device("cuda"), pool).write(0, rows[:8])
    pool.shutdown()
    gc.collect()
    assert sum(driver.pinned.values()) == 11 * ROW
    del held
    gc.collect()
    # nothing may be on its way to memory that is given back
    assert driver.pinned == {} and len(waits) >= 3


def test_a_fault_while_a_key_is_moved_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(host_key, "_cudart", lambda: Driver(100))
    rows = {name: torch.zeros(3, *curve.row_shape).int() for name, curve in QUERIES.items()}
    key, threads = MemoryKey(small_vk(), rows), set(threading.enumerate())
    with pytest.raises(ResourceError, match="cannot be pinned"):
        # its pieces stay on the CPU, what they go to is pinned
        held_on_host(OnCpu(key), torch.device("cuda"))
    assert set(threading.enumerate()) <= threads
