"""Dev keys as files in the cache folder: written as they are made, and marked as insecure."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from torchzk.files import make_folder
from torchzk.groth16.keys import VerifyingKey
from torchzk.groth16.lengths import expected_lengths
from torchzk.groth16.meta_file import write_insecure_meta
from torchzk.groth16.params_file import write_params
from torchzk.groth16.setup import new_key
from torchzk.groth16.toxic_waste import DEV, ToxicWaste
from torchzk.groth16.vk_file import write_vk
from torchzk.scheduler.memory_need import check_disk, check_memory, key_bytes, setup_need
from torchzk.scheduler.session import Session


def dev_path(session: Session) -> Path:
    """Where the dev key of the session's circuit is kept."""
    circuit = session.circuit
    return session.config.key_cache / f"{circuit.kind}_{circuit.sector_size}.params"


def make_dev_keys(
    session: Session, folder: Path, waste: ToxicWaste = DEV
) -> tuple[Path, Path, VerifyingKey]:
    """Write `{kind}_{sector bytes}.params`, `.vk` and `.meta` from known toxic waste to `folder`.

    Raises:
        ResourceError: There is not the memory to make the key, or not the disk to keep it.
    """
    r1cs = session.r1cs
    check_memory(session, setup_need(r1cs), "making a key")
    check_disk(folder, key_bytes(expected_lengths(r1cs)), f"the key of {session.circuit.name}")
    params = folder / dev_path(session).name
    vk_path = params.with_suffix(".vk")
    make_folder(folder)
    with session.timeline.span("make key"):
        key = new_key(session.backend, r1cs, waste, session.device, session.timeline)
        # the mark comes first: the key must never stand without it
        write_insecure_meta(params, session.circuit.sector_size)
        write_vk(vk_path, key.vk)
        # points are written as they are made; a fault closes their spans before this one
        with closing(key.pieces) as pieces:
            write_params(params, key.vk, key.lengths, pieces, session.backend)
    return params, vk_path, key.vk
