"""Proofs through the service: the same bytes under every policy; errors and stops of one job."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pytest
import torch

from fake_devices import watchdog
from scheduler.small_proofs import ProvableCircuit, SmallJob, on, small_site
from torchzk import api
from torchzk.backends import Backend
from torchzk.circuits.post_shapes import post_shape
from torchzk.errors import CancelledError, ConfigError, ExpiredError, InputError, UnsatisfiedError
from torchzk.groth16.proofs import read_proofs
from torchzk.groth16.prover import Randomisers, prove
from torchzk.groth16.toxic_waste import ToxicWaste
from torchzk.scheduler.policies import POLICIES
from torchzk.scheduler.proof_service import ProofService
from torchzk.scheduler.residents import Residents
from torchzk.scheduler.work import Job, Priority
from torchzk.timeline import Span, Timeline

Z = Randomisers(5, 6)
STAGES = ["witness", "products", "quotient", "msm h", "classes", "msm l", "msm a"]
STAGES += ["msm b_g1", "msm b_g2"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, device: torch.device) -> Iterator[api.Site]:
    made = small_site(tmp_path_factory.mktemp("keys"), device)
    with made.keys:
        yield made


@pytest.fixture(autouse=True)
def bark() -> Iterator[None]:
    with watchdog():
        yield


@pytest.fixture(scope="module")
def expected(site: api.Site) -> Callable[[SmallJob], bytes]:
    """A job's proof by the prover alone, every partition of a seed made once."""
    known: dict[int, bytes] = {}

    def of(job: SmallJob) -> bytes:
        session, circuit = site.session, site.session.circuit
        for k, seed in enumerate(job.seeds):
            if seed not in known:
                given = circuit.witness(session.backend, session.device, job, k)
                assign = partial(circuit.assignment, session.backend, given)
                proof = prove(
                    session.backend,
                    site.keys.proving,
                    session.r1cs,
                    assign,
                    Z,
                    Timeline(),
                    circuit=circuit.name,
                )
                known[seed] = proof.to_bytes()
        return b"".join(known[seed] for seed in job.seeds)

    return of


def meeting(n: int) -> Callable[[str], None]:
    """For a timeline of workers: the first `n` who prepare a partition do so at the same time."""
    together, guard, came = threading.Barrier(n), threading.Lock(), [0]

    def on_open(name: str) -> None:
        if name == "prepare":
            with guard:
                came[0] += 1
                is_early = came[0] <= n
            if is_early:
                together.wait(60)

    return on_open


def fixed(job: object) -> list[Randomisers]:
    return [Z] * job.n_partitions  # type: ignore[attr-defined]


WAYS = [("two-locks", n) for n in (1, 2, 3)] + [(policy, 4) for policy in POLICIES]


@pytest.mark.parametrize(("policy", "workers"), WAYS)
def test_the_bytes_are_the_same_however_many_work_on_them(
    site: api.Site, expected: Callable[[SmallJob], bytes], policy: str, workers: int
) -> None:
    here = on(site, policy=policy, workers=workers)
    with ProofService([here]) as service:
        jobs = {job: service.submit(job, fixed(job)) for job in (SmallJob((1, 2)), SmallJob((3,)))}
    assert {job: of.result() for job, of in jobs.items()} == {job: expected(job) for job in jobs}


def test_the_caller_is_one_of_the_workers(
    site: api.Site, expected: Callable[[SmallJob], bytes]
) -> None:
    threads: dict[str, set[str]] = {}

    def on_close(span: Span) -> None:
        threads.setdefault(span.lane, set()).add(threading.current_thread().name)

    job, me = SmallJob((1, 2, 3)), threading.current_thread().name
    for workers in (1, 3):
        threads.clear()
        watched = Timeline(on_close=on_close, behind=Timeline(on_open=meeting(workers)))
        here = on(site, watched, workers=workers)
        result = api.prove(here.session, job, here.keys, fixed(job))
        assert result.proof == expected(job)
        assert (result.partitions, result.insecure_key, result.zero_knowledge) == (3, True, False)
        who = set.union(*(threads[f"partition {k}"] for k in range(3)))
        others = {f"{here.device} worker {k}" for k in range(workers - 1)}
        assert who == {me, *others}


