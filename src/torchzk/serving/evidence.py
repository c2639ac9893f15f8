"""Proofs that did not hold, kept with all that may tell why: a folder each, below one folder."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torchzk.files import atomic_write, make_folder
from torchzk.serving.kept_work import Fault
from torchzk.serving.prover import NamesFaults

_MOST_FOLDERS = 100
"""Older ones stay, newer ones are not written: the first faults say the most."""


@dataclass(frozen=True)
class Evidence:
    """What was found out about one fault."""

    folder: Path | None
    """None where nothing could be written."""
    suspects: frozenset[str]
    """Devices that made what does not hold."""
    explain: Callable[[], None] | None = None
    """Adds what names the stage, which may take minutes; None where nobody knows more."""


def keep_evidence(
    base: Path,
    fault: Fault,
    facts: Mapping[str, object],
    save_payload: Callable[[Path], None],
) -> Evidence:
    """Write a fault down. Of all its files only the payload has secrets.

    Args:
        base: Folder that gets a folder.
        fault: What did not hold.
        facts: Of the job; values that JSON has.
        save_payload: Puts the job's payload under a name.

    Raises:
        ConfigError, ResourceError, OSError: It cannot be written.
    """
    work, pieces = fault.work, fault.pieces
    # whoever cannot say which piece is bad accuses everybody who had a part in it
    bad = list(work.faulty(pieces)) if isinstance(work, NamesFaults) else list(range(len(pieces)))
    suspects = frozenset(fault.devices[k] for k in bad if fault.devices[k])
    make_folder(base)
    if sum(1 for _ in base.iterdir()) >= _MOST_FOLDERS:
        return Evidence(None, suspects)
    name = re.sub(r"[^0-9A-Za-z._-]", "_", str(facts.get("digest", "")))[:16]
    folder = base / f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{name}-{time.time_ns()}"
    make_folder(folder)
    report = {
        **facts,
        "error": str(fault.error),
        "pieces": [piece.hex() for piece in pieces],
        "devices": list(fault.devices),
        "faulty_partitions": bad,
    }
    with atomic_write(folder / "fault.json") as file:
        file.write(json.dumps(report, indent=1).encode())
    save_payload(folder / "payload")
    explain = partial(work.explain, bad, folder) if isinstance(work, NamesFaults) else None
    return Evidence(folder, suspects, explain)
