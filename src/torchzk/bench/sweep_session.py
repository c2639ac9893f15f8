"""A sweep over circuits, its rows kept as they come and taken up again."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torchzk.backends import choose_backend, compile_ahead, load_backend, variant_on
from torchzk.bench import conditions
from torchzk.bench.proof_cases import ProofBenchmark
from torchzk.bench.proof_inputs import Inputs
from torchzk.bench.proofs import free
from torchzk.bench.rows import append
from torchzk.bench.sweep import Row, sweep
from torchzk.bench.sweep_cases import Setting, sectors_of
from torchzk.bench.sweep_measures import times_in
from torchzk.bench.sweep_prover import Place, ServiceProver
from torchzk.errors import ConfigError
from torchzk.scheduler.device_budget import prepare_memory
from torchzk.scheduler.devices import find_devices
from torchzk.timeline import Timeline


def run_sweep(
    settings: Mapping[ProofBenchmark, list[Setting]],
    args: argparse.Namespace,
    watched: Timeline,
    warn: Callable[[str], None],
) -> tuple[list[Row], list[tuple[str, Setting]]]:
    """Sweep circuits one after the other.

    Args:
        settings: To try with each circuit, in this order.
        args: Of the command.
        watched: Sees every span.
        warn: Told of what failed.

    Returns:
        The rows, those of before included, and what was left out: the circuit's name with the
        setting.

    Raises:
        ConfigError: Rows that are to be taken up cannot be read.
    """
    start = time.monotonic()
    devices = tuple(find_devices(args.device))
    device = devices[0]
    choice = choose_backend(args.backend or "auto", device)
    for one in devices:
        # before anything is allocated there
        prepare_memory(one, None)
    with watched.span("compile kernels"):
        warmed = compile_ahead(choice.name, device, watched.advance)
    for fault in warmed.failed if warmed else ():
        warn(f"a kernel does not compile: {fault}")
    with watched.span("known answers"):
        variant, *_ = [variant_on(choice.name, one) for one in devices]
    facts = conditions.standing(device, args.commit)
    facts |= {"backend": choice.name, "variant": variant.name if variant else None}
    inputs = Inputs(args.inputs, load_backend(choice.name), device)
    place = Place(
        devices,
        choice.name,
        inputs,
        watched,
        warn,
        Path("runs"),
        args.profile_kernels,
        args.partitions,
        not args.no_pictures,
        args.witness_graph,
    )
    told = {
        "devices": len(devices),
        "most_partitions": args.partitions,
        "witness_graph": args.witness_graph,
    }
    before = _rows_of(args.out) if args.resume else []
    same = {"device": facts["device"], "commit": facts["commit"], "right": True}
    before = [r for r in before if same.items() <= r.items()]
    rows: list[Row] = [r for r in before if told.items() <= r.items()]
    left_out: list[tuple[str, Setting]] = []

    def emit(row: dict[str, Any]) -> None:
        rows.append(told | row | conditions.clocks(device) | facts)
        append(args.out, rows[-1])

    for circuit, wanted in settings.items():
        own = [row for row in rows if row["circuit"] == circuit.short]
        todo = [s for s in wanted if not any(_is_of(row, s, args.sectors) for row in own)]
        if not todo:
            continue
        if args.seconds is not None and time.monotonic() - start >= args.seconds:
            left_out += [(circuit.short, setting) for setting in todo]
            continue
        with watched.span(f"sweep {circuit.short}"), ServiceProver(circuit, place) as prover:
            missed = sweep(
                prover,
                todo,
                sectors=args.sectors,
                # what was spent until now is gone
                seconds=args.seconds and max(args.seconds - (time.monotonic() - start), 0.0),
                emit=emit,
                warn=warn,
                advance=watched.advance,
                seen=[bytes.fromhex(one) for row in own for one in row["proof_sha256"]],
                # the first of each place stays
                first={(r["residency"], r["limit"]): times_in(r) for r in reversed(own)},
            )
            left_out += [(circuit.short, setting) for setting in missed]
            sessions = prover.sessions
        for session in sessions:
            # of the next circuit nothing of this one is wanted
            session.forget()
            free(session.device)
    return rows, left_out


def _rows_of(path: Path) -> list[Row]:
    """What a sweep has written there before, if anything; half a line at the end is none."""
    try:
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines if line]
    except (OSError, ValueError) as e:
        raise ConfigError(f"{path}: no rows of a sweep that could be taken up: {e}") from None


def _is_of(row: Row, setting: Setting, sectors: int | None) -> bool:
    """Whether a row is of that setting, and of as many sectors."""
    return asdict(setting).items() <= row.items() and row["sectors"] == sectors_of(setting, sectors)
