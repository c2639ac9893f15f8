"""A proof is not lost where the file that it was asked for in cannot be written."""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import pytest
from rich.console import Console

from torchzk import cli, prove
from torchzk.config import RunsLimit
from torchzk.errors import ResourceError
from torchzk.proof_file import ProofFormat, write_proof
from torchzk.scheduler.sinks import open_run

PROOF = bytes(range(192))


@pytest.mark.parametrize("writable", [True, False], ids=["in the run's folder", "in the warning"])
def test_a_proof_is_kept(writable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(path: Path, proof: bytes, how: ProofFormat) -> None:
        if path == out or not writable:
            raise ResourceError(f"{path}: the disk is full")
        write_proof(path, proof, how)

    out = tmp_path / "out" / "proof.hex"
    monkeypatch.setattr(prove, "write_proof", write)
    screen = cli.Screen(Console(file=io.StringIO()), json=False)
    args = argparse.Namespace(out=out, format="hex")
    with open_run(tmp_path / "runs", "prove", screen.warn, {}, RunsLimit()) as run:
        with pytest.raises(ResourceError, match=r"out/proof\.hex: the disk is full"):
            prove._keep(args, screen, run, PROOF)
        kept = [path.read_text() for path in (tmp_path / "runs").rglob("proof.hex")]
    assert kept == ([PROOF.hex() + "\n"] if writable else [])
    assert screen.warnings[-1].startswith("the proof is ")
    assert (PROOF.hex() in screen.warnings[-1]) != writable
