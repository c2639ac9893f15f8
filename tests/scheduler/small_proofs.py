"""Jobs of a circuit of a few constraints, read, checked, proved and verified as any other's."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from replicated_r1cs import values
from scheduler.small_session import SmallCircuit, small_session
from torchzk import api
from torchzk.backends import Backend
from torchzk.circuits.circuit import Source
from torchzk.circuits.post_shapes import post_shape
from torchzk.errors import InputError
from torchzk.groth16.prover import Randomisers, prove
from torchzk.groth16.r1cs import Assignment
from torchzk.ops.layout import pack_mont
from torchzk.params.fields import FR
from torchzk.timeline import Timeline


@dataclass(frozen=True)
class SmallJob:
    """A partition a seed."""

    seeds: tuple[int, ...]
    bad: str = ""
    """What is wrong with it: its `read`, its `input`, or a `row` of its last partition."""
    kind: str = "window"
    sector_size: int = 2048

    @property
    def n_partitions(self) -> int:
        return len(self.seeds)


class ProvableCircuit(SmallCircuit):
    """The small circuit with jobs: values that satisfy it, drawn from a job's seeds."""

    def read_job(
        self, source: Source, *, miner_id: int | None = None, sector_number: int | None = None
    ) -> Any:
        if isinstance(source, Path):
            source = json.loads(source.read_text())
        assert isinstance(source, dict)
        job = SmallJob(tuple(source["seeds"]), source.get("bad", ""))
        if job.bad == "read":
            raise InputError("this job cannot be read")
        return job

    def check_job(self, backend: Backend, device: torch.device, job: Any) -> None:
        if job.bad == "input":
            raise InputError("this job does not hold")

    def witness(self, backend: Backend, device: torch.device, job: Any, partition: int) -> Any:
        inputs, aux = values(job.seeds[partition])
        if job.bad == "row" and partition == job.n_partitions - 1:
            aux[-1] += 1
        return Assignment(pack_mont(inputs, FR, device), pack_mont(aux, FR, device))

    def assignment(self, backend: Backend, witness: Any) -> Assignment:
        return Assignment(witness.inputs.clone(), witness.aux.clone())

    def public_inputs(self, job: Any, partition: int) -> list[int]:
        return values(job.seeds[partition])[0][1:]


def small_site(folder: Path, device: torch.device) -> api.Site:
    """A session of the small circuit and its key. Close the key."""
    session = small_session(folder, "dev-in-memory", device=str(device))
    session = replace(session, circuit=ProvableCircuit(post_shape("window", 2048)))
    return api.Site(session, api.get_keys(session))


def proofs_alone(site: api.Site, job: SmallJob, randomisers: Randomisers) -> bytes:
    """All proofs of a job, by the prover alone."""
    session, circuit, proofs = site.session, site.session.circuit, b""
    for k in range(job.n_partitions):
        given = circuit.witness(session.backend, session.device, job, k)
        assign = partial(circuit.assignment, session.backend, given)
        known = (session.backend, site.keys.proving, session.r1cs, assign, randomisers, Timeline())
        proofs += prove(*known, circuit=circuit.name).to_bytes()
    return proofs


def on(site: api.Site, timeline: Timeline | None = None, **config: Any) -> api.Site:
    """The same site by another config, watched by another timeline."""
    session = replace(
        site.session,
        config=replace(site.session.config, **config),
        timeline=timeline or Timeline(),
    )
    # recorded once
    vars(session).update(r1cs=site.session.r1cs, sizes=site.session.sizes)
    return replace(site, session=session)
