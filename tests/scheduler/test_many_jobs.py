"""The script of a thousand jobs, with a few of a circuit of few constraints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from fake_devices import watchdog
from scheduler.many_jobs import Kind, Memory, Sent, bad_texts, run_jobs, summary
from scheduler.small_proofs import SmallJob, on, small_site
from torchzk.errors import InputError

GOOD: dict[str, object] = {"seeds": [1]}
BAD: list[dict[str, object]] = [GOOD | {"bad": "read"}, GOOD | {"bad": "input"}]


@pytest.fixture(scope="module")
def kind(tmp_path_factory: pytest.TempPathFactory, device: torch.device) -> Iterator[Kind]:
    made = small_site(tmp_path_factory.mktemp("keys"), device)
    with made.keys:
        yield Kind(on(made, workers=2), GOOD, BAD)


def test_every_job_ends_once_as_it_should(kind: Kind) -> None:
    rows: list[dict[str, Any]] = []
    with watchdog():
        sent, ends, memory = run_jobs([kind], 8, 60, 4, rows.append, share=0.3)
    told = summary(sent, ends, memory, {kind.name: kind.read()})
    json.dumps([*rows, told])
    fates = [one.fate for one in sent]
    # of this seed
    assert {"good", "bad", "cancelled"} == set(fates)
    assert told["jobs"] == 8 and told["each_ended_once"] and told["wrong"] == []
    assert told["proofs"] == told["proofs_that_hold"] >= fates.count("good")
    refused = [one.job.error for one in sent if one.fate == "bad"]
    assert all(isinstance(error, InputError) for error in refused)


def test_what_is_wrong_is_told(kind: Kind) -> None:
    with watchdog():
        sent, ends, memory = run_jobs([kind], 1, 60, 5, lambda _: None)
    job, done = kind.read(), sent[0].job
    # what was at its last step is done although it was cancelled
    assert Sent(kind, "cancelled", done, late=True).right and Sent(kind, "cancelled", done).right
    # as if its input had been bad, or it had ended twice
    wrong = [replace(sent[0], fate="bad")]
    assert summary(wrong, ends, memory, {kind.name: job})["wrong"]
    ends["job-0"] += 1
    told = summary(sent, ends, memory, {kind.name: job})
    assert not told["each_ended_once"] and not told["right"]
    # as if its proof were of another job
    other = SmallJob((2,))
    assert summary(sent, ends, memory, {kind.name: other})["proofs_that_hold"] == 0


def test_memory_that_grows_is_told() -> None:
    memory = Memory(torch.device("cpu"))
    memory.rows += [{"rss": 100.0 + k // 50, "reserved": 5.0} for k in range(200)]
    assert memory.slopes()["rss"] > 0.01 and memory.slopes()["reserved"] == 0


def test_growth_is_judged_from_a_hundred_jobs_on(kind: Kind) -> None:
    with watchdog():
        sent, ends, memory = run_jobs([kind], 1, 60, 5, lambda _: None)
    memory.rows[:] = [{"rss": 100.0 + k} for k in range(200)]
    job = {kind.name: kind.read()}
    few = summary(sent, ends, memory, job)
    assert few["right"] and few["grown"] == {}
    many = summary(sent * 100, ends, memory, job)
    assert not many["right"] and many["grown"]["rss"] > 0.01


def test_no_time_hands_nothing_in(kind: Kind) -> None:
    with watchdog():
        sent, ends, _ = run_jobs([kind], 5, -1, 5, lambda _: None)
    assert sent == [] and not ends


def test_bad_texts() -> None:
    cut, without, other = bad_texts(b'{"vanilla_proofs": [1], "seed": 2}', seed=3)
    assert cut == b'{"vanilla_proofs"' and json.loads(without) == {"seed": 2}
    assert json.loads(other) == {"vanilla_proofs": [1], "seed": 3}
