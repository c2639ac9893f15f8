"""A session of a circuit of a few constraints, whose keys take no time to make."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from replicated_r1cs import replicated
from torchzk import api
from torchzk.circuits.circuit import AnyCircuit, WitnessBytes
from torchzk.groth16.r1cs import R1cs
from torchzk.timeline import Span, Timeline


@dataclass(frozen=True)
class SmallCircuit:
    """As much of a `Circuit` as keys ask for."""

    kind: str = "window"
    sector_size: int = 2048
    name: str = "small"
    cache_identifier: str = "small"

    @cached_property
    def system(self) -> R1cs:
        return replicated()

    @property
    def n_inputs(self) -> int:
        return self.system.n_inputs

    def r1cs(self, recall: Any) -> R1cs:
        return self.system

    def witness_bytes(self, *, on_cpu: bool) -> WitnessBytes:
        return WitnessBytes(0, 0)

    def most_numbers(self) -> tuple[int, int]:
        return self.system.prologue.n_aux, self.system.block.n_aux


def small_session(
    folder: Path, keys: Any, spans: list[Span] | None = None, **config: Any
) -> api.Session:
    """Keys, blocks and official parameters lie in `folder`."""
    settings = {"key_cache": folder, "parameter_folder": folder / "official", "device": "cpu"}
    given = replace(api.load_config("window2k.yaml"), keys=keys, **{**settings, **config})
    timeline = Timeline() if spans is None else Timeline(on_close=spans.append)
    session = api.open_session(given, timeline)
    return replace(session, circuit=cast(AnyCircuit, SmallCircuit()), _plans=[])