def test_spans_are_by_partition_and_those_of_workers_apart(site: api.Site) -> None:
    spans: list[Span] = []
    backstage: list[Span] = []
    watched = Timeline(on_close=spans.append, behind=Timeline(on_close=backstage.append))
    here = on(site, watched, workers=1)
    result = api.prove(here.session, SmallJob((1, 2)), here.keys)
    assert result.zero_knowledge
    of = [[s.name for s in spans if s.lane == f"partition {k}"] for k in range(2)]
    assert of == [[*STAGES, "final sums"]] * 2
    assert [s.name for s in spans if not s.lane.startswith("partition")] == ["verify"]
    name = here.device
    steps = [s.name for s in backstage if s.lane == f"{name} worker 0"]
    assert steps == ["prepare", "admit", "stage", "compute", "finish"] * 2
    lanes = {s.lane for s in backstage}
    assert {f"{name} mem lock", f"{name} compute lock", "reading 0", "finishing 0"} <= lanes


def test_a_partition_finishes_outside_the_compute_lock(site: api.Site) -> None:
    backstage: list[Span] = []
    watched = Timeline(behind=Timeline(on_open=meeting(2), on_close=backstage.append))
    here = on(site, watched, workers=2)
    api.prove(here.session, SmallJob((1, 2, 3)), here.keys)
    holds = [s for s in backstage if s.lane == f"{here.device} compute lock"]
    ends = [s for s in backstage if s.name == "finish"]
    assert len(holds) == len(ends) == 3
    computing = [s for s in backstage if s.name == "compute"]
    for earlier, later in zip(computing, computing[1:], strict=False):
        assert earlier.end_ns <= later.start_ns
    assert {s.lane for s in computing} == {f"{here.device} worker {k}" for k in range(2)}


def test_bad_jobs_are_no_others_matter(
    site: api.Site, expected: Callable[[SmallJob], bytes]
) -> None:
    said = {
        "first": ((1, 2), ""),
        "unread": ((1,), "read"),
        "refused": ((2, 3), "input"),
        "broken": ((2, 1), "row"),
        "last": ((3,), ""),
    }
    sources = {name: {"seeds": seeds, "bad": bad} for name, (seeds, bad) in said.items()}
    ended = {o.name: o for o in api.prove_many([on(site, workers=2)], sources, fixed)}
    assert list(ended) == list(sources)
    for name in ("first", "last"):
        result = ended[name].result
        assert result is not None
        assert result.proof == expected(SmallJob(said[name][0]))
    errors = {name: type(o.error) for name, o in ended.items() if o.error is not None}
    assert errors == {
        "unread": InputError,
        "refused": InputError,
        "broken": UnsatisfiedError,
    }


def test_a_job_of_another_circuit_and_too_few_randomisers(site: api.Site) -> None:
    with pytest.raises(InputError, match="the job is for porep of 2048"):
        api.prove(site.session, SmallJob((1,), kind="porep"), site.keys)
    for given in ([Z], []):
        with pytest.raises(InputError, match=f"2 partitions, {len(given)} pairs of r and s"):
            api.prove(site.session, SmallJob((1, 2)), site.keys, given)


def test_no_partition_has_the_r_or_s_of_another(site: api.Site) -> None:
    """The witness is the same in all of them: with r or s again, A or B would be again."""
    job = SmallJob((1, 1, 1))
    raw = b"".join(api.prove(site.session, job, site.keys).proof for _ in range(2))
    proofs = read_proofs(raw, 6)
    assert len({p.a for p in proofs}) == len({p.b for p in proofs}) == 6


def test_secrets_are_not_shown() -> None:
    assert "12345" not in f"{Randomisers(12345, 12345)!r} {ToxicWaste(*[12345] * 5)!r}"


