"""Every operation of the package once, with inputs of every kind that its kernels tell apart.

Each is run by the kernels and by the reference. `test_operations` compares them, and so does
`sanitize.py` under compute-sanitizer. Sizes are no multiples of a block.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch

from ops.test_spmv import MIXED
from ops.test_spmv import sample as sparse
from ops.test_spmv_copies import Blocks
from torchzk import ops
from torchzk.ops.layout import pack, points_to_rows
from torchzk.params import integers
from torchzk.params.curves import CURVES, Curve, Point
from torchzk.params.domains import Domain
from torchzk.params.fields import FP, FR, PrimeField
from torchzk.params.poseidon import Poseidon
from torchzk.triton_kernels import inverse, rate
from torchzk.triton_kernels.variants import field_code_on
from triton_kernels.samples import sample, tuned

Value = torch.Tensor | Point | list[Point]


@dataclass(frozen=True)
class Operation:
    """What is run, on a backend's module and a device, at a size; the results."""

    name: str
    needs: tuple[str, ...]
    """The functions of the module."""
    run: Callable[[Any, torch.device, int], list[Value]]
    size: int
    interpreted: int = 0
    """The size in the interpreter; 0 where it would take minutes, and other tests do it."""


def equal(a: list[Value], b: list[Value]) -> bool:
    """Whether results are the same, bit for bit, wherever they are."""
    return len(a) == len(b) and all(
        torch.equal(x.cpu(), y.cpu())
        if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor)
        else type(x) is type(y) and x == y
        for x, y in zip(a, b, strict=True)
    )


@contextmanager
def levels() -> Iterator[None]:
    """Few elements take the levels of inversions that only many do otherwise."""
    with ExitStack() as stack:
        for module, name, value in (
            (inverse, "TOP", 32),
            (inverse, "STEPS", 3),
        ):
            stack.enter_context(patch.object(module, name, value))
        stack.enter_context(tuned({"lanes of pairs": 32, "inverted alone": 32}))
        yield


def some_points(curve: Curve, n: int) -> list[Point]:
    """Infinite, equal and opposite ones among them, next to each other too."""
    rng = random.Random(n)
    known = [integers.mul(curve, rng.randrange(1, 1 << 64), curve.generator) for _ in range(6)]
    known += [None, integers.neg(curve, known[0]), integers.neg(curve, known[1])]
    edges = [known[0], known[0], known[0], known[7], None, None, known[1]]
    return (edges + rng.choices(known, k=n))[:n]


def _field(field: PrimeField) -> Callable[[Any, torch.device, int], list[Value]]:
    def run(backend: Any, device: torch.device, n: int) -> list[Value]:
        a, b = (pack(sample(field, n, seed), field, device) for seed in (1, 2))
        pairs = [f(a, b, field) for f in (backend.add, backend.sub, backend.mont_mul)]
        alone = (backend.neg, backend.mont_sqr, backend.to_mont, backend.from_mont)
        return [*pairs, *(f(a, field) for f in alone), backend.scale(a, -3, field)]

    return run


def _chain(backend: Any, device: torch.device, n: int) -> list[Value]:
    """What measures the rate of products; no operation of backends."""
    a, b = (pack(sample(FR, n, seed), FR, device) for seed in (16, 17))
    if backend is not ops:
        code = field_code_on(device, FR)
        return [rate.chain("mul", a, b, 8, code), rate.chain("add", a, b, 8, code)]
    product = total = a
    for _ in range(8):
        product, total = ops.mont_mul(product, b, FR), ops.add(total, b, FR)
    return [product, total]


def _inverse(field: PrimeField) -> Callable[[Any, torch.device, int], list[Value]]:
    def run(backend: Any, device: torch.device, n: int) -> list[Value]:
        a = pack(sample(field, n, 3), field, device)
        with levels():
            return [backend.batch_inverse(a, field), backend.batch_inverse(a[:, 1:8], field)]

    return run


def _fp2(backend: Any, device: torch.device, n: int) -> list[Value]:
    a, b = (
        torch.stack([pack(sample(FP, n, seed + c), FP, device) for c in (0, 1)]) for seed in (4, 6)
    )
    pairs = [f(a, b, FP) for f in (backend.fp2_add, backend.fp2_sub, backend.fp2_mul)]
    with levels():
        inverses = backend.fp2_batch_inverse(a[:, :, :100], FP)
    return [*pairs, backend.fp2_neg(a, FP), backend.fp2_sqr(a, FP), inverses]


