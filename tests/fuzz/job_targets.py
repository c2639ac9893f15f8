"""Job files of PoSt and of sector updates, with vanilla proofs as JSON and as bincode."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from fuzz.layout_samples import (
    LARGE,
    SMALL,
    UPDATE,
    bincode,
    check_bincode,
    element,
    example,
    leaves,
    post,
)
from fuzz.mutators import json_text
from fuzz.target import Read, Target
from torchzk.circuits.layouts import PATH_NAMES, VARIANTS, merkle_proof, not_canonical, template
from torchzk.circuits.post_job import load_post_job
from torchzk.circuits.post_shapes import PostShape
from torchzk.circuits.sectors import SectorShape, TreeShape
from torchzk.circuits.update_job import load_update_job, update_public_inputs
from torchzk.circuits.update_proof import partition_layout
from torchzk.circuits.vanilla import MerkleProof, SectorProof
from torchzk.errors import InputError
from torchzk.params.fields import FR

PARTITION = partition_layout(UPDATE)
KNOWN = template(PARTITION)


def sector(number: int, shape: PostShape, rng: Random) -> dict[str, Any]:
    merkle = merkle_proof(shape.sector.tree_r)
    inside = {
        "inclusion_proofs": [example(merkle, rng) for _ in range(shape.challenges_per_sector)],
        "comm_c": element(rng),
        "comm_r_last": element(rng),
    }
    return {
        "sector_id": number,
        "comm_r": element(rng),
        "vanilla_proof": {"sectors": [inside]},
    }


def sector_bincode(said: dict[str, Any], shape: PostShape) -> bytes:
    merkle = merkle_proof(shape.sector.tree_r)
    (inside,) = said["vanilla_proof"]["sectors"]
    paths = inside["inclusion_proofs"]
    return b"".join(
        (
            said["sector_id"].to_bytes(8, "little"),
            bytes(said["comm_r"]),
            (1).to_bytes(8, "little"),
            len(paths).to_bytes(8, "little"),
            *(bincode(merkle, path) for path in paths),
            bytes(inside["comm_c"]),
            bytes(inside["comm_r_last"]),
        )
    )


def post_jobs(sectors: Sequence[SectorShape] = (SMALL, LARGE)) -> Iterator[bytes]:
    rng = Random(1)
    for size in sectors:
        for shape, numbers in ((post("window", size), (3, 5)), (post("winning", size), (9,))):
            proofs = [sector(n, shape, rng) for n in numbers]
            texts = [base64.b64encode(sector_bincode(x, shape)).decode() for x in proofs]
            for given in (proofs, texts):
                job: dict[str, Any] = {"kind": shape.kind, "sector_size": size.sector_size}
                job |= {"miner_id": 1000, "randomness": bytes(element(rng)).hex()}
                job |= {"vanilla_proofs": given}
                yield json.dumps(job).encode()
                name = f"StackedDrg{shape.kind.title()}{size.name}V1"
                more = {"registered_proof": name, "sector_number": numbers[0]}
                more |= {"partition_index": 4} if shape.kind == "window" else {}
                yield json.dumps({**job, **more}).encode()
    yield from (b"", b"null", b'{"kind": "porep"}', b'{"kind":"window","kind":"window"}')


def open_post(_: Path) -> AbstractContextManager[Read]:
    def read(data: bytes) -> None:
        size = LARGE if b"68719476736" in data else SMALL
        shape = post("winning" if b"winning" in data else "window", size)
        job, said = load_post_job(data, shape), json.loads(data)
        assert job.miner_id == said["miner_id"]
        assert job.randomness.hex() == said["randomness"].lower()
        assert int.from_bytes(job.randomness, "little") < FR.modulus
        assert said["sector_size"] == size.sector_size
        assert 0 < len(job.sectors) == len(said["vanilla_proofs"])
        numbers = [s.sector_id for s in job.sectors]
        assert numbers == sorted(set(numbers))
        for found, given in zip(job.sectors, said["vanilla_proofs"], strict=True):
            text = isinstance(given, str)
            raw = base64.b64decode(given) if text else sector_bincode(given, shape)
            assert raw == _again(found, shape)

    return nullcontext(read)


def _again(found: SectorProof, shape: PostShape) -> bytes:
    """The bincode of what was read."""
    paths = [{"data": _merkle(path, shape.sector.tree_r)} for path in found.paths]
    ends = {"comm_c": found.comm_c, "comm_r_last": found.comm_r_last}
    inside = {"inclusion_proofs": paths, **ends}
    said = {"sector_id": found.sector_id, "comm_r": found.comm_r}
    return sector_bincode({**said, "vanilla_proof": {"sectors": [inside]}}, shape)


def _merkle(path: MerkleProof, tree: TreeShape) -> dict[str, Any]:
    """A Merkle proof as JSON, under the name of its variant."""
    hashes = iter(path.siblings[i : i + 32] for i in range(0, len(path.siblings), 32))
    places = iter(path.indices)
    parts = [
        {"path": [{"hashes": list(islice(hashes, a - 1)), "index": next(places)} for a in part]}
        for part in tree.parts
    ]
    ends = {"root": path.root, "leaf": path.leaf}
    if len(parts) == 1:
        return {"Single": {**ends, "path": parts[0]}}
    names = PATH_NAMES[: len(parts)]
    return {VARIANTS[len(parts) - 1]: {**ends, **dict(zip(names, parts, strict=True))}}


def update_jobs() -> Iterator[bytes]:
    rng = Random(2)
    proofs = [example(PARTITION, rng) for _ in range(2)]
    texts = [base64.b64encode(bincode(PARTITION, x)).decode() for x in proofs]
    names = ("comm_r_old", "comm_r_new", "comm_d_new")
    head = {"kind": "update", "sector_size": 2048, "miner_id": 1000}
    head |= {name: bytes(element(rng)).hex() for name in names}
    for given in (proofs, texts, [proofs[0], texts[1]]):
        job = {**head, "vanilla_proofs": given}
        yield json.dumps(job, separators=(",", ":")).encode()
        yield json.dumps(job, separators=(",", ":"), sort_keys=True).encode()
        more = {"registered_proof": "StackedDrg2KiBV1", "sector_number": 3}
        yield json.dumps({**job, **more}).encode()
    yield from (b"", b"0", b'{"kind": "update"}', json.dumps(job).encode()[:-1])


def open_update(_: Path) -> AbstractContextManager[Read]:
    def read(data: bytes) -> None:
        job, said = load_update_job(data, UPDATE), json.loads(data)
        assert job.miner_id == said["miner_id"]
        assert job.sector_number == said.get("sector_number")
        for name in ("comm_r_old", "comm_r_new", "comm_d_new"):
            assert getattr(job, name).hex() == said[name].lower()
        assert not_canonical(job.elements) is None
        for k, given in enumerate(said["vanilla_proofs"]):
            update_public_inputs(job, k)
            if isinstance(given, str):
                raw = base64.b64decode(given)
                assert len(raw) == KNOWN.n_bytes
                check_bincode(KNOWN, raw, job.elements[k], job.integers[k])
                continue
            found = list(leaves(PARTITION, given))
            assert [x for x in found if isinstance(x, list)] == job.elements[k].tolist()
            assert [x for x in found if not isinstance(x, list)] == job.integers[k].tolist()

    return nullcontext(read)


TARGETS = (
    Target(
        name="post_job",
        open=open_post,
        seeds=post_jobs,
        errors=(InputError,),
        mutate=json_text,
    ),
    Target(
        name="update_job",
        open=open_update,
        seeds=update_jobs,
        errors=(InputError,),
        mutate=json_text,
    ),
)
