"""Measure operations and whole proofs, and check them: `python -m torchzk.bench [NAME ...]`.

With `--against` it fails where something is slower than before: `earlier`.
With `sweep` as the first word, schedules: `sweep_command`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from torchzk import cli
from torchzk.bench import sweep_command
from torchzk.bench.cases import BENCHMARKS, select
from torchzk.bench.earlier import EXIT_SLOWER, PERCENT, Earlier, newest
from torchzk.bench.proof_cases import PROOFS, is_proof, select_proofs
from torchzk.bench.rows import read
from torchzk.errors import ConfigError
from torchzk.interrupts import loading_torch
from torchzk.scheduler.progress import Progress
from torchzk.summary import print_facts, size

if TYPE_CHECKING:
    from rich.text import Text

    from torchzk.bench.rows import Result

_ROWS = Path("runs") / "bench"
_INPUTS = Path("runs") / "inputs"


def _parser() -> cli.Parser:
    parser = cli.Parser(
        "torchzk.bench",
        "Measure operations and proofs, check their results, and append rows to runs/bench/.",
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="a name, its beginning, or a glob; all operations if none, proofs only by name",
    )
    parser.add_argument("--list", action="store_true", help="print the names and do nothing")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    cli.add_backend_flag(parser)
    parser.add_argument(
        "--runs", type=_count, metavar="N", help="how often; 7 or more, proofs 5, if not said"
    )
    parser.add_argument(
        "--size", type=_count, metavar="N", help="elements, as 1024 or 2^10, instead of all sizes"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="append all rows here, not to a file a group"
    )
    parser.add_argument(
        "--profile", action="store_true", help="show what takes longest, in one more call of each"
    )
    parser.add_argument("--commit", metavar="TEXT", help="what rows say of the code, if not git")
    parser.add_argument(
        "--inputs",
        type=Path,
        metavar="DIR",
        default=_INPUTS,
        help="proofs: jobs of synthetic sectors; made there if they are not (runs/inputs)",
    )
    parser.add_argument(
        "--limits",
        type=_limits,
        metavar="GB,...",
        help="proofs: limits of the device's memory to prove in again, in 10^9 bytes, or none",
    )
    parser.add_argument(
        "--against",
        type=Path,
        metavar="PATH",
        help="hold each row against the newest in this file or folder of the same benchmark, size, "
        f"device and variant; exit code {EXIT_SLOWER} if one is slower",
    )
    parser.add_argument(
        "--slower",
        type=_percent,
        metavar="PERCENT",
        help=f"with --against: more time than this is slower ({PERCENT:g})",
    )
    return parser


def _limits(text: str) -> tuple[int, ...]:
    if text == "none":
        return ()
    if not re.fullmatch(r"[1-9]\d{0,3}(,[1-9]\d{0,3})*", text):
        raise argparse.ArgumentTypeError(f"{text:.80} is neither none nor numbers as 80,24,16")
    return tuple(int(part) * 10**9 for part in text.split(","))


def _count(text: str) -> int:
    match = re.fullmatch(r"2\^(\d{1,2})|([1-9]\d{0,9})", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text} is neither a number above 0 nor 2^k")
    return 1 << int(match[1]) if match[1] else int(match[2])


def _percent(text: str) -> float:
    if not re.fullmatch(r"\d{1,4}(\.\d{1,3})?", text):
        raise argparse.ArgumentTypeError(f"must be percent, as 10 or 2.5, is {text:.80}")
    return float(text)


def _earlier(args: argparse.Namespace) -> Earlier | None:
    """The rows to hold against, as they are before anything is measured."""
    if args.against is None:
        if args.slower is not None:
            raise ConfigError("--slower is of --against PATH, which is not given")
        return None
    percent = PERCENT if args.slower is None else args.slower
    return Earlier(newest(read(args.against)), percent)


def _bench(wrong: list[str], args: argparse.Namespace, screen: cli.Screen) -> cli.Report:
    if args.list:
        names = [b.name for b in BENCHMARKS] + [p.name for p in PROOFS]
        for name in names:
            screen.answer(name)
        return {"names": names}
    earlier = _earlier(args)
    proofs = select_proofs(args.names)
    operations = [name for name in args.names if not is_proof(name)]
    chosen = select(operations, args.size) if operations or not proofs else []
    with Progress(screen.console) as progress:
        watched = progress.watcher
        with loading_torch(watched):
            # late: what is wrong with a name is said without waiting for it
            from torchzk.backends import choose_backend, compile_ahead, variant_on
            from torchzk.bench import conditions
            from torchzk.bench.proof_session import run_proofs
            from torchzk.bench.session import run_all
            from torchzk.scheduler.devices import find_device
        device = find_device(args.device)
        choice = choose_backend(args.backend or "auto", device)
        if proofs:
            # as a session of `prove` does; operations want to know what their first call takes
            with watched.span("compile kernels"):
                warmed = compile_ahead(choice.name, device, watched.advance)
            for fault in warmed.failed if warmed else ():
                screen.warn(f"a kernel does not compile: {fault}")
        with watched.span("known answers"):
            variant = variant_on(choice.name, device)
        facts = conditions.standing(device, args.commit)
        facts["variant"] = variant.name if variant else None
        done = run_all(
            chosen,
            choice.name,
            device,
            watched,
            runs=args.runs,
            facts=facts,
            out=partial(_file, args.out),
            show=screen.line if args.profile else None,
        )
        proven, not_right = run_proofs(
            proofs,
            choice.name,
            device,
            watched,
            inputs=args.inputs,
            runs=args.runs,
            limits=args.limits,
            facts=facts,
            out=_file(args.out, "proofs"),
            warn=screen.warn,
        )
    results = [result for result, _ in done]
    wrong += [r.benchmark.name for r in results if not r.exact] + not_right
    rows = [row for _, row in done] + proven
    if results or not proofs:
        held = None if earlier is None else [earlier.cell(row) for _, row in done]
        _show_results(screen, results, held, gpu=device.type == "cuda")
    if proofs:
        from torchzk.bench.proof_table import print_proofs

        print_proofs(screen.console, proven, earlier.cell if earlier else None)
    kept = [("backend", str(choice), ""), ("device", str(facts["device"]), "")]
    kept.append(("rows", f"{len(rows)}, in {args.out or _ROWS}", ""))
    print_facts(screen.console, kept)
    for name in wrong:
        screen.line(f"WRONG: {name}", "bold red")
    report = {"ok": not wrong, "wrong": wrong, "rows": rows}
    return report if earlier is None else report | _gate(screen, args, earlier, report)


def _gate(
    screen: cli.Screen, args: argparse.Namespace, earlier: Earlier, report: cli.Report
) -> cli.Report:
    """Say what is slower and what has no row before; what the report says of it.

    Raises:
        ConfigError: Nothing has a row before, so that nothing was held against any.
    """
    judged = earlier.judged(report["rows"])
    without = [c.name for c in judged if c.before is None]
    if judged and len(without) == len(judged) and report["ok"]:
        of = "device {device}, backend {backend}, variant {variant}".format_map(report["rows"][0])
        raise ConfigError(f"{args.against}: no row before of {of}: {'; '.join(without)}")
    if without:
        screen.warn(f"no row before: {'; '.join(without)}")
    slower = [c for c in judged if c.slower]
    for c in slower:
        screen.line(f"SLOWER: {c}", "bold red")
    said = {"slower": [c.report() for c in slower], "no_row_before": without}
    # of a wrong result no time counts: it fails as such
    failed = bool(slower) and report["ok"]
    return said | ({"ok": False, "exit_code": EXIT_SLOWER} if failed else {})


def _show_results(
    screen: cli.Screen, results: Sequence[Result], held: list[Text] | None, *, gpu: bool
) -> None:
    """The table of operations, and which of them took more memory than they may."""
    from torchzk.bench.table import print_table

    print_table(screen.console, results, gpu=gpu, earlier=held)
    for r in results:
        if r.within_limit is False:
            screen.warn(f"{r.benchmark.name}: took {size(r.times.peak_bytes or 0)} of scratch")


def _file(out: Path | None, group: str) -> Path:
    return out or _ROWS / f"{group}.jsonl"


def run(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit code, 1 if a result was wrong, 8 if one is slower."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    wrong: list[str] = []
    if arguments[:1] == [sweep_command.NAME]:
        parser, command = sweep_command.parser(), sweep_command.sweep_circuits
        arguments = arguments[1:]
    else:
        parser, command = _parser(), _bench
    code = cli.execute(parser, partial(command, wrong), arguments)
    return code or int(bool(wrong))


if __name__ == "__main__":
    sys.exit(run())
