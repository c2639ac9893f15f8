"""Make tests/golden/groth16 from the reference's output: `python make_groth16.py VECTORS`.

VECTORS holds `sectors/*.json` (public inputs), `groth16/*.json` (proofs) and
`groth16/window_2048.params`, as the reference wrote them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "groth16"
PROOFS = {
    "groth16_sector2k_a_porep": "sector2k_a",
    "groth16_sector2k_a_update": "sector2k_a_update",
    "groth16_sector2k_a_window": "sector2k_a_window1",
    "groth16_sector2k_a_winning": "sector2k_a_winning",
    "proofs_sector2k_b_porep": "sector2k_b",
    "proofs_sector2k_b_update": "sector2k_b_update",
    "proofs_sector2k_b_window3": "sector2k_b_window3",
    "proofs_sector2k_b_winning": "sector2k_b_winning",
}
POINTS_KEPT = 20


def proofs(vectors: Path) -> list[dict[str, Any]]:
    """Proofs with their public inputs, 32 bytes little-endian in hex."""
    found = []
    for stem, sector in PROOFS.items():
        group = json.loads((vectors / "groth16" / f"{stem}.json").read_text())
        partitions = json.loads((vectors / "sectors" / f"{sector}.json").read_text())["partitions"]
        for proof, partition in zip(group["proofs"], partitions, strict=True):
            inputs = partition["public_inputs_hex_le"]
            found.append({"kind": group["kind"], **proof, "public_inputs": inputs})
    return found


def params_head(whole: bytes) -> bytes:
    """A parameter file with the first points of every query of `whole`, counts adjusted."""
    end = 868 + 96 * int.from_bytes(whole[864:868], "big")
    out = whole[:end]
    for size in (96, 96, 96, 96, 192):
        start = end + 4
        end = start + size * int.from_bytes(whole[end:start], "big")
        out += POINTS_KEPT.to_bytes(4, "big") + whole[start : start + POINTS_KEPT * size]
    return out


def main() -> None:
    vectors = Path(sys.argv[1])
    text = json.dumps({"proofs": proofs(vectors)}, indent=1)
    (HERE / "proofs_2kib.json").write_text(text + "\n")
    whole = (vectors / "groth16" / "window_2048.params").read_bytes()
    (HERE / "window_2048_head.params").write_bytes(params_head(whole))


if __name__ == "__main__":
    main()
