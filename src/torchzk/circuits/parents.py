"""Parents of nodes in the stacked graph: 6 in the same layer, 8 in the layer before.

Source: spec/porep.md section 4; Fisch, "PoReps: Proofs of Space on Useful Data", 2018 (stacked
DRGs); Alwen, Blocki and Harsha, "Practical Graphs for Optimal Side-Channel Resistant
Memory-Hard Functions", 2017 (bucket sampling).
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from torchzk.circuits.chacha import chacha_blocks
from torchzk.circuits.porep_shapes import DRG_PARENTS, EXPANDER_PARENTS, PARENTS
from torchzk.circuits.registered import ApiVersion
from torchzk.errors import LayoutError

Nodes = npt.NDArray[np.int64]

_SAMPLED = DRG_PARENTS - 1
"""Parents of the base graph that are drawn; the sixth is the node before. Also its metagraph's
nodes to a node."""
_FEISTEL_ROUNDS = 3
_PIECE = 1 << 14
"""Nodes worked on at once, so that their ChaCha states stay in cache."""


def parents(
    nodes: npt.ArrayLike,
    porep_id: bytes,
    api: ApiVersion,
    n_nodes: int,
) -> Nodes:
    """All parents of some nodes.

    Args:
        nodes: `n` integers in `[0, n_nodes)`.
        porep_id: 32 bytes that choose the graph.
        api: API 1.0.0 has another order, and cuts expander parents to 32 bits.
        n_nodes: Nodes of a layer, a power of two, at most 2^32.

    Returns:
        int64 `[n, 14]`: 6 DRG parents, then 8 expander parents.

    Raises:
        LayoutError: A node is none of the graph's, or `n_nodes` or the id is of no graph.
    """
    array = np.asarray(nodes, dtype=np.int64)
    if array.ndim != 1 or ((array < 0) | (array >= n_nodes)).any():
        raise LayoutError(f"nodes are a list of integers in [0, {n_nodes}), got {nodes!r:.80}")
    if n_nodes & (n_nodes - 1) or not 2 <= n_nodes <= 1 << 32 or len(porep_id) != 32:
        raise LayoutError(f"no graph of {n_nodes} nodes with an id of {len(porep_id)} bytes")
    out = np.empty((len(array), PARENTS), dtype=np.int64)
    for i in range(0, len(array), _PIECE):
        piece = array[i : i + _PIECE]
        out[i : i + _PIECE, :DRG_PARENTS] = _drg_parents(piece, porep_id, api)
    out[:, DRG_PARENTS:] = _expander_parents(array, porep_id, api, n_nodes)
    return out


def _drg_parents(nodes: Nodes, porep_id: bytes, api: ApiVersion) -> Nodes:
    """`[n, 6]`; nodes 0 and 1 have six times node 0."""
    x = np.maximum(nodes, 2) * _SAMPLED
    # bits of x - 1, which is ceil(log2(x))
    n_buckets = np.frexp((x - 1).astype(np.float64))[1].astype(np.uint64)
    draws = _draws(nodes, porep_id)
    sampled = []
    for bucket_draw, distance_draw in zip(draws[0::2], draws[1::2], strict=True):
        bucket = bucket_draw % n_buckets + np.uint64(1)
        largest = np.minimum(x, np.int64(1) << bucket.astype(np.int64))
        smallest = np.maximum(2, largest >> 1)
        span = (largest - smallest + 1).astype(np.uint64)
        distance = smallest + (distance_draw % span).astype(np.int64)
        parent = (x - distance) // _SAMPLED
        sampled.append(parent - (parent == nodes))
    before = [nodes - 1]
    ordered = sampled + before if api is ApiVersion.V1_0 else before + sampled
    return np.where(nodes[:, None] < 2, 0, np.stack(ordered, axis=1))


def _draws(nodes: Nodes, porep_id: bytes) -> npt.NDArray[np.uint64]:
    """The first ten 64-bit draws of each node's ChaCha8 stream, `[10, n]`."""
    n = len(nodes)
    seed = hashlib.sha256(b"Filecoin_DRSample" + porep_id).digest()[:28]
    key = np.empty((8, n), dtype=np.uint32)
    key[:7] = np.frombuffer(seed, dtype="<u4")[:, None]
    key[7] = nodes
    # a block has eight draws
    counter = np.zeros((4, n, 2), dtype=np.uint32)
    counter[0, :, 1] = 1
    blocks = chacha_blocks(key.repeat(2, axis=1), counter.reshape(4, -1), 8)
    words = blocks.reshape(16, n, 2).transpose(2, 0, 1).reshape(32, n).astype(np.uint64)
    draws: npt.NDArray[np.uint64] = words[0::2] | words[1::2] << np.uint64(32)
    return draws[: 2 * _SAMPLED]


def _expander_parents(nodes: Nodes, porep_id: bytes, api: ApiVersion, n_nodes: int) -> Nodes:
    """`[n, 8]`: the Feistel permutation of edge numbers, walked until it lands on an edge."""
    n_edges = EXPANDER_PARENTS * n_nodes
    half_bits = max(1, -(-(n_edges - 1).bit_length() // 2))
    digest = hashlib.sha256(b"Filecoin_Feistel" + porep_id).digest()
    keys = [int.from_bytes(digest[8 * i : 8 * i + 8], "little") for i in range(_FEISTEL_ROUNDS)]
    numbers = nodes[:, None] * EXPANDER_PARENTS + np.arange(EXPANDER_PARENTS)
    edges = _feistel(numbers.ravel(), keys, half_bits)
    while len(outside := np.flatnonzero(edges >= n_edges)):
        edges[outside] = _feistel(edges[outside], keys, half_bits)
    if api is ApiVersion.V1_0:
        edges &= 0xFFFF_FFFF
    return edges.reshape(-1, EXPANDER_PARENTS) // EXPANDER_PARENTS


def _feistel(x: Nodes, keys: list[int], half_bits: int) -> Nodes:
    mask = (1 << half_bits) - 1
    left, right = x >> half_bits, x & mask
    for key in keys:
        # in a whole graph each half occurs many times
        halves, place = np.unique(right, return_inverse=True)
        hashed = np.array([_round_hash(half, key) & mask for half in halves.tolist()], np.int64)
        left, right = right, left ^ hashed[place]
    return left << half_bits | right


def _round_hash(right: int, key: int) -> int:
    message = right.to_bytes(8, "big") + key.to_bytes(8, "big")
    return int.from_bytes(hashlib.blake2b(message).digest()[:8], "big")
