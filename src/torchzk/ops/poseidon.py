"""Batched Poseidon over Fr, and the values that the wires of its circuit take.

Wide words throughout: a state is `[W, t, n]`. Rounds are those of the circuit, with constants
moved behind the S-boxes and sparse partial rounds. Source: spec/gadgets.md sections 6.3 and 6.4.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import torch

from torchzk.device_cache import kept_by_device
from torchzk.errors import LayoutError
from torchzk.ops import wide, wide_fr
from torchzk.ops.chunks import chunk_size, over_chunks
from torchzk.ops.layout import check_limbs, pack
from torchzk.params.fields import FR
from torchzk.params.poseidon import Poseidon

# elements of a state that one exact linear map takes: see `wide.linear`
_LANES = 121 // wide.n_words(FR)
# elements of the states that are worked on at once, in pieces of the device's size
_PIECES = 8


def poseidon(inputs: torch.Tensor, instance: Poseidon) -> torch.Tensor:
    """Digests of a batch.

    Args:
        inputs: Limb tensor `[8, arity, *batch]` in Montgomery form.
        instance: The arity and the domain tag.

    Returns:
        A new limb tensor `[8, *batch]` in Montgomery form.

    Raises:
        LayoutError: `inputs` is not a limb tensor of Fr of the instance's arity.

    Source:
        Grassi et al., "Poseidon", 2021, appendix B for the sparse rounds.
    """
    flat = _flatten(inputs, instance)
    out = torch.empty_like(flat[:, 0])
    for part in _parts(flat, instance):
        (digest,) = deque(_rounds(flat[:, :, part], instance), maxlen=1)
        out[:, part] = wide_fr.to_limbs(digest[:, 0])
    return out.view(FR.n_limbs, *inputs.shape[2:])


def poseidon_wires(inputs: torch.Tensor, instance: Poseidon) -> torch.Tensor:
    """The values of all variables that the circuit of a hash allocates, in that order.

    Args:
        inputs: As for `poseidon`, with the same errors.
        instance: The arity and the domain tag.

    Returns:
        A new limb tensor `[8, instance.n_wires, *batch]` in Montgomery form. The digest is last.
    """
    flat = _flatten(inputs, instance)
    n = flat.shape[2]
    out = torch.empty(FR.n_limbs, instance.n_wires, n, dtype=torch.int32, device=inputs.device)
    for part in _parts(flat, instance):
        start = 0
        for wires in _rounds(flat[:, :, part], instance):
            stop = start + wires.shape[1]
            limbs = wide_fr.to_limbs(wires.flatten(1))
            out[:, start:stop, part] = limbs.view(FR.n_limbs, *wires.shape[1:])
            start = stop
    return out.view(FR.n_limbs, instance.n_wires, *inputs.shape[2:])


def check_inputs(inputs: torch.Tensor, instance: Poseidon) -> None:
    """Raise `LayoutError` unless `inputs` is a limb tensor of Fr of the instance's arity."""
    check_limbs(inputs, FR)
    if inputs.shape[1] != instance.arity:
        raise LayoutError(f"Poseidon of arity {instance.arity} got {list(inputs.shape)}")


def _flatten(inputs: torch.Tensor, instance: Poseidon) -> torch.Tensor:
    check_inputs(inputs, instance)
    return inputs.reshape(FR.n_limbs, instance.arity, prod(inputs.shape[2:]))


