"""Settings tried one after the other, each of its own run and row; as many as time allows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Protocol

from torchzk.bench.sweep_cases import Setting, sectors_of
from torchzk.bench.sweep_measures import Times, figures_of, times_of
from torchzk.bench.sweep_prediction import predict
from torchzk.errors import TorchzkError
from torchzk.scheduler.stages import RunRecord

Row = dict[str, Any]


@dataclass(frozen=True)
class Proven:
    """What came of some sectors in one setting."""

    record: RunRecord
    start_ns: int
    """When the first was handed in, on the host's monotonic clock."""
    partitions: int
    """Of a sector."""
    proofs: frozenset[bytes]
    """SHA-256 of every sector's proof, all verified; one, since all have the same r and s."""
    devices: int = 1
    """On how many."""
    replanned: bool = False
    """Whether memory ran out, so that another plan than the first was gone by."""
    run: str | None = None
    """The folder of its timeline."""


class Prover(Protocol):
    """Proves sectors in a setting. Settings of one place come one after the other."""

    @property
    def circuit(self) -> str: ...

    @property
    def log_n(self) -> int:
        """Of the evaluation domain."""
        ...

    def prepare(self, setting: Setting) -> None:
        """Have the key where the setting wants it, and everything warm; not measured.

        Raises:
            ResourceError: It does not fit.
        """
        ...

    def prove(self, setting: Setting, sectors: int) -> Proven:
        """Put as many sectors through; raises what the first failed one ended with."""
        ...


def sweep(
    prover: Prover,
    settings: Sequence[Setting],
    *,
    sectors: int | None,
    seconds: float | None,
    emit: Callable[[Row], None],
    warn: Callable[[str], None],
    advance: Callable[[float], None],
    seen: Iterable[bytes] = (),
    first: Mapping[object, Times] = MappingProxyType({}),
    clock: Callable[[], float] = time.monotonic,
) -> list[Setting]:
    """Try settings in order, and keep a row of each as soon as it is there.

    Args:
        prover: What proves.
        settings: What to try.
        sectors: How many go through each; by default two and as many again as are in flight.
        seconds: After so many no more settings are begun that would end later.
        emit: Keeps a row.
        warn: Told of what failed; the next setting is tried then.
        advance: Told of the fraction done.
        seen: SHA-256 of proofs that were made of the same sector before.
        first: Times of settings that were measured before, the first of each place.
        clock: Seconds.

    Returns:
        Settings that were left out, for want of time or because their place is none.
    """
    start, pace, left_out = clock(), 0.0, list[Setting]()
    place: object = None
    same, known = set(seen), dict(first)
    for k, setting in enumerate(settings):
        n = sectors_of(setting, sectors)
        if seconds is not None and clock() - start + pace * n > seconds:
            left_out.append(setting)
            continue
        row = {
            "name": f"sweep.{prover.circuit}",
            "circuit": prover.circuit,
            "log_n": prover.log_n,
            "sectors": n,
            **asdict(setting),
        }
        begun = clock()
        try:
            if place != setting.place:
                place = None
                prover.prepare(setting)
                place = setting.place
                begun = clock()
            proven = prover.prove(setting, n)
            same |= proven.proofs
            row |= _measured(proven, setting, n) | {"right": len(same) == 1}
            row |= _foretold(known.get(place), setting, row)
            known.setdefault(place, times_of(proven.record))
        except (TorchzkError, RuntimeError) as e:
            # torch's own are RuntimeErrors: a device that fails costs one setting, if it recovers
            warn(f"{setting.name}: {type(e).__name__}: {e}")
            row |= {"right": False, "error": f"{type(e).__name__}: {e}"}
        else:
            # the last one tells best of the next; the first has more to do
            pace = (clock() - begun) / n
        emit(row)
        advance((k + 1) / len(settings))
    return left_out


def _measured(proven: Proven, setting: Setting, sectors: int) -> Row:
    figures = figures_of(proven.record, proven.start_ns, sectors, setting.in_flight)
    times = times_of(proven.record)
    said = predict(times, setting, proven.partitions, sectors, proven.devices)
    return {
        "partitions": proven.partitions,
        "devices": proven.devices,
        "replanned": proven.replanned,
        **figures,
        "predicted_seconds_a_proof": said.seconds_a_proof,
        "predicted_steady_seconds_a_proof": said.steady_seconds_a_proof,
        "predicted_busy": said.busy,
        "predicted_ratio": _ratio(said.seconds_a_proof, figures["seconds_a_proof"]),
        "predicted_busy_ratio": _ratio(said.busy, figures["busy"]),
        "proof_sha256": sorted(digest.hex() for digest in proven.proofs),
        "run": proven.run,
    }


def _foretold(first: Times | None, setting: Setting, row: Row) -> Row:
    """What the times of the place's first setting say of this one; None of the first itself."""
    if first is None:
        return {"foretold_seconds_a_proof": None, "foretold_ratio": None}
    said = predict(first, setting, row["partitions"], row["sectors"], row["devices"])
    ratio = _ratio(said.seconds_a_proof, row["seconds_a_proof"])
    return {"foretold_seconds_a_proof": said.seconds_a_proof, "foretold_ratio": ratio}


def _ratio(predicted: float, measured: float | None) -> float | None:
    return predicted / measured if measured else None
