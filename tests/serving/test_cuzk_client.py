"""A client made from cuzk's own messages, in a process of its own, gets what cuzk promises."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from serving.fake_engine import proof_of
from serving.services import cuzk_client, make_stubs, service, write_config
from torchzk.serving.engine import Priority, ProofKind, ProofRequest

GIB32 = 32 << 30


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_stubs(tmp_path_factory.mktemp("stubs"))


@pytest.fixture
def where(tmp_path: Path) -> Iterator[str]:
    text = "listen: 127.0.0.1:0\nlimits: {message: 8MiB}\n"
    with service(write_config(tmp_path, text)) as (_, address):
        yield address


def porep_proof(payload: bytes, request_id: str) -> str:
    return proof_of(
        ProofRequest(
            request_id=request_id,
            kind=ProofKind.POREP,
            sector_size=GIB32,
            registered_proof=8,
            priority=Priority.NORMAL,
            vanilla_proofs=(payload,),
            sector_number=7,
            miner_id=1000,
        ).digest()
    ).hex()


def test_all_eight_calls(stubs: Path, where: str) -> None:
    said = cuzk_client(stubs, where, "all")
    assert said["submitted"] == ["porep-1000-7", 0, ""]
    assert said["held"] == [
        "porep-1000-7",
        "TIMEOUT",
        "",
        "the job is running and goes on; wait for it again",
    ]
    assert said["was_running"] == [True, False]
    assert said["cancelled"] == ["porep-1000-7", "CANCELLED", "", "porep-1000-7 was cancelled"]
    names = [job_id for job_id, *_ in said["done"]]
    assert names[0] == "ps-porep-1000-7-4711" and names[2] == "snap-1000-7"
    assert names[1].startswith("wdpost-1000-3-[0 7 14 ") and names[1].endswith("]")
    assert all(s == "COMPLETED" and len(p) == 384 and not e for _, s, p, e in said["done"])
    assert said["done"][0][2] == porep_proof(b"prove", "")
    assert said["times"] == [1, 2, 3, 4, 10]
    assert said["metrics"] == "torchzk_jobs_accepted_total 5\nwatchers 0\n"
    assert said["load"] == [[False, 1500], [True, 0]]
    assert said["evict"] == [[True, 7], [False, 0]]
    assert said["gpus"] == [[0, "x", "window-post"], [1, "", ""]]
    assert said["queues"] == {
        "porep-c2": [0, 1],
        "snap-update": [0, 0],
        "window-post": [0, 0],
        "winning-post": [0, 0],
    }
    assert said["keys"] == [["wpost-32g", 0, 7]]
    assert said["totals"] == [3, 0] and said["pinned"] == [7, 100] and said["uptime"] >= 1


def test_ids_join_or_part_and_may_be_anything(stubs: Path, where: str) -> None:
    said = cuzk_client(stubs, where, "ids")
    assert said["left"] == "DEADLINE_EXCEEDED"
    assert said["returned"] == ["left", "COMPLETED", porep_proof(b"after 1", ""), ""]
    joined = ["porep-1000-7", "COMPLETED", porep_proof(b"after 0.3", ""), ""]
    assert said["joined"] == [joined] * 8
    assert said["other"] == ["porep-1000-7#2", "COMPLETED", porep_proof(b"prove", ""), ""]
    assert all(job_id == (asked or "job-8") for asked, job_id in said["odd"])
    # left, joined, other, and six odd ones: nothing ran twice
    assert said["metrics"] == "torchzk_jobs_accepted_total 9\nwatchers 0\n"


REFUSED = {
    "empty": "proof_kind: 0 is none of",
    "unknown kind": "proof_kind: 17 is none of",
    "31 bytes": "randomness: must have 32 bytes, has 31",
    "no size": "sector_size: neither it nor registered_proof is said",
    "odd size": "sector_size: 2049 is no size of a sector",
    "type of another kind": "registered_proof: 21 is no porep-c2 proof",
    "size of another type": "registered_proof: 5 is StackedDrg2KiBV1_1, of sectors of 2048 bytes",
    "no proof": "vanilla_proof: is empty",
    "both proofs": "vanilla_proofs: does not belong to a porep-c2",
    "an empty one": "vanilla_proofs: the one at index 1 is empty",
    "many": "request: has more than 20000 fields",
    "hash of another kind": "comm_r_old: does not belong to it",
    "partition of another kind": "partition_index: 1, but the proof is a porep-c2",
    "long id": "request_id: has 1000000 bytes, 1024 are the most",
}
ENGINE = {
    "input": ["INVALID_ARGUMENT", "vanilla_proof: no JSON"],
    "config": ["FAILED_PRECONDITION", "porep-64GiB is not served here"],
    "full": ["RESOURCE_EXHAUSTED", "1024 jobs wait, which are the most"],
    "large": ["RESOURCE_EXHAUSTED", "needs 90 GiB, the limit is 80 GiB"],
    "key": ["FAILED_PRECONDITION", "porep-2KiB: the key is damaged"],
    "fault": [
        "INTERNAL",
        "a fault of the service, which its log shows; the request may be as good as any",
    ],
}


def test_bad_input_is_refused_with_what_is_wrong(stubs: Path, where: str) -> None:
    said = cuzk_client(stubs, where, "refusals")
    for name, message in REFUSED.items():
        submit, prove, seconds = said[name]
        assert submit == prove and submit[0] == "INVALID_ARGUMENT", name
        assert submit[1].startswith(message), submit[1]
        assert seconds < 60
    for name, refusal in ENGINE.items():
        assert said[name][:2] == [refusal, refusal]
    assert said["unwrapped"] == ["INVALID_ARGUMENT", "submit: is missing"]
    assert said["await"] == ["NOT_FOUND", "there is no job 'none'"]
    assert said["cancel"] == ["NOT_FOUND", "there is no job 'none\\n'"]
    assert said["preload"][0] == said["evict"][0] == "NOT_FOUND"
    assert said["evict"][1].startswith("circuit_id: there is no circuit 'porep-33g'; did you mean")
    assert said["preload large"] == [
        "RESOURCE_EXHAUSTED",
        "porep-64GiB: needs 90 GiB, the limit is 80 GiB",
    ]
    assert said["large await"][0] == "INVALID_ARGUMENT"
    assert said["huge"][0] == "RESOURCE_EXHAUSTED" and "8388608" in said["huge"][1]
    assert said["failed"] == ["f", "FAILED", "", "sectors[0]: comm_c is wrong"]
    assert said["expired"] == ["e", "FAILED", "", "the deadline passed"]
    assert said["after"][1] == "COMPLETED"


def test_waiting_calls_hold_up_nobody(stubs: Path, where: str) -> None:
    said = cuzk_client(stubs, where, "many")
    assert [(job_id, s) for job_id, s, *_ in said["winning"]] == [
        (f"w{i}", "COMPLETED") for i in range(8)
    ]
    assert len({proof for _, _, proof, _ in said["winning"]}) == 8
    assert said["status_seconds"] < 60
    assert said["cancelled"] == [300, 300]
    assert said["metrics"] == "torchzk_jobs_accepted_total 9\nwatchers 0\n"
