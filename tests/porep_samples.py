"""PoRep witnesses from C1 outputs, read without any check, apart from the package's own reader."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import torch

from torchzk.backends import Backend
from torchzk.circuits.porep_witness import MerklePaths, PorepWitness
from torchzk.circuits.registered import default_seal
from torchzk.circuits.synthetic import SectorName, make_sector
from torchzk.circuits.synthetic_jobs import job_text
from torchzk.ops.layout import pack_mont
from torchzk.params.fields import FR
from torchzk.timeline import Timeline

_AT_ONCE = 1 << 20
Json = dict[str, Any]


def witness_of(c1: Json, partition: int, device: torch.device) -> PorepWitness:
    """The witness of one partition of a C1 output (spec/porep.md section 8)."""
    (partitions,) = c1["vanilla_proofs"].values()
    proofs: list[Json] = partitions[partition]
    c = len(proofs)
    data = [proof["comm_d_proofs"] for proof in proofs]
    parents = [
        [*proof["replica_column_proofs"]["drg_parents"], *_expander(proof)] for proof in proofs
    ]
    rows = [column["column"]["rows"] for columns in parents for column in columns]
    paths = [
        merkle
        for proof, columns in zip(proofs, parents, strict=True)
        for merkle in (
            *(column["inclusion_proof"] for column in columns),
            proof["comm_r_last_proof"],
            proof["replica_column_proofs"]["c_x"]["inclusion_proof"],
        )
    ]

    def number(value: list[int]) -> torch.Tensor:
        return _numbers([value], device).squeeze(1)

    return PorepWitness(
        replica_id=number(c1["replica_id"]),
        comm_d=number(c1["comm_d"]),
        comm_r=number(c1["comm_r"]),
        comm_c=number(_body(paths[0])["root"]),
        comm_r_last=number(_body(proofs[0]["comm_r_last_proof"])["root"]),
        challenges=torch.tensor([p["labeling_proofs"][0]["node"] for p in proofs], device=device),
        data_leaves=_numbers([_body(merkle)["leaf"] for merkle in data], device),
        data_paths=_paths(data, (c,), device),
        parent_columns=_numbers([x for r in rows for x in r], device).view(8, c, 14, -1),
        paths=_paths(paths, (c, 16), device),
    )


def synthetic_c1(name: str, sector_size: int, backend: Backend, device: torch.device) -> Json:
    """The C1 output of a synthetic sector such as `synth2k`."""
    registered = default_seal(sector_size)
    assert registered is not None
    sector = make_sector(SectorName(name, registered, 7, 1000), backend, device, Timeline())
    c1: Json = json.loads("".join(job_text(sector, "porep")))
    return c1


def values_digest(backend: Backend, values: torch.Tensor) -> str:
    """As `plain_r1cs.digest_of`, of millions of values `[8, n]` in Montgomery form."""
    state = hashlib.sha256()
    for start in range(0, values.shape[1], _AT_ONCE):
        piece = values[:, start : start + _AT_ONCE].contiguous()
        canonical = backend.from_mont(piece, FR)
        state.update(canonical.t().contiguous().cpu().numpy().astype("<i4").tobytes())
    return state.hexdigest()


def _expander(proof: Json) -> list[Json]:
    columns: list[Json] = proof["replica_column_proofs"]["exp_parents"]
    return columns


def _body(merkle: Json) -> Json:
    (body,) = merkle["data"].values()
    return dict(body)


def _levels(merkle: Json) -> list[Json]:
    body = _body(merkle)
    parts = [
        body[name] for name in ("path", "base_proof", "sub_proof", "top_proof") if name in body
    ]
    return [level for part in parts for level in part["path"]]


def _paths(merkles: list[Json], batch: tuple[int, ...], device: torch.device) -> MerklePaths:
    levels = [_levels(merkle) for merkle in merkles]
    indices = torch.tensor([[e["index"] for e in path] for path in levels], device=device)
    siblings = (
        _numbers([h for path in levels for h in path[i]["hashes"]], device).view(8, *batch, -1)
        for i in range(len(levels[0]))
    )
    return MerklePaths(indices.view(*batch, -1), tuple(siblings))


def _numbers(values: list[list[int]], device: torch.device) -> torch.Tensor:
    return pack_mont([int.from_bytes(bytes(v), "little") for v in values], FR, device)
