"""Another process takes the GPU's memory in mid-proof: equal bytes or a typed error, then again."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from robust.common import CIRCUIT, DEVICE, FIXED, TESTS, config, emit, job_file
from torchzk import api
from torchzk.errors import ResourceError
from torchzk.timeline import Timeline

LEFT = (("quotient", 0.5), ("msm h", 0.5), ("msm a", 0.25), ("msm h", 0.0))
"""When memory is taken, and how much is left of what the plan has beside the key."""


class Hog:
    """The process of `vram_hog.py`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(TESTS / "vram_hog.py"), str(DEVICE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def leave(self, n_bytes: int | None) -> int:
        """Take all but so much, or give all back; what is free then."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{'free' if n_bytes is None else n_bytes}\n")
        self._process.stdin.flush()
        return int(self._answer())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def squeeze(folder: Path) -> bool:
    kind, size = CIRCUIT
    hog = Hog()
    asked: list[tuple[str, int]] = []
    freed: list[int] = []

    def opened(name: str) -> None:
        if asked and asked[0][0] == name:
            # what torch keeps for its next tensor is what another process can have
            torch.cuda.synchronize(DEVICE)
            torch.cuda.empty_cache()
            freed.append(hog.leave(asked.pop(0)[1]))

    try:
        warnings: list[str] = []
        timeline = Timeline(on_open=opened)
        settings = config(folder, kind, size, "dev-in-memory")
        session = api.open_session(settings, timeline, warnings.append)
        job = api.load_job(session, job_file(folder, kind, size))
        api.check(session, job)
        right, mended, refused = True, 0, 0
        with api.get_keys(session) as keys:

            def prove(with_session: api.Session) -> str:
                proof = api.prove(with_session, job, keys, [FIXED] * job.n_partitions).proof
                return hashlib.sha256(proof).hexdigest()

            expected = prove(session)
            for stage, part in LEFT:
                # with the first plan again
                fresh = api.open_session(settings, timeline, warnings.append)
                vars(fresh)["r1cs"] = session.r1cs
                planned = fresh.plan_for(key_stays=keys.stays).peak
                # of what the plan has beside the key
                rest = planned - (fresh.plan.key_bytes if keys.stays else 0)
                asked[:], freed[:], warnings[:] = [(stage, int(part * rest))], [], []
                outcome = attempt(lambda s=fresh: prove(s))
                hog.leave(None)
                again = attempt(lambda s=fresh: prove(s))
                ok = outcome in (expected, "ResourceError") and again == expected and bool(freed)
                ran_out = any("ran out" in text for text in warnings)
                mended += outcome == expected and ran_out
                refused += outcome == "ResourceError"
                right &= emit(
                    "squeeze",
                    right=ok,
                    step=stage,
                    leave=int(part * rest),
                    free_then=freed,
                    outcome="same bytes" if outcome == expected else outcome,
                    again="same bytes" if again == expected else again,
                    planned=planned,
                    planned_then=fresh.plan.peak,
                    warnings=list(warnings),
                )
        # otherwise it was no squeeze
        ok = mended > 0 and mended + refused >= len(LEFT) - 1
        return emit("squeeze", right=ok, step="all", mended=mended, refused=refused) and right
    finally:
        hog.close()


def attempt(prove: Callable[[], str]) -> str:
    """The proof's digest, or the error's name; its words go to stderr."""
    try:
        return prove()
    except Exception as e:
        print(f"{type(e).__name__}: {e}", file=sys.stderr)
        return "ResourceError" if isinstance(e, ResourceError) else f"{type(e).__name__}: {e}"
