"""Checks and times the curve kernels on one CUDA device: `python bench_curve.py OUT [part ...]`.

Point i = hi * LO + lo is (a 2^lo + b 2^hi) G, so an MSM is one multiple of G that the sums of the
scalars by lo and by hi give.
"""

from __future__ import annotations

import importlib
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import triton

from torchzk import ops
from torchzk.ops.layout import pack, points_to_rows, rows_to_points, unpack
from torchzk.params import integers
from torchzk.params.curves import CURVES, G1, Curve, Point
from torchzk.params.fields import FR
from torchzk.triton_kernels import curve as curve_kernels
from torchzk.triton_kernels.fixed_base import fixed_base
from torchzk.triton_kernels.pair_sums import add_pairs, named

# the package's name for the module is that of its function
msm_kernels = importlib.import_module("torchzk.triton_kernels.msm")

SPPARK = {
    ("msm", "g1", 20): 20.5,
    ("msm", "g1", 22): 53.1,
    ("msm", "g1", 24): 154.1,
    ("msm", "g1", 26): 557.7,
    ("msm", "g1", 27): 1099.0,
    ("msm", "g2", 20): 48.1,
    ("msm", "g2", 22): 138.5,
    ("msm", "g2", 24): 447.7,
    ("batch_add", "g1", 24): 7.75,
}
DEVICE = torch.device("cuda", 0)
LO = 13
R = FR.modulus
A, B = (random.Random(k).randrange(R) for k in (5, 6))
START = time.time()


def points(lg: int, curve: Curve) -> torch.Tensor:
    lo, hi = min(LO, lg), max(0, lg - LO)
    known: list[Point] = []
    for scalar, bits in ((A, lo), (B, hi)):
        p = integers.mul(curve, scalar, curve.generator)
        for _ in range(1 << bits):
            known.append(p)
            p = integers.add(curve, p, p)
    base = points_to_rows(known, curve, DEVICE)
    i = torch.arange(1 << lg, device=DEVICE)
    source = torch.stack((i & (1 << lo) - 1, (1 << lo) + (i >> lo)), 1).to(torch.int32)
    return add_pairs(named(base, source), curve).contiguous()


def expected(scalars: torch.Tensor, curve: Curve) -> Point:
    n = scalars.shape[1]
    lo = min(1 << LO, n)
    by_lo, by_hi = [0] * lo, [0] * (n // lo)
    for j in range(8):
        grid = (scalars[j].long() & 0xFFFFFFFF).view(n // lo, lo)
        for sums, axis in ((by_lo, 0), (by_hi, 1)):
            for k, s in enumerate(grid.sum(axis).tolist()):
                sums[k] += s << 32 * j
    total = A * sum(s * pow(2, k, R) for k, s in enumerate(by_lo))
    total += B * sum(s * pow(2, k, R) for k, s in enumerate(by_hi))
    return integers.mul(curve, total % R, curve.generator)


def uniform(n: int, seed: int = 1) -> torch.Tensor:
    g = torch.Generator(device=DEVICE).manual_seed(seed)
    x = torch.randint(-(1 << 31), 1 << 31, (8, n), device=DEVICE, generator=g, dtype=torch.int64)
    x = x.to(torch.int32)
    x[7] = torch.randint(0, 0x73EDA753, (n,), device=DEVICE, generator=g).to(torch.int32)
    return x


def skewed(n: int) -> dict[str, torch.Tensor]:
    x = uniform(n, 2)
    ones = torch.rand(n, device=DEVICE) < 0.9
    mostly = torch.where(ones, pack([1], FR, DEVICE), x)
    small = torch.zeros_like(x)
    small[0] = x[0] & 0xFFFF
    return {
        "all equal": x[:, :1].expand(8, n).contiguous(),
        "90 % ones": mostly,
        "sorted": x[:, x[7].argsort()].contiguous(),
        "16 bits": small,
    }


def measure(f: Callable[[], object], runs: int) -> list[float]:
    times = []
    for _ in range(runs + 1):
        torch.cuda.synchronize()
        t = time.perf_counter()
        f()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - t))
    return sorted(times[1:])


