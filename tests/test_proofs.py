"""The whole way: from a job file to the reference's bytes, keys and proofs alike."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from torchzk import api
from torchzk.circuits.registry import KINDS

# SHA-256 and length of the files that bellperson makes from the dev keys' toxic waste
KEYS = {
    "window": (
        "04d8dfd4315bb984ac1bc6ce914177aeeefa72d2ba7a9541d2bbb34e3a01f1e9",
        11_501_496,
        "bc98ce20d105f322ce42f29dca453b812f79fddf9306b658006fc9a78db3d804",
    ),
    "winning": (
        "8ed66c9c12919a1063517bc9a4c4e81c6121bcae29145b6637e3ff0f24649532",
        47_299_128,
        "3c2e9e2e4b604323c97ce6025a6b39e167a26b2df263f8e44812ae3afc24b1e7",
    ),
}
JOBS = {
    "sector2k_a_window1": ("window", ["sector2k_a_window 0"]),
    "sector2k_a_winning": ("winning", ["sector2k_a_winning 0"]),
    "sector2k_b_window3": ("window", ["sector2k_b_window3 0", "sector2k_b_window3 1"]),
    "sector2k_b_winning": ("winning", ["sector2k_b_winning 0"]),
}

Opened = tuple[api.Session, api.Keys]


@pytest.fixture(scope="module")
def opened(
    tmp_path_factory: pytest.TempPathFactory, device: torch.device
) -> Iterator[Callable[[str], Opened]]:
    """A session of a kind at 2 KiB and its dev keys, made once for the module."""
    folder = tmp_path_factory.mktemp("keys")
    with ExitStack() as stack:

        @cache
        def of(kind: str) -> Opened:
            config = api.load_config(f"{kind}2k.yaml")
            session = api.open_session(replace(config, key_cache=folder, device=str(device)))
            return session, stack.enter_context(api.get_keys(session))

        yield of


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@pytest.mark.parametrize("kind", KINDS)
def test_dev_keys_are_the_reference_files(opened: Callable[[str], Opened], kind: str) -> None:
    _, keys = opened(kind)
    params, n_bytes, vk = KEYS[kind]
    assert keys.insecure
    assert (sha256(keys.path), keys.path.stat().st_size) == (params, n_bytes)
    assert keys.sha256 == vk == sha256(keys.path.with_suffix(".vk"))


@pytest.mark.parametrize(
    ("name", "form"), [*((name, "") for name in JOBS), ("sector2k_a_window1", ".bincode")]
)
def test_fixed_randomisers_give_the_reference_bytes(
    opened: Callable[[str], Opened], golden: Path, name: str, form: str
) -> None:
    kind, proofs = JOBS[name]
    known = json.loads((golden / "groth16/proofs_2kib.json").read_text())["proofs"]
    expected = "".join(p["proof"] for n in proofs for p in known if p["name"] == n)
    session, keys = opened(kind)
    job = api.load_job(session, golden / f"jobs/{name}{form}.json")
    api.check(session, job)
    fixed = api.load_randomisers(golden / f"jobs/{name}.rs.json", job)
    result = api.prove(session, job, keys, fixed)
    assert result.proof.hex() == expected
    assert not result.zero_knowledge
    assert result.insecure_key
    api.verify(session, job, result.proof, api.get_verifying_key(session))


def test_without_randomisers_no_proof_repeats(
    opened: Callable[[str], Opened], golden: Path
) -> None:
    session, keys = opened("window")
    job = api.load_job(session, golden / "jobs/sector2k_a_window1.json")
    one, two = (api.prove(session, job, keys) for _ in range(2))
    assert one.zero_knowledge
    assert one.proof != two.proof
