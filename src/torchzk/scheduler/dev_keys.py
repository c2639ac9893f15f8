"""Dev keys as files in the cache folder: written as they are made, and marked as insecure."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from torchzk.errors import ResourceError
from torchzk.files import make_folder
from torchzk.groth16.keys import VerifyingKey
from torchzk.groth16.meta_file import write_insecure_meta
from torchzk.groth16.params_file import write_params
from torchzk.groth16.setup import new_key
from torchzk.groth16.toxic_waste import DEV, ToxicWaste
from torchzk.groth16.vk_file import write_vk
from torchzk.scheduler import machine
from torchzk.scheduler.device_budget import budget
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
    check_making(session, stays=False)
    _check_disk(session, folder)
    params = folder / dev_path(session).name
    vk_path = params.with_suffix(".vk")
    make_folder(folder)
    with session.timeline.span("make key"):
        key = new_key(session.backend, r1cs, waste, session.device, session.timeline)
        # the mark comes first: the key must never stand without it
        write_insecure_meta(params, session.circuit.sector_size)
        # points are written as they are made; a fault closes their spans before this one
        with closing(key.pieces) as pieces:
            write_params(params, key.vk, key.lengths, pieces, session.backend)
        # an older pair stays one as long as can be; `check_pair` knows of the moment between
        write_vk(vk_path, key.vk)
    return params, vk_path, key.vk


def check_making(session: Session, *, stays: bool) -> None:
    """Raise `ResourceError`, with the numbers, when there is not the memory to make a key.

    Args:
        stays: Whether its points stay on the device.
    """
    need = session.making_key + (session.sizes.lengths.n_bytes if stays else 0)
    there = budget(session.device, session.config.vram_limit) - session.beside
    if need > there:
        raise ResourceError(
            f"making a key of {session.circuit.name} takes about {need / 2**30:.1f} GiB on "
            f"{session.device}, {there / 2**30:.1f} GiB are available; use a device with more"
        )


def _check_disk(session: Session, folder: Path) -> None:
    """Raise `ResourceError`, with the numbers, when the disk of `folder` has not the room."""
    need, there = session.sizes.lengths.n_bytes, machine.disk_free(folder)
    if need > there:
        raise ResourceError(
            f"the key of {session.circuit.name} takes {need / 2**20:,.1f} MiB in {folder}, "
            f"{there / 2**20:,.1f} MiB are free there"
        )
