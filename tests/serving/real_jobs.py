"""Jobs of 2 KiB sectors of all four kinds, and the service that proves them for real."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Sequence
from pathlib import Path

import torch

from torchzk import api
from torchzk.config import CircuitConfig, Config

ON_CUDA = torch.cuda.is_available()
DEVICE, BACKEND = ("cuda", "triton") if ON_CUDA else ("cpu", "torch")
JOBS = {
    "window": "jobs/sector2k_a_window1.bincode.json",
    "winning": "jobs/sector2k_a_winning.bincode.json",
    "update": "jobs/sector2k_a_update.bincode.json.gz",
    "porep": "c1/sector2k_a_c1_wrapper.json.xz",
}
IDS = {"window": "wpost-2k", "winning": "winning-2k", "update": "snap-2k", "porep": "porep-2k"}
"""Circuits as cuzk calls them."""
FLAGS = {
    "window": ("-t", "wpost", "--sector-size", "2KiB", "--vanilla"),
    "porep": ("-t", "porep", "--sector-size", "2KiB", "--miner-id", "1000")
    + ("--sector-num", "1", "--c1"),
}
"""What a client says of a job, whose file comes next."""


def unpack(packed: Path, folder: Path, kind: str) -> Path:
    """A job's file as clients read it."""
    raw = packed.read_bytes()
    path = folder / f"{kind}.json"
    path.write_bytes(
        {".gz": gzip.decompress, ".xz": lzma.decompress}.get(packed.suffix, bytes)(raw)
    )
    return path


def config_of(folder: Path, keys: Path, kinds: Sequence[str]) -> Path:
    """A config of a service that has its jobs in `folder`, keys and constraints in `keys`."""
    circuits = "".join(f"  - {{kind: {k}, sector_size: 2KiB, keys: dev}}\n" for k in kinds)
    path = folder / "serve.yaml"
    path.write_text(
        f"""
circuits:
{circuits}
listen: 127.0.0.1:0
data: data
device: {DEVICE}
backend: {BACKEND}
key_cache: {keys}
block_cache: {keys / "blocks"}
runs: runs
runs_every: 1s
runs_limit: {{count: 3}}
"""
    )
    return path


def verify(keys: Path, kind: str, job_file: Path, proof: bytes) -> None:
    """Against the key that the service has made; raises `ProofError`."""
    config = Config(
        circuit=CircuitConfig(kind=kind, sector_size=2048),  # type: ignore[arg-type]
        keys="dev",
        key_cache=keys,
        block_cache=keys / "blocks",
        device=DEVICE,
        backend=BACKEND,  # type: ignore[arg-type]
    )
    session = api.open_session(config)
    job = api.load_job(session, job_file)
    api.verify(session, job, proof, api.get_verifying_key(session))
