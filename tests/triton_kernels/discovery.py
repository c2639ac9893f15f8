"""Finds the kernels of the package, whatever they are called."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import triton

import torchzk.triton_kernels


def kernels() -> dict[str, Any]:
    """Every function compiled by Triton that no other one calls, by `module.function`.

    A device function is called by kernels; what is compiled and called by none is launched, or is
    of no use.
    """
    jitted = dict(_jitted())
    called = {id(c) for function in jitted.values() for c in _callees(function)}
    return {name: function for name, function in jitted.items() if id(function) not in called}


def _jitted() -> Iterator[tuple[str, Any]]:
    package = torchzk.triton_kernels
    for found in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{found.name}")
        for name, value in vars(module).items():
            # where it is defined, not where it is imported
            if isinstance(value, triton.JITFunction) and value.fn.__module__ == module.__name__:
                yield f"{found.name}.{name}", value


def _callees(function: Any) -> Iterator[Any]:
    """What a function's text names, as itself or as `module.name`: called or handed on."""
    names = function.fn.__globals__
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function.fn)))):
        if isinstance(node, ast.Name):
            value = names.get(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = names.get(node.value.id)
            value = getattr(owner, node.attr, None) if isinstance(owner, ModuleType) else None
        else:
            continue
        if isinstance(value, triton.JITFunction) and value is not function:
            yield value
