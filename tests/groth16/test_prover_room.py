"""A proof does not depend on what it may take of a device, nor on what its scalars are."""

from __future__ import annotations

import random
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch

from groth16.samples import Travelling
from replicated_r1cs import CIRCUITS, values
from torchzk.backends import Backend
from torchzk.circuits.recorder import ONE, ConstraintSystem
from torchzk.errors import CancelledError, KeyFileError, UnsatisfiedError
from torchzk.groth16 import room as room_module
from torchzk.groth16.density import density
from torchzk.groth16.keys import QUERIES
from torchzk.groth16.order import part_order
from torchzk.groth16.prover import Randomisers, prove, query_sums
from torchzk.groth16.query_sums import Sum, VariableScalars, values_of
from torchzk.groth16.query_variables import query_variables
from torchzk.groth16.r1cs import Assignment, R1cs
from torchzk.groth16.room import Room
from torchzk.groth16.setup import make_key
from torchzk.groth16.toxic_waste import DEV
from torchzk.groth16.verifier import verify
from torchzk.ops.layout import pack_mont, rows_to_points
from torchzk.params import integers
from torchzk.params.curves import Point
from torchzk.params.fields import FR
from torchzk.timeline import Span, Timeline

COPIES, BITS = 4, 6
ROOMS = {
    "whole": Room(),
    "pieces": Room(g1_points=5, g2_points=3, scratch_bytes=1),
    "side by side": Room(g1_points=5, g2_points=2, slots=3, costs=(9, 1, 1, 1, 3)),
    "side by side in turn": Room(
        g1_points=6, g2_points=3, in_turn=True, slots=5, early_slots=0, costs=(1, 2, 3, 4, 5)
    ),
    "in turn": Room(in_turn=True),
    "pieces in turn": Room(g1_points=7, g2_points=1, in_turn=True),
}
Z = Randomisers(5, 6)


def bits_of_inputs() -> R1cs:
    """Bits of the prologue and of each copy, unused ones among them, and what they pack to."""
    head = ConstraintSystem()
    shared = head.alloc_many(2)
    for s in shared:
        head.enforce({s: 1}, {s: 1, ONE: -1}, {})
    body = ConstraintSystem(head.n_inputs, head.n_aux)
    packed = body.alloc_input()
    bits = body.alloc_many(BITS)
    for b in bits[:-1]:
        body.enforce({b: 1}, {b: 1, ONE: -1}, {})
    product = body.alloc()
    body.enforce({packed: 1}, {packed: 1, shared[0]: 1}, {product: 1})
    terms = {b: 1 << i for i, b in enumerate(bits)} | {shared[1]: 1 << BITS}
    body.enforce({packed: 1}, {ONE: 1}, terms)
    return R1cs(head.block(), body.block(), COPIES)


def bit_values(draw: Callable[[], int]) -> tuple[list[int], list[int]]:
    """Inputs and aux that satisfy it, its bits drawn."""
    shared = [draw(), draw()]
    inputs, aux = [1], list(shared)
    for _ in range(COPIES):
        bits = [draw() for _ in range(BITS)]
        packed = sum(b << i for i, b in enumerate([*bits, shared[1]]))
        inputs.append(packed)
        aux += [*bits, packed * (packed + shared[0])]
    return inputs, aux


def drawn(seed: int) -> Callable[[], int]:
    rng = random.Random(seed)
    return lambda: rng.randrange(2)


BIT_VALUES = {"zeros": lambda: 0, "ones": lambda: 1, "mixed": drawn(1), "others": drawn(2)}


def assigned(inputs: list[int], aux: list[int], device: torch.device) -> Assignment:
    return Assignment(pack_mont(inputs, FR, device), pack_mont(aux, FR, device))


