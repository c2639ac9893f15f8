"""`torchzk.diagnose` on devices that err in one bit of one answer, and on one that does not."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from scheduler.small_proofs import ProvableCircuit
from torchzk import diagnose, ops
from torchzk.circuits.post_shapes import post_shape
from torchzk.errors import ProofError
from torchzk.groth16 import verifier
from torchzk.ops.layout import pack_mont, points_to_rows
from torchzk.params import integers
from torchzk.params.curves import G1
from torchzk.params.domains import Domain
from torchzk.params.fields import FR
from torchzk.scheduler import key_store
from torchzk.scheduler import session as sessions
from torchzk.scheduler.checked_backend import CheckedBackend
from torchzk.timeline import Timeline

CPU = torch.device("cpu")


class Device:
    """The reference, but for one operation from its `first` call to its `last`."""

    def __init__(self, operation: str = "", first: int = 1, last: int = 1) -> None:
        self._operation, self._calls = operation, range(first, last + 1)
        self._called = 0

    def __getattr__(self, name: str) -> Any:
        return self._wrong if name == self._operation else getattr(ops, name)

    def _wrong(self, *args: Any, **how: Any) -> Any:
        result = getattr(ops, self._operation)(*args, **how)
        self._called += 1
        return self.answer(result, args) if self._called in self._calls else result

    def answer(self, result: Any, args: tuple[Any, ...]) -> Any:
        """The result with one bit changed, where it is written to as well."""
        if isinstance(result, tuple):
            (x, *rest), y = result
            return (x ^ 1, *rest), y
        changed = args[-1] if result is None else result
        changed[-1, -1] ^= 1 << 4
        return result


class OnCurve(Device):
    """A device that takes a point for none."""

    def answer(self, result: Any, args: tuple[Any, ...]) -> Any:
        result[-1] ^= True
        return result


class Failing(Device):
    """A device that goes away."""

    error: Exception = RuntimeError("an illegal memory access was encountered")

    def answer(self, result: Any, args: tuple[Any, ...]) -> Any:
        raise self.error


class Interrupted(Device):
    """A device whose user has seen enough."""

    def answer(self, result: Any, args: tuple[Any, ...]) -> Any:
        signal.raise_signal(signal.SIGINT)
        return result


class Command:
    """The command on a job of two partitions of a small circuit."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
        self._patch, self._capsys, self.folder = monkeypatch, capsys, folder
        self.config = folder / "small.yaml"
        (folder / "job.json").write_text('{"seeds": [3, 4]}')
        made = {
            "circuit": {"kind": "window", "sector_size": "2KiB"},
            "input": str(folder / "job.json"),
            "keys": "dev-in-memory",
            "key_cache": "cache",
            "block_cache": "blocks",
            "runs": "runs",
            "device": "cpu",
        }
        self.config.write_text(yaml.safe_dump(made))
        circuit = ProvableCircuit(post_shape("window", 2048))
        monkeypatch.setattr(sessions, "get_circuit", lambda *_: circuit)
        monkeypatch.setenv("COLUMNS", "80")

    def __call__(self, *flags: str, on: Device | None = None) -> tuple[int, dict[str, Any], str]:
        """Exit code, report and what was on the screen."""
        self._patch.setattr(sessions, "load_backend", lambda _: on or Device())
        code = diagnose.run(["--config", str(self.config), "--json", *flags])
        out, err = self._capsys.readouterr()
        assert len(out.splitlines()) == 1
        # nothing is kept as a proof
        assert not [path for path in self.folder.rglob("*") if "proof" in path.name]
        return code, json.loads(out), err


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Command:
    return Command(tmp_path, monkeypatch, capsys)


def test_all_right(command: Command) -> None:
    code, report, err = command()
    assert code == 0 and report["ok"] and report["verified"]
    assert report["first_difference"] is None
    assert report["verdict"] == "every operation is right, and the proof verifies"
    rows = [(r["stage"], r["operation"], r["times"]) for r in report["operations"]]
    assert rows[:4] == [
        ("products", "spmv_copies", 6),
        ("products", "first_unsatisfied", 1),
        ("quotient", "quotient", 1),
        ("quotient", "from_mont_at", 1),
    ]
    # of every query that its points are a key's, and the sum
    sums = [("l", "g1"), ("a", "g1"), ("b_g1", "g1"), ("b_g2", "g2")]
    for query, curve in [("h", "g1"), *sums]:
        assert (f"msm {query}", f"on_curve {curve}", 1) in rows
        assert (f"msm {query}", f"msm {curve}", 1) in rows
    for row in report["operations"]:
        assert (row["result"], row["compared"]) == ("right", "reference")
        assert row["device_ms"] > 0 and row["compared_ms"] > 0
    sizes = {(r["stage"], r["operation"]): r["size"] for r in report["operations"]}
    assert sizes["quotient", "quotient"] == 32 and sizes["msm h", "msm g1"] == 31
    assert "25 calls against the reference " in err
    assert re.search(r"^reference +the same code on the CPU", err, re.M)
    lines = err.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("stage  "))
    assert lines[head + 2].split()[:5] == ["products", "spmv_copies", "2^3.9", "6", "reference"]
    assert all(len(line) <= 80 for line in lines[head : head + 22])


