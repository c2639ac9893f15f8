"""Workers and buffers for a scenario, by trying them: what is best with a budget, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from torchzk.errors import ConfigError
from torchzk.scheduler.simulation.outcome import Outcome, simulate
from torchzk.scheduler.simulation.scenario import Scenario

BUDGETS = tuple(gib << 30 for gib in (16, 24, 32, 48, 64, 80, 96, 136))
"""Device memory of usual cards, less what a driver keeps of the largest."""
WORKERS = (1, 2, 3, 4)
_STAGING = (1, 2, 4)
"""Times the scenario's own buffers, where something is uploaded."""
_ALIKE = 0.01
"""What is no faster than by this share is no reason to take more workers or memory."""


@dataclass(frozen=True)
class Choice:
    """The best for one budget; `tried` has the others, None where nothing fits."""

    budget: int
    """Bytes of a device."""
    best: Outcome | None
    tried: tuple[Outcome, ...]


def recommend(scenario: Scenario, budgets: Iterable[int] = BUDGETS) -> list[Choice]:
    """The best of all tried numbers of workers and sizes of buffers, for each budget.

    Best is the fastest; of those that are within 1 % of it, the one with fewest workers, and then
    with least memory planned.
    """
    return [_choose(scenario, budget) for budget in sorted({*budgets, scenario.machine.memory})]


def smallest(choices: Iterable[Choice]) -> Choice | None:
    """The choice of the smallest budget with which it is no slower than with any other."""
    found = [(choice, choice.best) for choice in choices if choice.best]
    fastest = min((best.seconds_a_proof for _, best in found), default=0.0)
    alike = [c for c, best in found if best.seconds_a_proof <= fastest * (1 + _ALIKE)]
    return min(alike, key=lambda choice: choice.budget, default=None)


def reasons(choice: Choice) -> list[str]:
    """Why the choice is the best with its budget, as sentences."""
    best = choice.best
    if best is None:
        return [f"one partition does not fit into {_gib(choice.budget)}"]
    schedule = best.scenario.schedule
    said = [
        f"at work: kernels {best.busy:.1%} of the time, link {best.link_busy:.1%}, "
        f"preparers {best.preparers_busy:.1%}"
    ]
    for workers, word in ((schedule.workers - 1, "fewer"), (schedule.workers + 1, "more")):
        others = [o for o in choice.tried if o.scenario.schedule.workers == workers]
        if others:
            other = min(others, key=lambda o: o.seconds_a_proof)
            gain = other.seconds_a_proof / best.seconds_a_proof - 1
            said.append(
                f"one worker {word}: {other.seconds_a_proof:.2f} s a proof, {gain:+.1%}"
                f"{_longest_wait(other)}"
            )
    smaller = [o for o in choice.tried if o.scenario.schedule.staging < schedule.staging]
    if smaller:
        other = min(smaller, key=lambda o: o.seconds_a_proof)
        said.append(
            f"with {_gib(other.scenario.schedule.staging)} of buffers: "
            f"{other.seconds_a_proof:.2f} s a proof{_longest_wait(other)}"
        )
    return said


def _choose(scenario: Scenario, budget: int) -> Choice:
    uploads = any(stage.upload for stage in scenario.partition.stages)
    tried: list[Outcome] = []
    for workers in WORKERS:
        for times in _STAGING if uploads else (1,):
            try:
                tried.append(simulate(_with(scenario, budget, workers, times)))
            except ConfigError:
                # one partition does not fit with so much resident or staged
                continue
    fastest = min((o.seconds_a_proof for o in tried), default=0.0)
    alike = [o for o in tried if o.seconds_a_proof <= fastest * (1 + _ALIKE)]
    best = min(alike, key=lambda o: (o.scenario.schedule.workers, o.most_planned), default=None)
    return Choice(budget, best, tuple(tried))


def _with(scenario: Scenario, budget: int, workers: int, times: int) -> Scenario:
    schedule = replace(
        scenario.schedule, workers=workers, staging=scenario.schedule.staging * times
    )
    return replace(
        scenario, machine=replace(scenario.machine, memory=budget), schedule=schedule, sectors=0
    )


def _longest_wait(outcome: Outcome) -> str:
    waits = [w for w in outcome.waits if w.who == "workers"]
    if not waits or waits[0].share < _ALIKE:
        return ", workers hardly wait"
    return f", workers wait {waits[0].share:.0%} of their time for {waits[0].what}"


def _gib(n_bytes: int) -> str:
    return f"{n_bytes / 2**30:.1f} GiB"
