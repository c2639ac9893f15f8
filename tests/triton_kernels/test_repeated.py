"""What calls operations twice sees a difference between the calls."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from triton_kernels.repeated import calling_twice


def package() -> tuple[ModuleType, list[int]]:
    calls: list[int] = []
    module = ModuleType("package")

    def steady(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x + 1

    def drifting(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x + (len(calls) == 2)

    def writing(x: torch.Tensor, out: torch.Tensor) -> None:
        calls.append(1)
        out.copy_(x + (len(calls) == 2))

    def in_place(x: torch.Tensor) -> None:
        calls.append(1)
        x += 1

    def helper(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x

    for function in (steady, drifting, writing, in_place, helper):
        setattr(module, function.__name__, function)
    module.__dict__["__all__"] = ["steady", "drifting", "writing", "in_place"]
    return module, calls


def test_operations_are_called_twice_and_others_once() -> None:
    module, calls = package()
    test = ModuleType("test")
    test.__dict__["mine"] = module.steady
    x = torch.arange(3)
    with calling_twice(module, [module, test]):
        assert torch.equal(test.mine(x), x + 1) and len(calls) == 2
        module.helper(x)
        assert len(calls) == 3
    test.mine(x)
    assert len(calls) == 4


def test_a_difference_is_seen() -> None:
    for name in ("drifting", "writing"):
        module, _ = package()
        x = torch.arange(3)
        arguments = (x,) if name == "drifting" else (x, torch.empty_like(x))
        with calling_twice(module, [module]), pytest.raises(AssertionError, match=name):
            getattr(module, name)(*arguments)


def test_what_is_overwritten_is_restored_between_the_calls() -> None:
    module, calls = package()
    x = torch.arange(3)
    with calling_twice(module, [module]):
        module.in_place(x)
    assert len(calls) == 2 and x.tolist() == [1, 2, 3]


def test_errors_pass_through() -> None:
    module, _ = package()
    with calling_twice(module, [module]), pytest.raises(TypeError):
        module.steady()
