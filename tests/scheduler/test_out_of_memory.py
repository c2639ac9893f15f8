"""Jobs while memory runs out: equal bytes by a smaller plan, or an error, and then work goes on."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from replicated_r1cs import values
from scheduler.small_session import SmallCircuit, small_session
from torchzk import api
from torchzk.backends import Backend, forget_tables, load_backend
from torchzk.circuits.circuit import Job
from torchzk.circuits.post_shapes import post_shape
from torchzk.errors import ResourceError
from torchzk.groth16.products import block_matrices, parts
from torchzk.groth16.query_variables import query_variables
from torchzk.groth16.r1cs import Assignment
from torchzk.groth16.uploads import ahead
from torchzk.memory_faults import memory_reason, ran_out_of_memory
from torchzk.ops.layout import pack_mont
from torchzk.params.domains import Domain
from torchzk.params.fields import FR
from torchzk.scheduler import device_budget, machine
from torchzk.scheduler import session as session_module
from torchzk.scheduler.plan import Plan
from torchzk.scheduler.replan import with_replan

FIXED = api.Randomisers(5, 6)
OUT_OF_MEMORY: list[Callable[[], Exception]] = [
    lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has ..."),
    lambda: RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be"),
    lambda: RuntimeError("Triton Error [CUDA]: out of memory"),
    lambda: RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate"),
    lambda: MemoryError(),
]


@dataclass(frozen=True)
class AnyJob:
    """A job of two partitions, as far as the pipeline looks at it."""

    kind: str = "window"
    sector_size: int = 2048
    n_partitions: int = 2


class ProvableCircuit(SmallCircuit):
    """Partition k has the values of seed k."""

    def witness(self, backend: Backend, device: torch.device, job: Any, partition: int) -> Any:
        return tuple(pack_mont(some, FR, device) for some in values(partition))

    def assignment(self, backend: Backend, witness: Any) -> Assignment:
        return Assignment(*witness)

    def public_inputs(self, job: Any, partition: int) -> list[int]:
        inputs, _ = values(partition)
        return inputs[1:]


@dataclass
class Scarce:
    """A backend one of whose operations finds no memory, so and so often."""

    operation: str
    error: Callable[[], Exception]
    times: int = 0
    calls: int = 0

    def backend(self) -> Backend:
        real = load_backend("torch")
        operation = getattr(real, self.operation)

        def scarce(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            if self.times:
                self.times -= 1
                raise self.error()
            return operation(*args, **kwargs)

        names = {name: getattr(real, name) for name in dir(real)}
        return cast(Backend, SimpleNamespace(**names | {self.operation: scarce}))


JOB = cast(Job, AnyJob())


def prepared(folder: Path, scarce: Scarce) -> tuple[api.Session, list[str]]:
    warnings: list[str] = []
    session = replace(
        small_session(folder, "dev"),
        circuit=ProvableCircuit(post_shape("window", 2048)),
        backend=scarce.backend(),
        warn=warnings.append,
    )
    return session, warnings


def proof_of(session: api.Session, keys: api.Keys) -> bytes:
    return api.prove(session, JOB, keys, [FIXED] * 2).proof


@pytest.fixture(scope="module")
def keys_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the circuit's key, checked."""
    folder = tmp_path_factory.mktemp("keys")
    session, _ = prepared(folder, Scarce("msm", OUT_OF_MEMORY[0]))
    api.get_keys(session).close()
    return folder


@pytest.mark.parametrize(
    ("operation", "error"),
    [*zip(["spmv_copies", "quotient", "classes"], OUT_OF_MEMORY, strict=False)]
    + [("msm", error) for error in OUT_OF_MEMORY],
)
def test_once_is_mended_and_twice_is_an_error(
    operation: str, error: Callable[[], Exception], keys_folder: Path
) -> None:
    scarce = Scarce(operation, error)
    session, warnings = prepared(keys_folder, scarce)
    with api.get_keys(session) as keys:
        expected = proof_of(session, keys)
        before, scarce.calls = session.plan, 0
        scarce.times = 1
        assert proof_of(session, keys) == expected
        assert scarce.calls > 1 and session.plan is not before
        (warning,) = warnings
        assert "memory of cpu ran out (" in warning and "GiB instead of" in warning
        scarce.times = 2
        with pytest.raises(ResourceError, match=r"ran out twice while proving small: planned \d"):
            proof_of(session, keys)
        # the session, its keys and its process serve the next job
        assert proof_of(session, keys) == expected


def test_a_later_partition_has_a_replan_of_its_own(keys_folder: Path) -> None:
    scarce = Scarce("quotient", OUT_OF_MEMORY[0])
    session, warnings = prepared(keys_folder, scarce)
    with api.get_keys(session) as keys:
        expected = proof_of(session, keys)

        def failing(partition: int) -> None:
            scarce.times = 1

        witness = session.circuit.witness
        seen: list[int] = []

        def first_of_each(backend: Backend, device: torch.device, job: Any, k: int) -> Any:
            if k not in seen:
                seen.append(k)
                failing(k)
            return witness(backend, device, job, k)

        object.__setattr__(session.circuit, "witness", first_of_each)
        assert proof_of(session, keys) == expected
        assert seen == [0, 1] and len(warnings) == 2


