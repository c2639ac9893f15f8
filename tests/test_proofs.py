"""The whole way: from a job file to the reference's bytes, keys and proofs alike."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from torchzk import api
from torchzk.errors import InputError, ProofError
from torchzk.groth16.keys import held
from torchzk.groth16.prover import prove, query_sums
from torchzk.groth16.room import Room
from torchzk.params.curves import Point
from torchzk.scheduler import proof_work
from torchzk.scheduler.policies import POLICIES
from torchzk.scheduler.proof_work import ProofWork

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
    "update": (
        "2c3a159ea02165d3e982299a12e9510ed4701fa918017163c5f11799de5d4a0f",
        655_789_464,
        "feb52c15bd812298be63fe3a61eb16aaa1919f03d8d32f63614877bca541bf95",
    ),
    "porep": (
        "19dfeede6ed5979dbcff74483cb11adfed6448774924967cc00b51883098d845",
        1_114_707_768,
        "296b1fd501ccbdbcd9fbc1b6bfccf4bacfd56f277c0026b357e14ada8d0ec729",
    ),
}
JOBS = {
    "sector2k_a_window1": ("window", ["sector2k_a_window 0"]),
    "sector2k_a_winning": ("winning", ["sector2k_a_winning 0"]),
    "sector2k_b_window3": ("window", ["sector2k_b_window3 0", "sector2k_b_window3 1"]),
    "sector2k_b_winning": ("winning", ["sector2k_b_winning 0"]),
    "sector2k_a_update": ("update", ["sector2k_a_update 0"]),
    "sector2k_b_update": ("update", ["sector2k_b_update 0"]),
    "sector2k_a_porep": ("porep", ["sector2k_a_porep 0"]),
    "sector2k_b_porep": ("porep", ["sector2k_b_porep 0"]),
}
# millions of constraints: seconds on a GPU
HEAVY = (
    ()
    if torch.cuda.is_available()
    else (pytest.mark.full("a quarter of an hour a circuit on a CPU"),)
)
MARKS = {"winning": (), "window": (), "update": HEAVY, "porep": HEAVY}
KINDS = [pytest.param(kind, marks=marks) for kind, marks in MARKS.items()]
PROVEN = [pytest.param(name, marks=MARKS[kind]) for name, (kind, _) in JOBS.items()]

Opened = tuple[api.Session, api.Keys]


@pytest.fixture(scope="module")
def opened(dev_keys: Path, device: torch.device) -> Iterator[Callable[[str], Opened]]:
    """A session of a kind at 2 KiB and its dev keys, opened once for the module."""
    with ExitStack() as stack:

        @cache
        def of(kind: str) -> Opened:
            session = session_of(kind, dev_keys, device)
            return session, stack.enter_context(api.get_keys(session))

        yield of


def session_of(kind: str, folder: Path, device: torch.device) -> api.Session:
    config = api.load_config(f"{kind}2k.yaml")
    config = replace(config, key_cache=folder, block_cache=folder / "blocks")
    return api.open_session(replace(config, device=str(device)))


def job_file(golden: Path, folder: Path, name: str) -> Path:
    """The file of a job, unpacked to `folder` if it must be."""
    path = golden / "jobs" / f"{name}.json"
    if path.exists():
        return path
    unpacked = folder / path.name
    if name.endswith("_porep"):
        packed = golden / "c1" / f"{name.removesuffix('_porep')}_c1.json.xz"
        unpacked.write_bytes(lzma.decompress(packed.read_bytes()))
    else:
        unpacked.write_bytes(gzip.decompress(path.with_suffix(".json.gz").read_bytes()))
    return unpacked


def known_proof(golden: Path, names: list[str]) -> bytes:
    """The reference's proof of all partitions of a job."""
    known = json.loads((golden / "groth16/proofs_2kib.json").read_text())["proofs"]
    return bytes.fromhex("".join(p["proof"] for n in names for p in known if p["name"] == n))


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@pytest.mark.parametrize("kind", KINDS)
def test_dev_keys_are_the_reference_files(opened: Callable[[str], Opened], kind: str) -> None:
    _, keys = opened(kind)
    params, n_bytes, vk = KEYS[kind]
    assert keys.insecure and keys.path
    assert (sha256(keys.path), keys.path.stat().st_size) == (params, n_bytes)
    assert keys.sha256 == vk == sha256(keys.path.with_suffix(".vk"))


@pytest.mark.parametrize("name", PROVEN)
def test_fixed_randomisers_give_the_reference_bytes(
    opened: Callable[[str], Opened], golden: Path, name: str, tmp_path: Path
) -> None:
    kind, proofs = JOBS[name]
    session, keys = opened(kind)
    job = api.load_job(session, job_file(golden, tmp_path, name))
    api.check(session, job)
    fixed = api.load_randomisers(golden / f"jobs/{name}.rs.json", job)
    result = api.prove(session, job, keys, fixed)
    assert result.proof == known_proof(golden, proofs)
    assert not result.zero_knowledge
    assert result.insecure_key
    api.verify(session, job, result.proof, api.get_verifying_key(session))


