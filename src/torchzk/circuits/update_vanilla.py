"""Vanilla proofs of a sector update, verified before anything is proven of them.

Everything that the circuit enforces is looked at: the challenged nodes, three Merkle paths for each
of them, the apex of TreeD, and that the new replica is the old one with the new data in it.
Source: spec/post_update.md sections 7 and 8.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import numpy as np
import torch

from torchzk.backends import Backend
from torchzk.circuits.elements import to_planes
from torchzk.circuits.layouts import Integers
from torchzk.circuits.merkle_paths import first_difference, path_nodes, siblings_of
from torchzk.circuits.part_paths import (
    MerklePart,
    computed_data_path,
    computed_path,
    data_node,
    data_nodes,
    level_of,
    put_places,
)
from torchzk.circuits.path_faults import describe_fault
from torchzk.circuits.replica_id import replica_commitment
from torchzk.circuits.update_challenges import phi, rho_index, update_challenges
from torchzk.circuits.update_job import UpdateJob
from torchzk.circuits.update_proof import UpdateParts, update_parts
from torchzk.errors import InputError
from torchzk.ops.layout import pack_mont, unpack_mont
from torchzk.params.fields import FR
from torchzk.params.poseidon import Poseidon


def check_update(backend: Backend, device: torch.device, job: UpdateJob) -> None:
    """Verify the vanilla proofs of all partitions.

    Args:
        backend: The operations to use.
        device: Where to hash Poseidon trees.
        job: A loaded job.

    Raises:
        InputError: The first thing that does not hold: names partition, challenge, proof, level.
    """
    check = _Check(backend, device, job)
    check.places()
    check.roots()
    check.data()
    check.commitments()
    check.encoding()
    check.paths()


@dataclass(frozen=True, eq=False)
class _Check:
    backend: Backend
    device: torch.device
    job: UpdateJob

    @property
    def parts(self) -> UpdateParts:
        return update_parts(self.job.shape)

    @cached_property
    def nodes(self) -> Integers:
        """int64 `[p, c]`: the challenged nodes."""
        shape, comm_r_new = self.job.shape, int.from_bytes(self.job.comm_r_new, "little")
        challenges = [update_challenges(shape, comm_r_new, k) for k in range(shape.n_partitions)]
        return np.array(challenges, dtype=np.int64)

    @cached_property
    def planes(self) -> torch.Tensor:
        """`[8, p, n]`"""
        return to_planes(self.backend, self.device, self.job.elements)

    def fail(self, partition: int, challenge: int, problem: str) -> NoReturn:
        raise InputError(
            f"partition {partition}: challenge {challenge}"
            f" (node {self.nodes[partition, challenge]}): {problem}"
        )

    def places(self) -> None:
        """Every path starts at its challenged node."""
        shape, parts = self.job.shape, self.parts
        expected = np.empty_like(self.job.integers)
        for i in range(shape.n_challenges):
            put_places(expected, parts.d_new[i], self.nodes[:, i], (2,) * shape.node_bits)
            for path in (parts.r_old[i], parts.r_new[i]):
                put_places(expected, path, self.nodes[:, i], shape.sector.tree_r.arities)
        wrong = self.job.integers != expected
        if not wrong.any():
            return
        partition, k = divmod(int(wrong.argmax()), wrong.shape[1])
        found = level_of(k, (*parts.r_old, *parts.d_new, *parts.r_new))
        assert found is not None, "all integers are places in paths"
        path, level = found
        challenge, tree = _of(path)
        self.fail(
            partition,
            challenge,
            f"{tree}: level {level}: the path has index {self.job.integers[partition, k]}, the"
            f" challenged node has {expected[partition, k]} there; is comm_r_new that of the"
            " proofs, and are the partitions in order?",
        )

    def roots(self) -> None:
        """comm_c, the roots of both TreeR and comm_d_new are the same everywhere."""
        elements, parts = self.job.elements, self.parts
        comm_c = elements[0, parts.comm_c].tobytes()
        for k, got in enumerate(elements[:, parts.comm_c]):
            if got.tobytes() != comm_c:
                raise InputError(
                    f"partition {k}: comm_c {got.tobytes().hex()} is not"
                    f" {comm_c.hex()} as in partition 0"
                )
        old, new = (elements[0, paths[0].root].tobytes() for paths in (parts.r_old, parts.r_new))
        for paths, root, name in (
            (parts.r_old, old, "the first one's"),
            (parts.r_new, new, "the first one's"),
            (parts.d_new, self.job.comm_d_new, "comm_d_new"),
        ):
            got = elements[:, [path.root for path in paths]]
            wrong = (got != np.frombuffer(root, dtype=np.uint8)).any(axis=-1)
            if wrong.any():
                partition, i = divmod(int(wrong.argmax()), len(paths))
                self.fail(
                    partition,
                    i,
                    f"{_of(paths[i])[1]}: the root {got[partition, i].tobytes().hex()} is not"
                    f" {name}, {root.hex()}",
                )

    def data(self) -> None:
        """Paths of TreeD, and that the apex leaves are its nodes."""
        shape, parts = self.job.shape, self.parts
        for k in range(shape.n_partitions):
            elements, integers = self.job.elements[k], self.job.integers[k]
            apex = [leaf.tobytes() for leaf in elements[parts.apex_leaves]]
            for i, path in enumerate(parts.d_new):
                nodes = data_nodes(elements, integers, path)
                if nodes[-1] != self.job.comm_d_new:
                    paths = [computed_data_path(elements, integers, x) for x in parts.d_new]
                    root = int.from_bytes(self.job.comm_d_new, "little")
                    self.fail(k, i, f"proof_d_new: {describe_fault(paths, i, root)}")
                low = int(self.nodes[k, i]) & (1 << shape.challenge_bits) - 1
                leaf = low >> shape.tree_d_levels
                if nodes[shape.tree_d_levels] != apex[leaf]:
                    self.fail(
                        k,
                        i,
                        f"apex_leafs[{leaf}]: is not the node of proof_d_new below level"
                        f" {shape.tree_d_levels}",
                    )
            while len(apex) > 1:
                apex = [data_node(*apex[j : j + 2]) for j in range(0, len(apex), 2)]
            # the paths lead to comm_d_new, and all of them by the partition's node
            if apex[0] != nodes[shape.challenge_bits]:
                raise InputError(
                    f"partition {k}: apex_leafs: do not hash to the partition's node of TreeD,"
                    f" {nodes[shape.challenge_bits].hex()}"
                )

    def commitments(self) -> None:
        """comm_r_old and comm_r_new are the hashes of comm_c and the roots."""
        parts, job = self.parts, self.job
        for paths, comm_r, name in (
            (parts.r_old, job.comm_r_old, "comm_r_old"),
            (parts.r_new, job.comm_r_new, "comm_r_new"),
        ):
            roots = (job.elements[0, x].tobytes() for x in (parts.comm_c, paths[0].root))
            if replica_commitment(*roots) != comm_r:
                tree = _of(paths[0])[1]
                raise InputError(
                    f"{name} {comm_r.hex()} is not the Poseidon hash of comm_c and the root"
                    f" of {tree}"
                )

    def encoding(self) -> None:
        """r_new = r_old + d_new * rho at every challenged node."""
        parts, planes = self.parts, self.planes
        old, data, new = (
            planes[:, :, [path.leaf for path in paths]]
            for paths in (parts.r_old, parts.d_new, parts.r_new)
        )
        seed = phi(
            *(int.from_bytes(x, "little") for x in (self.job.comm_d_new, self.job.comm_r_old))
        )
        high = [rho_index(self.job.shape, node) for node in self.nodes.ravel().tolist()]
        children = pack_mont([x for index in high for x in (seed, index)], FR, self.device)
        rho = self.backend.poseidon(
            children.view(8, len(high), 2).movedim(2, 1), Poseidon.randomness()
        )
        masked = self.backend.mont_mul(data.flatten(1), rho, FR)
        wrong = first_difference(self.backend.add(old.flatten(1), masked, FR), new.flatten(1))
        if wrong is not None:
            partition, challenge = divmod(wrong, self.job.shape.n_challenges)
            self.fail(
                partition,
                challenge,
                "proof_r_new: the leaf is not that of proof_r_old plus that of proof_d_new times"
                " rho",
            )

    def paths(self) -> None:
        """Both paths in TreeR."""
        shape, arities = self.job.shape, self.job.shape.sector.tree_r.arities
        both = (*self.parts.r_old, *self.parts.r_new)
        *_, roots = self._path_nodes(slice(None))
        wrong = first_difference(roots, self.planes[:, :, [path.root for path in both]])
        if wrong is None:
            return
        partition, place = divmod(wrong, len(both))
        one = slice(partition, partition + 1)
        levels = [unpack_mont(node.flatten(1), FR) for node in self._path_nodes(one)]
        first = place - place % shape.n_challenges
        elements, integers = self.job.elements[partition], self.job.integers[partition]
        computed = [
            computed_path(elements, integers, both[i], arities, (level[i] for level in levels))
            for i in range(first, first + shape.n_challenges)
        ]
        challenge, tree = _of(both[place])
        root = int.from_bytes(elements[both[place].root].tobytes(), "little")
        self.fail(partition, challenge, f"{tree}: {describe_fault(computed, place - first, root)}")

    def _path_nodes(self, own: slice) -> Iterator[torch.Tensor]:
        both = (*self.parts.r_old, *self.parts.r_new)
        planes = self.planes[:, own]
        integers = torch.tensor(self.job.integers[own], device=self.device)
        return path_nodes(
            self.backend,
            planes[:, :, [path.leaf for path in both]],
            torch.stack([integers[:, path.indices] for path in both], dim=1),
            siblings_of(planes, both, self.job.shape.sector.tree_r.arities),
        )


def _of(path: MerklePart) -> tuple[int, str]:
    """The challenge of a path and the name of its proof."""
    challenge, _, name = path.name.partition("].")
    return int(challenge.partition("[")[2]), name
