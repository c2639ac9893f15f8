"""Job files of PoSt and of sector updates, with vanilla proofs as JSON and as bincode."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fuzz.layout_samples import SECTOR, UPDATE, WINDOW, WINNING, bincode, element, example, leaves
from fuzz.mutators import json_text
from fuzz.target import Read, Target
from torchzk.circuits.layouts import merkle_proof, not_canonical
from torchzk.circuits.post_job import load_post_job
from torchzk.circuits.update_job import load_update_job, update_public_inputs
from torchzk.circuits.update_proof import partition_layout
from torchzk.errors import InputError
from torchzk.params.fields import FR

MERKLE = merkle_proof(SECTOR.tree_r)
PARTITION = partition_layout(UPDATE)


def sector(number: int, challenges: int, rng: Random) -> dict[str, Any]:
    inside = {
        "inclusion_proofs": [example(MERKLE, rng) for _ in range(challenges)],
        "comm_c": element(rng),
        "comm_r_last": element(rng),
    }
    return {
        "sector_id": number,
        "comm_r": element(rng),
        "vanilla_proof": {"sectors": [inside]},
    }


def sector_bincode(said: dict[str, Any]) -> bytes:
    (inside,) = said["vanilla_proof"]["sectors"]
    paths = inside["inclusion_proofs"]
    return b"".join(
        (
            said["sector_id"].to_bytes(8, "little"),
            bytes(said["comm_r"]),
            (1).to_bytes(8, "little"),
            len(paths).to_bytes(8, "little"),
            *(bincode(MERKLE, path) for path in paths),
            bytes(inside["comm_c"]),
            bytes(inside["comm_r_last"]),
        )
    )


def post_jobs() -> Iterator[bytes]:
    rng = Random(1)
    head = {"sector_size": 2048, "miner_id": 1000, "randomness": bytes(element(rng)).hex()}
    several, one = [sector(n, 1, rng) for n in (3, 5)], [sector(9, 2, rng)]
    for kind, proofs, number in (("window", several, 3), ("winning", one, 9)):
        texts = [base64.b64encode(sector_bincode(x)).decode() for x in proofs]
        for given in (proofs, texts):
            job = {"kind": kind, **head, "vanilla_proofs": given}
            yield json.dumps(job).encode()
            more = {"registered_proof": f"StackedDrg{kind.title()}2KiBV1", "sector_number": number}
            more |= {"partition_index": 4} if kind == "window" else {}
            yield json.dumps({**job, **more}).encode()
    yield from (b"", b"null", b'{"kind": "porep"}', b'{"kind":"window","kind":"window"}')


def open_post(_: Path) -> AbstractContextManager[Read]:
    def read(data: bytes) -> None:
        shape = WINNING if b"winning" in data else WINDOW
        job, said = load_post_job(data, shape), json.loads(data)
        assert (job.miner_id, job.randomness.hex()) == (
            said["miner_id"],
            said["randomness"].lower(),
        )
        assert int.from_bytes(job.randomness, "little") < FR.modulus
        assert 0 < len(job.sectors) == len(said["vanilla_proofs"])
        numbers = [s.sector_id for s in job.sectors]
        assert numbers == sorted(set(numbers))
        assert said["sector_size"] == 2048
        for found, given in zip(job.sectors, said["vanilla_proofs"], strict=True):
            raw = base64.b64decode(given) if isinstance(given, str) else sector_bincode(given)
            paths = [
                bincode(MERKLE, _merkle(p.leaf, p.root, p.siblings, p.indices)) for p in found.paths
            ]
            assert raw == b"".join(
                (
                    found.sector_id.to_bytes(8, "little"),
                    found.comm_r,
                    (1).to_bytes(8, "little"),
                    shape.challenges_per_sector.to_bytes(8, "little"),
                    *paths,
                    found.comm_c,
                    found.comm_r_last,
                )
            )

    return nullcontext(read)


def _merkle(leaf: bytes, root: bytes, siblings: bytes, indices: bytes) -> dict[str, Any]:
    """A Merkle proof of one level as JSON."""
    (index,) = indices
    hashes = [siblings[i : i + 32] for i in range(0, len(siblings), 32)]
    levels = [{"hashes": hashes, "index": index}]
    return {"data": {"Single": {"root": root, "leaf": leaf, "path": {"path": levels}}}}


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
                again = bytearray(base64.b64decode(given))
                assert (
                    np.frombuffer(again[:32], dtype=np.uint8).tolist()
                    == job.elements[k, 0].tolist()
                )
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
