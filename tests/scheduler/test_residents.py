"""Circuits that share a device: plans beside the keys of others, whoever comes first."""

from __future__ import annotations

import threading
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
import torch

from circuit_samples import sizes_of
from scheduler.small_session import small_session
from torchzk import api
from torchzk.backends import BackendChoice
from torchzk.circuits.registry import get_circuit
from torchzk.config import CircuitConfig
from torchzk.errors import ResourceError
from torchzk.scheduler import key_store
from torchzk.scheduler import residents as residents_module
from torchzk.scheduler import session as session_module
from torchzk.scheduler.memory_budget import MemoryBudget
from torchzk.scheduler.residents import Residents, Share, partition_room

pytest.importorskip("triton")

GB = 10**9
GPU = torch.device("cuda", 0)
KINDS = ("porep", "window", "update")


class Card:
    """A device that is a number: what it has for one process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, n_bytes: int) -> None:
        self.n_bytes, self.residents = n_bytes, Residents()
        monkeypatch.setattr(session_module, "budget", lambda device, limit: self.n_bytes)
        monkeypatch.setattr(session_module, "forget_tables", lambda name, device: None)

    def session(self, kind: str) -> api.Session:
        config = replace(api.load_config("window2k.yaml"), device="cpu")
        opened = api.open_session(config)
        size = 32 << 30
        made = replace(
            opened,
            config=replace(config, circuit=CircuitConfig(kind=kind, sector_size=size)),  # type: ignore[arg-type]
            circuit=get_circuit(kind, size),
            device=GPU,
            choice=BackendChoice("triton"),
            residents=self.residents,
        )
        vars(made).update(sizes=sizes_of(made.circuit.name))
        return made

    def check(self, sessions: list[api.Session]) -> None:
        """All that stays and the largest peak are within the card."""
        plans = [session.plan for session in sessions]
        stays = sum(plan.resident_bytes for plan in plans)
        assert stays + max(plan.peak - plan.resident_bytes for plan in plans) <= self.n_bytes


def test_two_that_fit_alone_but_not_together(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(monkeypatch, 141 * GB)
    for first, second in permutations(("porep", "window")):
        one, two = card.session(first), card.session(second)
        assert one.plan.key_stays and two.plan.key_stays
        alone = two.plan
        with card.residents.hold(one, None) as place:
            assert place == "device"
            # made anew, beside what the first keeps
            assert two.plan is not alone
            assert two.plan.budget == card.n_bytes - one.plan.resident_bytes
            assert one.plan.budget == card.n_bytes
            with card.residents.hold(two, None) as other:
                assert two.plan.key_stays == (other == "device")
                assert one.plan.key_stays
                card.check([one, two])
            assert one.plan.budget == card.n_bytes
        assert two.plan == alone and card.residents.beside(GPU, "") == 0


@pytest.mark.parametrize("n", [48, 80, 110, 141, 200, 400])
@pytest.mark.parametrize("order", list(permutations(KINDS)))
def test_what_is_admitted_fits_in_any_order(
    monkeypatch: pytest.MonkeyPatch, order: tuple[str, ...], n: int
) -> None:
    card = Card(monkeypatch, n * GB)
    held: list[api.Session] = []
    with ExitStack() as stack:
        for kind in order:
            session = card.session(kind)
            try:
                stack.enter_context(card.residents.hold(session, None))
            except ResourceError as e:
                assert n < 141 and "GiB" in str(e)
                continue
            held.append(session)
            card.check(held)
        assert len(held) == 3 or n < 141
        assert all(session.plan.key_stays for session in held) or n < 400


def test_a_key_that_leaves_others_too_little_goes_to_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What streams needs its room, though the other's key would fit if nobody else proved."""
    card = Card(monkeypatch, 15_400 * 10**6)
    large, small = card.session("porep"), card.session("winning")
    with card.residents.hold(large, None) as place:
        assert place == "host" and small.plan.key_stays
        said = (
            r"winning-32GiB would keep 0\.3 GiB on cuda:0, and leave too little there: "
            r"proving porep-32GiB takes .*; use a device with more, or a higher vram_limit[^;]*$"
        )
        with pytest.raises(ResourceError, match=said), card.residents.hold(small, "device"):
            pass
        with card.residents.hold(small, None) as other:
            assert other == "host" and not small.plan.key_stays
            card.check([large, small])
        card.n_bytes += GB
        with card.residents.hold(small, None) as other:
            assert other == "device"
            card.check([large, small])


def test_refusals_name_who_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(monkeypatch, 141 * GB)
    one, two = card.session("window"), card.session("porep")
    with card.residents.hold(one, "device"):
        card.n_bytes = one.plan.resident_bytes + 4 * GB
        said = r"proving porep-32GiB takes .* GiB may be had.* keep .* \(window-32GiB \d+\.\d GiB\)"
        with pytest.raises(ResourceError, match=said):
            _ = two.plan
    assert card.residents.place_of(GPU, one.circuit.name) is None


def test_partitions_have_what_is_left_as_keys_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(monkeypatch, 400 * GB)
    one, two = card.session("porep"), card.session("update")
    budget = MemoryBudget("cuda:0", 1)
    woken: list[int] = []
    budget.watch(lambda: woken.append(budget.total))

    def room(*sessions: api.Session) -> int:
        shares = [Share(s.plan, s.beside, s.sizes.witness.given) for s in sessions]
        return partition_room("cuda:0", shares)

    card.residents.watch(GPU, budget)
    with card.residents.hold(one, None):
        alone = budget.total
        assert alone == room(one)
        with card.residents.hold(two, None):
            # one of each kind's staging fits always, also of who came later
            assert budget.total == room(one, two) < alone
            assert budget.total >= max(s.sizes.witness.given for s in (one, two))
        assert budget.total == alone
    assert woken == [alone, woken[1], alone]