@pytest.mark.parametrize("limit", [1 << 20, 1])
@pytest.mark.parametrize(
    ("operation", "nth", "stage", "title", "call", "size"),
    [
        ("spmv_copies", 4, "products", "spmv_copies", 4, 15),
        ("quotient", 1, "quotient", "quotient", 1, 32),
        ("from_mont_at", 1, "quotient", "from_mont_at", 1, 32),
        ("from_mont_at", 3, "msm a", "from_mont_at", 1, 11),
        ("msm", 3, "msm a", "msm g1", 1, 18),
        ("msm", 5, "msm b_g2", "msm g2", 1, 8),
        ("on_curve", 2, "msm l", "on_curve g1", 1, 17),
    ],
)
def test_one_bit_of_one_answer_is_named(
    operation: str,
    nth: int,
    stage: str,
    title: str,
    call: int,
    size: int,
    limit: int,
    command: Command,
) -> None:
    """By the reference; and where it is only computed twice, sums a third time for the halves."""
    times = 1 if limit > 1 else 3 if operation == "msm" else 2
    nth = (nth - 1) * times + 1
    device = OnCurve if operation == "on_curve" else Device
    code, report, err = command("--reference-limit", str(limit), on=device(operation, nth, nth))
    assert code == 5 and report["exit_code"] == 5
    assert not report["ok"] and not report["verified"]
    assert report["error"] == "DifferenceError"
    found = report["first_difference"]
    assert (found["stage"], found["operation"], found["call"]) == (stage, title, call)
    assert (found["size"], found["fault"]) == (size, "sometimes")
    assert found["compared"] == ("reference" if limit > 1 else "twice")
    difference = found["difference"]
    if operation == "msm":
        assert (difference["wrong"], difference["of"], difference["limbs"]) == (1, 1, 0)
        assert "call 1: the sum differs; " in report["message"]
    else:
        assert (difference["wrong"], difference["of"], difference["limbs"]) == (1, size, 1)
        assert difference["first"] == size - 1
        assert (
            f"1 of {size} elements differ in 1 limb, the first at {size - 1}" in report["message"]
        )
    assert f"torchzk: DifferenceError: {title} of 2^" in err
    assert "test this machine's memory, and prove on another device" in report["message"]
    wrong = [row for row in report["operations"] if row["result"] == "WRONG"]
    assert [(row["stage"], row["operation"]) for row in wrong] == [(stage, title)]
    assert wrong == report["operations"][-1:]


def test_a_wrong_kernel_is_told_from_a_faulty_device(command: Command) -> None:
    code, report, _ = command(on=Device("msm", 1, 99))
    assert code == 5 and report["first_difference"]["fault"] == "always"
    assert "as a wrong kernel does: prove with another device" in report["message"]
    # right by the first run
    code, report, _ = command("--runs", "3", "--partition", "1", on=Device("quotient", 2, 2))
    assert code == 5 and report["first_difference"]["fault"] == "sometimes"
    assert report["first_difference"]["call"] == 2


def test_what_is_only_run_twice_is_said_to_be(command: Command) -> None:
    code, report, err = command("--reference-limit", "16")
    assert code == 0
    by = {(r["stage"], r["operation"]): r["compared"] for r in report["operations"]}
    assert by["msm h", "msm g1"] == by["quotient", "quotient"] == "twice"
    # 17 aux, of whatever few are taken
    assert by["products", "spmv_copies"] == by["msm b_g2", "from_mont_at"] == "twice"
    assert by["msm b_g2", "msm g2"] == by["classes", "from_mont"] == "reference"
    assert "larger ones against a second time on the device" in " ".join(err.split())
    # which does not find what is wrong each time
    code, report, err = command("--reference-limit", "1", on=Device("from_mont_at", 1, 99))
    assert code == 5 and report["error"] == "ProofError"
    assert report["first_difference"] is None and report["verdict"].startswith("the proof does not")
    assert "raise --reference-limit" in report["message"]


