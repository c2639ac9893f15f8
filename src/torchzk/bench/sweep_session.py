"""A sweep over circuits on one device, its rows kept as they come."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torchzk.backends import choose_backend, compile_ahead, load_backend, variant_on
from torchzk.bench import conditions
from torchzk.bench.proof_cases import ProofBenchmark
from torchzk.bench.proof_inputs import Inputs
from torchzk.bench.proofs import free
from torchzk.bench.rows import append
from torchzk.bench.sweep import Row, sweep
from torchzk.bench.sweep_cases import Setting
from torchzk.bench.sweep_prover import Place, ServiceProver
from torchzk.scheduler.devices import find_device
from torchzk.timeline import Timeline


def run_sweep(
    circuits: Sequence[ProofBenchmark],
    settings: Sequence[Setting],
    args: argparse.Namespace,
    watched: Timeline,
    warn: Callable[[str], None],
) -> tuple[list[Row], list[tuple[str, Setting]]]:
    """Sweep circuits one after the other.

    Args:
        circuits: In this order.
        settings: To try with each.
        args: Of the command.
        watched: Sees every span.
        warn: Told of what failed.

    Returns:
        The rows, and what was left out: the circuit's name with the setting.
    """
    start = time.monotonic()
    device = find_device(args.device)
    choice = choose_backend(args.backend or "auto", device)
    with watched.span("compile kernels"):
        warmed = compile_ahead(choice.name, device, watched.advance)
    for fault in warmed.failed if warmed else ():
        warn(f"a kernel does not compile: {fault}")
    with watched.span("known answers"):
        variant = variant_on(choice.name, device)
    facts = conditions.standing(device, args.commit)
    facts |= {"backend": choice.name, "variant": variant.name if variant else None}
    inputs = Inputs(args.inputs, load_backend(choice.name), device)
    place = Place(device, choice.name, inputs, watched, warn, Path("runs"), args.profile_kernels)
    rows: list[Row] = []
    left_out: list[tuple[str, Setting]] = []

    def emit(row: dict[str, Any]) -> None:
        rows.append(row | conditions.clocks(device) | facts)
        append(args.out, rows[-1])

    for circuit in circuits:
        if args.seconds is not None and time.monotonic() - start >= args.seconds:
            left_out += [(circuit.short, setting) for setting in settings]
            continue
        with watched.span(f"sweep {circuit.short}"), ServiceProver(circuit, place) as prover:
            missed = sweep(
                prover,
                settings,
                sectors=args.sectors,
                # what was spent until now is gone
                seconds=args.seconds and max(args.seconds - (time.monotonic() - start), 0.0),
                emit=emit,
                warn=warn,
                advance=watched.advance,
            )
            left_out += [(circuit.short, setting) for setting in missed]
            session = prover.session
        # of the next circuit nothing of this one is wanted
        session.forget()
        free(device)
    return rows, left_out