@pytest.fixture
def small_tails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tail is multiplied after two points, or three in larger pieces."""
    monkeypatch.setattr(room_module, "_FEWEST", 2)


@pytest.mark.parametrize("lent", [False, True], ids=["resident", "lent"])
@pytest.mark.parametrize("scalars", BIT_VALUES)
@pytest.mark.usefixtures("small_tails")
def test_sums_are_those_of_integers(
    scalars: str, lent: bool, backend: Backend, device: torch.device
) -> None:
    r1cs = bits_of_inputs()
    inputs, aux = bit_values(BIT_VALUES[scalars])
    if scalars == "others":
        # no longer bits, which the sums do not ask for
        aux = [random.Random(i).randrange(FR.modulus) if v else 0 for i, v in enumerate(aux)]
    key = make_key(backend, r1cs, DEV, device, Timeline())
    dense = density(r1cs)
    b_bits = [*dense.b_inputs.written_out(), *dense.b_aux.written_out()]
    b = [x for x, bit in zip(inputs + aux, b_bits, strict=True) if bit]
    a = inputs + [x for x, bit in zip(aux, dense.a_aux.written_out(), strict=True) if bit]
    expected: dict[str, Point] = {}
    for name, factors in {"l": aux, "a": a, "b_g1": b, "b_g2": b}.items():
        curve, total = QUERIES[name], None
        points = rows_to_points(key.queries[name], curve)
        for k, point in zip(factors, points, strict=True):
            total = integers.add(curve, total, integers.mul(curve, k % FR.modulus, point))
        expected[name] = total
    values = values_of(backend, assigned(inputs, aux, device))
    variables = query_variables(r1cs, device)
    for step in (1, 4, 11, 1 << 20):
        room = Room(g1_points=step, g2_points=step)
        order = [part for part in part_order(key.lengths, room) if part.query != "h"]
        sums = {name: Sum(backend, QUERIES[name], room) for name in expected}
        with (Travelling(key.vk, key.queries) if lent else key).parts(order, device, 2) as parts:
            for part in order:
                factors_of = VariableScalars(values, variables[part.query])
                factors_of.add_to(sums[part.query], part, parts.take())
        for name, total in expected.items():
            assert sums[name].finish() == total, (name, step)


def proofs_in(
    rooms: list[Room],
    r1cs: R1cs,
    inputs: list[int],
    aux: list[int],
    backend: Backend,
    device: torch.device,
) -> None:
    """Prove in every room, in the first with the key there: one proof, which holds."""
    key = make_key(backend, r1cs, DEV, device, Timeline())
    found = set()
    for i, room in enumerate(rooms):
        assignment = assigned(inputs, aux, device)
        its_key = Travelling(key.vk, key.queries) if i else key
        proof = prove(
            backend, its_key, r1cs, lambda a=assignment: a, Z, Timeline(), circuit="any", room=room
        )
        found.add(proof.to_bytes())
    assert len(found) == 1
    assert verify(key.vk, proof, inputs[1:])


@pytest.mark.parametrize("scalars", ["zeros", "ones", "mixed"])
def test_proofs_of_bits_are_the_same_in_any_room(
    scalars: str, backend: Backend, device: torch.device
) -> None:
    inputs, aux = bit_values(BIT_VALUES[scalars])
    proofs_in(list(ROOMS.values()), bits_of_inputs(), inputs, aux, backend, device)


@pytest.mark.parametrize("name", CIRCUITS)
def test_proofs_are_the_same_in_any_room(name: str, backend: Backend, device: torch.device) -> None:
    system, _, satisfying = CIRCUITS[name]
    proofs_in(list(ROOMS.values()), system(5), *satisfying(4, 5), backend, device)
    proofs_in([ROOMS["pieces in turn"], Room()], system(0), *satisfying(4, 0), backend, device)


@pytest.mark.parametrize("room", ROOMS.values(), ids=ROOMS)
def test_a_false_row_is_named_in_any_room(
    room: Room, backend: Backend, device: torch.device
) -> None:
    r1cs = CIRCUITS["shared"][0](5)
    inputs, aux = values(2)
    # w of copy 2, which the last of its three rows defines
    aux[2 + 3 * 2 + 2] += 1
    assignment = assigned(inputs, aux, device)
    key = make_key(backend, r1cs, DEV, device, Timeline())
    threads = set(threading.enumerate())
    with pytest.raises(UnsatisfiedError, match="small: constraint 10 "):
        prove(
            backend,
            Travelling(key.vk, key.queries),
            r1cs,
            lambda: assignment,
            Z,
            Timeline(),
            circuit="small",
            room=room,
        )
    # what was on its way was stopped
    assert set(threading.enumerate()) <= threads


def test_in_turn_nothing_is_kept_that_can_be_made_again(
    backend: Backend, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    r1cs = CIRCUITS["shared"][0](5)
    inputs, aux = values(6)
    key = make_key(backend, r1cs, DEV, device, Timeline())
    made: list[weakref.ref[torch.Tensor]] = []
    alive: list[int] = []

    def assign() -> Assignment:
        made.append(weakref.ref((new := assigned(inputs, aux, device)).aux))
        return new

    def watched(vector: Callable[[str], torch.Tensor], *args: object) -> torch.Tensor:
        def seen(name: str) -> torch.Tensor:
            out = vector(name)
            alive.append(sum(ref() is not None for ref in made))
            return out

        return quotient(seen, *args)

    quotient = backend.quotient_in_turn
    monkeypatch.setattr(backend, "quotient_in_turn", watched)
    spans: list[Span] = []
    timeline = Timeline(on_close=spans.append)
    proof = prove(backend, key, r1cs, assign, Z, timeline, circuit="s", room=Room(in_turn=True))
    # for the check and B, for A, for C, and for the queries
    assert len(made) == 4 and alive == [0, 0, 0]
    assert verify(key.vk, proof, inputs[1:])
    names = [span.name for span in spans]
    sums = [f"msm {name}" for name in QUERIES]
    last = ["witness", "classes", *sums[1:], "final sums"]
    assert names == ["witness", "products", "quotient", sums[0], *last]


SIDE_BY_SIDE = Room(g1_points=6, g2_points=3, slots=3, early_slots=1, costs=(9, 1, 1, 1, 1))


class Torn(Travelling):
    """A key whose b_g1 ends in a fault."""

    def query(self, name: str, start: int, stop: int, device: torch.device | str) -> torch.Tensor:
        if name == "b_g1":
            raise KeyFileError("torn")
        return super().query(name, start, stop, device)


def travelling(
    backend: Backend, device: torch.device, kind: type[Travelling] = Travelling
) -> tuple[R1cs, Travelling, Callable[[], Assignment]]:
    r1cs = CIRCUITS["shared"][0](5)
    key = make_key(backend, r1cs, DEV, device, Timeline())
    return r1cs, kind(key.vk, key.queries), lambda: assigned(*values(6), device)


def test_side_by_side_spans_tell_the_queries_and_the_wait_apart(
    backend: Backend, device: torch.device
) -> None:
    r1cs, key, assign = travelling(backend, device)
    for in_turn in (False, True):
        spans: list[Span] = []
        room = replace(SIDE_BY_SIDE, in_turn=in_turn)
        query_sums(
            backend, key, r1cs, assign, Timeline(on_close=spans.append), circuit="s", room=room
        )
        order = part_order(key.lengths, room)
        sums = [name for part in order for name in ("wait for key", f"msm {part.query}")]
        again = ["witness"] if in_turn else []
        first = ["witness", "products", "quotient", *again, "classes"]
        assert [span.name for span in spans] == [*first, *sums]
        assert sums[1] == "msm h" and "msm h" in sums[4:]


def test_a_fault_on_the_way_and_a_stop_end_the_proof_and_its_uploads(
    backend: Backend, device: torch.device
) -> None:
    threads = set(threading.enumerate())
    r1cs, torn, assign = travelling(backend, device, Torn)
    with pytest.raises(KeyFileError, match="torn"):
        query_sums(backend, torn, r1cs, assign, Timeline(), circuit="s", room=SIDE_BY_SIDE)
    assert set(threading.enumerate()) <= threads
    r1cs, key, assign = travelling(backend, device)
    for stages in (1, 2, 4, 9):
        left = iter(range(stages))

        def check(left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise CancelledError("enough")

        with pytest.raises(CancelledError, match="enough"):
            query_sums(
                *(backend, key, r1cs, assign, Timeline()),
                circuit="s",
                room=SIDE_BY_SIDE,
                check=check,
            )
        assert set(threading.enumerate()) <= threads


@pytest.mark.parametrize("name", CIRCUITS)
@pytest.mark.parametrize("copies", [0, 1, 2, 5])
def test_the_index_of_a_piece(name: str, copies: int, device: torch.device) -> None:
    systems = [CIRCUITS[name][0](copies), bits_of_inputs()]
    for r1cs in systems:
        dense, variables = density(r1cs), query_variables(r1cs, device)
        assert len(variables["l"]) == r1cs.n_aux and variables["l"].index is None
        for query, touched in (("a", dense.a_aux), ("b_g1", dense.b_aux)):
            bits = touched.written_out()
            expected = bits.nonzero()[0].tolist()
            index = variables[query].index
            assert variables[query].n_aux == len(expected)
            if index is None:
                assert bits.all()
                continue
            for start in range(len(expected) + 1):
                for stop in range(start, len(expected) + 1):
                    piece = index.piece(start, stop)
                    assert piece.dtype == torch.int32
                    assert piece.tolist() == expected[start:stop]
        assert variables["a"].n_inputs == r1cs.n_inputs
        b_inputs = dense.b_inputs.written_out().nonzero()[0].tolist()
        assert variables["b_g2"].inputs.tolist() == b_inputs