@pytest.mark.parametrize("stage", ["products", "msm h", "msm b_g2"])
@pytest.mark.parametrize("how", ["cancelled", "expired"])
def test_a_stop_takes_effect_before_the_next_stage(site: api.Site, how: str, stage: str) -> None:
    closed: list[str] = []
    jobs: list[Job] = []
    submitted = threading.Event()

    def on_close(span: Span) -> None:
        closed.append(span.name)
        if len(closed) == STAGES.index(stage):
            submitted.wait()
            if how == "cancelled":
                jobs[0].cancel()
            else:
                jobs[0].stop.deadline = time.monotonic() - 1

    watched = Timeline(on_close=on_close, behind=Timeline())
    with ProofService([on(site, watched, workers=1)]) as service:
        jobs.append(service.submit(SmallJob((1, 2)), seconds=3600))
        submitted.set()
    assert jobs[0].state.value == how
    assert isinstance(jobs[0].error, CancelledError | ExpiredError)
    assert closed == STAGES[: STAGES.index(stage)]


@pytest.mark.parametrize("stage", ["witness", "msm h", "final sums"])
def test_a_signal_in_the_caller_ends_the_proof_and_leaves_nothing_behind(
    site: api.Site, expected: Callable[[SmallJob], bytes], stage: str
) -> None:
    opened: list[str] = []

    def on_open(name: str) -> None:
        opened.append(name)
        if name == stage and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt

    here = on(site, Timeline(on_open=on_open), workers=1)
    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        api.prove(here.session, SmallJob((1, 2)), here.keys)
    assert opened[-1] == stage
    assert set(threading.enumerate()) <= before
    job = SmallJob((1,))
    assert api.prove(site.session, job, site.keys, fixed(job)).proof == expected(job)


def test_a_signal_while_the_caller_waits(site: api.Site) -> None:
    reached, waits = threading.Event(), threading.Event()

    def on_open(name: str) -> None:
        if name == "quotient":
            reached.set()

    def interrupt() -> None:
        assert reached.wait(60) and waits.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    here = on(site, Timeline(on_open=on_open), workers=2)
    other = threading.Thread(target=interrupt)
    other.start()
    with pytest.raises(KeyboardInterrupt), ProofService([here]) as service:
        service.submit(SmallJob((1, 2, 3)))
        waits.set()
        threading.Event().wait()
    other.join()
    assert service.service.live == 0


def test_memory_that_runs_out_once(
    site: api.Site, expected: Callable[[SmallJob], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = site.session.circuit.assignment, []

    def short(self: object, backend: Backend, witness: object) -> object:
        calls.append(witness)
        if len(calls) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return real(backend, witness)

    warnings: list[str] = []
    here = on(site, workers=2)
    here = replace(here, session=replace(here.session, warn=warnings.append))
    vars(here.session).update(r1cs=site.session.r1cs, sizes=site.session.sizes)
    monkeypatch.setattr(ProvableCircuit, "assignment", short)
    job = SmallJob((1, 2))
    assert api.prove(here.session, job, here.keys, fixed(job)).proof == expected(job)
    # what the first partition's was staged from was still there
    assert len(calls) == 3 and calls[0] is calls[1] and len(warnings) == 1
    assert "proving again with a plan" in warnings[0]


class OtherCircuit(ProvableCircuit):
    """The same constraints by another name, for jobs of another kind."""

    name = "other"  # type: ignore[assignment]


def test_several_circuits_and_who_is_more_urgent(
    site: api.Site, expected: Callable[[SmallJob], bytes]
) -> None:
    here = on(site, workers=1)
    other = replace(here.session, circuit=OtherCircuit(post_shape("winning", 2048)))
    other.take_constraints(site.session)
    urgent = SmallJob((2,), kind="winning")
    with ProofService([here, api.Site(other, here.keys)]) as service:
        jobs = [service.submit(job, fixed(job)) for job in (SmallJob((1,)), urgent)]
        jobs.append(service.submit_source({"seeds": [2]}, fixed, circuit="small"))
        with pytest.raises(ConfigError, match="circuit third has no site here, those are: small, "):
            service.submit_source({"seeds": [2]}, circuit="third")
    stranger = api.Site(replace(other, residents=Residents()), here.keys)
    said = r"cpu: the sessions of small and other do not know .* beside="
    with pytest.raises(ConfigError, match=said):
        ProofService([here, stranger])
    assert [job.result() for job in jobs] == [expected(SmallJob((n,))) for n in (1, 2, 2)]
    assert [job.priority for job in jobs] == [Priority.WINDOW, Priority.WINNING, Priority.WINDOW]