def test_where_nothing_fits_the_first_reason_is_told(
    keys_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scarce = Scarce("msm", OUT_OF_MEMORY[0])
    session, _ = prepared(keys_folder, scarce)
    with api.get_keys(session) as keys:
        expected = proof_of(session, keys)
        scarce.times = 1
        with monkeypatch.context() as tight:
            tight.setattr(machine, "memory", lambda: machine.Memory(64 << 30, 1 << 20, None))
            with pytest.raises(ResourceError) as caught:
                proof_of(session, keys)
        assert "ran out (CUDA out of memory. Tried to allocate 2.00 GiB): proving small takes" in (
            str(caught.value)
        )
        assert proof_of(session, keys) == expected


def test_what_is_kept_goes_before_a_smaller_plan_is_made(
    keys_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scarce = Scarce("msm", OUT_OF_MEMORY[0], times=0)
    session, _ = prepared(keys_folder, scarce)
    order: list[str] = []
    half = device_budget.half_of_the_rest

    def counted(device: torch.device, limit: int | None, own: int) -> int:
        order.append("budget")
        kept = (block_matrices, parts, query_variables)
        assert [len(cache) for cache in kept] == [0, 0, 0]
        return half(device, limit, own)

    def forgotten(name: Any, device: torch.device) -> None:
        order.append("tables")
        forget_tables(name, device)

    monkeypatch.setattr(session_module, "half_of_the_rest", counted)
    monkeypatch.setattr(session_module, "forget_tables", forgotten)
    with api.get_keys(session) as keys:
        proof_of(session, keys)
        order.clear()
        scarce.times = 1
        proof_of(session, keys)
    assert order[0] == "tables" and order.count("budget") == 1


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
def test_nothing_of_the_first_attempt_is_there_in_the_second(
    keys_folder: Path, device: torch.device
) -> None:
    session, _ = prepared(keys_folder, Scarce("msm", OUT_OF_MEMORY[0]))
    held: list[weakref.ref[torch.Tensor]] = []

    def fill(rows: torch.Tensor, start: int, stop: int) -> None:
        rows.zero_()
        if start:
            raise OUT_OF_MEMORY[0]()

    def run(plan: Plan) -> str:
        if held:
            assert [ref() for ref in held] == [None] * len(held)
            return "proven"
        mine = torch.zeros(8, device=device)
        held.append(weakref.ref(mine))
        for _, _, rows in ahead(8, 4, (2,), device, fill):
            # its base is the buffer, which a future's error would keep
            held.append(weakref.ref(rows))
            if rows._base is not None:
                held.append(weakref.ref(rows._base))
        return "unreachable"

    assert with_replan(session, run) == "proven"
    assert len(held) >= 2


def test_keys_and_checks_end_with_a_typed_error_too(tmp_path: Path) -> None:
    scarce = Scarce("fixed_base", OUT_OF_MEMORY[0], times=1)
    session, _ = prepared(tmp_path, scarce)
    with pytest.raises(ResourceError, match=r"ran out while getting a key of small \(CUDA out of"):
        api.get_keys(session)
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".params") == []
    with api.get_keys(session) as keys:
        assert len(proof_of(session, keys)) == 2 * 192

    def check_job(*_: object) -> None:
        raise OUT_OF_MEMORY[1]()

    object.__setattr__(session.circuit, "check_job", check_job)
    with pytest.raises(ResourceError, match=r"ran out while checking a job of small \(CUDA error"):
        api.check(session, JOB)


@pytest.mark.parametrize("error", OUT_OF_MEMORY)
def test_memory_that_ran_out_is_told_by_any_words(error: Callable[[], Exception]) -> None:
    assert ran_out_of_memory(error())
    later = RuntimeError("CUDA error: operation failed due to a previous error during capture")
    later.__context__ = error()
    assert ran_out_of_memory(later)
    # a fault of ours stays one, whatever it came of
    fault = ValueError("a fault")
    fault.__context__ = error()
    assert not ran_out_of_memory(fault)


def test_other_faults_are_not_of_memory() -> None:
    for e in (None, RuntimeError("CUDA error: an illegal memory access"), ValueError("memory")):
        assert not ran_out_of_memory(e)
    said = "CUDA out of memory. Tried to allocate 2.00 GiB"
    assert memory_reason(OUT_OF_MEMORY[0]()) == said
    assert memory_reason(OUT_OF_MEMORY[1]()) == "CUDA error: out of memory"
    assert memory_reason(MemoryError()) == "an allocation failed"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_tables_of_roots_are_given_back(device: torch.device) -> None:
    backend = load_backend("triton")
    forget_tables("triton", device)
    before = torch.cuda.memory_allocated(device)
    x = torch.zeros(8, 1 << 20, dtype=torch.int32, device=device)
    for _ in range(3):
        backend.ntt(x, Domain(20))
    del x
    # a table of roots has 64 bytes an element
    assert torch.cuda.memory_allocated(device) - before >= 64 << 20
    forget_tables("triton", device)
    # constants of kilobytes stay
    assert torch.cuda.memory_allocated(device) - before <= 1 << 20