def test_a_key_waits_for_plans_that_do_not_know_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(monkeypatch, 400 * GB)
    one, two = card.session("porep"), card.session("update")
    counted, there = threading.Event(), threading.Event()
    budget = MemoryBudget("cuda:0", 1)
    budget.watch(counted.set)
    card.residents.watch(GPU, budget)

    def load() -> None:
        with card.residents.hold(two, None):
            there.set()

    loading = threading.Thread(target=load)
    with card.residents.computing(GPU):
        loading.start()
        assert counted.wait(60)
        # whoever begins now knows of it, and is not waited for
        assert one.beside > 0
        with card.residents.computing(GPU):
            pass
        assert not there.is_set()
    loading.join(60)
    assert there.is_set() and one.beside == 0


def test_a_key_does_not_wait_for_a_device_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residents_module, "_PATIENCE", 0.0)
    card = Card(monkeypatch, 400 * GB)
    with card.residents.computing(GPU), card.residents.hold(card.session("update"), None) as place:
        assert place == "device"


def test_sites_that_do_not_know_of_each_other_are_refused_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    card = Card(monkeypatch, 120 * GB)
    shares = []
    for kind in ("porep", "window"):
        session = replace(card.session(kind), residents=Residents())
        plan = session.plan_beside("device", 0)
        shares.append(Share(plan, 0, 1 << 20))
        assert partition_room("cuda:0", shares[-1:]) > 0
    with pytest.raises(ResourceError, match=r"cuda:0 .* GiB stay \(porep-32GiB .* GiB may be had"):
        partition_room("cuda:0", shares)


def test_a_second_key_of_a_circuit_is_counted_as_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(monkeypatch, 90 * GB)
    one, again = card.session("porep"), card.session("porep")
    with card.residents.hold(one, None) as place:
        assert place == "device" and one.beside == 0
        key = one.plan.resident_bytes
        with card.residents.hold(again, None) as other:
            # there is no room for both
            assert other == "host"
            assert again.beside == key and again.plan.budget == card.n_bytes - key
        said = r"porep-32GiB would keep|proving porep-32GiB takes"
        with pytest.raises(ResourceError, match=said), card.residents.hold(again, "device"):
            pass
    assert one.beside == 0


def test_keys_that_nobody_here_proves_with_stay_too(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(monkeypatch, 400 * GB)
    one, two = card.session("porep"), card.session("update")
    with card.residents.hold(one, None):
        graph = one.plan
        alone = partition_room("cuda:0", [Share(graph, one.beside, 0)])
        with card.residents.hold(two, None):
            plain = one.plan
            room = partition_room("cuda:0", [Share(plain, one.beside, 0)])
            stays = two.plan.resident_bytes
    # a witness is a graph where a circuit has the device to itself
    assert graph.witness_graph and not plain.witness_graph and graph.peak > plain.peak
    assert room == alone - stays + graph.peak - plain.peak


def test_sessions_opened_beside_each_other_know_of_their_keys(tmp_path: Path) -> None:
    config = replace(api.load_config("window2k.yaml"), device="cpu", block_cache=tmp_path)
    one, stranger = api.open_session(config), api.open_session(config)
    assert one.residents is not stranger.residents
    assert api.open_session(config, beside=one).residents is one.residents
    assert [s.residents for s in api.open_sessions(config, beside=one)] == [one.residents]


def test_on_a_cpu_nothing_is_counted(tmp_path: Path) -> None:
    config = replace(api.load_config("window2k.yaml"), device="cpu", block_cache=tmp_path)
    session = api.open_session(config)
    vars(session).update(sizes=sizes_of("window-2KiB", on_cpu=True))
    with session.residents.hold(session, None) as place:
        assert place is None
        assert session.residents.beside(session.device, "") == 0
        assert session.residents.place_of(session.device, "window-2KiB") is None


def test_keys_are_counted_while_they_are_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = small_session(tmp_path, "dev-in-memory")
    residents, cpu = session.residents, session.device
    with monkeypatch.context() as broken:
        broken.setattr(key_store, "make_key", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            api.get_keys(session)
    assert residents.names(cpu, "") == ""
    budget = MemoryBudget("cpu", 1)
    residents.watch(cpu, budget)
    with api.get_keys(session):
        assert residents.names(cpu, "") == "small 0.0 GiB"
        assert budget.total == partition_room(
            "cpu", [Share(session.plan, 0, session.sizes.witness.given)]
        )
    assert residents.names(cpu, "") == ""


def test_one_key_on_the_host_is_counted_on_each_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    session = small_session(tmp_path, "dev")
    with api.open_sites([session, replace(session)]) as sites:
        assert sites[0].keys is sites[1].keys and not sites[0].keys.stays
        assert session.residents.names(session.device, "") == "small 0.0 GiB, small 0.0 GiB"
    assert session.residents.names(session.device, "") == ""


def test_a_plan_of_half_the_rest_is_no_measure_of_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    card = Card(monkeypatch, 141 * GB)
    one, two = card.session("porep"), card.session("winning")
    whole = [Share(s.plan, 0, k) for k, s in enumerate((one, two))]
    half = Share(one.plan_beside("host", 120 * GB), 0, 0)
    assert half.plan.budget == 21 * GB
    # it fits, and nothing is left beside the stagings
    assert partition_room("cuda:0", [half, Share(two.plan, 0, 7)]) >= 7
    assert partition_room("cuda:0", [half, whole[1]]) < partition_room("cuda:0", whole[1:])
