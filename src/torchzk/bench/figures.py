"""Figures that benchmarks are held against: what sppark takes, what must be reached, the goal.

sppark 17278d7, CUDA C++ for sm_90, was measured on one NVIDIA H200 with its data on the device:
transforms by CUDA events, in place, NR forward and RN inverse; MSMs by the clock, from the call to
the sum; medians. A quotient is seven of its transforms. What must be reached and the goals are the
project's own.
"""

from __future__ import annotations

from dataclasses import dataclass

SPPARK_SOURCE = "sppark 17278d7 measured on one H200"


@dataclass(frozen=True)
class Figures:
    """In the unit of the benchmark."""

    sppark: float | None = None
    must: float | None = None
    """The least."""
    goal: float | None = None
    """What is wanted."""
    relative: bool = False
    """`must` and `goal` are times the time of the benchmark it is compared with."""


_SKEWED = Figures(must=1.5, goal=1.0, relative=True)

FIGURES: dict[str, Figures] = {
    "field.mul.fr": Figures(59.7, 59.7, 65),
    "field.mul.fp": Figures(27.5, 27.5, 28),
    "field.sqr.fr": Figures(74.0),
    "field.sqr.fp": Figures(34.5),
    "field.add.fr": Figures(583),
    "field.add.fp": Figures(409),
    "ntt.2^20": Figures(0.260, 0.26, 0.20),
    "ntt.2^22": Figures(1.047),
    "ntt.2^24": Figures(4.435, 3.9, 3.2),
    "ntt.2^26": Figures(20.94),
    "ntt.2^27": Figures(42.31, 35, 30),
    "intt.2^20": Figures(0.273),
    "intt.2^22": Figures(1.097),
    "intt.2^24": Figures(4.654),
    "intt.2^26": Figures(23.52),
    "intt.2^27": Figures(44.23),
    "quotient.2^27": Figures(317, 225, 185),
    "msm.g1.2^20": Figures(20.5, 18, 8),
    "msm.g1.2^22": Figures(53.1, 38, 25),
    "msm.g1.2^24": Figures(154.1, 100, 75),
    "msm.g1.2^26": Figures(557.7, 325, 250),
    "msm.g1.2^27": Figures(1099, 610, 490),
    "msm.g1.2^24.equal": _SKEWED,
    "msm.g1.2^24.ones90": _SKEWED,
    "msm.g1.2^24.sorted": _SKEWED,
    "msm.g1.2^24.bits16": _SKEWED,
    "msm.g1.2^27.24GiB": Figures(goal=1.0, relative=True),
    "msm.g1.2^27.12GiB": Figures(must=1.15, relative=True),
    "msm.g1.2^27.4GiB": Figures(must=1.5, relative=True),
    "msm.g2.2^18": Figures(27.9),
    "msm.g2.2^20": Figures(48.1, 40, 28),
    "msm.g2.2^22": Figures(138.5, 95, 75),
    "msm.g2.2^24": Figures(447.7, 300, 250),
    "batch_add.g1.2^24": Figures(7.75, 6.5, 5.2),
    "fixed_base.g1.2^22": Figures(must=100, goal=200),
    "fixed_base.g2.2^22": Figures(must=35, goal=70),
}
"""By the name of the benchmark, so only at the sizes they hold for."""

_NONE = Figures()


def figures_of(name: str) -> Figures:
    """What is known for a benchmark, if anything."""
    return FIGURES.get(name, _NONE)
