"""C1 outputs as JSON: the API form, the inner form, wrapped by base64, or inside a job.

Source: spec/porep.md section 8, spec/interface.md "Job files".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from torchzk.circuits.c1 import C1, n_partitions
from torchzk.circuits.job_head import check_kind, optional_integer
from torchzk.circuits.json_input import Node, show
from torchzk.circuits.layout_json import Cut, read_text, read_values
from torchzk.circuits.miner_id import MAX_MINER_ID
from torchzk.circuits.porep_layout import challenge_layout
from torchzk.circuits.porep_shapes import StackedShape
from torchzk.circuits.registered import RegisteredSeal, default_seal, read_seal
from torchzk.circuits.sectors import MAX_SECTOR_NUMBER

_COMMON = ("comm_r", "comm_d", "replica_id", "seed", "ticket")
_JOB_OPTIONAL = ("sector_size", "miner_id", "sector_number", "registered_proof")


def c1_from_text(data: bytes, document: str, shape: StackedShape) -> C1:
    """Read JSON text in any of the forms.

    Args:
        data: UTF-8 text.
        document: What errors call it.
        shape: The circuit's.

    Raises:
        InputError: It is no C1 output for `shape`; names the place.
    """
    return read_text(data, document, challenge_layout(shape), _Reader(shape).any_form)


def c1_from_json(node: Node, shape: StackedShape) -> C1:
    """Read parsed JSON; otherwise as `c1_from_text`."""
    return _Reader(shape).any_form(node, Cut())


@dataclass(frozen=True)
class _Reader:
    shape: StackedShape
    registered: RegisteredSeal | None = None
    """The proof type, where a job says it; an inner form is taken for V1_1 without it."""

    @property
    def sector_size(self) -> int:
        return self.shape.sector.sector_size

    def any_form(self, node: Node, cut: Cut) -> C1:
        value = node.value
        if not isinstance(value, Mapping):
            node.fail(f"must be an object, is {show(value)}")
        if "kind" in value:
            return self._job(node, cut)
        if "Phase1Out" in value or "SectorNum" in value:
            return self._wrapper(node)
        return self.output(node, cut)

    def output(self, node: Node, cut: Cut) -> C1:
        """The API form, or the inner one, which has no registered proof."""
        value = node.value
        if isinstance(value, Mapping) and "registered_proof" not in value:
            return self._inner(node, cut)
        fields = node.fields(("registered_proof", "vanilla_proofs", *_COMMON))
        fields["registered_proof"].text()
        own = read_seal(fields["registered_proof"], self.sector_size)
        if self.registered not in (None, own):
            fields["registered_proof"].fail(
                f"is {own.name}, the proof asked for is {self.registered.name}"
            )
        # whatever the proof type is, this enum's variants are called V1
        size = f"StackedDrg{self.shape.sector.name}V1"
        proofs = fields["vanilla_proofs"].fields((size,))[size]
        return self._c1(own, fields, proofs, cut)

    def _inner(self, node: Node, cut: Cut) -> C1:
        fields = node.fields(("vanilla_proofs", *_COMMON))
        if isinstance(fields["vanilla_proofs"].value, Mapping):
            node.fail("the key 'registered_proof' is missing")
        registered = self.registered or default_seal(self.sector_size)
        if registered is None:
            node.fail(f"no PoRep of {self.shape.sector.name} sectors is registered")
        return self._c1(registered, fields, fields["vanilla_proofs"], cut)

    def _c1(
        self, registered: RegisteredSeal, fields: Mapping[str, Node], proofs: Node, cut: Cut
    ) -> C1:
        layout = challenge_layout(self.shape)
        partitions = proofs.items(n_partitions(self.shape, registered))
        values = [
            read_values(challenge, layout, cut)
            for partition in partitions
            for challenge in partition.items(self.shape.n_challenges)
        ]
        batch = (-1, self.shape.n_challenges)
        elements = np.stack([v.elements for v in values])
        integers = np.stack([v.integers for v in values])
        return C1(
            shape=self.shape,
            registered=registered,
            comm_r=fields["comm_r"].bytes32(),
            comm_d=fields["comm_d"].bytes32(),
            replica_id=fields["replica_id"].bytes32(),
            seed=fields["seed"].bytes32(),
            ticket=fields["ticket"].bytes32(),
            elements=elements.reshape(*batch, *elements.shape[1:]),
            integers=integers.reshape(*batch, *integers.shape[1:]),
        )

    def _wrapper(self, node: Node) -> C1:
        fields = node.fields(("SectorNum", "Phase1Out", "SectorSize"))
        self._check_size(fields["SectorSize"])
        number = fields["SectorNum"].integer(MAX_SECTOR_NUMBER)
        inside = fields["Phase1Out"]
        document = f"{node.document}: {inside.where}"
        c1 = read_text(inside.base64(), document, challenge_layout(self.shape), self.output)
        return replace(c1, sector_number=number)

    def _job(self, node: Node, cut: Cut) -> C1:
        check_kind(node, "porep", self.shape.sector)
        fields = node.fields(("kind", "c1"), _JOB_OPTIONAL)
        if "sector_size" in fields:
            self._check_size(fields["sector_size"])
        reader = self
        if "registered_proof" in fields:
            wanted = read_seal(fields["registered_proof"], self.sector_size)
            reader = replace(self, registered=wanted)
        miner = optional_integer(fields, "miner_id", MAX_MINER_ID)
        number = optional_integer(fields, "sector_number", MAX_SECTOR_NUMBER)
        return replace(reader.output(fields["c1"], cut), miner_id=miner, sector_number=number)

    def _check_size(self, node: Node) -> None:
        if node.integer(1 << 63) != self.sector_size:
            node.fail(
                f"is of {node.value} byte sectors, the circuit is PoRep of {self.sector_size}"
            )
