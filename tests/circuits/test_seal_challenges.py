"""Replica ids, challenges and their parents: public inputs of sectors that the reference made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from torchzk.circuits.miner_id import prover_id
from torchzk.circuits.parents import parents
from torchzk.circuits.registered import REGISTERED_SEALS, ApiVersion
from torchzk.circuits.replica_id import porep_id, replica_id
from torchzk.circuits.seal_challenges import (
    seal_challenges,
    selected_indexes,
    synthetic_challenges,
)

SECTORS = ("2k_a", "2k_b", "2k_ni", "8m", "512m", "32g", "64g")
API = {"V1_2_0": "1.2.0"}


@pytest.mark.parametrize("name", SECTORS)
def test_public_inputs(name: str, porep_graph: dict[str, Any]) -> None:
    names = (f"sector{name}", f"synth{name}")
    (sector,) = (s for s in porep_graph["sectors"] if s["name"] in names)
    (registered,) = (s for s in REGISTERED_SEALS if s.name == sector["registered_proof"])
    raw = {key: bytes.fromhex(sector[key]) for key in ("ticket", "seed", "comm_d", "comm_r")}
    identity = porep_id(registered)
    assert sector["prover_id"] == prover_id(1000).hex()
    replica = replica_id(
        prover_id(1000), sector["sector_id"], raw["ticket"], raw["comm_d"], identity
    )
    assert replica.hex() == sector["replica_id"]
    for partition, inputs in enumerate(sector["public_inputs"]):
        challenges = seal_challenges(
            registered,
            partition,
            len(inputs) // 18,
            replica_id=replica,
            comm_r=raw["comm_r"],
            seed=raw["seed"],
        )
        rows = parents(challenges, identity, registered.api, registered.sector_size // 32)
        listed = [[c, *row, c, c, c] for c, row in zip(challenges, rows.tolist(), strict=True)]
        assert [x for group in listed for x in group] == inputs


def test_public_inputs_of_another_implementation(golden: Path) -> None:
    """Keys and proofs of another setup; its porep_id is all zero."""
    file = golden / "groth16" / "porep_post_2kib_polka_storage.json"
    sector = json.loads(file.read_text())["porep"]
    keys = ("prover_id", "ticket", "comm_d", "porep_id")
    miner, ticket, comm_d, identity = (bytes.fromhex(sector[key]) for key in keys)
    replica = replica_id(miner, sector["sector_id"], ticket, comm_d, identity)
    challenges = seal_challenges(
        REGISTERED_SEALS[5],
        0,
        2,
        replica_id=replica,
        comm_r=bytes.fromhex(sector["comm_r"]),
        seed=bytes.fromhex(sector["seed"]),
    )
    rows = parents(challenges, identity, ApiVersion(API[sector["api_version"]]), 64)
    listed = [[c, *row, c, c, c] for c, row in zip(challenges, rows.tolist(), strict=True)]
    first, _, _, *rest = map(int, sector["public_inputs_decimal"])
    assert first == int.from_bytes(replica, "little")
    assert rest == [x for group in listed for x in group]


def test_synthetic_vector(porep_graph: dict[str, Any]) -> None:
    vector = porep_graph["synthetic"]
    replica, comm_r = (vector[key].to_bytes(32, "little") for key in ("replica_id", "comm_r"))
    n_nodes, n_synthetic = vector["n_nodes"], vector["n_synthetic"]
    whole = synthetic_challenges(replica, comm_r, n_nodes, range(n_synthetic))
    assert whole == vector["challenges"]
    chosen = selected_indexes(replica, bytes.fromhex(vector["seed"]), n_synthetic, range(10))
    assert [whole[i] for i in chosen] == vector["selected"]
    assert synthetic_challenges(replica, comm_r, n_nodes, chosen) == vector["selected"]


def test_synthetic_seal_picks_from_its_own_set() -> None:
    """The set does not depend on the seed, what is picked from it does."""
    registered = next(s for s in REGISTERED_SEALS if s.synthetic and s.sector_size == 2048)
    replica, comm_r = bytes([1]) * 32, bytes([2]) * 32
    whole = synthetic_challenges(replica, comm_r, 64, range(64))
    picked = [
        seal_challenges(
            registered, partition, 2, replica_id=replica, comm_r=comm_r, seed=bytes([seed]) * 32
        )
        for seed in (1, 2)
        for partition in range(13)
    ]
    assert {x for pair in picked for x in pair} <= set(whole)
    assert picked[:13] != picked[13:]
    # a second block of the keystream begins at the sixteenth place
    chosen = selected_indexes(replica, bytes([1]) * 32, 64, range(26))
    assert [whole[i] for i in chosen] == [x for pair in picked[:13] for x in pair]


def test_non_interactive_needs_no_seed() -> None:
    registered = next(s for s in REGISTERED_SEALS if not s.interactive)
    draws = [
        seal_challenges(
            registered, 0, 2, replica_id=bytes(32), comm_r=bytes([c]) * 32, seed=bytes([s]) * 32
        )
        for c, s in ((1, 1), (1, 2), (2, 1))
    ]
    assert draws[0] == draws[1] != draws[2]
