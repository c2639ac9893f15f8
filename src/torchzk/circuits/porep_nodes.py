"""Which nodes a PoRep opens, and its public inputs. Source: spec/porep.md sections 4, 7 and 10."""

from __future__ import annotations

import numpy as np

from torchzk.circuits.c1 import C1
from torchzk.circuits.layouts import Integers
from torchzk.circuits.parents import parents
from torchzk.circuits.porep import public_inputs
from torchzk.circuits.replica_id import porep_id
from torchzk.circuits.seal_challenges import seal_challenges


def opened_nodes(c1: C1, partition: int) -> Integers:
    """The nodes that the challenges of a partition open, derived and not read.

    Returns:
        int64 `[challenges, 15]`: the challenged node, its six DRG and its eight expander parents.
    """
    registered = c1.registered
    challenges = seal_challenges(
        registered,
        partition,
        c1.shape.n_challenges,
        replica_id=c1.replica_id,
        comm_r=c1.comm_r,
        seed=c1.seed,
    )
    above = parents(challenges, porep_id(registered), registered.api, c1.shape.sector.n_nodes)
    return np.concatenate((np.array(challenges, dtype=np.int64)[:, None], above), axis=1)


def porep_public_inputs(c1: C1, partition: int) -> list[int]:
    """The public inputs of a partition, without ONE, canonical."""
    replica_id, comm_d, comm_r = (
        int.from_bytes(raw, "little") for raw in (c1.replica_id, c1.comm_d, c1.comm_r)
    )
    opened = opened_nodes(c1, partition).tolist()
    challenges = [(node, above) for node, *above in opened]
    return public_inputs(replica_id, comm_d, comm_r, challenges)
