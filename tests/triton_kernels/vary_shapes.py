"""Tries other launch shapes than those of `tuning`, on a GPU, and says what they are worth.

    PYTHONPATH=src:tests python tests/triton_kernels/vary_shapes.py [word of a trial ...]
    TRITON_INTERPRET=1 PYTHONPATH=src:tests python tests/triton_kernels/vary_shapes.py --rehearse

Trials are those of `shape_trials.py`; words choose the ones that have one of them in their name.
The current setting is timed before and after the others: what lies between the two is noise. Its
first result is judged, and all others have to be equal to that. Every setting gives a row of JSON.
A rehearsal runs few elements in the interpreter, to see that everything works, and its times mean
nothing. Exits with 1 if a result was wrong; with 2 where nothing can be run.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from rich import box
from rich.console import Console
from rich.table import Table

from torchzk.backends import load_backend
from torchzk.bench import conditions
from torchzk.bench.prepared import Prepared
from torchzk.bench.rows import append
from torchzk.bench.timing import Times, measure
from torchzk.bench.workshop import Workshop
from torchzk.triton_kernels import launch, msm_digits, tuning, variants, warm
from torchzk.triton_kernels.catalogue import Launch, launches
from torchzk.triton_kernels.graphs import GRAPHS
from torchzk.triton_kernels.plans import PLANS
from torchzk.triton_kernels.tuning import Shape
from triton_kernels.shape_trials import BESIDE, NEEDED, TRIALS, Setting, Trial

_ROWS = Path("runs/bench/shapes.jsonl")
_RUNS = 15
# cycles of a kernel that only waits: so long the host may take to enqueue what is timed
_HEAD_START = 100_000


@dataclass(frozen=True)
class Outcome:
    """One setting, measured."""

    setting: Setting
    times: Times
    exact: bool

    @property
    def seconds(self) -> float:
        return self.times.quantile(50)


@contextmanager
def entry(trial: Trial, arch: int, setting: Setting) -> Iterator[None]:
    """The setting in place of the table's. What was captured with another is forgotten."""
    table: dict[Any, Any] = tuning.SHAPES if isinstance(setting, Shape) else tuning.NUMBERS
    GRAPHS.drop()
    PLANS.drop()
    with patch.dict(table, {(*trial.entry, arch): setting}):
        yield
    GRAPHS.drop()
    PLANS.drop()


def current(trial: Trial, arch: int) -> Setting:
    tables = (tuning.SHAPES, tuning.NUMBERS)
    table: Any = next(t for t in tables if (*trial.entry, tuning.DEFAULT_ARCH) in t)
    found: Setting = tuning._entry(table, *trial.entry, arch)
    return found


def needed(trials: Iterable[Trial], arch: int) -> list[Launch]:
    """What the trials launch, so far as it is known, each once."""
    trials = list(trials)
    named = {name for t in trials for name in t.kernels} | set(BESIDE)
    # sums of points make inputs
    named |= {name for t in TRIALS for name in t.kernels if t.entry[0] in ("pairs", "sums")}
    here = [x for x in launches("ptx", arch) if not x.constants.get("COSET")]
    found = [x for x in here if x.kernel.__name__ in named and _degree(x) == 1]
    found += [x for x in here if x.kernel.__name__ in NEEDED]
    for trial in trials:
        now = current(trial, arch)
        for setting in (now, *trial.others(now)):
            with entry(trial, arch, setting):
                # transforms are tried forward, on the domain
                found += [
                    x
                    for x in launches("ptx", arch)
                    if x.kernel.__name__ in trial.kernels
                    and _degree(x) == trial.degree
                    and not (x.constants.get("COSET") or x.constants.get("INVERSE"))
                ]
    return list({(x.kernel, *x.constants.items(), x.num_warps): x for x in found}.values())


def _degree(of: Launch) -> int:
    """Of the field a kernel computes in, if it is told one; none is told that of transforms."""
    code = of.constants.get("F")
    return 1 if code is None else int(code.degree)


class Stopwatch:
    """Times the launches of some kernels, whatever runs between them."""

    def __init__(self, kernels: Iterable[str], device: torch.device) -> None:
        self._kernels, self._device = frozenset(kernels), device
        self._run = launch.run
        self._taken: list[Callable[[], float]] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        with ExitStack() as stack:
            for module in (launch, msm_digits):
                stack.enter_context(patch.object(module, "run", self._timed))
            yield

    def total(self) -> float:
        """Seconds since it was asked last; waits for the device."""
        seconds = sum(taken() for taken in self._taken)
        self._taken.clear()
        return seconds

    def _timed(self, kernel: Any, *args: Any, **kwargs: Any) -> None:
        if kernel.__name__ not in self._kernels:
            self._run(kernel, *args, **kwargs)
        elif self._device.type != "cuda":
            start = time.perf_counter()
            self._run(kernel, *args, **kwargs)
            seconds = time.perf_counter() - start
            self._taken.append(lambda: seconds)
        else:
            begin = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            torch.cuda._sleep(_HEAD_START)  # type: ignore[no-untyped-call]
            begin.record()
            self._run(kernel, *args, **kwargs)
            end.record()

            def taken() -> float:
                end.synchronize()
                return float(begin.elapsed_time(end)) / 1e3

            self._taken.append(taken)


