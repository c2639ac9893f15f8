"""SHA-256 and Poseidon of many messages; a few come again and again, which Python hashes."""

from __future__ import annotations

import hashlib
import random

import torch

from torchzk.bench import floors
from torchzk.bench.cases import Benchmark
from torchzk.bench.prepared import Prepare, Prepared
from torchzk.bench.workshop import PERIOD, Workshop
from torchzk.ops.layout import pack_mont
from torchzk.params.fields import FR
from torchzk.params.poseidon import Poseidon


def sha256(length: int) -> Prepare:
    """Digests of n messages of `length` bytes."""

    def prepare(benchmark: Benchmark, shop: Workshop) -> Prepared:
        n, rng = benchmark.size, random.Random(20)
        few = [rng.randbytes(length) for _ in range(PERIOD)]
        messages = shop.periodic(_columns(few), n).t().contiguous()

        def is_right(digests: torch.Tensor) -> bool:
            expected = _columns([hashlib.sha256(m).digest() for m in few])
            return torch.equal(digests, shop.periodic(expected, n).t())

        n_blocks = n * (-(-(length + 9) // 64))
        floor = floors.sha256(n_blocks, n * (length + 32))
        return Prepared(lambda: shop.backend.sha256(messages), is_right, n * length, "bytes", floor)

    return prepare


def poseidon(arity: int) -> Prepare:
    """Digests of n nodes of a tree."""
    instance = Poseidon.merkle(arity)

    def prepare(benchmark: Benchmark, shop: Workshop) -> Prepared:
        n, rng = benchmark.size, random.Random(21)
        few = [[rng.randrange(FR.modulus) for _ in range(arity)] for _ in range(PERIOD)]
        planes = [pack_mont([m[k] for m in few], FR, "cpu") for k in range(arity)]
        inputs = shop.periodic(torch.stack(planes, 1), n)

        def is_right(digests: torch.Tensor) -> bool:
            expected = pack_mont([instance.digest(m) for m in few], FR, "cpu")
            return torch.equal(digests, shop.periodic(expected, n))

        floor = floors.poseidon(n, instance)
        return Prepared(
            lambda: shop.backend.poseidon(inputs, instance), is_right, n, "hashes", floor
        )

    return prepare


def _columns(messages: list[bytes]) -> torch.Tensor:
    """uint8 `[length, n]`."""
    flat = torch.frombuffer(bytearray(b"".join(messages)), dtype=torch.uint8)
    return flat.view(len(messages), -1).t()
