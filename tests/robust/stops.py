"""Processes that prove, stopped and killed at random stages: exit codes, files, VRAM."""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from pathlib import Path

from robust.common import CIRCUIT, FIXED, TESTS, command_flags, emit, finished, free_vram, job_file
from stop_at_stage import stages_of

STOPS = 6
"""Processes that are stopped or killed, half of them while they make and write a key."""
SLACK = 64 << 20
"""Bytes of VRAM that other processes may come to use meanwhile."""


def stop(folder: Path) -> bool:
    kind, size = CIRCUIT
    randomness = folder / "rs.json"
    pair = {name: getattr(FIXED, name).to_bytes(32, "little").hex() for name in "rs"}
    randomness.write_text(json.dumps([pair]))
    there = folder / "stopped"
    there.mkdir(exist_ok=True)
    flags = command_flags(there, folder, kind, size, "dev")
    flags += ["--input", str(job_file(folder, kind, size)), "--randomness", str(randomness)]
    proof = there / "proof.bin"
    stages: list[dict[str, float]] = []
    expected = ""
    # first the key is made, then it is there
    for made in (True, False):
        code, report, said, seconds = finished(
            ["-m", "torchzk.prove", *flags, "--out", str(proof)], 300
        )
        same = expected in ("", report.get("proof"))
        expected = report.get("proof", "")
        if not emit("stop", right=code == 0 and same, step="whole", makes_key=made, s=seconds):
            print(said, file=sys.stderr)
            return False
        stages.append(stages_of(there))
    right = True
    key = there / "keys" / f"{kind}_{size}.params"
    key_bytes = key.stat().st_size
    seed = random.randrange(1 << 32)
    draw = random.Random(seed)
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL] * (-(-STOPS // 3))
    for k, number in enumerate(numbers[:STOPS]):
        making = k % 2 == 0
        proof.unlink(missing_ok=True)
        if making:
            key.unlink(missing_ok=True)
        names = [name for name in stages[not making] if name.startswith("setup:") or not making]
        stage = draw.choice(names)
        moment = draw.uniform(0, min(stages[not making][stage], 2.0)) / 2
        before, dead = free_vram(), _partials(there)
        code, report, said, seconds = finished(
            [str(TESTS / "stop_at_stage.py"), stage, str(int(number)), str(moment)]
            + [*flags, "--out", str(proof)],
            120,
        )
        wanted = -number if number is signal.SIGKILL else 128 + number
        # what a killed one leaves lies there until somebody writes to that folder
        left = [name for name in _partials(there) if name not in dead]
        whole = not key.exists() or key.stat().st_size == key_bytes
        lost = _not_given_back(before)
        ok = code == wanted and not proof.exists() and whole and lost <= SLACK
        ok &= number is signal.SIGKILL or (left == [] and "Traceback" not in said)
        right &= emit(
            "stop",
            right=ok,
            step=stage,
            signal=number.name,
            moment_s=moment,
            exit_code=code,
            wanted=wanted,
            partial=left,
            key_whole=whole,
            vram_not_given_back=lost,
            s=seconds,
            seed=seed,
            error=report.get("message"),
        )
    code, report, said, seconds = finished(
        ["-m", "torchzk.prove", *flags, "--out", str(proof)], 120
    )
    left = _partials(there / "keys")
    ok = code == 0 and report.get("proof") == expected and not left
    return emit("stop", right=ok, step="whole again", partial=left, s=seconds) and right


def _partials(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob(".*.partial"))


def _not_given_back(before: int) -> int:
    """Bytes of VRAM that are still missing when ten seconds are over, or less than the slack."""
    end = time.monotonic() + 10
    while before - free_vram() > SLACK and time.monotonic() < end:
        time.sleep(0.1)
    return max(0, before - free_vram())