def test_a_damaged_key_is_named(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    made = key_store.make_key

    def damaged(*args: Any) -> Any:
        key = made(*args)
        key.queries["b_g2"][5, 1, 0, 3] ^= 1 << 7
        return key

    monkeypatch.setattr(key_store, "make_key", damaged)
    monkeypatch.setattr(key_store, "where_made", lambda *_: "device")
    code, report, _ = command()
    found = report["first_difference"]
    assert (code, found["fault"]) == (5, "key")
    assert (found["stage"], found["operation"]) == ("msm b_g2", "on_curve g2")
    assert (found["difference"]["wrong"], found["difference"]["first"]) == (1, 5)
    assert "1 of 8 points of the key are off their curve, the first at 5" in report["message"]


def test_a_proof_that_does_not_hold_although_all_is_right(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifier, "verify_batch", lambda *_: False)
    code, report, _ = command()
    assert code == 5 and not report["verified"] and report["first_difference"] is None
    assert all(row["result"] == "right" for row in report["operations"])
    assert "no operation differs: the key is another circuit's" in report["message"]


def test_a_device_that_fails_is_named(command: Command) -> None:
    code, report, err = command(on=Failing("msm", 2, 2))
    assert (code, report["error"]) == (6, "ResourceError")
    assert "msm g1 of 2^4.1 in stage msm l fails on cpu: an illegal memory" in report["message"]
    (row,) = [line for line in err.splitlines() if line.startswith("msm l     msm g1")]
    assert row.split()[4:7] == ["2^4.1", "1", "failed"]
    # as of a kernel that is none, which shows its traceback
    broken = Failing("msm", 2, 2)
    broken.error = TypeError("no such argument")
    code, report, err = command(on=broken)
    assert (code, report["error"]) == (1, "TypeError")
    assert re.search(r"^msm l +msm g1 +2\^4\.1 +1 +failed", err, re.MULTILINE)


@pytest.fixture
def handlers() -> Iterator[None]:
    """Those of before are there after a test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
def test_it_stops_when_it_is_interrupted(command: Command) -> None:
    code, report, err = command(on=Interrupted("msm", 2, 2))
    assert (code, report["error"]) == (130, "Interrupted")
    assert "prove / msm l: failed after" in err and "msm a" not in err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--partition", "2"], "--partition: the job has 2 partitions"),
        (["--runs", "0"], "--runs: once at least"),
        (["--reference-limit", "-1"], "must be an integer"),
    ],
)
def test_flags_that_cannot_be(flags: list[str], said: str, command: Command) -> None:
    code, report, err = command(*flags)
    assert code == 2 and said in report["message"]
    assert "msm" not in err


@pytest.mark.parametrize("limit", [1, 16])
def test_a_quotient_in_turn_is_compared(limit: int) -> None:

    vectors = {name: pack_mont([5, 7, k, 11], FR, CPU) for k, name in enumerate("abc")}
    asked: list[str] = []

    def vector(name: str) -> torch.Tensor:
        asked.append(name)
        return vectors[name].clone()

    right = ops.quotient_in_turn(vector, Domain(2))
    asked.clear()
    checked: Any = CheckedBackend(Device(), CPU, Timeline(), limit)
    assert checked.quotient_in_turn(vector, Domain(2)).equal(right)
    # the prover makes each once, whoever computes it again
    assert asked == ["b", "a", "c"]
    (row,) = checked.rows
    assert (row.stage, row.size, row.times, row.result) == ("staging", 4, 1, "right")
    assert row.compared == ("twice" if limit == 1 else "reference")
    checked = CheckedBackend(Device("quotient_in_turn"), CPU, Timeline(), limit)
    with pytest.raises(ProofError, match="quotient_in_turn of 2.2.0 in .*: 1 of 4 elements differ"):
        checked.quotient_in_turn(vector, Domain(2))


def test_halves_of_chosen_points_are_added_up() -> None:

    rows = points_to_rows([integers.mul(G1, k, G1.generator) for k in (1, 2, 3, 4, 5)], G1, CPU)
    checked: Any = CheckedBackend(Device(), CPU, Timeline(), 1)
    mask = torch.tensor([True, False, True, True, False])
    chosen = {8: mask, 15: None, 9: torch.tensor([4, 3])}
    for total, which in chosen.items():
        assert checked.batch_add(rows, which, G1) == integers.mul(G1, total, G1.generator)
    assert {row.compared for row in checked.rows} == {"twice"}
