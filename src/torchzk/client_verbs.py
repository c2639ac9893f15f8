"""The verbs of `python -m torchzk.client`, and their flags.

They are those of cuzk's own tool where it has them. Proofs go to --out, or as hex to stdout.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torchzk import cli
from torchzk.client_bench import bench
from torchzk.client_latency import latency
from torchzk.client_status import show_status, status_report
from torchzk.proof_file import FORMATS, check_writable, write_proof
from torchzk.serving.calls import DEFAULT, Client, Service, connected, proof_of
from torchzk.serving.engine import Priority, ProofKind
from torchzk.serving.submissions import TYPES, Submission, message_of
from torchzk.serving.wire import proving_pb2 as wire

Verb = Callable[[argparse.Namespace, cli.Screen, Client], cli.Report]


class _VerbParser(cli.Parser):
    """A parser that argparse makes for a verb, whatever else it says of it."""

    def __init__(self, prog: str, description: str = "", **_: Any) -> None:
        super().__init__(prog, description)


def _hash(text: str) -> bytes:
    try:
        value = bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        value = b""
    if len(value) != 32:
        raise argparse.ArgumentTypeError(f"must be 32 bytes as hex, is {text:.80}")
    return value


def parser() -> cli.Parser:
    """Of all verbs."""
    made_of = cli.Parser("torchzk.client", "Ask a proving service that speaks cuzk.v1.")
    verbs = made_of.add_subparsers(dest="verb", required=True, parser_class=_VerbParser)

    def verb(name: str, act: Verb, what: str, *aliases: str) -> cli.Parser:
        made: cli.Parser = verbs.add_parser(name, aliases=aliases, help=what, description=what)
        made.set_defaults(act=act)
        made.add_argument(
            "-a",
            "--addr",
            "--address",
            dest="address",
            default=DEFAULT,
            help=f"HOST:PORT or unix:///PATH; {DEFAULT} by default",
        )
        made.add_argument("--token-file", type=Path, metavar="FILE", help="its token")
        made.add_argument("--ca", type=Path, metavar="PEM", help="who vouches for it; TLS")
        made.add_argument("--certificate", type=Path, metavar="PEM", help="shown to it")
        made.add_argument("--private-key", type=Path, metavar="PEM", help="of the certificate")
        return made

    for name, act, what, *theirs in (
        ("submit", _submit, "have a request accepted, and print its job"),
        ("prove", _prove, "submit, and wait for the proof", "single"),
        ("bench", bench, "the same proof many times, and how long it takes", "batch"),
        ("latency", latency, "how long a winning PoSt waits behind many of the same proof"),
    ):
        made = verb(name, act, what, *theirs)
        _add_request_flags(made)
        if name == "prove":
            _add_proof_flags(made)
        if name == "bench":
            made.add_argument("-c", "--count", type=_count, default=3, help="proofs in all")
            made.add_argument("-j", "--concurrency", type=_count, default=1, help="at once")
        if name == "latency":
            made.add_argument("-c", "--count", type=_count, default=100, help="that many wait")
            made.add_argument("--runs", type=_count, default=3, metavar="N", help="waits in all")
            made.add_argument(
                "--urgent", type=Path, required=True, metavar="FILE", help="the winning PoSt's job"
            )
    waits = verb("await", _await, "wait for the proof of a job")
    waits.add_argument("job", help="as submit printed it")
    waits.add_argument(
        "--timeout", type=cli.seconds, default=0.0, metavar="SECONDS", help="none by default"
    )
    _add_proof_flags(waits)
    verb("cancel", _cancel, "cancel a job").add_argument("job", help="as submit printed it")
    verb("status", _status, "devices, keys and queues")
    verb("metrics", _metrics, "metrics in Prometheus' format")
    for name, act, what in (
        ("preload", _preload, "load the key of a circuit"),
        ("evict", _evict, "let go of the key of a circuit"),
    ):
        verb(name, act, what).add_argument("circuit", help="such as porep-32g")
    return made_of


def _add_request_flags(parser: cli.Parser) -> None:
    parser.add_argument("-t", "--type", required=True, choices=tuple(TYPES))
    parser.add_argument("--c1", type=Path, metavar="FILE", help="C1 output of a PoRep")
    parser.add_argument(
        "--vanilla",
        type=Path,
        metavar="FILE",
        help="vanilla proofs of the others: a JSON array of base64, or a job file with such",
    )
    parser.add_argument(
        "--sector-size",
        type=cli.byte_size,
        default=0,
        metavar="SIZE",
        help="such as 2KiB; by default the job file's, or 32GiB",
    )
    for flag, number, what in (
        ("--registered-proof", cli.u64, "the network's number of the proof's type"),
        ("--sector-num", cli.u64, "of the sector"),
        ("--miner-id", cli.miner_id, "whose it is"),
        ("--partition", cli.u64, "of a window PoSt"),
    ):
        parser.add_argument(flag, type=number, default=0, metavar="N", help=what)
    for flag, what in (
        ("--randomness", "of a PoSt, 32 bytes"),
        ("--comm-r-old", "of a sector update, 32 bytes"),
        ("--comm-r-new", "likewise"),
        ("--comm-d-new", "likewise"),
    ):
        parser.add_argument(flag, type=_hash, default=b"", metavar="HEX", help=what)
    names = [p.name.lower() for p in Priority]
    parser.add_argument("--priority", choices=names, help="by default what is usual for the type")
    parser.add_argument("--deadline", type=cli.seconds, metavar="SECONDS", help="none by default")
    parser.add_argument("--request-id", default="", metavar="TEXT", help="by default a new one")


def _add_proof_flags(parser: cli.Parser) -> None:
    parser.add_argument("--out", type=Path, metavar="PROOF", help="where the proof is written")
    parser.add_argument("--format", choices=FORMATS, default="raw", help="of that file")


def _count(text: str) -> int:
    n = cli.u64(text)
    if not 1 <= n <= 100_000:
        raise argparse.ArgumentTypeError(f"must be 1 to 100000, is {n}")
    return n


def submission_of(args: argparse.Namespace) -> Submission:
    """What the flags ask for."""
    return Submission(
        kind=TYPES[args.type],
        sector_size=args.sector_size,
        c1=args.c1,
        vanilla=args.vanilla,
        registered_proof=args.registered_proof,
        sector_number=args.sector_num,
        miner_id=args.miner_id,
        partition_index=args.partition,
        randomness=args.randomness,
        comm_r_old=args.comm_r_old,
        comm_r_new=args.comm_r_new,
        comm_d_new=args.comm_d_new,
        priority=Priority[args.priority.upper()] if args.priority else None,
        deadline_seconds=args.deadline,
        request_id=args.request_id,
    )


def _submit(args: argparse.Namespace, screen: cli.Screen, client: Client) -> cli.Report:
    said = client.call("SubmitProof", args.request, wire.SubmitProofResponse)
    screen.answer(said.job_id)
    return {"job": said.job_id, "queue_position": said.queue_position, "joined": said.joined}


def _prove(args: argparse.Namespace, screen: cli.Screen, client: Client) -> cli.Report:
    request = wire.ProveRequest(submit=args.request)
    return _proven(args, screen, client.call("Prove", request, wire.ProveResponse).result)


def _await(args: argparse.Namespace, screen: cli.Screen, client: Client) -> cli.Report:
    # what is asked for is some time, which must not become for ever
    milliseconds = max(1, round(args.timeout * 1000)) if args.timeout else 0
    request = wire.AwaitProofRequest(job_id=args.job, timeout_ms=milliseconds)
    return _proven(args, screen, client.call("AwaitProof", request, wire.AwaitProofResponse))


def _proven(
    args: argparse.Namespace, screen: cli.Screen, result: wire.AwaitProofResponse
) -> cli.Report:
    proof = proof_of(result)
    if args.out is not None:
        write_proof(args.out, proof, args.format)
    else:
        screen.answer(proof.hex())
    times = ("queue_wait_ms", "srs_load_ms", "synthesis_ms", "gpu_compute_ms", "total_ms")
    seconds = {name.removesuffix("_ms"): getattr(result, name) / 1000 for name in times}
    screen.line(", ".join(f"{name.replace('_', ' ')} {s:.3f} s" for name, s in seconds.items()))
    out = str(args.out) if args.out else None
    return {"job": result.job_id, "proof": proof.hex(), "seconds": seconds, "out": out}


def _cancel(args: argparse.Namespace, screen: cli.Screen, client: Client) -> cli.Report:
    request = wire.CancelProofRequest(job_id=args.job)
    was_running = client.call("CancelProof", request, wire.CancelProofResponse).was_running
    screen.answer("was running" if was_running else "was not running")
    return {"job": args.job, "was_running": was_running}


def _status(_: argparse.Namespace, screen: cli.Screen, client: Client) -> cli.Report:
    said = client.call("GetStatus", wire.GetStatusRequest(), wire.GetStatusResponse)
    report = status_report(said)
    show_status(screen, report)
    return report


def _metrics(_: argparse.Namespace, screen: cli.Screen, client: Client) -> cli.Report:
    said = client.call("GetMetrics", wire.GetMetricsRequest(), wire.GetMetricsResponse)
    screen.answer(said.prometheus_text.removesuffix("\n"))
    return {"metrics": said.prometheus_text}


def _preload(args: argparse.Namespace, screen: cli.Screen, client: Client) -> cli.Report:
    request = wire.PreloadSrsRequest(circuit_id=args.circuit)
    said = client.call("PreloadSRS", request, wire.PreloadSrsResponse)
    took = f"loaded in {said.load_time_ms} ms"
    screen.answer(f"{args.circuit} {'already loaded' if said.already_loaded else took}")
    return {"already_loaded": said.already_loaded, "seconds": said.load_time_ms / 1000}


def _evict(args: argparse.Namespace, screen: cli.Screen, client: Client) -> cli.Report:
    request = wire.EvictSrsRequest(circuit_id=args.circuit)
    said = client.call("EvictSRS", request, wire.EvictSrsResponse)
    freed = f"{said.freed_bytes} bytes freed"
    screen.answer(f"{args.circuit} {freed if said.was_loaded else 'was not loaded'}")
    return {"was_loaded": said.was_loaded, "freed_bytes": said.freed_bytes}


def ask(args: argparse.Namespace, screen: cli.Screen) -> cli.Report:
    """What the flags say; errors as the service's."""
    if getattr(args, "type", None):
        # what is wrong with it is said without a service
        args.request = message_of(submission_of(args))
    if getattr(args, "urgent", None):
        args.urgent = message_of(Submission(kind=ProofKind.WINNING, vanilla=args.urgent))
    if getattr(args, "out", None) is not None:
        check_writable(args.out)
    service = Service(args.address, args.token_file, args.ca, args.certificate, args.private_key)
    with connected(service) as client:
        report: cli.Report = args.act(args, screen, client)
    return report
