"""Proofs that do not hold: none leaves, each is kept with its evidence, the device is set aside."""

from __future__ import annotations

import json
from pathlib import Path

from fake_devices import FakeDevice, proof, watchdog
from serving.durable import request, rig
from torchzk.serving.engine import JobState
from torchzk.serving.payload import decode


def test_a_bad_proof_is_tried_once_more(tmp_path: Path) -> None:
    with watchdog(), rig(tmp_path, FakeDevice("a"), FakeDevice("b")) as r:
        report = r.run(request("x\n", n=3, bad=1))
        assert report.state is JobState.COMPLETED and report.proof == proof(3)
        works = [job for _, job in r.prover.jobs]
        # all partitions anew, by work made anew
        assert [sorted(work.started) for work in works] == [[0, 1, 2], [0, 1, 2]]
        assert r.engine.status().ready and r.service.devices == {"a", "b"}
        assert r.metric('torchzk_selfcheck_failures_total{proof_kind="window_post"}') == 1
        assert r.metric('torchzk_job_retries_total{proof_kind="window_post"}') == 1
    (folder,) = (tmp_path / "evidence").iterdir()
    fault = json.loads((folder / "fault.json").read_text())
    assert fault["job_id"] == "x\n" and fault["attempt"] == 1
    assert fault["pieces"] == ["00", "01", "02"] and fault["faulty_partitions"] == [2]
    assert set(fault["devices"]) <= {"a", "b"}
    assert (folder / "stages.txt").read_text() == "msm of A differs in [2]"
    # as the job is over, this is where its payload is left
    raw = (folder / "payload").read_bytes()
    again = decode(raw, bytes.fromhex(fault["digest"]))
    assert again.vanilla_proofs == request("x\n", n=3, bad=1).vanilla_proofs
    assert list((tmp_path / "payloads").iterdir()) == []


def test_after_the_second_the_device_is_set_aside_that_made_what_does_not_hold(
    tmp_path: Path,
) -> None:
    with watchdog(), rig(tmp_path, FakeDevice("a"), FakeDevice("b")) as r:
        report = r.run(request("x", n=1, bad=2))
        assert (report.state, report.error_type) == (JobState.FAILED, "ProofError")
        assert report.proof == b"" and r.engine.job("x").proof == b""
        assert len(r.service.devices) == 1
        (gone,) = {"a", "b"} - r.service.devices
        assert [e["device"] for e in r.events("device set aside")] == [gone]
        assert {d.name for d in r.engine.status().devices if d.set_aside} == {gone}
        # the other one goes on
        assert r.run(request("y", n=4)).proof == proof(4)
    assert len(list((tmp_path / "evidence").iterdir())) == 2


def test_evidence_that_cannot_be_kept_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "evidence").write_text("in the way")
    with watchdog(), rig(tmp_path) as r:
        assert r.run(request("x", n=2, bad=1)).state is JobState.COMPLETED
        assert [e["evidence"] for e in r.events("proof does not hold")] == ["not kept"]
        (fault,) = r.events("fault")
        assert "cannot make this folder" in str(fault["message"])
        # seen and expected
        r.lines.seek(0)
        r.lines.truncate()
