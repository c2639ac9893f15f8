"""A config made real: circuits, devices, keys, jobs on disk, and the engine over all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from torchzk.backends import compile_ahead
from torchzk.scheduler.proof_service import ProofService
from torchzk.scheduler.residents import Residents
from torchzk.scheduler.session import Session, open_sessions
from torchzk.serving.circuit_prover import CircuitProver
from torchzk.serving.circuit_sites import CircuitSites
from torchzk.serving.durable_engine import DurableEngine
from torchzk.serving.event_log import EventLog
from torchzk.serving.job_store import JobStore
from torchzk.serving.metrics import Metrics
from torchzk.serving.queue_places import QueueLimits
from torchzk.serving.serve_config import ServeConfig
from torchzk.serving.timelines import Timelines
from torchzk.timeline import Timeline


@contextmanager
def open_engine(config: ServeConfig, warn: Callable[[str], None]) -> Iterator[DurableEngine]:
    """The engine that a config describes, with the keys there that it preloads.

    Whoever has it closes it; it is closed at the end where the body failed.

    Args:
        config: From `load_serve_config`.
        warn: Told what an operator should know.

    Raises:
        ConfigError: A circuit, device or backend is not there.
        KeyFileError: A key is damaged or missing.
        ResourceError: Memory or disk do not suffice, or the folder is another service's.
    """
    metrics, log = Metrics(), EventLog()
    timeline = Timeline(on_close=metrics.on_span, on_level=metrics.on_level)
    with ExitStack() as keys, ExitStack() as opened:
        if config.runs is not None:
            written = Timelines(config.runs, config.runs_limit, config.runs_every, warn)
            timeline = keys.enter_context(written).timeline(timeline)
        # at once where there is somebody else, and not after minutes of keys
        store = opened.enter_context(JobStore(config.data, keep_seconds=config.limits.keep_results))
        circuits, residents = [], Residents()
        for served in config.circuits:
            sessions = open_sessions(config.run_config(served), timeline, warn, residents)
            circuits.append(CircuitSites(sessions, warn))
            keys.callback(circuits[-1].close)
        _compile(circuits[0].sessions, warn)
        for circuit, served in zip(circuits, config.circuits, strict=True):
            if served.preload:
                # which may take minutes, and nobody answers yet
                log("loading", circuit=circuit.name)
                loaded = circuit.preload()
                metrics.key_loaded(loaded.seconds)
                log("preload", circuit=circuit.name, seconds=loaded.seconds)
        service = ProofService([site for c in circuits for site in c.sites()]).service
        for circuit in circuits:
            for site in circuit.sites():
                metrics.planned(site.device, circuit.name, site.plan().peak)
        engine = DurableEngine(
            store,
            opened.enter_context(service),
            CircuitProver(circuits, config.workers),
            limits=QueueLimits(config.limits.jobs, config.limits.payload_bytes),
            metrics=metrics,
            log=log,
        )
        # which closes both from here on
        opened.pop_all()
        try:
            yield engine
        except BaseException:
            with suppress(Exception):
                engine.close(0.0)
            raise


def _compile(sessions: Sequence[Session], warn: Callable[[str], None]) -> None:
    """All kernels of the backend, and whether they compute right on every device."""
    session = sessions[0]
    if session.choice.advice:
        warn(session.choice.advice)
    if session.choice.name != "torch":
        warmed = compile_ahead(session.choice.name, session.device, lambda _: None)
        for fault in warmed.failed if warmed else ():
            warn(f"a kernel does not compile: {fault}")
        for session in sessions:
            session.variant()
