"""Parameter files of 1.1 GB and of more than 4 GiB: written, loaded, used."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

from robust.common import DEVICE, FIXED, command_flags, config, emit, finished, job_file
from torchzk import api
from torchzk.timeline import Span, Timeline

KEYS = (("porep", 2 << 10, 10**9), ("update", 16 << 20, (4 << 30) + 1))
"""Kind, sector size, and the fewest bytes of the file."""


def key_files(folder: Path) -> bool:
    right = True
    for kind, size, least in KEYS:
        right &= _written_and_read(folder, kind, size, least)
    return right


def _written_and_read(folder: Path, kind: str, size: int, least: int) -> bool:
    out = folder / "written"
    code, report, said, seconds = finished(
        ["-m", "torchzk.setup", *command_flags(folder, folder, kind, size, "dev")]
        + ["--out", str(out)],
        120,
    )
    if code:
        print(said, file=sys.stderr)
        return emit("keys", right=False, step="setup", circuit=kind, exit_code=code)
    path = Path(report["params"])
    n_bytes = path.stat().st_size
    wrote = sum(s for name, s in report["stages"].items() if name == "make key") or seconds
    emit(
        "keys",
        right=n_bytes >= least,
        step="setup",
        circuit=report["circuit"],
        bytes=n_bytes,
        s=seconds,
        write_gb_per_s=n_bytes / wrote / 1e9,
    )
    proofs: dict[str, str] = {}
    spans: list[Span] = []
    timeline = Timeline(on_close=spans.append)

    def proof_with(given: Any, place: Any) -> tuple[str, float, float]:
        """Digest of the proof, seconds until the key is there, and those of its load alone."""
        session = api.open_session(config(folder, kind, size, given), timeline, _say)
        job = api.load_job(session, job_file(folder, kind, size))
        _ = session.plan
        spans.clear()
        start = time.perf_counter()
        with api.get_keys(session, place=place) as found:
            torch.cuda.synchronize(DEVICE)
            ready = time.perf_counter() - start
            loaded = sum(span.seconds for span in spans if span.name == "load key")
            proof = api.prove(session, job, found, [FIXED] * job.n_partitions).proof
        return hashlib.sha256(proof).hexdigest(), ready, loaded

    proofs["in memory"], _, _ = proof_with("dev-in-memory", None)
    right = n_bytes >= least
    # the first of them reads, digests and checks every point; the others find that it passed
    for name, place, cold in (
        ("first", "device", True),
        ("cold", "device", True),
        ("warm", "device", False),
        ("host", "host", False),
    ):
        if cold:
            _forget_pages(path)
        proofs[name], ready, loaded = proof_with(path, place)
        ok = proofs[name] == proofs["in memory"]
        right &= emit(
            "keys",
            right=ok,
            step=f"load {name}",
            circuit=report["circuit"],
            bytes=n_bytes,
            load_s=loaded,
            load_gb_per_s=n_bytes / loaded / 1e9 if loaded else None,
            ready_s=ready,
            same_bytes=ok,
        )
    path.unlink()
    return right


def _forget_pages(path: Path) -> None:
    """Have the system drop what it keeps of a file, as far as it lets one ask."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _say(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)
