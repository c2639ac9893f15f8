"""Plans of every circuit at every size: they fit, and more memory never makes one slower."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from circuit_samples import NAMES, ROWS, sizes_of
from torchzk.backends import BackendName
from torchzk.circuits.registry import get_circuit
from torchzk.errors import ResourceError
from torchzk.groth16.keys import QUERIES
from torchzk.groth16.room import Room
from torchzk.scheduler.circuit_sizes import circuit_sizes
from torchzk.scheduler.plan import Plan, plan, plans

pytest.importorskip("triton")

GB = 10**9
BUDGETS = [GB * n for n in (16, 20, 24, 32, 40, 48, 64, 80, 96, 120, 141)]


def rank(found: Plan) -> tuple[bool, bool, bool]:
    """Smaller is faster: the key comes over a link, one query after another, vectors in turn."""
    streamed = not found.key_stays
    return streamed, streamed and not found.room.costs, found.room.in_turn


@pytest.fixture(autouse=True)
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan asks no device for anything."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a plan is a pure function")

    for name in ("mem_get_info", "memory_reserved", "memory_allocated", "get_device_capability"):
        monkeypatch.setattr(torch.cuda, name, refuse)


@pytest.mark.parametrize("name", ["window-2KiB", "winning-2KiB", "winning-32GiB", "update-2KiB"])
def test_sizes_are_those_of_the_constraints(name: str) -> None:
    circuit = get_circuit(ROWS[name]["kind"], ROWS[name]["sector_size"])
    for on_cpu in (False, True):
        assert circuit_sizes(circuit, circuit.r1cs(), on_cpu=on_cpu) == sizes_of(
            name, on_cpu=on_cpu
        )


@pytest.mark.full("records every circuit, which takes a minute")
@pytest.mark.parametrize("name", NAMES)
def test_sizes_are_those_of_all_constraints(name: str) -> None:
    circuit = get_circuit(ROWS[name]["kind"], ROWS[name]["sector_size"])
    assert circuit_sizes(circuit, circuit.r1cs(), on_cpu=False) == sizes_of(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_circuit_fits_from_16_gb_on_and_more_is_never_slower(name: str) -> None:
    sizes, before = sizes_of(name), None
    for budget in BUDGETS:
        found = plan(sizes, "triton", budget)
        assert found.peak <= budget and found.budget == budget
        assert [stage.name for stage in found.stages] == [
            *("witness", "products", "quotient"),
            *(f"msm {query}" for query in QUERIES),
        ]
        # also while a development key is made, and kept where the plan has it
        assert found.making_key + (found.key_bytes if found.key_stays else 0) <= budget
        if before is not None:
            assert rank(found) <= rank(before)
            if rank(found) == rank(before):
                assert found.room.g1_points >= before.room.g1_points
                assert found.room.g2_points >= before.room.g2_points
        before = found


def test_the_fastest_way_that_fits() -> None:
    sizes = sizes_of("porep-32GiB")
    ways = {n: rank(plan(sizes, "triton", n * GB)) for n in (16, 24, 48, 80, 141)}
    resident, there_in_turn = (False, False, False), (False, False, True)
    streamed, in_turn = (True, False, False), (True, False, True)
    assert ways == {16: in_turn, 24: in_turn, 48: streamed, 80: there_in_turn, 141: resident}
    every = [rank(each) for each in plans(sizes, "triton", 141 * GB)]
    alone = [(True, True, False), (True, True, True)]
    assert every == [resident, there_in_turn, streamed, in_turn, *alone]
    # one part of a query is on its way while another is worked on
    small = plan(sizes, "triton", 16 * GB)
    assert small.room.g1_points < sizes.lengths.h / 4
    # with the key there, and room for it, a query is one call
    whole = plan(sizes, "triton", 141 * GB)
    assert whole.room.g1_points >= sizes.lengths.h
    assert whole.room.g2_points >= sizes.lengths.b_g2


def test_queries_go_side_by_side_where_a_link_is_waited_for() -> None:
    for name, side_by_side in (
        ("porep-32GiB", True),
        ("update-32GiB", True),
        ("window-32GiB", False),
    ):
        found = plan(sizes_of(name), "triton", 24 * GB, key="host")
        # of window, the scalars of all queries are large
        assert bool(found.room.costs) == side_by_side
        # the ring is full before the sums begin, and the plan says so
        room = found.room
        assert room.early_slots == room.slots == (5 if side_by_side else 2)
        ring = room.slots * 96 * room.g1_points
        assert found.stage_bytes["quotient"] > ring + 2 * 32 * sizes_of(name).domain.size
        # half as many of twice as long
        assert room.g2_points == -(-room.g1_points // 2)
    on_cpu = list(plans(sizes_of("porep-32GiB", on_cpu=True), "torch", 141 * GB))
    assert len(on_cpu) == 4 and not any(each.room.costs for each in on_cpu)


def test_as_much_is_on_its_way_early_as_fits() -> None:
    sizes = sizes_of("porep-32GiB")
    early = {n: plan(sizes, "triton", n * GB).room.early_slots for n in (16, 20, 24, 32)}
    assert early[16] == 0 < early[20] < early[24] == early[32]


def test_the_key_lies_where_it_is_wanted() -> None:
    sizes = sizes_of("porep-32GiB")
    host = plan(sizes, "triton", 141 * GB, key="host")
    assert not host.key_stays and not host.room.in_turn
    device = plan(sizes, "triton", 80 * GB, key="device")
    assert device.key_stays and device.room.in_turn
    assert device.peak > device.key_bytes > 47 * GB
    with pytest.raises(ResourceError, match="stays on the device"):
        plan(sizes, "triton", 48 * GB, key="device")


def test_what_cannot_fit_is_refused_with_the_numbers() -> None:
    expected = (
        r"proving porep-32GiB takes 14\.\d GiB at least with backend triton \(stage quotient; "
        r"the key comes from the host in pieces, .*\), and 9\.3 GiB may be had"
    )
    with pytest.raises(ResourceError, match=expected):
        plan(sizes_of("porep-32GiB"), "triton", 10 * GB)
    with pytest.raises(ResourceError, match=r"window-2KiB takes .* and 0\.0 GiB may be had"):
        plan(sizes_of("window-2KiB"), "triton", 1)


@pytest.mark.parametrize("budget", [16 * GB, 24 * GB])
def test_the_least_budget_is_the_plans_own_peak(budget: int) -> None:
    """What a plan takes is enough for a plan of that kind."""
    sizes = sizes_of("window-32GiB")
    found = plan(sizes, "triton", budget)
    again = plan(sizes, "triton", found.peak)
    assert rank(again) == rank(found) and again.peak <= found.peak


@pytest.mark.parametrize("name", NAMES)
def test_a_cpu_needs_no_more_than_it_was_said_to(name: str) -> None:
    """Against the rule that was here before there were plans."""
    sizes = sizes_of(name, on_cpu=True)
    before = 736 * sizes.domain.size + 96 * sizes.variables + (1 << 30)
    found = plan(sizes, "torch", 1 << 50)
    assert found.room == Room() and not found.key_stays
    # the key's pieces and one sum's scratch were not counted apart
    assert found.peak <= before + (1 << 28)
    assert found.peak > 128 * sizes.domain.size + 32 * sizes.variables


@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_what_a_stage_takes_grows_with_every_size(backend: BackendName) -> None:
    sizes = sizes_of("porep-8MiB")
    base = next(plans(sizes, backend, 64 * GB))
    longer = replace(sizes.lengths, h=2 * sizes.lengths.h, l=2 * sizes.lengths.l)
    for larger in (replace(sizes, n_aux=2 * sizes.n_aux), replace(sizes, log_n=sizes.log_n + 1)):
        grown = next(plans(larger, backend, 64 * GB))
        assert grown.peak > base.peak and grown.making_key > base.making_key
        assert all(a.bytes >= b.bytes for a, b in zip(grown.stages, base.stages, strict=True))
    assert next(plans(replace(sizes, lengths=longer), backend, 64 * GB)).key_bytes > base.key_bytes