def _transforms(backend: Any, device: torch.device, n: int) -> list[Value]:
    out: list[Value] = []
    for log_n in (0, 1, 2, 3, n - 3, n - 2, n - 1, n):
        domain = Domain(log_n)
        x = pack(sample(FR, 3 * domain.size, log_n), FR, device).view(8, 3, domain.size)
        transforms = (backend.ntt_dif, backend.intt_dit, backend.ntt, backend.intt)
        out += [f(x, domain) for f in transforms]
    return out


def _coset_scale(backend: Any, device: torch.device, n: int) -> list[Value]:
    x = pack(sample(FR, 3 * n, 7), FR, device).view(8, 3, n)
    return [backend.coset_scale(x, 7)]


def _quotient(backend: Any, device: torch.device, n: int) -> list[Value]:
    out: list[Value] = []
    for log_n in (0, 2, n - 2, n - 1, n):
        domain = Domain(log_n)
        abc = (pack(sample(FR, domain.size, seed), FR, device) for seed in (8, 9, 10))
        out.append(backend.quotient(*abc, domain))
    return out


def _quotient_in_turn(backend: Any, device: torch.device, n: int) -> list[Value]:
    out: list[Value] = []
    for log_n, log_split in ((0, 3), (2, 1), (2, 3), (n - 2, 2), (n - 1, 4), (n, 3)):
        domain = Domain(log_n)

        def vector(name: str, size: int = domain.size) -> torch.Tensor:
            return pack(sample(FR, size, 18 + "abc".index(name)), FR, device)

        out.append(backend.quotient_in_turn(vector, domain, log_split=log_split))
    return out


def _curve(curve: Curve) -> Callable[[Any, torch.device, int], list[Value]]:
    def run(backend: Any, device: torch.device, n: int) -> list[Value]:
        p = points_to_rows(some_points(curve, n), curve, device)
        q = p.flip(0).contiguous()
        wrong = p.clone()
        wrong.flatten(1)[::3, 0] ^= 1
        out: list[Value] = [backend.add_affine(p, q, curve), backend.neg_affine(p, curve)]
        with levels():
            out.append(backend.add_affine(p, q, curve))
        return [*out, backend.on_curve(p, curve), backend.on_curve(wrong, curve)]

    return run


def _msm(curve: Curve) -> Callable[[Any, torch.device, int], list[Value]]:
    def run(backend: Any, device: torch.device, n: int) -> list[Value]:
        rows = points_to_rows(some_points(curve, n), curve, device)
        x = pack(sample(FR, n, 11), FR, device)
        low = x.clone()
        low[0] &= (1 << 20) - 1
        low[1:] = 0
        out: list[Value] = [backend.msm(x, rows, curve), backend.msm(low, rows, curve)]
        with levels():
            out.append(backend.msm(x, rows, curve))
        return [*out, backend.bit_sums(low, rows, curve, 20)]

    return run


def _batch_add(curve: Curve) -> Callable[[Any, torch.device, int], list[Value]]:
    def run(backend: Any, device: torch.device, n: int) -> list[Value]:
        rows, rng = points_to_rows(some_points(curve, n), curve, device), random.Random(n)
        bits = torch.tensor([rng.random() < 0.6 for _ in range(n)], device=device)
        names = torch.tensor(rng.choices(range(n), k=2 * n + 1), device=device)
        out: list[Value] = [backend.batch_add(rows, c, curve) for c in (None, bits, names)]
        with levels():
            out.append(backend.batch_add(rows, bits, curve))
        return out

    return run


def _fixed_base(curve: Curve) -> Callable[[Any, torch.device, int], list[Value]]:
    def run(backend: Any, device: torch.device, n: int) -> list[Value]:
        x = pack(sample(FR, n, 12), FR, device)
        # two windows
        low = x & 0xFF
        low[1:] = 0
        return [backend.fixed_base(k, curve.generator, curve) for k in (x, low)]

    return run