class Rows:
    def __init__(self, out: Path) -> None:
        self.path = out / "curve.jsonl"
        self.about = {
            "gpu": torch.cuda.get_device_name(DEVICE),
            "torch": torch.__version__,
            "triton": triton.__version__,
        }

    def add(self, op: str, curve: Curve, lg: int, times: list[float], **more: object) -> None:
        p20, p80 = times[len(times) // 5], times[-1 - len(times) // 5]
        p50 = statistics.median(times)
        row = {"op": op, "curve": curve.name, "log2_n": lg, "ms_p20": round(p20, 3)}
        row |= {"ms_p50": round(p50, 3), "ms_p80": round(p80, 3), "runs": len(times)}
        sppark = SPPARK.get((op, curve.name, lg)) if "scalars" not in more else None
        if sppark:
            row["sppark_ms"], row["ratio"] = sppark, round(p50 / sppark, 3)
        row |= more
        with self.path.open("a") as f:
            f.write(json.dumps(row | self.about) + "\n")
        print(f"{time.time() - START:6.1f}", json.dumps(row), flush=True)


def check(ok: bool, what: str) -> None:
    print(f"{time.time() - START:6.1f} {'exact' if ok else 'WRONG'}: {what}", flush=True)
    if not ok:
        raise SystemExit(what)


def exactness() -> None:
    rng = random.Random(3)
    for curve in CURVES.values():
        g = curve.generator
        some: list[Point] = [integers.mul(curve, rng.randrange(R), g) for _ in range(6)]
        some += [None, g, integers.neg(curve, g), integers.neg(curve, some[0])]
        n = 1024 // curve.degree
        p, q = rng.choices(some, k=n), rng.choices(some, k=n)
        a, b = (points_to_rows(x, curve, DEVICE) for x in (p, q))
        want = ops.add_affine(a, b, curve)
        for _ in range(2):
            check(torch.equal(curve_kernels.add_affine(a, b, curve), want), f"{curve.name} pairs")
        check(bool(curve_kernels.on_curve(a, curve).all()), f"{curve.name} on_curve")
        minus = curve_kernels.neg_affine(a, curve)
        check(torch.equal(minus, ops.neg_affine(a, curve)), f"{curve.name} neg")
        x = uniform(n)
        want_sum = ops.msm(x, a, curve)
        for _ in range(2):
            check(msm_kernels.msm(x, a, curve) == want_sum, f"{curve.name} msm of odd points")
        short = x.clone()
        short[1:] = 0
        got = msm_kernels.bit_sums(short, a, curve, 32)
        check(got == ops.bit_sums(short, a, curve, 32), f"{curve.name} bit sums")
        got_points = rows_to_points(points(10, curve)[:2], curve)
        want_points = [integers.mul(curve, (A << i) + B, g) for i in range(2)]
        check(got_points == want_points, f"{curve.name} known points")
        rows, x = points(14, curve), uniform(1 << 14)
        for limit in (40 << 30, 1 << 20):
            got_sum = msm_kernels.msm(x, rows, curve, limit_bytes=limit)
            check(got_sum == expected(x, curve), f"{curve.name} 2^14, {limit} bytes")
        ones = torch.zeros_like(x)
        ones[0] = 1
        for _ in range(2):
            got_sum = msm_kernels.batch_add(rows, None, curve)
            check(got_sum == expected(ones, curve), f"{curve.name} batch addition")
        bits = torch.rand(1 << 14, device=DEVICE) < 0.5
        ones[0] = bits
        got_sum = msm_kernels.batch_add(rows, bits, curve)
        check(got_sum == expected(ones, curve), f"{curve.name} batch addition of chosen points")


def msm(out: Rows, curve: Curve, lg: int, runs: int, limits: list[int], profile: bool) -> None:
    rows, x = points(lg, curve), uniform(1 << lg)
    want = expected(x, curve)
    for limit in limits:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        got = msm_kernels.msm(x, rows, curve, limit_bytes=limit)
        check(got == want, f"{curve.name} 2^{lg} msm, limit {limit >> 30} GiB")
        peak = (torch.cuda.max_memory_allocated() - before) / 2**30
        times = measure(partial(msm_kernels.msm, x, rows, curve, limit_bytes=limit), runs)
        more = {} if limit == limits[0] else {"scalars": "uniform"}
        out.add("msm", curve, lg, times, limit_gib=limit >> 30, scratch_gib=round(peak, 2), **more)
    if profile:
        show_profile(partial(msm_kernels.msm, x, rows, curve))


def show_profile(f: Callable[[], object], n: int = 14) -> None:
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    with record(activities=[ProfilerActivity.CUDA]) as p:
        f()
    events = sorted(p.key_averages(), key=lambda e: -e.device_time_total)[:n]
    for e in events:
        print(f"    {e.device_time_total / 1e3:9.3f} ms {e.count:5d} x {e.key[:90]}")


def fixed(out: Rows, curve: Curve, lg: int) -> None:
    x, g = uniform(1 << lg), curve.generator
    rows = fixed_base(x, g, curve)
    scalars = unpack(x[:, -4:])
    check(rows_to_points(rows[-4:], curve) == [integers.mul(curve, s, g) for s in scalars], "ends")
    limbs = (x.long() & 0xFFFFFFFF).sum(1).tolist()
    total = sum(v << 32 * j for j, v in enumerate(limbs))
    whole = msm_kernels.batch_add(rows, None, curve)
    check(whole == integers.mul(curve, total % R, g), f"{curve.name} 2^{lg} fixed base")
    times = measure(partial(fixed_base, x, g, curve), 7)
    rate = (1 << lg) / statistics.median(times) / 1e3
    out.add("fixed_base", curve, lg, times, million_per_s=round(rate, 1))


def windows(curve: Curve, lg: int, choices: list[int]) -> None:
    """Times by window."""
    rows, x = points(lg, curve), uniform(1 << lg)
    choose = msm_kernels._window_bits
    for c in choices:
        msm_kernels._window_bits = lambda n, n_bits, c=c: c
        times = measure(partial(msm_kernels.msm, x, rows, curve), 5)
        print(f"{curve.name} 2^{lg} windows of {c} bits: {times[0]:.2f} {times[2]:.2f} ms")
    msm_kernels._window_bits = choose


def host(lg: int) -> None:
    import cProfile
    import pstats

    rows, x = points(lg, G1), uniform(1 << lg)
    msm_kernels.msm(x, rows, G1)
    with cProfile.Profile() as p:
        msm_kernels.msm(x, rows, G1)
    pstats.Stats(p).sort_stats("tottime").print_stats(22)


def main() -> None:
    out = Rows(Path(sys.argv[1]))
    parts = sys.argv[2:]
    if "exact" in parts:
        exactness()
    for part in parts:
        name, *rest = part.split(":")
        if name in CURVES:
            lg, runs = int(rest[0]), int(rest[1])
            limits = [int(v) << 30 for v in rest[2].split(",")] if len(rest) > 2 else [40 << 30]
            msm(out, CURVES[name], lg, runs, limits, "profile" in rest)
        elif name == "windows":
            windows(CURVES[rest[0]], int(rest[1]), [int(c) for c in rest[2].split(",")])
        elif name == "fixed":
            fixed(out, CURVES[rest[0]], int(rest[1]))
        elif name == "host":
            host(int(rest[0]))
        elif name == "batch":
            lg = int(rest[0])
            rows = points(lg, G1)
            ones = pack([1], FR, DEVICE).expand(8, 1 << lg)
            check(msm_kernels.batch_add(rows, None, G1) == expected(ones, G1), f"sum of 2^{lg}")
            out.add("batch_add", G1, lg, measure(partial(msm_kernels.batch_add, rows, None, G1), 9))
            bits = torch.rand(1 << lg, device=DEVICE) < 0.5
            chosen = measure(partial(msm_kernels.batch_add, rows, bits, G1), 9)
            out.add("batch_add", G1, lg, chosen, scalars="random bits")
            show_profile(partial(msm_kernels.batch_add, rows, None, G1))
        elif name == "skewed":
            lg = int(rest[0])
            rows = points(lg, G1)
            for kind, x in skewed(1 << lg).items():
                check(msm_kernels.msm(x, rows, G1) == expected(x, G1), f"2^{lg} {kind}")
                times = measure(partial(msm_kernels.msm, x, rows, G1), 7)
                out.add("msm", G1, lg, times, scalars=kind)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
