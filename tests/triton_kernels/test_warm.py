"""What is compiled ahead of use is what operations launch, by the hashes of Triton's own cache."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pytest
import torch
import triton
import triton.language as tl

from torchzk import api, triton_kernels
from torchzk.backends import Backend
from torchzk.config import load_config
from torchzk.errors import InputError
from torchzk.groth16 import setup
from torchzk.groth16.density import expected_lengths
from torchzk.groth16.keys import QUERIES, MemoryKey
from torchzk.groth16.prover import Randomisers, prove
from torchzk.groth16.r1cs import R1cs
from torchzk.groth16.room import Room
from torchzk.groth16.toxic_waste import DEV
from torchzk.ops.layout import OTHER
from torchzk.params.domains import Domain
from torchzk.scheduler.known_answers import known_answers
from torchzk.timeline import Timeline
from torchzk.triton_kernels import catalogue, launch, variants, warm
from triton_kernels import discovery
from triton_kernels.operations import OPERATIONS
from triton_kernels.rehearsal import ARCH, pretended, rehearsing
from triton_kernels.samples import tuned

ROOT = Path(__file__).parents[2]
LAUNCHES = catalogue.launches("ptx", ARCH)
CPU, META = torch.device("cpu"), torch.device("meta")


def asked_ahead() -> dict[str, str]:
    """What `warm` asks for."""
    with rehearsing() as asked:
        for each in LAUNCHES:
            warm._start(each)
    return asked


def transform(log_n: int, device: torch.device = META) -> None:
    """Everything there is over one domain."""
    domain = Domain(log_n)
    x = torch.empty(8, domain.size, dtype=torch.int32, device=device)
    for operation in ("ntt", "intt", "ntt_dif", "intt_dit"):
        getattr(triton_kernels, operation)(x, domain)
    triton_kernels.coset_scale(x, 7)
    triton_kernels.quotient(x, x, x, domain)
    triton_kernels.quotient_in_turn(lambda _: x.clone(), domain)


def asked_by_operations() -> dict[str, str]:
    """What the operations ask for, whatever they are given."""
    with rehearsing() as asked:
        for name, operation in OPERATIONS.items():
            # chains also measure; few elements have passes of their own
            if name not in ("chain", "transforms", "quotient", "quotient in turn"):
                operation.run(triton_kernels, CPU, operation.size)
        with tuned({"points in rounds": 10, "lanes of pairs": 32, "inverted alone": 32}):
            for name in ("batch addition g1", "batch addition g2"):
                OPERATIONS[name].run(triton_kernels, CPU, OPERATIONS[name].size)
        with tuned({"points in rounds": 10}):
            for name in ("batch addition g1", "batch addition g2"):
                OPERATIONS[name].run(triton_kernels, CPU, OPERATIONS[name].size)
        # every remainder of passes, and middle ones beyond short tables
        for log_n in (12, 13, 14, 22):
            transform(log_n)
        variants.mistakes(CPU, "ptx")
    return asked


def test_operations_ask_for_what_was_compiled_ahead() -> None:
    ahead, needed = asked_ahead(), asked_by_operations()
    assert len(ahead) == len(LAUNCHES)
    assert [needed[key] for key in needed.keys() - ahead.keys()] == []
    assert [ahead[key] for key in ahead.keys() - needed.keys()] == [], "of no use"


def test_no_size_compiles_anew() -> None:
    """From domains of 2^12 elements on, and whatever the number of points is."""
    ahead = asked_ahead()
    with rehearsing() as asked:
        for log_n in range(12, 28):
            transform(log_n)
        for name in ("sums g1", "fixed base g2", "batch addition g1", "products", "sha256"):
            for n in (37, 1000, 3001):
                OPERATIONS[name].run(triton_kernels, CPU, n)
    assert [asked[key] for key in asked.keys() - ahead.keys()] == []


class Ones:
    """The kernels, but for sums that must not be 0, and classes: in a rehearsal all are."""

    def __getattr__(self, name: str) -> Any:
        operation = getattr(triton_kernels, name)
        fill = {"spmv_transposed": 1, "scale": 1, "add": 1, "classes": OTHER}.get(name)
        return operation if fill is None else lambda *args: operation(*args).fill_(fill)


def key_of_ones(backend: Backend, r1cs: R1cs) -> MemoryKey:
    """A key as it comes of `Ones`: no column is 0, so queries are cut to their lengths."""
    lengths, every = expected_lengths(r1cs), r1cs.n_inputs + r1cs.n_aux
    longer = dataclasses.replace(lengths, a=every, b_g1=every, b_g2=every)
    with patch.object(setup, "expected_lengths", lambda _: longer):
        key = setup.make_key(backend, r1cs, DEV, CPU, Timeline())
    rows = {name: key.queries[name][: lengths.of(name)] for name in QUERIES}
    return MemoryKey(key.vk, rows)


@pytest.mark.parametrize(
    "name",
    [
        "window2k",
        "winning2k",
        "update2k",
        pytest.param("porep2k", marks=pytest.mark.full("6 s")),
    ],
)
def test_a_whole_proof_asks_for_nothing_else(name: str, tmp_path: Path) -> None:
    config = dataclasses.replace(
        load_config(ROOT / "configs" / f"{name}.yaml"),
        device="cpu",
        backend="torch",
        block_cache=tmp_path,
        runs=tmp_path,
    )
    session = api.open_session(config)
    circuit, ahead, backend = session.circuit, asked_ahead(), cast(Backend, Ones())
    assert config.input is not None
    job = api.load_job(session, config.input)
    with rehearsing() as asked:
        # no hash is what it should be, and some checks see it
        with suppress(InputError):
            circuit.check_job(backend, CPU, job)
        key = key_of_ones(backend, session.r1cs)
        witness = circuit.assignment(backend, circuit.witness(backend, CPU, job, 0))
        given, z = (backend, key, session.r1cs, lambda: witness), Randomisers(1, 2)
        for room in (Room(), Room(g1_points=9999, in_turn=True)):
            prove(*given, z, Timeline(), circuit=name, room=room)
    assert len(asked) > 20
    assert [asked[key] for key in asked.keys() - ahead.keys()] == []


def test_the_checks_at_the_start_ask_for_nothing_else() -> None:
    ahead = asked_ahead()
    with rehearsing() as asked:
        assert len(variants.mistakes(CPU, "ptx")) > 10
        known_answers(cast(Backend, triton_kernels), CPU)
    assert len(asked) > 40
    assert [asked[key] for key in asked.keys() - ahead.keys()] == []


def test_a_hash_tells_constants_types_and_options_apart() -> None:
    """So that the comparisons above can fail."""
    field = [x for x in LAUNCHES if x.kernel.__name__ == "binary_kernel"][:2]
    options = [x for x in LAUNCHES if x.kernel.__name__ == "spmv_kernel"][:1]
    other = [
        catalogue.Launch(x.kernel, x.constants, warps, registers, pointers)
        for x in options
        for warps, registers, pointers in (
            (x.num_warps, x.registers, {}),
            (2, x.registers, x.pointers),
            (x.num_warps, 64, x.pointers),
        )
    ]
    with rehearsing() as asked:
        for each in (*field, *options, *other):
            warm._start(each)
    assert len(asked) == 6


@triton.jit
def forgetful(out, n):
    tl.store(out, n)


def test_integers_that_kernels_are_specialised_on_are_refused() -> None:
    """Launches go by the types of integers, whatever their values."""
    out = torch.zeros(1, dtype=torch.int32)
    with rehearsing(), pytest.raises(TypeError, match="forgetful lacks n"):
        launch.run(forgetful, (1,), out, 16, num_warps=1)


def test_every_kernel_is_compiled_ahead() -> None:
    ahead = {id(x.kernel) for x in LAUNCHES}
    kernels = discovery.kernels()
    assert [name for name, kernel in kernels.items() if id(kernel) not in ahead] == []


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[catalogue.Launch]]:
    """An empty cache, and three kernels, for the compiler of a GPU that is not there."""
    names = ("make_keys", "pair_keys", "negate")
    chosen = [x for x in LAUNCHES if x.kernel.__name__ in names][:3]
    monkeypatch.setattr(warm, "launches", lambda variant, arch: chosen)
    with triton.knobs.cache.scope(), pretended():
        triton.knobs.cache.dir = str(tmp_path)
        yield chosen


def test_what_is_compiled_is_found_again(few: list[catalogue.Launch], tmp_path: Path) -> None:
    told: list[float] = []
    first = warm.warm(CPU, told.append, threads=2)
    assert (first.kernels, first.compiled, first.failed) == (3, 3, ())
    assert told == [1 / 3, 2 / 3, 1]
    assert len(list(tmp_path.rglob("*.cubin"))) == 3
    # by this process
    assert warm.warm(CPU).compiled == 0
    for each in few:
        each.kernel.device_caches.clear()
    # on disk
    told.clear()
    again = warm.warm(CPU, told.append)
    assert (again.compiled, len(told)) == (0, 3)


def test_a_launch_finds_what_was_compiled_ahead(few: list[catalogue.Launch]) -> None:
    warm.warm(CPU)
    with patch.object(triton.JITFunction, "_do_compile") as compile_:
        for each in few:
            kernel = each.kernel.warmup(
                *each.arguments(), **each.constants, num_warps=each.num_warps, grid=(1,)
            )
            assert isinstance(kernel, triton.compiler.CompiledKernel)
    assert not compile_.called


def test_what_fails_is_named_and_left_to_whoever_launches_it(few: list[catalogue.Launch]) -> None:
    good = next(x for x in LAUNCHES if x.kernel.__name__ == "unary_kernel")
    few.append(dataclasses.replace(good, constants={**good.constants, "OP": "cube"}))
    got = warm.warm(CPU)
    assert (got.kernels, got.compiled) == (4, 3)
    (reason,) = got.failed
    assert reason.startswith("unary_kernel: ")
    x = torch.zeros(24, 1, dtype=torch.int32)
    with pytest.raises(triton.CompilationError):
        good.kernel[(1,)](x, x, 1, 1, **few[-1].constants, num_warps=good.num_warps)


def test_an_interruption_ends_it(few: list[catalogue.Launch], tmp_path: Path) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        warm.warm(CPU, interrupt, threads=1)
    assert len(list(tmp_path.rglob("*.cubin"))) < 3
    # and leaves nothing behind that keeps it from being done
    for each in few:
        each.kernel.device_caches.clear()
    assert warm.warm(CPU).failed == ()
    assert len(list(tmp_path.rglob("*.cubin"))) == 3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="launches every kernel, on a GPU")
def test_nothing_is_compiled_at_first_use() -> None:
    """Of all that operations launch, but for `rate` and what has a form for few elements."""
    device = torch.device("cuda", 0)
    warm.warm(device)
    late: list[str] = []
    compile_ = triton.JITFunction._do_compile

    def noted(kernel: Any, key: str, *args: Any) -> Any:
        late.append(f"{kernel.__name__} {key}")
        return compile_(kernel, key, *args)

    with patch.object(triton.JITFunction, "_do_compile", noted):
        for name, operation in OPERATIONS.items():
            if name not in ("chain", "transforms", "quotient", "quotient in turn"):
                operation.run(triton_kernels, device, operation.size)
        for log_n in (12, 13, 14, 22):
            transform(log_n, device)
    assert late == []