def _products(backend: Any, device: torch.device, n: int) -> list[Value]:
    rng = random.Random(n)
    lengths = [rng.choice([0, 1, 2, 3, min(n, 40), n // 2]) for _ in range(n)]
    matrix = sparse(lengths, n, MIXED).to(device)
    one = pack(sample(FR, n, 13), FR, device)
    three = pack(sample(FR, 3 * n, 14), FR, device).view(8, n, 3)
    return [f(matrix, z) for f in (backend.spmv, backend.spmv_transposed) for z in (one, three)]


def _copies(backend: Any, device: torch.device, n: int) -> list[Value]:
    blocks = Blocks(shared_inputs=1, inputs=2, shared_aux=9, imports=3, aux=17, copies=n)
    s = blocks.sample(device)
    out = torch.full((8, n * s.matrix.n_rows), -1, dtype=torch.int32, device=device)
    backend.spmv_copies(s.matrix, s.copies, s.inputs, s.aux, out)
    return [out]


def _values(backend: Any, device: torch.device, n: int) -> list[Value]:
    x = pack(sample(FR, n, 18), FR, device)
    x[:, n // 3 : n // 2], x[:, n // 2 : -9] = 0, pack([FR.to_mont(1)], FR, device)
    index = torch.arange(n - 1, -1, -3, dtype=torch.int32, device=device)
    whole, some = x.clone(), torch.full((8, n), -1, dtype=torch.int32, device=device)
    backend.from_mont_at(whole, None, whole)
    backend.from_mont_at(x, index, some[:, 5 : 5 + len(index)])
    # a row that does not hold, and one more; the values are their own products but for others
    wrong = backend.mont_sqr(x, FR)
    wrong[0, n - 7] ^= 1
    wrong[7, n - 20] ^= 4
    rows = (n, n - 8, n - 20)
    found = [backend.first_unsatisfied(*(v[:, :k] for v in (x, x, wrong))) for k in rows]
    return [backend.classes(x), backend.classes(x[:, 1:]), whole, some, *found]


def _sha256(backend: Any, device: torch.device, n: int) -> list[Value]:
    generator = torch.Generator().manual_seed(n)
    return [
        backend.sha256(
            torch.randint(256, (n, k), generator=generator, dtype=torch.uint8).to(device)
        )
        for k in (0, 1, 55, 56, 64, 119, 200)
    ]


def _sha256_steps(backend: Any, device: torch.device, n: int) -> list[Value]:
    generator = torch.Generator().manual_seed(n)
    blocks, states = (
        torch.randint(-(1 << 31), 1 << 31, (k, n), generator=generator, dtype=torch.int32)
        for k in (16, 8)
    )
    return [backend.sha256_steps(blocks.to(device), states.to(device))]


def _poseidon(arity: int) -> Callable[[Any, torch.device, int], list[Value]]:
    def run(backend: Any, device: torch.device, n: int) -> list[Value]:
        instance = Poseidon.merkle(arity)
        x = pack(sample(FR, arity * n, 15), FR, device).view(8, arity, n)
        return [backend.poseidon(x, instance), backend.poseidon_wires(x, instance)]

    return run


def _all() -> Iterator[Operation]:
    field = ("add", "sub", "neg", "mont_mul", "mont_sqr", "scale", "to_mont", "from_mont")
    for f in (FR, FP):
        yield Operation(f"field {f.name}", field, _field(f), 1027, 131)
        yield Operation(f"inverse {f.name}", ("batch_inverse",), _inverse(f), 1027)
    yield Operation("chain", (), _chain, 1027, 131)
    extension = tuple(f"fp2_{op}" for op in ("add", "sub", "neg", "mul", "sqr", "batch_inverse"))
    yield Operation("fp2", extension, _fp2, 1027)
    yield Operation("transforms", ("ntt_dif", "intt_dit", "ntt", "intt"), _transforms, 13)
    yield Operation("coset scale", ("coset_scale",), _coset_scale, 1027, 45)
    yield Operation("quotient", ("quotient",), _quotient, 13)
    yield Operation("quotient in turn", ("quotient_in_turn",), _quotient_in_turn, 13)
    for name, curve in CURVES.items():
        affine = ("add_affine", "neg_affine", "on_curve")
        yield Operation(f"curve {name}", affine, _curve(curve), 1999)
        yield Operation(f"sums {name}", ("msm", "bit_sums"), _msm(curve), 301)
        yield Operation(f"batch addition {name}", ("batch_add",), _batch_add(curve), 301)
        yield Operation(f"fixed base {name}", ("fixed_base",), _fixed_base(curve), 65)
    yield Operation("products", ("spmv", "spmv_transposed"), _products, 301)
    yield Operation("products of copies", ("spmv_copies",), _copies, 131)
    passes = ("classes", "from_mont_at", "first_unsatisfied")
    yield Operation("values", passes, _values, 1027, 131)
    yield Operation("sha256", ("sha256",), _sha256, 259)
    yield Operation("sha256 steps", ("sha256_steps",), _sha256_steps, 259)
    for arity in (2, 4, 8, 11):
        hashes = ("poseidon", "poseidon_wires")
        yield Operation(f"poseidon {arity}", hashes, _poseidon(arity), 131)


OPERATIONS = {operation.name: operation for operation in _all()}


def there(module: object, operation: Operation) -> bool:
    """Whether a package has what an operation needs."""
    return all(hasattr(module, name) for name in operation.needs)