@pytest.mark.full("a minute: two jobs of three partitions, once a policy")
@pytest.mark.parametrize("policy", POLICIES)
def test_several_workers_give_the_reference_bytes(
    opened: Callable[[str], Opened], golden: Path, policy: Any
) -> None:
    session, keys = opened("window")
    config = replace(session.config, workers=3, policy=policy)
    names = ["sector2k_b_window3", "sector2k_a_window1"]
    sources = {name: golden / f"jobs/{name}.json" for name in names}

    def fixed(job: api.Job) -> list[api.Randomisers]:
        (name,) = (n for n in names if len(JOBS[n][1]) == job.n_partitions)
        return api.load_randomisers(golden / f"jobs/{name}.rs.json", job)

    site = api.Site(replace(session, config=config), keys)
    for outcome in api.prove_many([site], sources, fixed):
        assert outcome.result is not None, outcome.error
        assert outcome.result.proof == known_proof(golden, JOBS[outcome.name][1])


@pytest.mark.parametrize(
    ("in_turn", "resident"),
    [(False, True), (True, False)],
    ids=["at once, resident", "in turn, from the file"],
)
@pytest.mark.parametrize(
    "name",
    [
        "sector2k_a_window1",
        pytest.param("sector2k_a_update", marks=HEAVY),
        pytest.param("sector2k_a_porep", marks=HEAVY),
    ],
)
def test_the_bytes_are_the_same_in_little_room(
    opened: Callable[[str], Opened],
    golden: Path,
    name: str,
    in_turn: bool,
    resident: bool,
    tmp_path: Path,
) -> None:
    kind, proofs = JOBS[name]
    session, keys = opened(kind)
    circuit, backend, device = session.circuit, session.backend, session.device
    job = api.load_job(session, job_file(golden, tmp_path, name))
    (fixed,) = api.load_randomisers(golden / f"jobs/{name}.rs.json", job)
    points = 7000 if kind == "window" else 100_000
    proof = prove(
        backend,
        held(keys.proving, device) if resident else keys.proving,
        session.r1cs,
        lambda: circuit.assignment(backend, circuit.witness(backend, device, job, 0)),
        fixed,
        session.timeline,
        circuit=circuit.name,
        room=Room(g1_points=points, g2_points=points + 7, in_turn=in_turn),
    )
    assert proof.to_bytes() == known_proof(golden, proofs)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="13 proofs of minutes each on a CPU")
def test_a_non_interactive_porep_is_proven_partition_by_partition(
    opened: Callable[[str], Opened], golden: Path, tmp_path: Path
) -> None:
    session, keys = opened("porep")
    job = api.load_job(session, job_file(golden, tmp_path, "sector2k_ni_porep"))
    api.check(session, job)
    result = api.prove(session, job, keys)
    assert result.partitions == 13 and len(result.proof) == 13 * 192
    # the partitions in another order prove nothing
    turned = result.proof[192:] + result.proof[:192]
    with pytest.raises(ProofError, match="does not hold"):
        api.verify(session, job, turned, keys.verifying)


@pytest.mark.parametrize("kind", KEYS)
def test_proofs_of_the_reference_hold_for_our_jobs(
    golden: Path, tmp_path: Path, device: torch.device, kind: str
) -> None:
    session = session_of(kind, tmp_path, device)
    config = replace(session.config, keys=golden / "groth16" / f"{kind}_2048.vk")
    session = api.open_session(config)
    key = api.get_verifying_key(session)
    assert api.key_sha256(key) == KEYS[kind][2]
    ours = [name for name, (of, _) in JOBS.items() if of == kind]
    assert len(ours) == 2
    for name in ours:
        proof = known_proof(golden, JOBS[name][1])
        api.verify(session, api.load_job(session, job_file(golden, tmp_path, name)), proof, key)
    # of the other sector, and of the right length
    job = api.load_job(session, job_file(golden, tmp_path, ours[0]))
    other = known_proof(golden, JOBS[ours[1]][1])[:192]
    message = f"does not hold for this job under this key .{kind}-2KiB"
    with pytest.raises(ProofError, match=message):
        api.verify(session, job, other, key)
    # of a proof of our own it is said whose fault it is
    site: Any = SimpleNamespace(session=session, keys=SimpleNamespace(verifying=key))
    with pytest.raises(ProofError, match=f"{message}.* was computed here, .*--memory-test"):
        ProofWork({"cpu": site}, job).finish([other])


def test_without_randomisers_no_proof_repeats(
    opened: Callable[[str], Opened], golden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, keys = opened("window")
    job = api.load_job(session, golden / "jobs/sector2k_a_window1.json")
    sums: list[dict[str, Point]] = []

    def once(*args: Any, **kwargs: Any) -> dict[str, Point]:
        # of all that a proof is made of, both have the same
        if not sums:
            sums.append(query_sums(*args, **kwargs))
        return sums[0]

    monkeypatch.setattr(proof_work, "query_sums", once)
    one, two = (api.prove(session, job, keys) for _ in range(2))
    assert one.zero_knowledge
    assert one.proof != two.proof


def test_a_job_of_another_circuit_goes_no_way(
    opened: Callable[[str], Opened], golden: Path, tmp_path: Path, device: torch.device
) -> None:
    session, keys = opened("window")
    other = session_of("winning", tmp_path, device)
    job = api.load_job(other, golden / "jobs/sector2k_a_winning.json")
    ways: list[Callable[[], object]] = [
        lambda: api.check(session, job),
        lambda: api.prove(session, job, keys),
        lambda: api.verify(session, job, bytes(192), keys.verifying),
    ]
    for way in ways:
        with pytest.raises(InputError, match="for winning of 2048 .* circuit is window-2KiB"):
            way()
