"""Which lock a worker holds during which step: policies as values, from one lock to two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from torchzk.errors import ProtocolError
from torchzk.scheduler.locks import LockName
from torchzk.scheduler.work import Step


@dataclass(frozen=True)
class Leg:
    """Steps that are done one after the other under one lock, or under none."""

    lock: LockName | None
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Policy:
    """The legs of a partition's way.

    In every policy planned bytes are promised under the mem lock and kernels run under the compute
    lock. What differs is what else those are held for.

    Raises:
        ProtocolError: A step is missing, doubled or out of order, or a lock is.
    """

    name: str
    legs: tuple[Leg, ...]

    def __post_init__(self) -> None:
        where = {step: leg.lock for leg in self.legs for step in leg.steps}
        order = [step for leg in self.legs for step in leg.steps if step is not Step.ADMIT]
        names = [step.value for leg in self.legs for step in leg.steps]
        if order != [s for s in Step if s is not Step.ADMIT] or names.count("admit") != 1:
            raise ProtocolError(f"policy {self.name}: its steps are {', '.join(names)}")
        if names.index("admit") > names.index("stage"):
            raise ProtocolError(f"policy {self.name}: memory is taken before it is promised")
        if [leg.lock for leg in self.legs if leg.lock] != ["mem", "compute"]:
            raise ProtocolError(f"policy {self.name}: the locks are mem, then compute, each once")
        if where[Step.ADMIT] != "mem" or where[Step.COMPUTE] != "compute":
            raise ProtocolError(
                f"policy {self.name}: bytes are promised under mem, kernels run under compute"
            )


_ADMISSION = Leg("mem", (Step.ADMIT,))

WHOLE = Policy(
    "whole",
    (_ADMISSION, Leg("compute", (Step.PREPARE, Step.STAGE, Step.COMPUTE, Step.FINISH))),
)
"""One lock over the whole partition."""

KERNELS = Policy(
    "kernels",
    (
        Leg(None, (Step.PREPARE,)),
        _ADMISSION,
        Leg("compute", (Step.STAGE, Step.COMPUTE)),
        Leg(None, (Step.FINISH,)),
    ),
)
"""One lock around what the device does: host work hides behind other partitions' kernels."""

AHEAD = Policy(
    "ahead",
    (
        Leg(None, (Step.PREPARE,)),
        _ADMISSION,
        Leg(None, (Step.STAGE,)),
        Leg("compute", (Step.COMPUTE,)),
        Leg(None, (Step.FINISH,)),
    ),
)
"""The same with staging ahead of the lock, by any number of workers at once."""

TWO_LOCKS = Policy(
    "two-locks",
    (
        Leg(None, (Step.PREPARE,)),
        Leg("mem", (Step.ADMIT, Step.STAGE)),
        Leg("compute", (Step.COMPUTE,)),
        Leg(None, (Step.FINISH,)),
    ),
)
"""Staging under a lock of its own: one worker stages while another one computes."""

POLICIES: Mapping[str, Policy] = MappingProxyType(
    {policy.name: policy for policy in (WHOLE, KERNELS, AHEAD, TWO_LOCKS)}
)
