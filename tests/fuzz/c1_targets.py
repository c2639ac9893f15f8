"""C1 outputs of a tiny PoRep, in all their forms."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from random import Random
from typing import Any

from fuzz.layout_samples import (
    LARGE,
    SMALL,
    bincode,
    check_bincode,
    element,
    example,
    leaves,
    porep,
)
from fuzz.mutators import json_text, slots
from fuzz.target import Read, Target
from torchzk.circuits.c1 import C1
from torchzk.circuits.c1_file import read_c1
from torchzk.circuits.layouts import not_canonical
from torchzk.circuits.porep_layout import challenge_layout
from torchzk.errors import InputError
from torchzk.params.fields import FR

SHAPES = {size.name: porep(size) for size in (SMALL, LARGE)}
LARGE_NUMBERS = (4, 9, 14, 19)
"""Of the registered seals of 64 GiB."""
COMMON = ("comm_r", "comm_d", "replica_id", "seed", "ticket")
R = FR.modulus.to_bytes(32, "little")


def c1_output(seed: int, partitions: int = 1, size: str = "2KiB") -> dict[str, Any]:
    """The inner form."""
    rng, layout = Random(seed), challenge_layout(SHAPES[size])
    proofs = [[example(layout, rng)] for _ in range(partitions)]
    return {"vanilla_proofs": proofs, **{name: element(rng) for name in COMMON}}


def api_form(inner: dict[str, Any], size: str = "2KiB", suffix: str = "_1") -> dict[str, Any]:
    name = f"StackedDrg{size}V1"
    proofs = {name: inner["vanilla_proofs"]}
    return {**inner, "registered_proof": name + suffix, "vanilla_proofs": proofs}


def json_forms() -> Iterator[bytes]:
    inner = c1_output(1)
    api = api_form(inner)
    several = api_form(c1_output(2, 2), suffix="_2_Feat_NonInteractivePoRep")
    large = api_form(c1_output(3, 1, "64GiB"), "64GiB")
    text = json.dumps(api, separators=(",", ":")).encode()
    inside = base64.b64encode(text).decode()
    job = {"kind": "porep", "c1": api, "sector_size": 2048, "miner_id": 7, "sector_number": 8}
    for form in (
        inner,
        api,
        several,
        large,
        job,
        {**job, "registered_proof": "StackedDrg2KiBV1_1"},
    ):
        yield json.dumps(form, separators=(",", ":")).encode()
    yield json.dumps(api, sort_keys=True, separators=(",", ":")).encode()
    yield json.dumps(api).encode()
    yield json.dumps({"SectorNum": 8, "Phase1Out": inside, "SectorSize": 2048}).encode()
    yield from (b"", b"{", b"[" * 20000, b"\xef\xbb\xbf{}", text[:999], text.replace(b"0", b"00"))


def bincode_forms() -> Iterator[bytes]:
    for number, partitions in ((5, 1), (10, 1), (15, 2), (9, 1)):
        size = "64GiB" if number in LARGE_NUMBERS else "2KiB"
        inner, layout = c1_output(number, partitions, size), challenge_layout(SHAPES[size])
        body = partitions.to_bytes(8, "little") + b"".join(
            (1).to_bytes(8, "little") + bincode(layout, proofs[0])
            for proofs in inner["vanilla_proofs"]
        )
        body += b"".join(bytes(inner[name]) for name in COMMON)
        variant = 4 if size == "64GiB" else 0
        yield number.to_bytes(4, "little") + variant.to_bytes(4, "little") + body
        if (partitions, size) == (1, "2KiB"):
            yield body
    yield from (bytes(8), body[:100], body + b"\0", bytes(len(body)), b"\xff" * 8 + body)


def open_c1(_: Path) -> AbstractContextManager[Read]:
    def read(data: bytes) -> None:
        binary = b"\0" in data[:8]
        large = data[0] in LARGE_NUMBERS if binary else b"StackedDrg64GiB" in data
        c1 = read_c1(data, SHAPES["64GiB" if large else "2KiB"])
        check_values(c1)
        if binary:
            check_places(c1, data)
        else:
            check_json(c1, json.loads(data))

    return nullcontext(read)


def check_values(c1: C1) -> None:
    partitions = 1 if c1.registered.interactive else 2
    assert c1.elements.shape == (partitions, 1, len(c1.template.element_names), 32)
    assert c1.registered.sector_size == c1.shape.sector.sector_size
    assert not_canonical(c1.elements) is None
    assert (c1.integers >= 0).all() and (c1.integers < c1.template.bounds).all()
    assert any(c1.comm_r) and any(c1.comm_d) and any(c1.seed)


def check_places(c1: C1, data: bytes) -> None:
    """A form has one text of bytes, so what was read is what is there."""
    tail = b"".join(getattr(c1, name) for name in COMMON)
    assert data.endswith(tail)
    known = c1.template
    start = len(data) - len(tail) - c1.n_partitions * (8 + known.n_bytes)
    assert start in (8, 16)
    for k in range(c1.n_partitions):
        at = start + k * (8 + known.n_bytes) + 8
        raw = data[at : at + known.n_bytes]
        check_bincode(known, raw, c1.elements[k, 0], c1.integers[k, 0])


def check_json(c1: C1, said: Any) -> None:
    """The values are those that Python's own reader finds in the places of the form."""
    if "kind" in said:
        assert c1.miner_id == said.get("miner_id")
        assert c1.sector_number == said.get("sector_number")
        said = said["c1"]
    elif "Phase1Out" in said:
        assert c1.sector_number == said["SectorNum"]
        said = json.loads(base64.b64decode(said["Phase1Out"]))
    proofs = said["vanilla_proofs"]
    if isinstance(proofs, dict):
        assert said["registered_proof"] == c1.registered.name
        (proofs,) = proofs.values()
    for name in COMMON:
        assert bytes(said[name]) == getattr(c1, name)
    assert len(proofs) == c1.n_partitions
    for k, partition in enumerate(proofs):
        (challenge,) = partition
        found = list(leaves(challenge_layout(c1.shape), challenge))
        elements = [x for x in found if isinstance(x, list)]
        assert [x for x in found if not isinstance(x, list)] == c1.integers[k, 0].tolist()
        assert elements == c1.elements[k, 0].tolist()


TARGETS = (
    Target(
        name="c1_json",
        open=open_c1,
        seeds=json_forms,
        errors=(InputError,),
        mutate=json_text,
        longest=1 << 17,
    ),
    Target(
        name="c1_bincode",
        open=open_c1,
        seeds=bincode_forms,
        errors=(InputError,),
        mutate=slots(4, (R, bytes(32), b"\xff" * 32, (1).to_bytes(8, "little"), b"\xff" * 8)),
        longest=1 << 15,
    ),
)
