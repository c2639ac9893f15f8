"""How large a circuit is, in every way that its memory depends on: numbers, and no tensors."""

from __future__ import annotations

from dataclasses import dataclass

from torchzk.circuits.circuit import AnyCircuit, WitnessBytes
from torchzk.groth16.density import expected_lengths
from torchzk.groth16.keys import QueryLengths
from torchzk.groth16.r1cs import Block, R1cs, SparseRows
from torchzk.params.domains import Domain


@dataclass(frozen=True)
class MatrixSize:
    """One sparse matrix of a block."""

    rows: int
    terms: int
    longest: int
    """Terms of its longest row."""


@dataclass(frozen=True)
class BlockSize:
    """One block of a constraint system."""

    matrices: tuple[MatrixSize, ...]
    columns: int
    coefficients: int
    """Distinct ones, which the matrices share."""


@dataclass(frozen=True)
class CircuitSizes:
    """A circuit's sizes. A pure function of the circuit, so that a plan can be one."""

    name: str
    n_inputs: int
    n_aux: int
    log_n: int
    """log2 of the evaluation domain."""
    lengths: QueryLengths
    prologue: BlockSize
    block: BlockSize
    copies: int
    witness: WitnessBytes
    numbers: tuple[int, int]
    """Aux of the prologue, and of a copy, that may be other than 0 and 1."""
    on_cpu: bool = False
    """Whether the witness was sized for a CPU, which works on smaller pieces."""

    @property
    def domain(self) -> Domain:
        """Where the constraints are interpolated."""
        return Domain(self.log_n)

    @property
    def variables(self) -> int:
        return self.n_inputs + self.n_aux


def circuit_sizes(circuit: AnyCircuit, r1cs: R1cs, *, on_cpu: bool) -> CircuitSizes:
    """The sizes of a circuit whose constraint system is `r1cs`, on a CPU or on a GPU."""
    return CircuitSizes(
        name=circuit.name,
        n_inputs=r1cs.n_inputs,
        n_aux=r1cs.n_aux,
        log_n=r1cs.domain.log_n,
        lengths=expected_lengths(r1cs),
        prologue=_block(r1cs.prologue),
        block=_block(r1cs.block),
        copies=r1cs.copies,
        witness=circuit.witness_bytes(on_cpu=on_cpu),
        numbers=circuit.most_numbers(),
        on_cpu=on_cpu,
    )


def _block(block: Block) -> BlockSize:
    matrices = tuple(_matrix(rows) for rows in block.matrices)
    return BlockSize(matrices, block.n_columns, len(block.table))


def _matrix(rows: SparseRows) -> MatrixSize:
    lengths = rows.starts[1:] - rows.starts[:-1]
    return MatrixSize(len(lengths), rows.nnz, int(lengths.max(initial=0)))
