"""The least that each stage of a partition can take on one H200: see `floors`."""

from __future__ import annotations

import torch

from torchzk.bench import floors
from torchzk.circuits.circuit import Job
from torchzk.groth16.keys import QUERIES
from torchzk.groth16.query_variables import QueryVariables, query_variables
from torchzk.ops.layout import ONE, OTHER
from torchzk.params.curves import G1
from torchzk.params.fields import FR
from torchzk.scheduler.session import Session


def floors_ms(session: Session, job: Job) -> dict[str, float]:
    """Milliseconds by stage, for the first partition of a job.

    Queries are the additions of points whose scalars are 1, and a multi-scalar multiplication of
    those whose scalars are neither 0 nor 1; so the assignment is computed, and its values counted.
    """
    r1cs, backend = session.r1cs, session.backend
    witness = session.circuit.witness(backend, session.device, job, 0)
    kinds = backend.classes(session.circuit.assignment(backend, witness).aux)
    n, variables = r1cs.domain.size, r1cs.n_inputs + r1cs.n_aux
    seconds = {
        "witness": floors.memory(FR.n_bytes * variables),
        # read once, and three vectors written
        "products": floors.memory(FR.n_bytes * (variables + 3 * n)),
        "quotient": floors.quotient(r1cs.domain.log_n),
        "msm h": floors.msm(n - 1, 1),
    }
    for name, of in query_variables(r1cs, session.device).items():
        ones, others = _counts(kinds, of)
        degree = 1 if QUERIES[name] is G1 else 2
        added = floors.batch_add(ones, degree) if ones else 0.0
        # inputs are few, and counted as full
        multiplied = floors.msm(others + of.n_inputs, degree) if others + of.n_inputs else 0.0
        seconds[f"msm {name}"] = added + multiplied
    return {stage: 1e3 * value for stage, value in seconds.items()}


def _counts(kinds: torch.Tensor, of: QueryVariables) -> tuple[int, int]:
    """How many of a query's aux are 1, and how many neither 0 nor 1."""
    mine = kinds if of.index is None else kinds.index_select(0, of.index.piece(0, of.n_aux))
    return int((mine == ONE).sum()), int((mine == OTHER).sum())
