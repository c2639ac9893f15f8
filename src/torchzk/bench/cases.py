"""The benchmarks, as data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal

from torchzk.errors import ConfigError

Inputs = Literal["uniform", "equal", "ones90", "sorted", "bits16", "half"]
"""Scalars: uniform below r, all equal, nine in ten 1, uniform and sorted, below 2^16. Half of the
points chosen, by bits, for sums of points."""
Unit = Literal["ms", "G/s", "M/s", "GB/s"]


@dataclass(frozen=True)
class Benchmark:
    """One operation on inputs of one kind and size."""

    operation: str
    """What is called, a key of `operations.OPERATIONS`; names the curve or field too."""
    size: int
    """Elements, points or rows; of chains their length."""
    inputs: Inputs = "uniform"
    limit_bytes: int | None = None
    """Scratch memory allowed, where the operation has a limit."""
    by_size: bool = True
    """Whether the size is part of the name."""

    @property
    def name(self) -> str:
        """Operation, size, and what is special: `msm.g1.2^24.ones90`."""
        parts = [self.operation]
        if self.by_size:
            log_n = self.size.bit_length() - 1
            parts.append(f"2^{log_n}" if self.size == 1 << log_n else str(self.size))
        if self.inputs != "uniform":
            parts.append(self.inputs)
        if self.limit_bytes is not None:
            parts.append(f"{self.limit_bytes / (1 << 30):g}GiB")
        return ".".join(parts)

    @property
    def against(self) -> Benchmark | None:
        """What it is compared with: the uniform inputs of its size, or the largest limit."""
        if self.limit_bytes is not None and self.limit_bytes != MOST_BYTES:
            return replace(self, limit_bytes=MOST_BYTES)
        return replace(self, inputs="uniform") if self.inputs != "uniform" else None

    @property
    def unit(self) -> Unit:
        """Of the figures it is known by."""
        return UNITS.get(self.operation.partition(".")[0], "ms")

    def resized(self, size: int) -> Benchmark:
        """The same of another size, which its name then says."""
        return replace(self, size=size, by_size=True)

    def figure(self, seconds: float, work: float) -> float:
        """A time, and the units of work done in it, as a figure in `unit`."""
        if self.unit == "ms":
            return 1e3 * seconds
        return work / seconds / (1e6 if self.unit == "M/s" else 1e9)


UNITS: dict[str, Unit] = {
    "field": "G/s",
    "stream": "G/s",
    "inverse": "M/s",
    "fixed_base": "M/s",
    "poseidon": "M/s",
    "sha256": "GB/s",
}
"""By the first part of an operation's name; milliseconds for the others."""

MOST_BYTES = 40 << 30
_SKEWED: tuple[Inputs, ...] = ("equal", "ones90", "sorted", "bits16")


def _sizes(operation: str, *logs: int) -> Iterator[Benchmark]:
    return (Benchmark(operation, 1 << log_n) for log_n in logs)


BENCHMARKS: tuple[Benchmark, ...] = (
    *(
        Benchmark(f"field.{link}.{field}", 1 << 14, by_size=False)
        for link in ("mul", "sqr", "add")
        for field in ("fr", "fp")
    ),
    Benchmark("field.mul.fp2", 1 << 13, by_size=False),
    *_sizes("stream.mul.fr", 24),
    *_sizes("stream.mul.fp", 24),
    *_sizes("inverse.fr", 22),
    *_sizes("ntt", 20, 22, 24, 26, 27),
    *_sizes("intt", 20, 22, 24, 26, 27),
    *_sizes("quotient", 20, 24, 27),
    *_sizes("msm.g1", 20, 22),
    *_sizes("msm.g1", 24),
    *(Benchmark("msm.g1", 1 << 24, kind) for kind in _SKEWED),
    *_sizes("msm.g1", 26, 27),
    *(Benchmark("msm.g1", 1 << 27, limit_bytes=gib << 30) for gib in (40, 24, 12, 4)),
    *_sizes("msm.g2", 18, 20, 22, 24),
    *_sizes("batch_add.g1", 24),
    Benchmark("batch_add.g1", 1 << 24, "half"),
    *_sizes("batch_add.g2", 22),
    *_sizes("fixed_base.g1", 22),
    *_sizes("fixed_base.g2", 22),
    *_sizes("spmv", 22),
    *_sizes("spmv_copies", 22),
    *_sizes("spmv_transposed", 22),
    *_sizes("sha256.64B", 22),
    *_sizes("sha256.1216B", 18),
    *_sizes("poseidon.2", 20),
    *_sizes("poseidon.8", 20),
    *_sizes("poseidon.11", 20),
)


def select(patterns: Sequence[str], size: int | None = None) -> list[Benchmark]:
    """The benchmarks that patterns name, in order, with those they are compared with.

    Args:
        patterns: Names, beginnings of names, or globs; all benchmarks if there is none.
        size: Takes the place of every size.

    Raises:
        ConfigError: A pattern names nothing.
    """
    for pattern in patterns:
        if not any(_matches(b.name, pattern) for b in BENCHMARKS):
            raise ConfigError(f"no benchmark is called {pattern}; --list shows all names")
    chosen = [b for b in BENCHMARKS if not patterns or any(_matches(b.name, p) for p in patterns)]
    if size is not None:
        chosen = [b.resized(size) for b in chosen]
    return list(_in_order(chosen))


def _matches(name: str, pattern: str) -> bool:
    if any(pattern == b.name for b in BENCHMARKS):
        return name == pattern
    return name.startswith(pattern) or fnmatchcase(name, pattern)


def _in_order(chosen: Iterable[Benchmark]) -> Iterator[Benchmark]:
    """Each once, after what it is compared with."""
    seen: set[Benchmark] = set()
    for benchmark in chosen:
        for b in (benchmark.against, benchmark):
            if b is not None and b not in seen:
                seen.add(b)
                yield b
