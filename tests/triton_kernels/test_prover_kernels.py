"""A whole proof by the kernels, with the very bytes of the reference.

Interpreted, where a multi-scalar multiplication takes minutes, points are added by the reference;
on a GPU everything runs as it does for users. About 5 s interpreted.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import triton

from replicated_r1cs import replicated, values
from torchzk import api
from torchzk.backends import BackendName, load_backend
from torchzk.config import CircuitConfig, Config
from torchzk.groth16.keys import MemoryKey
from torchzk.groth16.proofs import Proof
from torchzk.groth16.prover import Randomisers, prove
from torchzk.groth16.r1cs import Assignment
from torchzk.groth16.room import Room
from torchzk.groth16.setup import make_key
from torchzk.groth16.toxic_waste import DEV
from torchzk.groth16.verifier import verify
from torchzk.ops.layout import pack_mont
from torchzk.params.fields import FR
from torchzk.recorded import backend_report
from torchzk.scheduler.known_answers import known_answers
from torchzk.timeline import Timeline
from triton_kernels.lanes import INTERPRETED
from triton_kernels.test_msm_kernels import quick  # noqa: F401

COPIES = 1 if INTERPRETED else 1000
ROOMS = [Room(), Room(g1_points=1000, g2_points=999, scratch_bytes=1 << 24, in_turn=True)]
# the interpreter takes five times as long for plain code, which is the same but for products
VARIANTS = ["ptx"] if INTERPRETED else ["ptx", "plain"]


@pytest.mark.parametrize("variant", VARIANTS, indirect=True)
@pytest.mark.usefixtures("quick", "variant")
def test_the_proof_is_the_references(device: torch.device) -> None:
    r1cs = replicated(COPIES)
    inputs, aux = values(3, COPIES)
    assignment = Assignment(pack_mont(inputs, FR, device), pack_mont(aux, FR, device))

    def made(name: BackendName, rooms: list[Room]) -> tuple[MemoryKey, list[Proof]]:
        backend = load_backend(name)
        key = make_key(backend, r1cs, DEV, device, Timeline())
        given, z = (backend, key, r1cs, lambda: assignment), Randomisers(5, 6)
        return key, [prove(*given, z, Timeline(), circuit="small", room=room) for room in rooms]

    (key, proofs), (expected_key, expected) = made("triton", ROOMS), made("torch", ROOMS[:1])
    assert key.vk == expected_key.vk
    for name, rows in expected_key.queries.items():
        assert torch.equal(key.queries[name], rows), name
    assert proofs == expected * len(ROOMS)
    assert verify(key.vk, proofs[0], inputs[1:])


def test_a_session_says_what_it_runs(device: torch.device, tmp_path: Path) -> None:
    circuit = CircuitConfig(kind="window", sector_size=2048)
    config = Config(
        circuit=circuit, keys="dev", key_cache=tmp_path, device=str(device), backend="triton"
    )
    session = api.open_session(config)
    assert session.backend is load_backend("triton")
    report = backend_report(session)
    assert report["backend"] == "triton" and report["triton"] == triton.__version__
    assert report["variant"] == ("plain" if INTERPRETED else "ptx")
    variant = session.variant()
    assert variant and variant.summary.endswith(f", Triton {triton.__version__}")


if not INTERPRETED:

    @pytest.mark.usefixtures("variant")
    def test_known_answers_are_right(device: torch.device) -> None:
        answers = known_answers(load_backend("triton"), device)
        assert len(answers) > 20
        assert [a.operation for a in answers if not a.right] == []
