"""A backend whose every answer is compared as it is given: whoever computes wrongly is named.

The inputs of an operation are copied to the host first, and the reference computes the same from
the copies, on the CPU. What is too large for that is computed on the device twice, sums the second
time in halves: that finds a device that errs now and then, and no kernel that always does. On the
device there is no more than a proof has there and a flag a point, so that its plan of memory holds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Literal, NoReturn

import torch

from torchzk.backends import Backend, load_backend
from torchzk.errors import ProofError, ResourceError, one_line
from torchzk.groth16.streams import Mark
from torchzk.memory_faults import ran_out_of_memory
from torchzk.ops.csr import Copies, Csr
from torchzk.params import integers
from torchzk.params.curves import Curve
from torchzk.timeline import Span, Timeline

Compared = Literal["reference", "twice"]
Fault = Literal["always", "sometimes", "unknown", "key"]
"""Whether a device errs again when it is asked once more, or was given no point of a key."""

_HOST = torch.device("cpu")
_SUMS = ("msm", "bit_sums", "batch_add")
_INTO = ("spmv_copies", "from_mont_at")
"""They write into their last argument."""
_BY_ROW = ("add_affine", "fixed_base", "sha256")
"""An element of their results is a row, elsewhere a column of planes."""
_WORTH_A_SPAN = 1 << 14


@dataclass
class Row:
    """All calls of one operation in a stage of the proof that were compared in the same way."""

    stage: str
    operation: str
    compared: Compared
    size: int = 0
    """Elements or points of the largest."""
    times: int = 0
    result: Literal["right", "WRONG", "failed"] = "right"
    device_ms: float = 0.0
    compared_ms: float = 0.0
    """What the reference took, or the second time on the device."""


@dataclass(frozen=True)
class Difference:
    """How many of so many elements or points are wrong, and in how many limbs."""

    wrong: int
    of: int
    limbs: int
    """0 for points."""
    first: int
    """Index of the first that is wrong."""
    what: str = "elements differ"

    def __str__(self) -> str:
        if (self.of, self.what) == (1, "sums differ"):
            return "the sum differs"
        limbs = f" in {self.limbs:,} limb{'s' if self.limbs > 1 else ''}" if self.limbs else ""
        return f"{self.wrong:,} of {self.of:,} {self.what}{limbs}, the first at {self.first:,}"


@dataclass(frozen=True)
class Finding:
    """The first that was not as it must be, and where."""

    stage: str
    operation: str
    size: int
    """Elements or points of that call."""
    call: int
    """Which call of its row, from 1 on."""
    compared: Compared
    difference: Difference
    fault: Fault


class DifferenceError(ProofError):
    """An operation does not give what it must; no proof is made."""

    def __init__(self, finding: Finding) -> None:
        where = f"{finding.operation} of {power(finding.size)} in stage {finding.stage}"
        super().__init__(f"{where}, call {finding.call}: {finding.difference}")
        self.finding = finding


class CheckedBackend:
    """The operations of `Backend`, each compared before its result is given; for one thread.

    They raise `DifferenceError` at the first that differs, `ResourceError` where the device fails.

    Args:
        timeline: Gets a span for each comparison of much.
        limit: Elements or points of arguments up to which the reference computes it as well.
    """

    def __init__(
        self, backend: Backend, device: torch.device, timeline: Timeline, limit: int
    ) -> None:
        self._backend, self._device, self._limit = backend, device, limit
        self._reference, self._timeline = load_backend("torch"), timeline
        self._rows: dict[tuple[str, str, Compared], Row] = {}
        self._open: list[str] = []

    @property
    def rows(self) -> list[Row]:
        """What was called until now, in the order of the first calls."""
        return list(self._rows.values())

    def stages(self) -> Timeline:
        """The timeline for whoever calls: its innermost span is the stage of a call."""
        heard = self._timeline

        def opened(name: str) -> None:
            self._open.append(name)
            heard.on_open(name)

        def closed(span: Span) -> None:
            self._open.pop()
            heard.on_close(span)

        return replace(heard, on_open=opened, on_close=closed)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        # refuses what is no operation
        getattr(self._backend, name)
        return partial(self._call, name)

    def _call(self, name: str, *args: Any, **how: Any) -> Any:
        if name in _SUMS:
            self._check_points(args[0] if name == "batch_add" else args[1], args[2])
        turns = _Turns(args[0], self._device) if name == "quotient_in_turn" else None
        return self._compare(name, (turns or args[0], *args[1:]), how, turns)

    def _check_points(self, points: torch.Tensor, curve: Curve) -> None:
        """A bit that flips in memory takes a point of a key off its curve."""
        args, finite = (points, curve), points.flatten(1).any(dim=1)
        bad = (~(self._compare("on_curve", args, {}) & finite)).nonzero()
        if len(bad):
            what = "points of the key are off their curve"
            found = Difference(len(bad), len(points), 0, int(bad[0]), what)
            self._refuse(self._row("on_curve", args), len(points), found, "key")

    def _compare(
        self, name: str, args: tuple[Any, ...], how: dict[str, Any], turns: _Turns | None = None
    ) -> Any:
        row, size = self._row(name, args), _size(name, args)
        row.times, row.size = row.times + 1, max(row.size, size)
        into = args[-1] if name in _INTO else None
        in_place = name == "from_mont_at" and args[0].data_ptr() == args[-1].data_ptr()
        by_reference = row.compared == "reference"
        kept = [_moved(x, _HOST) for x in args] if by_reference or in_place else []
        start = self._now()
        with self._named(row, size):
            result = getattr(self._backend, name)(*args, **how)
            row.device_ms += 1e3 * (self._now() - start - (turns.seconds if turns else 0.0))
        got, start = _moved(result if into is None else into, _HOST), self._now()
        what = f"{row.operation} {'by the reference' if by_reference else 'once more'}"
        with self._timeline.span(what) if size >= _WORTH_A_SPAN else nullcontext():
            if by_reference:
                expected = _asked(self._reference, name, kept, how, _HOST)
            else:
                # as large as the second one, which is given instead: the same, or an error
                del result
                if in_place:
                    args[0].copy_(kept[0])
                with self._named(row, size):
                    result = self._once_more(name, args, how)
                expected = _moved(result if into is None else into, _HOST)
            row.compared_ms += 1e3 * (self._now() - start)
        found = _differ(got, expected, name)
        if found is not None:
            del result
            fault = self._again(name, kept, how, got) if by_reference else "sometimes"
            self._refuse(row, size, found, fault)
        return result

    @contextmanager
    def _named(self, row: Row, size: int) -> Iterator[None]:
        """Where a device fails in the body, say in what."""
        try:
            yield
        except Exception as e:
            if ran_out_of_memory(e):
                # a plan for less is tried
                raise
            row.result = "failed"
            if not isinstance(e, RuntimeError):
                raise
            what = f"{row.operation} of {power(size)} in stage {row.stage}"
            raise ResourceError(f"{what} fails on {self._device}: {one_line(e)}") from e

    def _once_more(self, name: str, args: tuple[Any, ...], how: dict[str, Any]) -> Any:
        """The same anew; a sum as that of two, with half the scratch."""
        ask, half = getattr(self._backend, name), _size(name, args) // 2
        if name == "msm":
            scalars, points, curve = args
            how = {k: v // 2 for k, v in how.items()}
            first, second = (scalars[:, :half], points[:half]), (scalars[:, half:], points[half:])
        elif name == "batch_add" and args[1] is not None and args[1].dtype == torch.bool:
            points, chosen, curve = args
            first, second = (points[:half], chosen[:half]), (points[half:], chosen[half:])
        else:
            return ask(*_turned(args, self._device), **how)
        return integers.add(curve, ask(*first, curve, **how), ask(*second, curve, **how))

    def _again(self, name: str, kept: Sequence[Any], how: dict[str, Any], got: Any) -> Fault:
        """Whether the device says the same when it is asked once more."""
        try:
            again = _asked(self._backend, name, kept, how, self._device)
        except RuntimeError:
            # there may be no memory for a second set of inputs
            return "unknown"
        return "always" if _differ(again, got, name) is None else "sometimes"

    def _row(self, name: str, args: Sequence[Any]) -> Row:
        stage = self._open[-1] if self._open else "staging"
        operation = " ".join([name, *(x.name for x in args if isinstance(x, Curve))])
        vectors = [x for x in args if isinstance(x, torch.Tensor) and name in _INTO]
        # copies of a whole assignment would take longer than the few elements that are wanted
        largest = max([_size(name, args), *(x.shape[-1] for x in vectors)])
        compared: Compared = "reference" if largest <= self._limit else "twice"
        key = (stage, operation, compared)
        return self._rows.setdefault(key, Row(*key))

    def _refuse(self, row: Row, size: int, found: Difference, fault: Fault) -> NoReturn:
        row.result = "WRONG"
        where = (row.stage, row.operation, size, row.times, row.compared)
        raise DifferenceError(Finding(*where, found, fault))

    def _now(self) -> float:
        """Seconds, with the device at rest."""
        Mark.here(self._device).wait()
        return time.perf_counter()


class _Turns:
    """The vectors of `quotient_in_turn`: made once, and kept on the host for the next time."""

    def __init__(self, vector: Callable[[str], torch.Tensor], device: torch.device) -> None:
        self._vector, self._device = vector, device
        self._made: dict[str, torch.Tensor] = {}
        self.seconds = 0.0
        """What making them took, which is no part of the operation."""

    def __call__(self, name: str) -> torch.Tensor:
        Mark.here(self._device).wait()
        start = time.perf_counter()
        made = self._vector(name)
        self._made[name] = made.to(_HOST, copy=True)
        self.seconds += time.perf_counter() - start
        return made

    def on(self, device: torch.device) -> Callable[[str], torch.Tensor]:
        """New ones with the same values."""
        return lambda name: self._made[name].to(device, copy=True)


def power(size: int) -> str:
    """A count as a power of two."""
    return f"2^{math.log2(max(1, size)):.1f}"


def _asked(
    backend: Backend, name: str, kept: Sequence[Any], how: dict[str, Any], device: torch.device
) -> Any:
    """What a backend makes of kept inputs, on the host."""
    given = [_moved(x, device) for x in kept]
    result = getattr(backend, name)(*_turned(given, device), **how)
    return _moved(given[-1] if name in _INTO else result, _HOST)


def _turned(args: Sequence[Any], device: torch.device) -> list[Any]:
    return [x.on(device) if isinstance(x, _Turns) else x for x in args]


def _moved(x: Any, device: torch.device) -> Any:
    """A copy of a tensor, or of a matrix with its tensors; anything else as it is."""
    if isinstance(x, torch.Tensor):
        return x.to(device, copy=True)
    if isinstance(x, Csr | Copies):
        return replace(x, **{f.name: _moved(getattr(x, f.name), device) for f in fields(x)})
    return x


def _size(name: str, args: Sequence[Any]) -> int:
    """Elements or points that an operation works on."""
    if name in _INTO:
        return int(args[-1].shape[1])
    if name in ("msm", "bit_sums", "batch_add", "on_curve", "add_affine", "sha256"):
        return len(args[1 if name in ("msm", "bit_sums") else 0])
    if isinstance(args[0], Csr):
        return args[0].n_rows
    if isinstance(args[0], torch.Tensor):
        return args[0].numel() // max(1, len(args[0]))
    # of a quotient in turn the domain says it
    return int(args[1].size)


def _differ(got: Any, expected: Any, name: str) -> Difference | None:
    """What differs, of tensors by their bits, of sums as points; None if nothing."""
    if not isinstance(expected, torch.Tensor):
        pairs = (
            [*zip(got, expected, strict=True)] if isinstance(expected, list) else [(got, expected)]
        )
        wrong = [i for i, (p, q) in enumerate(pairs) if p != q]
        return Difference(len(wrong), len(pairs), 0, wrong[0], "sums differ") if wrong else None
    n = expected.numel()
    if (got.shape, got.dtype) != (expected.shape, expected.dtype):
        return Difference(n, n, 0, 0, "numbers differ, by shape or type")
    limbs = got != expected
    if not limbs.any():
        return None
    if limbs.ndim < 2:
        elements = limbs.flatten()
    else:
        elements = limbs.flatten(1).any(1) if name in _BY_ROW else limbs.any(0).flatten()
    first = int(elements.nonzero()[0])
    return Difference(int(elements.sum()), len(elements), int(limbs.sum()), first)
