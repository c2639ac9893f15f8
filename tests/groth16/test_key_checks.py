"""Checks of every point of a proving key: what is sound passes, what is not is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from groth16.samples import multiple, outsider, points_of_x, small_vk
from torchzk.backends import Backend
from torchzk.errors import KeyFileError, ResourceError
from torchzk.groth16 import key_checks
from torchzk.groth16.key_checks import check_points
from torchzk.groth16.keys import QUERIES, MemoryKey
from torchzk.groth16.params_file import ParamsFile
from torchzk.ops.layout import points_to_rows
from torchzk.params.curves import G1, Point
from torchzk.timeline import Timeline

LENGTHS = {"h": 5, "l": 9, "a": 1, "b_g1": 4, "b_g2": 6}


def sound_key() -> MemoryKey:
    rows = {
        name: points_to_rows([multiple(curve, k + 2) for k in range(LENGTHS[name])], curve, "cpu")
        for name, curve in QUERIES.items()
    }
    return MemoryKey(small_vk(), rows)


def with_point(key: MemoryKey, name: str, index: int, point: Point) -> MemoryKey:
    rows = key.queries[name].clone()
    rows[index] = points_to_rows([point], QUERIES[name], "cpu")[0]
    return replace(key, queries={**key.queries, name: rows})


@pytest.fixture(params=[4, 1 << 18], ids=["small-batches", "one-batch"], autouse=True)
def points_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that cut queries and join them, and batches that hold all."""
    monkeypatch.setattr(
        key_checks, "_POINTS_AT_ONCE", dict.fromkeys(("cpu", "cuda"), request.param)
    )


def test_sound_keys_pass(backend: Backend, device: torch.device) -> None:
    fractions: list[float] = []
    check_points(backend, sound_key(), device, timeline=Timeline(on_advance=fractions.append))
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1


def test_the_references_key_passes(backend: Backend, device: torch.device, golden: Path) -> None:
    path = golden / "groth16" / "window_2048_head.params"
    with ParamsFile.open(path, backend) as params:
        check_points(backend, params, device)


@pytest.mark.parametrize("name", QUERIES)
def test_a_bad_point_is_named(name: str, backend: Backend, device: torch.device) -> None:
    curve, index = QUERIES[name], LENGTHS[name] - 1
    x, y = multiple(curve, 5)
    off = (x, ((y[0] + 1) % curve.field.modulus, *y[1:]))
    for bad, why in (
        (outsider(curve), "outside its subgroup"),
        (outsider(curve, 30), "outside its subgroup"),
        (off, "not on the curve"),
        (None, "infinity may not"),
    ):
        key = with_point(sound_key(), name, index, bad)
        with pytest.raises(KeyFileError, match=rf"my.params: {name}\[{index}\]: .*{why}"):
            check_points(backend, key, device, name="my.params")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (((1,), (1,)), "a sum of points of the curve is off it"),
        (outsider(G1), "sums of points were outside the subgroup, and no point is"),
    ],
)
def test_a_device_that_adds_wrongly_is_no_fault_of_the_key(
    wrong: Point, why: str, backend: Backend, device: torch.device
) -> None:
    """Once it adds wrongly, and never again."""
    to_come = [wrong]

    def bit_sums(*given: Any) -> list[Point]:
        right = backend.bit_sums(*given)
        return [to_come.pop(), *right[1:]] if to_come else right

    faulty = SimpleNamespace(on_curve=backend.on_curve, bit_sums=bit_sums)
    with pytest.raises(ResourceError, match=f"{device} does not add right: {why}"):
        check_points(cast(Backend, faulty), sound_key(), device)


def test_errors_that_cancel_in_the_sum_are_found(backend: Backend, device: torch.device) -> None:
    """T and -T of order 3 sum to infinity: the plain sum of all points would be sound."""
    plus, minus = points_of_x(G1)
    key = with_point(with_point(sound_key(), "l", 2, plus), "l", 3, minus)
    with pytest.raises(KeyFileError, match=r"l\[[23]\]: .*subgroup"):
        check_points(backend, key, device)
