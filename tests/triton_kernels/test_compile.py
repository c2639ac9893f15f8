"""Every kernel compiles for every architecture, with no GPU and no more spills than allowed.

What each needs is shown when the tests have ended, and is in `registers.tsv` among their files.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from triton_kernels import ahead_of_time, discovery
from triton_kernels.compile_pool import Results, compiling

# kernels that are not compiled here, by `module.function`, each with the reason
LEFT_OUT: dict[str, str] = {}
cases = pytest.mark.parametrize(
    "name",
    [
        pytest.param(case.name, marks=[pytest.mark.full(case.slow)] if case.slow else [])
        for case in ahead_of_time.CASES.values()
    ],
)


@pytest.fixture(scope="module")
def results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Results]:
    """Of the cases that this run has chosen."""
    items = (i for i in request.session.items if isinstance(i, pytest.Function))
    ours = (i for i in items if i.path == request.path and i.originalname == "test_compiles")
    chosen = [item.callspec.params["name"] for item in ours]
    with compiling(chosen) as found:
        yield found
    rows = [
        "\t".join(map(str, (name, f"sm_{arch}", *needed)))
        for name, row in ahead_of_time.COMPILED.items()
        for arch, needed in row.items()
    ]
    head = "\t".join(("case", "architecture", *ahead_of_time.Resources._fields))
    table = tmp_path_factory.getbasetemp() / "registers.tsv"
    table.write_text("\n".join([head, *rows, ""]))


@cases
def test_compiles(results: Results, name: str) -> None:
    allowed = ahead_of_time.allowances().get(name, {})
    row = {arch: results[name, arch].result() for arch in ahead_of_time.ARCHS}
    ahead_of_time.COMPILED[name] = row
    for arch, needed in row.items():
        limits = allowed.get(str(arch), [0, 0, 0])
        fits = all(n <= limit for n, limit in zip(needed[1:], limits, strict=True))
        assert needed.registers > 0
        assert fits, f"sm_{arch}: {needed}; allowed are {limits}"


def test_every_kernel_has_a_case() -> None:
    """Whatever it is called: `discovery` goes by who calls whom."""
    found = discovery.kernels()
    compiled = {id(case.kernel) for case in ahead_of_time.CASES.values() if not case.slow}
    missing = {name for name, kernel in found.items() if id(kernel) not in compiled}
    assert missing == LEFT_OUT.keys(), "ahead_of_time.SOURCES lacks cases, or LEFT_OUT a reason"
    assert all(LEFT_OUT.values())


def test_discovery_knows_kernels_from_device_functions() -> None:
    found = discovery.kernels()
    assert {"elementwise.binary_kernel", "ntt_passes.reverse_kernel"} <= found.keys()
    assert not {"limbs.mul", "points.line", "ntt_passes._reversed"} & found.keys()


def test_allowances_are_of_cases() -> None:
    assert set(ahead_of_time.allowances()) <= set(ahead_of_time.CASES)
