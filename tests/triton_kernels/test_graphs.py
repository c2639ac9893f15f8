"""Transforms by CUDA graphs and by plans against the reference; interpreted, there are neither."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
import torch

from torchzk.ops.layout import pack
from torchzk.ops.ntt import ntt_dif as reference
from torchzk.ops.quotient import quotient as reference_quotient
from torchzk.params.domains import Domain
from torchzk.params.fields import FR
from torchzk.triton_kernels import graphs, ntt_dif, quotient, tuning, twiddles
from torchzk.triton_kernels.graphs import GRAPHS, Graphs
from torchzk.triton_kernels.launch import arch_of
from torchzk.triton_kernels.plans import PLANS, Plans
from torchzk.triton_kernels.tuning import Number
from triton_kernels.lanes import INTERPRETED
from triton_kernels.samples import sample

LOG_N = 2 if INTERPRETED else 12


# interpreted, both would be plain
@pytest.fixture(params=["graphs"] if INTERPRETED else ["graphs", "plans"])
def kept(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> Iterator[Graphs | Plans]:
    """Where the launches of transforms are kept; nothing is there yet."""
    by_graphs = request.param == "graphs"
    arch = arch_of(device)
    number = Number(((0, int(by_graphs)),), "test")
    monkeypatch.setitem(tuning.NUMBERS, ("ntt graph", 8, arch), number)
    # with a second stream: captured, and started again
    monkeypatch.setitem(tuning.NUMBERS, ("ntt halves", 8, arch), Number(((0, 1),), "test"))
    GRAPHS.drop()
    PLANS.drop()
    yield GRAPHS if by_graphs else PLANS
    GRAPHS.drop()
    PLANS.drop()


def vector(log_n: int, seed: int, device: torch.device) -> torch.Tensor:
    return pack(sample(FR, 1 << log_n, seed), FR, device)


def test_new_inputs_get_their_own_outputs(device: torch.device, kept: Graphs | Plans) -> None:
    """By graphs the second call captures, by plans the first notes; no output changes later."""
    domain = Domain(LOG_N)
    xs = [vector(LOG_N, seed, device) for seed in range(4)]
    before = [x.clone() for x in xs]
    outs = [ntt_dif(x, domain) for x in xs]
    assert len(kept) == (device.type == "cuda")
    assert all(torch.equal(x, y) for x, y in zip(xs, before, strict=True))
    assert all(torch.equal(y, reference(x, domain)) for x, y in zip(xs, outs, strict=True))
    # thrice one vector, and then vectors of their own
    abc = [[xs[0]] * 3]
    abc += [[vector(LOG_N, 3 * k + j, device) for j in range(3)] for k in range(3)]
    hs = [quotient(a, b, c, domain) for a, b, c in abc]
    for h, (a, b, c) in zip(hs, abc, strict=True):
        assert torch.equal(h, reference_quotient(a, b, c, domain))


def test_tables_that_the_cache_forgot(device: torch.device, kept: Graphs | Plans) -> None:
    """Graphs keep them, plans are made anew."""
    domain, x = Domain(LOG_N), vector(LOG_N, 1, device)
    outs = [ntt_dif(x, domain) for _ in range(2)]
    twiddles.roots.cache_clear()
    twiddles.short_roots.cache_clear()
    twiddles.constants.cache_clear()
    # what was theirs may be anybody's by now
    others = [torch.full((1 << k,), -1, dtype=torch.int32, device=device) for k in range(20)]
    outs.append(ntt_dif(x, domain))
    assert len(others) == 20 and len(kept) == (device.type == "cuda")
    assert all(torch.equal(y, reference(x, domain)) for y in outs)


def test_as_part_of_another_graph(device: torch.device, kept: Graphs | Plans) -> None:
    """Captured by somebody else, the launches are theirs; interpreted, there is nobody else."""
    domain, x = Domain(LOG_N), vector(LOG_N, 1, device)
    expected = ntt_dif(x, domain)
    if device.type == "cuda":
        whole = torch.cuda.CUDAGraph()
        with torch.cuda.graph(whole):
            out = ntt_dif(ntt_dif(x, domain), domain)
        assert len(GRAPHS) == 0 and len(kept) == (kept is PLANS)
        for _ in range(2):
            whole.replay()
            assert torch.equal(out, ntt_dif(expected, domain))
    assert torch.equal(expected, reference(x, domain))


# the interpreter is of one thread
if not INTERPRETED:

    def test_threads_and_streams_share_them(device: torch.device, kept: Graphs | Plans) -> None:
        domain, wrong = Domain(LOG_N), list[int]()

        def work(seed: int) -> None:
            stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            with torch.cuda.stream(stream):
                xs = [vector(LOG_N, 10 * seed + k, device) for k in range(8)]
                ys = [ntt_dif(x, domain) for x in xs]
                if not all(
                    torch.equal(y, reference(x, domain)) for x, y in zip(xs, ys, strict=True)
                ):
                    wrong.append(seed)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong and len(kept) == 1


class Recorded:
    """Stands in for a graph: notes what would be done to one."""

    closed: list[str] = []

    def __init__(self, launches: Callable[..., torch.Tensor], *_: object) -> None:
        self.launches, self.done = launches, self

    def synchronize(self) -> None:
        self.closed.append("waited")

    def replay(self, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return self.launches(*inputs) + 100


class Cuda:
    """A tensor that says it is on CUDA, as far as the book-keeping looks."""

    def __init__(self, n: int, index: int = 0) -> None:
        self.device, self.shape, self.value = torch.device("cuda", index), torch.Size([n]), n


def test_the_least_recently_used_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The book-keeping alone, on any machine."""
    monkeypatch.setattr(graphs, "_Graph", Recorded)
    monkeypatch.setattr(graphs, "on_device", lambda device: threading.Lock())
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: None)
    monkeypatch.setattr(Recorded, "closed", [])
    few, many = Graphs(2), Graphs(8)
    for n in (*range(5), *range(5)):
        many.run("a", lambda: lambda x: x.value, Cuda(n))  # type: ignore[arg-type, return-value]
    assert len(many) == 5 and Recorded.closed == []

    def run(key: str, n: int = 1, index: int = 0) -> int:
        given = Cuda(n, index)
        return few.run(key, lambda: lambda x: x.value, given)  # type: ignore[arg-type, return-value]

    assert [run("a"), run("a"), run("a")] == [1, 101, 101]
    assert [run("a", 2), run("a", 2)] == [2, 102]
    assert run("b") == 1 and len(few) == 2 and Recorded.closed == []
    # of the two, the first was used longest ago
    assert run("b") == 101 and len(few) == 2 and Recorded.closed == ["waited"]
    assert [run("a", 2), run("a"), run("a", 2)] == [102, 1, 102]
    # those of another device are beside them, and go by themselves
    assert [run("a", index=1), run("a", index=1), run("b", index=1)] == [1, 101, 1]
    few.drop(torch.device("cuda", 1))
    assert len(few) == 2 and Recorded.closed == ["waited"] * 2
    assert [run("b", index=1), run("a", 2)] == [1, 102]
    few.drop()
    assert len(few) == 0 and Recorded.closed == ["waited"] * 4
    assert run("a", 2) == 2
    monkeypatch.setattr(graphs, "_MOST_SEEN", 2)
    few.drop()
    assert [run("a"), run("b"), run("c"), run("a")] == [1, 1, 1, 1]
    assert [run("a"), run("b")] == [101, 1]
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert [run("a"), run("a"), run("c")] == [1, 1, 1]
