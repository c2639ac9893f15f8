"""The file that fixes a proof's r and s, to repeat its bytes. Source: spec/interface.md."""

from __future__ import annotations

import re
from pathlib import Path

from torchzk.circuits.job_head import element
from torchzk.circuits.json_input import Node, parse_json, read_file
from torchzk.groth16.prover import Randomisers


def load_randomisers(path: Path, n_partitions: int) -> list[Randomisers]:
    """r and s of each partition, from a list of {"r": hex, "s": hex}, 32 bytes little-endian.

    Raises:
        InputError: The file is not that, has another number of pairs, or a value is r or above.
    """
    pairs = parse_json(read_file(path), str(path)).items(n_partitions)
    return [_pair(pair) for pair in pairs]


def _pair(node: Node) -> Randomisers:
    fields = node.fields(("r", "s"))
    return Randomisers(_scalar(fields["r"]), _scalar(fields["s"]))


def _scalar(node: Node) -> int:
    value = node.value
    if not (isinstance(value, str) and re.fullmatch("[0-9a-fA-F]{64}", value)):
        # as it stands it may be a secret, in another form
        node.fail("must be 64 hex digits, of 32 little-endian bytes")
    return int.from_bytes(element(node), "little")
