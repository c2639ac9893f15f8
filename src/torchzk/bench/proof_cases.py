"""Benchmarks of whole proofs, as data: of which sector, in how much memory, how fast it must be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torchzk.circuits.job_head import JobKind
from torchzk.circuits.porep_shapes import porep_shape
from torchzk.circuits.update_shapes import update_shape
from torchzk.errors import ConfigError

PREFIX = "proof."
_GB = 10**9
_GIB = 1 << 30
_SIZES = {"2k": 2 << 10, "8m": 8 << 20, "32g": 32 << 30, "64g": 64 << 30}
_LIMITS = (80 * _GB, 48 * _GB, 24 * _GB, 16 * _GB)


@dataclass(frozen=True)
class Target:
    """The most that a figure may be, and the most that is wanted; None for no such wish."""

    must: float | None = None
    goal: float | None = None
    least: float | None = None
    """Below this a figure reaches neither: it is wrong."""


_NO_WISH = Target()


@dataclass(frozen=True)
class ProofBenchmark:
    """Proofs of one circuit, of a synthetic sector, with keys made for it and never written."""

    short: str
    """Kind and size: `porep32g`."""
    kind: JobKind
    sector_size: int
    """Bytes."""
    inputs_sha256: tuple[str, ...]
    """Of the public inputs of the first partitions, ONE first, 32 little-endian bytes each: as
    filecoin-proofs 19.1 synthesised them for this very sector."""
    partition: Target
    """Seconds of the device for one partition, from the first stage's start to the last's end."""
    whole: Target | None
    """Seconds from the job file to verified bytes of all partitions; None: only one is proven."""
    keys: Target
    """Seconds in which the keys are made."""
    limits: tuple[int, ...]
    """Bytes of the device to prove in again, after as much as there is; largest first."""
    repeats: int
    """How often all is proven once more, to see that memory stays as it is."""

    @property
    def name(self) -> str:
        return PREFIX + self.short

    @property
    def sector_name(self) -> str:
        """Of which ticket, seed and randomness are hashes: `synth32g`."""
        return "synth" + self.short.removeprefix(self.kind)

    def partitions_of(self, most: int | None) -> int:
        """Partitions of the synthetic sector's job, `most` at most; one in a PoSt of one sector."""
        if self.kind == "porep":
            n = porep_shape(self.sector_size).n_partitions
        elif self.kind == "update":
            n = update_shape(self.sector_size).n_partitions
        else:
            n = 1
        return n if most is None else min(most, n)


HOST_RSS = Target(64 * _GIB, 24 * _GIB)
"""Bytes resident on the host at most, with the keys on the device."""
PLAN = Target(1.10, 1.05, least=1.0)
"""The plan's peak of the device over the measured one; below 1 it is wrong."""
SLOWER: dict[int, Target] = {24 * _GB: Target(goal=3.0)}
"""Time of a partition within a limit over its time without one."""


def _proof(
    kind: JobKind,
    size: str,
    *inputs_sha256: str,
    partition: Target = _NO_WISH,
    whole: Target | None = None,
    keys: Target = _NO_WISH,
    limits: tuple[int, ...] = (),
    repeats: int = 0,
) -> ProofBenchmark:
    return ProofBenchmark(
        kind + size, kind, _SIZES[size], inputs_sha256, partition, whole, keys, limits, repeats
    )


PROOFS: tuple[ProofBenchmark, ...] = (
    _proof(
        "porep",
        "32g",
        "99e70ef05cccb3bd188562274ddc8f1f7049e8f47e298fbdc83fb0ece2ce5dc7",
        "f9433fcd60537b9bca3dab97efc48cee1f6200c02b64788c2b435b994e9f08ce",
        partition=Target(1.2, 0.88),
        whole=Target(14, 9.5),
        keys=Target(60, 15),
        limits=_LIMITS,
    ),
    _proof(
        "winning",
        "32g",
        "39666ffce53e96d41b7fac088c1ffdfc7abe2d4ec322dc271823e09912f31eba",
        partition=Target(0.5, 0.15),
        limits=_LIMITS,
    ),
    _proof(
        "window",
        "32g",
        "06a8067f8570137a3a0b226b8a4232766e2e51193be68fcb29db803001b2efd7",
        partition=Target(4.5, 3.4),
        limits=_LIMITS,
    ),
    _proof(
        "update",
        "32g",
        "f3e0cd82f13dba8de7d3a8d6825324a261e7c99aad5e10398ba76799234ef3be",
        partition=Target(1.4, 0.95),
        limits=_LIMITS,
    ),
    _proof(
        "porep",
        "64g",
        "6bf512b224cb4599ba00338ff133aff984b19a9f8e045585eaedfd690b20cbdb",
        partition=Target(goal=0.9),
        limits=_LIMITS,
    ),
    _proof(
        "porep",
        "8m",
        "a95fc3ba21fd3e36c551fc73730263b3f2c9a25a93e46ff09b2623b8dea4857d",
        whole=_NO_WISH,
        limits=(4 * _GB,),
        repeats=20,
    ),
    _proof(
        "porep",
        "2k",
        "8a5464ca4057f2f554d009dac39f783643157f35ddd1d3c1242e9bae76036cdb",
        whole=_NO_WISH,
    ),
    _proof(
        "winning",
        "2k",
        "3fdc3040138ee5953bcbf877f4c06dd28c7621add064da38f4bd211402b36235",
        whole=_NO_WISH,
    ),
    _proof(
        "window",
        "2k",
        "09bc9a9afb9433ff7bd6596c6f2ad47d70e88890a700fd31cd6c9e27afa10991",
        whole=_NO_WISH,
    ),
    _proof(
        "update",
        "2k",
        "b36dff9216741b4e67a8b6c5c624bcde8617ceec6338887ff9ec00fd31fc2ee5",
        whole=_NO_WISH,
    ),
)
"""Those of 32 GiB are what the network proves; small ones show the same path anywhere."""


def is_proof(pattern: str) -> bool:
    """Whether a name, its beginning or a glob is about proofs."""
    return pattern.startswith(PREFIX.rstrip("."))


def select_proofs(patterns: Sequence[str]) -> list[ProofBenchmark]:
    """The proofs that patterns name, in the order of `PROOFS`; other patterns are let be.

    Raises:
        ConfigError: A pattern of proofs names none.
    """
    ours = [pattern for pattern in patterns if is_proof(pattern)]
    for pattern in ours:
        if not any(_matches(p.name, pattern) for p in PROOFS):
            known = ", ".join(p.name for p in PROOFS)
            raise ConfigError(f"no proof is called {pattern}; there are {known}")
    return [p for p in PROOFS if any(_matches(p.name, pattern) for pattern in ours)]


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern) or fnmatchcase(name, pattern)
