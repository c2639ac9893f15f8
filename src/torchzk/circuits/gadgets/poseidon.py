"""The Poseidon circuit that Filecoin's keys were made for: neptune's legacy circuit.

An element of the state is an allocated variable or a linear combination of some; the linear
layers cost nothing, an S-box input is allocated first. Source: spec/gadgets.md section 6.4.
The values of its variables come from `Backend.poseidon_wires`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice

import torch

from torchzk.backends import Backend
from torchzk.circuits.recorder import ONE, ConstraintSystem, Lc, Template, Variable, add_scaled
from torchzk.params.fields import FR
from torchzk.params.poseidon import Poseidon

Element = Variable | Lc


def poseidon(cs: ConstraintSystem, inputs: Sequence[Variable], instance: Poseidon) -> Variable:
    """The hash of `instance.arity` variables; allocates `instance.n_wires`, the last is the digest.

    Source:
        spec/gadgets.md section 6.4.
    """
    if len(inputs) != instance.arity:
        raise ValueError(f"Poseidon of arity {instance.arity} got {len(inputs)} inputs")
    if len(set(inputs)) < instance.arity:
        # a template takes distinct variables
        return _record(cs, inputs, instance)
    first = cs.splice(_template(instance), inputs)
    return first + instance.n_wires - 1


def merkle(cs: ConstraintSystem, children: Sequence[Variable]) -> Variable:
    """The hash of a Merkle node, a column or two roots: the instance of their number."""
    return poseidon(cs, children, Poseidon.merkle(len(children)))


def merkle_wires(backend: Backend, children: torch.Tensor) -> torch.Tensor:
    """The values of `merkle`: `[8, arity, *batch]` to `[8, n, *batch]`, the last the digest."""
    return backend.poseidon_wires(children, Poseidon.merkle(children.shape[1]))


@lru_cache(maxsize=16)
def _template(instance: Poseidon) -> Template:
    cs = ConstraintSystem()
    _record(cs, cs.alloc_many(instance.arity), instance)
    return cs.template(instance.arity)


def _record(cs: ConstraintSystem, inputs: Sequence[Variable], instance: Poseidon) -> Variable:
    constants = iter(instance.compressed)
    t = instance.width
    half = instance.full_rounds // 2
    before, after = list(islice(constants, t)), list(islice(constants, t))
    # the tag is a constant, and so is its S-box
    tag = pow(instance.tag + before[0], 5, FR.modulus) + after[0]
    sboxes = zip(inputs, before[1:], after[1:], strict=True)
    state: list[Element] = [{ONE: tag}, *(_sbox(cs, x, post, pre) for x, pre, post in sboxes)]
    for _ in range(half - 1):
        state = _full_round(cs, _mix(state, instance.mds), constants)
    state = _mix(state, instance.pre_sparse)
    for w_hat, v_rest in instance.sparse:
        state[0] = _sbox(cs, state[0], next(constants))
        state = _mix_sparse(state, w_hat, v_rest)
    for _ in range(half - 1):
        state = _mix(_full_round(cs, state, constants), instance.mds)
    state = [_sbox(cs, x, None) for x in state]
    return _ensure(cs, _mix(state, instance.mds)[1])


def _full_round(
    cs: ConstraintSystem, state: Sequence[Element], constants: Iterator[int]
) -> list[Element]:
    return [_sbox(cs, x, next(constants)) for x in state]


def _ensure(cs: ConstraintSystem, x: Element) -> Variable:
    """`x` as a variable, allocated if it is a linear combination."""
    if isinstance(x, int):
        return x
    out = cs.alloc()
    cs.enforce(x, {ONE: 1}, {out: 1})
    return out


def _sbox(cs: ConstraintSystem, x: Element, post: int | None, pre: int = 0) -> Variable:
    """(x + pre)^5 + post, in three constraints after `_ensure`; no `post` means none."""
    base = {_ensure(cs, x): 1, ONE: pre}
    square, fourth = cs.alloc(), cs.alloc()
    cs.enforce(base, base, {square: 1})
    cs.enforce({square: 1}, {square: 1}, {fourth: 1})
    out = cs.alloc()
    cs.enforce(base, {fourth: 1}, {out: 1, ONE: -(post or 0)})
    return out


def _mix(state: Sequence[Element], matrix: Sequence[Sequence[int]]) -> list[Element]:
    """The row vector `state` times `matrix`."""
    return [_combination(state, column) for column in zip(*matrix, strict=True)]


def _mix_sparse(
    state: Sequence[Element], w_hat: Sequence[int], v_rest: Sequence[int]
) -> list[Element]:
    """One sparse layer: element 0 gathers all, every other one takes its share of element 0."""
    rest = (_combination((x, state[0]), (1, v)) for x, v in zip(state[1:], v_rest, strict=True))
    return [_combination(state, w_hat), *rest]


def _combination(elements: Sequence[Element], factors: Sequence[int]) -> Lc:
    total: dict[Variable, int] = {}
    for x, factor in zip(elements, factors, strict=True):
        add_scaled(total, {x: 1} if isinstance(x, int) else x, factor)
    return {variable: k % FR.modulus for variable, k in total.items()}
