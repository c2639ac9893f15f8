"""The sizes of every circuit there is, without recording it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torchzk.circuits.registry import get_circuit
from torchzk.groth16.keys import QueryLengths
from torchzk.scheduler.circuit_sizes import BlockSize, CircuitSizes, MatrixSize

_GOLDEN = Path(__file__).parent / "golden" / "circuit_sizes.json"
ROWS: dict[str, Any] = json.loads(_GOLDEN.read_text())
NAMES = list(ROWS)


def sizes_of(name: str, *, on_cpu: bool = False) -> CircuitSizes:
    """Those of the circuit of this name."""
    row = ROWS[name]
    circuit = get_circuit(row["kind"], row["sector_size"])
    return CircuitSizes(
        name=name,
        n_inputs=row["n_inputs"],
        n_aux=row["n_aux"],
        log_n=row["log_n"],
        lengths=QueryLengths(*row["lengths"]),
        prologue=_block(row["prologue"]),
        block=_block(row["block"]),
        copies=row["copies"],
        witness=circuit.witness_bytes(on_cpu=on_cpu),
        numbers=circuit.most_numbers(),
        on_cpu=on_cpu,
    )


def _block(row: Any) -> BlockSize:
    matrices = tuple(MatrixSize(*matrix) for matrix in row["matrices"])
    return BlockSize(matrices, row["columns"], row["coefficients"])
