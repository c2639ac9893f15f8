"""A session of a circuit of a few constraints, whose keys take no time to make."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from replicated_r1cs import replicated
from torchzk import api
from torchzk.circuits.block_cache import Recall, recorded
from torchzk.circuits.post_circuit import PostCircuit
from torchzk.circuits.post_shapes import post_shape
from torchzk.groth16.r1cs import R1cs
from torchzk.timeline import Span, Timeline


class SmallCircuit(PostCircuit):
    """Window PoSt by name, with the constraints of a circuit that can be read in a minute."""

    @cached_property
    def system(self) -> R1cs:
        return replicated()

    @property
    def name(self) -> str:
        return "small"

    @property
    def cache_identifier(self) -> str:
        return "small"

    @property
    def n_inputs(self) -> int:
        return self.system.n_inputs

    def r1cs(self, recall: Recall = recorded) -> R1cs:
        return self.system


def small_session(
    folder: Path, keys: Any, spans: list[Span] | None = None, **config: Any
) -> api.Session:
    """Keys, blocks and official parameters lie in `folder`."""
    settings = {"key_cache": folder, "parameter_folder": folder / "official", "device": "cpu"}
    given = replace(api.load_config("window2k.yaml"), keys=keys, **{**settings, **config})
    timeline = Timeline() if spans is None else Timeline(on_close=spans.append)
    session = api.open_session(given, timeline)
    return replace(session, circuit=SmallCircuit(post_shape("window", 2048)))
