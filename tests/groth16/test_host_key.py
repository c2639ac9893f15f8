"""Keys in memory of the host give what keys in memory of a device give."""

from __future__ import annotations

import gc

import pytest
import torch

from replicated_r1cs import replicated
from torchzk.backends import Backend
from torchzk.errors import LayoutError
from torchzk.groth16 import host_key, setup
from torchzk.groth16.host_key import HostRows, held_on_host, to_host
from torchzk.groth16.keys import QUERIES
from torchzk.groth16.setup import make_key, new_key
from torchzk.groth16.toxic_waste import DEV
from torchzk.timeline import Timeline

ROW = 24 * 4


@pytest.mark.parametrize("rows_of_a_slab", [1, 4, 1000])
def test_rows_lie_in_slabs(
    rows_of_a_slab: int, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_key, "SLAB_BYTES", rows_of_a_slab * ROW + ROW - 1)
    rows = torch.arange(11 * 24, dtype=torch.int32, device=device).view(11, 2, 12)
    held = HostRows(11, (2, 12), device)
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


@pytest.mark.parametrize("rows_of_a_slab", [5, 1000])
def test_a_key_on_the_host_is_the_key(
    rows_of_a_slab: int, backend: Backend, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "_POINTS_AT_ONCE", {"cpu": 4, "cuda": 4})
    monkeypatch.setattr(host_key, "SLAB_BYTES", rows_of_a_slab * ROW)
    r1cs = replicated()
    whole = make_key(backend, r1cs, DEV, device, Timeline())
    made = to_host(new_key(backend, r1cs, DEV, device, Timeline()), device)
    copied = held_on_host(whole, device, step=3)
    for key in (made, copied):
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
    with pytest.raises(LayoutError, match="query h has"):
        made.query("h", 0, made.lengths.h + 1, device)
    with pytest.raises(LayoutError, match="at least one point"):
        list(made.pieces("h", 0, device))
