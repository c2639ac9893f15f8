"""What the simulator says of a setting, from the times that were measured in its very run.

So what is tried is the schedule: locks, workers and sectors in flight, not how fast kernels are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from torchzk.bench.sweep_cases import Setting
from torchzk.bench.sweep_measures import Times
from torchzk.scheduler import machine
from torchzk.scheduler.simulation.outcome import simulate
from torchzk.scheduler.simulation.scenario import (
    HostWork,
    Machine,
    Partition,
    PolicyName,
    Scenario,
    Schedule,
    Sector,
    Stage,
)

_LEAST = 1e-6
"""Seconds of a stage at least: a simulated one takes time."""
_BETWEEN = "between the stages"


@dataclass(frozen=True)
class Prediction:
    """Of one setting."""

    seconds_a_proof: float
    """Over the whole run, with its start and its end."""
    steady_seconds_a_proof: float
    busy: float
    """Share of the time from the first kernels to the last, 0 to 1."""


def scenario_of(
    times: Times, setting: Setting, partitions: int, sectors: int, devices: int = 1
) -> Scenario:
    """The setting as a scenario.

    Reading and checking are done ahead, by stations of their own, so a sector in flight has been
    read already; memory is no limit, since what was measured had what it needed.
    """
    before, allocation = _before(times.steps, setting.policy)
    stages = [Stage(name=n, seconds=max(s, _LEAST)) for n, s in times.stages.items()]
    if times.between > _LEAST:
        stages.append(Stage(name=_BETWEEN, seconds=times.between))
    return Scenario(
        title=setting.name,
        source="measured in the run that it is compared with",
        chosen="nothing",
        sector=Sector(partitions=partitions),
        partition=Partition(
            stages=tuple(stages),
            before=HostWork(seconds=before),
            after=HostWork(seconds=times.steps.get("finish", 0.0)),
            allocation=allocation,
        ),
        machine=Machine(memory=1, devices=devices, cores=machine.cores()),
        schedule=Schedule(
            policy=cast("PolicyName", setting.policy.replace("-", "_")),
            workers=setting.workers,
            sectors_in_flight=setting.in_flight,
        ),
        sectors=sectors,
    )


def _before(steps: Mapping[str, float], policy: str) -> tuple[float, float]:
    """Seconds before the kernels: of the host by itself, and of staging.

    Where the simulator stages ahead, it does so beside the host's own work; here one follows the
    other. So both are one then, of that kind which takes longer.
    """
    prepare = steps.get("prepare", 0.0)
    staging = steps.get("admit", 0.0) + steps.get("stage", 0.0)
    if policy not in ("ahead", "two-locks"):
        return prepare, staging
    return (prepare + staging, 0.0) if prepare >= staging else (0.0, prepare + staging)


def predict(
    times: Times, setting: Setting, partitions: int, sectors: int, devices: int = 1
) -> Prediction:
    """Play the setting, with the stations before and after it.

    Raises:
        ConfigError: There were no stages to play.
    """
    outcome = simulate(scenario_of(times, setting, partitions, sectors, devices))
    stations = times.stations
    ends = sum(stations.values()) if times.ends is None else times.ends
    slowest = max(stations.values(), default=0.0)
    seconds = max(outcome.run_seconds, slowest * sectors) + ends
    kernels = sum(times.stages.values())
    share = kernels / (kernels + times.between) if kernels else 0.0
    steady = max(outcome.seconds_a_proof, slowest)
    busy = outcome.run_busy * share * min(1.0, outcome.run_seconds / max(slowest * sectors, 1e-9))
    return Prediction(seconds / sectors, steady, busy)