def outcomes(trial: Trial, shop: Workshop, arch: int, runs: int) -> Iterator[Outcome]:
    """The current setting, the others, and the current one again."""
    prepared = trial.prepare(trial.benchmark, shop)
    now = current(trial, arch)
    kept: list[Any] = []

    def is_right(result: Any) -> bool:
        if kept:
            return _same(kept[0], result)
        kept.append(result)
        return prepared.is_right(result)

    for setting in (now, *trial.others(now), now):
        with entry(trial, arch, setting):
            yield _outcome(trial, setting, prepared, is_right, shop.device, runs)


def _outcome(
    trial: Trial,
    setting: Setting,
    prepared: Prepared,
    is_right: Callable[[Any], bool],
    device: torch.device,
    runs: int,
) -> Outcome:
    if not trial.alone:
        timed = measure(prepared.call, is_right, device, runs, lambda _: None)
        return Outcome(setting, timed.times, timed.right)
    watch = Stopwatch(trial.kernels, device)
    taken: list[float] = []

    def call() -> Any:
        result = prepared.call()
        taken.append(watch.total())
        return result

    with watch.watching():
        timed = measure(call, is_right, device, runs, lambda _: None)
    if min(taken) <= 0:
        raise RuntimeError(f"{trial.name}: none of {', '.join(trial.kernels)} was launched")
    times = replace(timed.times, runs=tuple(sorted(taken[-runs:])))
    return Outcome(setting, times, timed.right)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.equal(a, b)
    return bool(a == b)


def row(trial: Trial, outcome: Outcome, now: Setting) -> dict[str, Any]:
    """What was tried and what it took, for JSON."""
    op, limbs = trial.entry
    setting, times = asdict(outcome.setting), outcome.times
    del setting["measured"]
    return {
        "entry": op,
        "limbs": limbs,
        "operation": trial.benchmark.name,
        "size": trial.benchmark.size,
        **setting,
        "current": outcome.setting == now,
        "timed": " ".join(trial.kernels) if trial.alone else "the operation",
        "p20_s": times.quantile(20),
        "p50_s": times.quantile(50),
        "p80_s": times.quantile(80),
        "runs": len(times.runs),
        "first_call_s": times.first_call,
        "exact": outcome.exact,
    }


def said(setting: Setting) -> str:
    if isinstance(setting, Shape):
        return f"{setting.block} by {setting.num_warps}"
    return ", ".join(f"{value} from 2^{least}" for least, value in setting.steps)


def table(results: dict[str, list[Outcome]]) -> Table:
    """A line a trial: the current setting, the best one, and by how much it is quicker."""
    out = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    out.add_column("entry: operation", no_wrap=True)
    for name in ("now", "ms", "noise", "best", "ms", "gain", "result"):
        out.add_column(name, justify="right", no_wrap=True)
    for name, tried in results.items():
        first, *others, again = tried
        now = min(first.seconds, again.seconds)
        best = min(others, key=lambda o: o.seconds)
        noise = abs(first.seconds - again.seconds) / now
        gain = 1 - best.seconds / now
        out.add_row(
            name,
            said(first.setting),
            f"{1e3 * now:.4f}",
            f"{100 * noise:.1f} %",
            # the best of the others is shown, quicker or not
            said(best.setting),
            f"{1e3 * best.seconds:.4f}",
            f"{100 * gain:.1f} %",
            "exact" if all(o.exact for o in tried) else "WRONG",
        )
    return out


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*", help="trials that have one of them in their name")
    parser.add_argument("--rehearse", action="store_true", help="few elements, interpreted")
    parser.add_argument("--out", type=Path, help=f"the file of rows; {_ROWS}, in rehearsals none")
    parser.add_argument("--commit", help="what rows say of the code where there is no git")
    args = parser.parse_args(argv)
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if args.rehearse != interpreted or not (args.rehearse or torch.cuda.is_available()):
        print("needs a CUDA device, or TRITON_INTERPRET=1 and --rehearse", file=sys.stderr)
        return 2
    device = torch.device("cpu") if args.rehearse else torch.device("cuda", 0)
    arch, console = launch.arch_of(device), Console(width=None if sys.stdout.isatty() else 140)
    chosen = [t for t in TRIALS if not args.words or any(word in t.name for word in args.words)]
    if args.rehearse:
        chosen = [replace(t, benchmark=t.benchmark.resized(t.small)) for t in chosen if t.small]
    if not chosen:
        print("no trial has such a name", file=sys.stderr)
        return 2
    start = time.perf_counter()
    if not args.rehearse:
        with patch.object(warm, "launches", lambda *_: needed(chosen, arch)):
            console.print(str(warm.warm(device)))
    facts = conditions.standing(device, args.commit)
    facts["variant"] = variants.choose(device).variant
    shop = Workshop(load_backend("triton"), "triton", device)
    out = args.out or (None if args.rehearse else _ROWS)
    results: dict[str, list[Outcome]] = {}
    for trial in chosen:
        tried = list(outcomes(trial, shop, arch, 1 if args.rehearse else _RUNS))
        clocks = conditions.clocks(device)
        for outcome in tried:
            if out is not None:
                append(out, row(trial, outcome, tried[0].setting) | clocks | facts)
        results[trial.name] = tried
        wrong = "" if all(o.exact for o in tried) else ", WRONG"
        console.print(f"{time.perf_counter() - start:6.1f} s  {trial.name}{wrong}")
    console.print(table(results))
    spread = [abs(o[0].seconds / o[-1].seconds - 1) for o in results.values()]
    console.print(f"median noise {100 * statistics.median(spread):.1f} %; rows in {out}")
    return int(not all(o.exact for tried in results.values() for o in tried))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
