"""`sha256.hash_numbers` of pairs of nodes, recorded once, and its values where they belong.

All but one of its 45,339 variables are bits: of the two nodes, and of words that the two
compressions compute. A table says of which word, and which bit, so that all wires of a batch are
one gather. Source: spec/gadgets.md sections 4 and 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch

from torchzk.backends import Backend
from torchzk.circuits.gadgets.compression import BLOCK_BITS
from torchzk.circuits.gadgets.num import N_BITS, one
from torchzk.circuits.gadgets.sha256 import chain, hash_numbers, numbers_pattern
from torchzk.circuits.gadgets.words import (
    constant_words,
    hash_number,
    new_state,
    padding_words,
    swapped,
)
from torchzk.circuits.recorder import ConstraintSystem, Template, Variable
from torchzk.device_cache import kept_by_device
from torchzk.params.fields import FR, LIMB_BITS
from torchzk.params.sha256 import IV
from torchzk.params.sha256_steps import N_STEPS

_PAIR = 2
# of the bank: it has the two nodes in canonical form, then each compression's steps of 64 bits
_NODE_WORDS = _PAIR * FR.n_limbs
_STEP_WORDS = 2
# pairs that are worked on at once, whose bits take 180 KB each: few enough to stay near the cache
# of a CPU, many enough to keep a GPU busy
_PAIRS_ON_CPU = 128
_PAIRS_ON_GPU = 2048


@lru_cache(maxsize=1)
def n_pair_wires() -> int:
    """Variables that the hash of a pair allocates; the last is the parent."""
    compressed = sum(x.template.n_aux for x in chain(numbers_pattern(_PAIR)))
    return _PAIR * N_BITS + compressed + 1


def hash_pair(cs: ConstraintSystem, pair: Sequence[Variable]) -> Variable:
    """`sha256.hash_numbers` of two distinct variables, spliced in; the last wire is the parent."""
    return cs.splice(_template(), pair) + n_pair_wires() - 1


@lru_cache(maxsize=1)
def _template() -> Template:
    cs = ConstraintSystem()
    hash_numbers(cs, cs.alloc_many(_PAIR))
    return cs.template(_PAIR)


def write_pair_wires(backend: Backend, pairs: torch.Tensor, out: torch.Tensor) -> None:
    """The wires of the hashes of pairs, written to `out`.

    Args:
        backend: The operations to use.
        pairs: int32 `[8, 2, *batch]`, of one axis or two, in Montgomery form.
        out: int32 `[8, *batch, n_pair_wires()]`, which may be a view of an assignment.
    """
    if not pairs.numel():
        return
    step = _places_at_once(pairs.shape[3] if pairs.ndim > 3 else 1, pairs.device.type == "cpu")
    for start in range(0, pairs.shape[2], step):
        piece = slice(start, start + step)
        _write(backend, pairs[:, :, piece], out[:, piece])


def pair_wires_bytes(places: int, per_place: int = 1, *, on_cpu: bool) -> int:
    """What `write_pair_wires` takes for pairs of axes `[places]` or `[places, per_place]`.

    Of a piece the bits, 4 bytes each, the bank, and the parts that it is put together from.
    """
    bank = 4 * (_NODE_WORDS + _PAIR * _STEP_WORDS * N_STEPS)
    at_once = min(places, _places_at_once(per_place, on_cpu)) * per_place
    return at_once * (4 * n_pair_wires() + 2 * bank + 8 * N_STEPS)


def _places_at_once(per_place: int, on_cpu: bool) -> int:
    return max(1, (_PAIRS_ON_CPU if on_cpu else _PAIRS_ON_GPU) // per_place)


def _write(backend: Backend, pairs: torch.Tensor, out: torch.Tensor) -> None:
    device, batch = pairs.device, pairs.shape[2:]
    nodes = backend.from_mont(pairs.flatten(2), FR).transpose(0, 1).flatten(0, 1)
    ending, state = (x.expand(-1, nodes.shape[1]) for x in _constants(device))
    bank = [nodes.t()]
    for block in (swapped(nodes), ending):
        steps = backend.sha256_steps(block, state)
        state = new_state(steps)
        bank.append(steps.t().contiguous().view(torch.int32))
    word, lift, flip = _table(device)
    bits = torch.cat(bank, dim=1).index_select(1, word)
    # the bit goes to the top of its word, and from there all the way down
    bits.bitwise_left_shift_(lift).bitwise_right_shift_(LIMB_BITS - 1).bitwise_xor_(flip)
    bits = bits.view(*batch, -1)
    for limb, unit in zip(out[..., :-1].unbind(0), one(device).unbind(0), strict=True):
        torch.bitwise_and(bits, unit, out=limb)
    out[..., -1] = backend.to_mont(hash_number(state), FR).view(-1, *batch)


@kept_by_device(1)
def _constants(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """The second block and the initial state, int32 words `[16, 1]` and `[8, 1]`."""
    return constant_words(padding_words(BLOCK_BITS), device), constant_words(IV, device)


@kept_by_device(1)
def _table(device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """For each bit its word of the bank, how far it is below its top, and -1 if it is negated."""
    of_node = torch.arange(N_BITS)
    words = [FR.n_limbs * i + of_node // LIMB_BITS for i in range(_PAIR)]
    bits = [of_node % LIMB_BITS] * _PAIR
    flips = [torch.zeros_like(of_node)] * _PAIR
    start = _NODE_WORDS
    for recorded in chain(numbers_pattern(_PAIR)):
        words.append(start + _STEP_WORDS * recorded.step + recorded.bit // LIMB_BITS)
        bits.append(recorded.bit % LIMB_BITS)
        flips.append(-recorded.flipped)
        start += _STEP_WORDS * N_STEPS
    lift = LIMB_BITS - 1 - torch.cat(bits)
    word, lift, flip = (
        x.to(torch.int32).to(device) for x in (torch.cat(words), lift, torch.cat(flips))
    )
    return word, lift, flip
