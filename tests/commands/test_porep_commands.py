"""PoRep and sector update by the commands: checked, verified, and what is said of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from c1_samples import sample
from torchzk import doctor, prove, verify

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command with a shipped config whose folders are the test's; its report."""
    shipped = Path(__file__).parents[2] / "configs"

    def of(command: Callable[[list[str]], int], name: str, *flags: object, code: int = 0) -> Any:
        config = yaml.safe_load((shipped / name).read_text())
        config["input"] = str(shipped / config["input"])
        config |= {"key_cache": "keys", "block_cache": "blocks", "runs": "runs", "device": "cpu"}
        path = tmp_path / name
        path.write_text(yaml.safe_dump(config))
        got = command(["--config", str(path), "--json", *map(str, flags)])
        out, err = capsys.readouterr()
        assert got == code, err
        report = json.loads(out.splitlines()[-1])
        if command is prove.run and not code:
            assert all(note[:40] in err for note in report["notes"])
        return report

    return of


@pytest.mark.parametrize(
    "name", ["porep2k.yaml", "porep8m.yaml", "porep512m.yaml", "update2k.yaml"]
)
def test_shipped_inputs_hold(run: Run, name: str) -> None:
    report = run(prove.run, name, "--check")
    assert report["checked"] and report["partitions"] == 1
    kind, size = report["circuit"].split("-")
    assert name == f"{kind}{size.removesuffix('iB').lower()}.yaml"
    assert ["replica_id" in note for note in report["notes"]] == [True] * (kind == "porep")


def test_whose_sector_it_is(run: Run, tmp_path: Path) -> None:
    mine = ["--miner-id", 1000, "--sector-number", 1]
    assert run(prove.run, "porep2k.yaml", "--check", *mine)["notes"] == []
    for flags in (["--miner-id", 1001, *mine[2:]], [*mine[:2], "--sector-number", 2]):
        report = run(prove.run, "porep2k.yaml", "--check", *flags, code=3)
        assert report["error"] == "InputError" and "is not that of miner" in report["message"]
    report = run(prove.run, "update2k.yaml", "--check", "--miner-id", "f01001", code=3)
    assert "the miner id is 1000, 1001 was asked for" in report["message"]
    report = run(prove.run, "porep2k.yaml", "--miner-id", -1, code=2)
    assert "--miner-id: must be an integer in 0.." in report["message"]
    wrapped = tmp_path / "c1.json"
    wrapped.write_bytes(sample("sector2k_a_c1_wrapper.json"))
    flags = ["--input", wrapped, "--check", "--miner-id", 1000]
    assert run(prove.run, "porep2k.yaml", *flags)["notes"] == []
    report = run(prove.run, "porep2k.yaml", *flags, "--sector-number", 9, code=3)
    assert "c1.json: the sector number is 1, 9 was asked for" in report["message"]


@pytest.mark.parametrize("form", ["c1_inner.json", "c1_api.bincode", "c1_inner.bincode"])
def test_every_form_of_a_c1(run: Run, tmp_path: Path, form: str) -> None:
    job = tmp_path / "c1"
    job.write_bytes(sample(f"sector2k_a_{form}"))
    mine = ["--miner-id", 1000, "--sector-number", 1]
    assert run(prove.run, "porep2k.yaml", "--check", "--input", job, *mine)["notes"] == []


def test_a_non_interactive_porep_is_not_aggregated(run: Run, tmp_path: Path) -> None:
    job = tmp_path / "c1.json"
    job.write_bytes(sample("sector2k_ni_c1.json"))
    mine = ["--miner-id", 1000, "--sector-number", 12]
    report = run(prove.run, "porep2k.yaml", "--check", "--input", job, *mine)
    assert report["partitions"] == 13
    (note,) = report["notes"]
    assert note.startswith("NOT AGGREGATED")
    # proofs of all its partitions are asked for, one after the other
    (tmp_path / "proof").write_bytes(bytes(192))
    flags = ["--input", job, "--proof", tmp_path / "proof"]
    key = Path(__file__).parents[1] / "golden/groth16/porep_2048.vk"
    report = run(verify.run, "porep2k.yaml", *flags, "--key", key, code=5)
    assert "13 partitions take 2496 bytes, got 192" in report["message"]


@pytest.mark.parametrize("kind", ["porep", "update"])
def test_the_references_proof_is_verified(
    run: Run, tmp_path: Path, golden: Path, kind: str
) -> None:
    known = json.loads((golden / "groth16/proofs_2kib.json").read_text())["proofs"]
    own, other = (
        next(p["proof"] for p in known if p["name"] == f"sector2k_{sector}_{kind} 0")
        for sector in "ab"
    )
    key = golden / "groth16" / f"{kind}_2048.vk"
    proof = tmp_path / "proof.hex"
    flags = ["--proof", proof, "--format", "hex", "--key", key]
    proof.write_text(own)
    report = run(verify.run, f"{kind}2k.yaml", *flags)
    assert report["verified"] and report["insecure_key"] and report["circuit"] == f"{kind}-2KiB"
    proof.write_text(other)
    assert run(verify.run, f"{kind}2k.yaml", *flags, code=5)["error"] == "ProofError"
    # the key of the other circuit
    flags[-1] = golden / "groth16" / f"{'update' if kind == 'porep' else 'porep'}_2048.vk"
    report = run(verify.run, f"{kind}2k.yaml", *flags, code=4)
    assert f"the key of another circuit than {kind}-2KiB" in report["message"]


def test_doctor_knows_them(run: Run) -> None:
    for name in ("porep512m.yaml", "update2k.yaml"):
        (plan,) = run(doctor.run, name)["configs"]
        assert plan["keys"] == "dev, not made yet" and plan["input"] == "there"
        assert plan["circuit"] in ("porep-512MiB", "update-2KiB")
