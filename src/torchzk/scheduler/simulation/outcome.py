"""What a simulation says: throughput, how busy each resource was, who waited for what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torchzk.scheduler.simulation.engine import Played, play
from torchzk.scheduler.simulation.record import Interval, merged, overlap
from torchzk.scheduler.simulation.scenario import Scenario

_NEARLY_ALL = 0.95


@dataclass(frozen=True)
class Waiting:
    """All waits of one kind, in the steady state."""

    who: str
    what: str
    seconds: float
    """A partition."""
    share: float
    """Of the time of all of those who may wait, 0 to 1."""


@dataclass(frozen=True)
class Outcome:
    """The figures of one simulation; busy is a share of the time, 0 to 1, of all devices alike."""

    played: Played
    window: Interval
    """The steady state, in simulated seconds."""
    seconds_a_proof: float
    """In the steady state."""
    busy: float
    """Merged kernel time, in the steady state."""
    jobs_busy: float
    """Time in which at least one worker of a device has a job, in the steady state."""
    link_busy: float
    preparers_busy: float
    waits: tuple[Waiting, ...]
    """The longest first."""
    run_seconds: float
    """From the first sector's start to the last one's end."""
    run_seconds_a_proof: float
    run_busy: float
    """Merged kernel time, from the first kernel to the last."""
    run_jobs_busy: float
    """Time with a job, over the whole run."""

    @property
    def scenario(self) -> Scenario:
        return self.played.scenario

    @property
    def most_planned(self) -> int:
        """Bytes of device memory, on the device that planned most."""
        return self.played.most_planned

    @property
    def compared(self) -> tuple[float, float]:
        """Seconds a proof and busy as `Scenario.published` counts them."""
        published = self.scenario.published
        kernels, jobs = (
            (self.busy, self.jobs_busy)
            if published.span == "steady"
            else (self.run_busy, self.run_jobs_busy)
        )
        seconds = self.seconds_a_proof if published.span == "steady" else self.run_seconds_a_proof
        return seconds, kernels if published.busy_counts == "kernels" else jobs

    @property
    def limit(self) -> str:
        """Which resource sets the pace, if one is at work nearly all the time."""
        shares = {
            "kernels": self.busy,
            "link": self.link_busy,
            "host": self.preparers_busy,
        }
        name = max(shares, key=lambda key: shares[key])
        return name if shares[name] > _NEARLY_ALL else "none"


def simulate(scenario: Scenario) -> Outcome:
    """Play a scenario and sum it up.

    Raises:
        ConfigError: One partition alone does not fit into the memory of a device.
    """
    played = play(scenario)
    record, schedule = played.record, scenario.schedule
    ends = record.sectors
    # the pipeline fills in the first sectors, and runs empty after the last was let in
    first = min(schedule.sectors_in_flight, len(ends) - 1) - 1
    last = max(len(ends) - schedule.sectors_in_flight - 1, first + 1)
    window = (ends[first] if first >= 0 else 0.0, ends[min(last, len(ends) - 1)])
    seconds = window[1] - window[0]
    proofs = max(1, min(last, len(ends) - 1) - first)
    run = (0.0, record.clock.now)
    inner = _ends(record.kernels.values())
    return Outcome(
        played,
        window,
        seconds / proofs,
        _share(record.kernels.values(), window),
        _share(record.jobs.values(), window),
        _share(record.uploads.values(), window),
        _sum(record.prepared, window) / (seconds * schedule.preparers),
        _waits(played, window, proofs * scenario.sector.partitions),
        run[1],
        run[1] / len(ends),
        _share(record.kernels.values(), inner),
        _share(record.jobs.values(), run),
    )


def _waits(played: Played, window: Interval, partitions: int) -> tuple[Waiting, ...]:
    schedule = played.scenario.schedule
    there = {
        "workers": schedule.workers * played.scenario.machine.devices,
        "preparers": schedule.preparers,
    }
    seconds: dict[tuple[str, str], float] = {}
    for wait in played.record.waits:
        key = (wait.who, wait.what)
        seconds[key] = seconds.get(key, 0.0) + overlap(wait.start, wait.end, window)
    found = (
        Waiting(who, what, s / partitions, s / (there[who] * (window[1] - window[0])))
        for (who, what), s in seconds.items()
        if s > 0
    )
    return tuple(sorted(found, key=lambda w: -w.share))


def _share(devices: Iterable[list[Interval]], window: Interval) -> float:
    each = [merged(intervals, window) for intervals in devices]
    # rounding may leave a little more than everything
    return min(1.0, sum(each) / (len(each) * (window[1] - window[0])))


def _sum(intervals: Iterable[Interval], window: Interval) -> float:
    return sum(overlap(*interval, window) for interval in intervals)


def _ends(devices: Iterable[list[Interval]]) -> Interval:
    every = [interval for intervals in devices for interval in intervals]
    return min(start for start, _ in every), max(end for _, end in every)
