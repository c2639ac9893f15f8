"""Every kernel compiles for every architecture, with no GPU and no more spills than allowed."""

from __future__ import annotations

import importlib
import pkgutil

import pytest
import triton

import torchzk.triton_kernels
from triton_kernels import ahead_of_time


@pytest.mark.parametrize("name", ahead_of_time.CASES)
def test_compiles(name: str) -> None:
    case, allowed = ahead_of_time.CASES[name], ahead_of_time.allowances().get(name, {})
    for arch in ahead_of_time.ARCHS:
        registers, stack = case.resources(arch)
        ahead_of_time.COMPILED.setdefault(name, {})[arch] = registers, stack
        assert registers > 0
        assert stack <= allowed.get(str(arch), 0), f"sm_{arch}: {registers} registers"


def test_every_kernel_has_a_case() -> None:
    package = torchzk.triton_kernels
    modules = [
        importlib.import_module(f"{package.__name__}.{m.name}")
        for m in pkgutil.iter_modules(package.__path__)
    ]
    kernels = {
        value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, triton.JITFunction) and name.endswith("_kernel")
    }
    missing = kernels - {case.kernel for case in ahead_of_time.CASES.values()}
    names = sorted(k.__name__ for k in missing)
    assert not missing, f"ahead_of_time.SOURCES lacks cases of {names}"


def test_allowances_are_of_cases() -> None:
    assert set(ahead_of_time.allowances()) <= set(ahead_of_time.CASES)
