"""Verify a proof of a job: `python -m torchzk.verify --config FILE --proof PROOF`."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from torchzk import cli
from torchzk.groth16.proofs import read_proofs
from torchzk.interrupts import loading_torch
from torchzk.proof_file import FORMATS, read_proof
from torchzk.scheduler.progress import Progress
from torchzk.summary import partitions, print_facts


def _parser() -> cli.Parser:
    parser = cli.Parser("torchzk.verify", "Verify a proof against its job and a verifying key.")
    cli.add_config_flags(parser, job=True)
    parser.add_argument("--proof", type=Path, required=True, metavar="PROOF", help="the proof")
    parser.add_argument("--format", choices=FORMATS, default="raw", help="of the proof's file")
    parser.add_argument(
        "--key",
        type=cli.key_named,
        metavar="KEY",
        help="dev, official, or a .vk or .params file, instead of the key that the config names",
    )
    return parser


def _verify(args: argparse.Namespace, screen: cli.Screen) -> cli.Report:
    config = cli.config_of(args)
    if args.key is not None:
        config = dataclasses.replace(config, keys=args.key)
    job_path = None if config.synthetic is not None else cli.job_file(config)
    cli.check_key_file(config)
    proof = read_proof(args.proof, args.format)
    start = time.perf_counter()
    with Progress(screen.console) as progress:
        watched = progress.watcher
        with loading_torch(watched):
            # late: what is wrong with a config is said without waiting for it
            from torchzk import api
        session = api.open_session(config, watched, screen.warn)
        job = api.load_job(session, job_path)
        # a key may take minutes to read or to make
        read_proofs(proof, job.n_partitions)
        key = api.get_verifying_key(session)
        api.verify(session, job, proof, key)
    insecure = api.is_insecure(session, key)
    if insecure:
        screen.warn(
            "INSECURE KEY: whoever knows its secrets can forge proofs; this one proves little"
        )
    report: cli.Report = {
        "circuit": session.circuit.name,
        "verified": True,
        "proof": proof.hex(),
        "partitions": job.n_partitions,
        "seconds": time.perf_counter() - start,
        "key_sha256": api.key_sha256(key),
        "insecure_key": insecure,
    }
    print_facts(
        screen.console,
        [
            ("circuit", session.circuit.name, ""),
            ("proof", f"holds, {partitions(job.n_partitions)}", "bold green"),
            ("key sha256", report["key_sha256"], ""),
            ("key is", "INSECURE" if insecure else "not a dev key", "bold red" if insecure else ""),
        ],
    )
    screen.answer("verified")
    return report


def run(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return cli.execute(_parser(), _verify, argv)


if __name__ == "__main__":
    sys.exit(run())