def _parts(flat: torch.Tensor, instance: Poseidon) -> Iterator[slice]:
    """Pieces of the batch whose states fit the device."""
    size = max(_PIECES * chunk_size(flat.device) // instance.width, 1)
    return (slice(i, i + size) for i in range(0, flat.shape[2], size))


@dataclass(frozen=True)
class _Constants:
    added: torch.Tensor
    """`[W, 8 t + partial, 1]`: the compressed list."""
    first: torch.Tensor
    """`[W, 1, 1]`: element 0 after the first S-box, the same for all inputs."""
    mds: torch.Tensor
    """`[W + 1, t, W, t]`: see `wide.linear`, as all that follow."""
    pre_sparse: torch.Tensor
    """`[W + 1, t, W, t]`"""
    heads: torch.Tensor
    """`[W + 1, partial, W, t]`: w_hat of each partial round."""
    tails: torch.Tensor
    """`[W + 1, partial (t - 1), W, 1]`: v_rest of each partial round."""


@kept_by_device(16)
def _constants(instance: Poseidon, device: torch.device) -> _Constants:
    compressed = instance.compressed
    first = pow(instance.tag + compressed[0], 5, FR.modulus) + compressed[instance.width]
    return _Constants(
        added=_elements([FR.to_mont(c) for c in compressed], device).unsqueeze(2),
        first=_elements([FR.to_mont(first)], device).unsqueeze(2),
        mds=_columns(instance.mds, device),
        pre_sparse=_columns(list(zip(*instance.pre_sparse, strict=True)), device),
        heads=_columns([w_hat for w_hat, _ in instance.sparse], device),
        tails=_columns([(v,) for _, v_rest in instance.sparse for v in v_rest], device),
    )


def _elements(values: Sequence[int], device: torch.device) -> torch.Tensor:
    return wide_fr.to_wide(pack(values, FR, device))


def _columns(rows: Sequence[Sequence[int]], device: torch.device) -> torch.Tensor:
    """A matrix of m rows, in canonical form, as `[W + 1, m, W, lanes]`."""
    flat = _elements([value for row in rows for value in row], device)
    columns = wide.linear_columns(flat, FR)
    shape = (*columns.shape[:2], len(rows), len(rows[0]))
    return columns.view(shape).transpose(1, 2).contiguous()


def _rounds(inputs: torch.Tensor, instance: Poseidon) -> Iterator[torch.Tensor]:
    """Wires of one round after another, `[W, some, n]`; the last one is the digest."""
    const = _constants(instance, inputs.device)
    t, n = instance.width, inputs.shape[2]
    half = instance.full_rounds // 2
    used = 2 * t

    def take(count: int) -> torch.Tensor:
        nonlocal used
        used += count
        return const.added[:, used - count : used]

    # no wire for element 0, nor for the inputs, which are variables already
    state = wide_fr.to_wide(inputs.flatten(1)).view(-1, t - 1, n)
    wires = _sbox(state + const.added[:, 1:t], const.added[:, t + 1 : 2 * t])
    yield wires[:, :, 1:].flatten(1, 2)
    state = torch.cat((const.first.expand(-1, 1, n), wires[:, :, 3]), dim=1)
    for _ in range(1, half):
        wires = _sbox(_mix(const.mds, state), take(t))
        yield wires.flatten(1, 2)
        state = wires[:, :, 3]
    state = _mix(const.pre_sparse, state)
    for i in range(instance.partial_rounds):
        wires = _sbox(state[:, :1], take(1))
        yield wires.flatten(1, 2)
        state = torch.cat((wires[:, :, 3], state[:, 1:]), dim=1)
        tail = const.tails[:, i * (t - 1) : (i + 1) * (t - 1)]
        rest = _reduce(state[:, 1:] + wide.linear(tail, state[:, :1], FR))
        state = torch.cat((_mix(const.heads[:, i : i + 1], state), rest), dim=1)
    for i in range(half):
        wires = _sbox(state, take(t) if i < half - 1 else None)
        yield wires.flatten(1, 2)
        state = _mix(const.mds, wires[:, :, 3])
    yield state[:, 1:2]


def _sbox(x: torch.Tensor, post: torch.Tensor | None) -> torch.Tensor:
    """x, x^2, x^4 and x^5 + `post` of sums of two normal elements `[W, k, n]`: `[W, k, 4, n]`."""
    flat = x.flatten(1)
    square = wide_fr.mul(flat, flat)
    fourth = wide_fr.mul(square, square)
    fifth = wide_fr.mul(fourth, flat).view(x.shape)
    if post is not None:
        fifth = _reduce(fifth + post)
    return torch.stack((x, square.view(x.shape), fourth.view(x.shape), fifth), dim=2)


def _mix(columns: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    """A linear layer: `[W, t, n]` to `[W, m, n]`, both normal."""
    lanes = range(0, state.shape[1], _LANES)
    sums = [wide.linear(columns[..., i : i + _LANES], state[:, i : i + _LANES], FR) for i in lanes]
    return sums[0] if len(sums) == 1 else _reduce(torch.stack(sums).sum(0))


def _reduce(x: torch.Tensor) -> torch.Tensor:
    """Sums of a few normal elements `[W, k, n]` to normal ones."""
    return over_chunks(lambda v: wide.reduce(v, FR), x.flatten(1)).view(x.shape)
