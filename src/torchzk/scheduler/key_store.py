"""Keys for a run: files, or dev keys made once and kept in the cache folder.

A key file is checked in full when it is first seen: sizes, every point canonical, on its curve
and in its subgroup. That it passed is remembered by the file's SHA-256.
"""

from __future__ import annotations

import hashlib
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from torchzk.errors import KeyFileError
from torchzk.files import atomic_write, make_folder
from torchzk.groth16.key_checks import check_points
from torchzk.groth16.keys import ProvingKey, VerifyingKey, check_lengths, held
from torchzk.groth16.lengths import expected_lengths
from torchzk.groth16.meta_file import is_marked_insecure, write_insecure_meta
from torchzk.groth16.params_file import ParamsFile, write_params
from torchzk.groth16.setup import make_verifying_key, new_key
from torchzk.groth16.toxic_waste import DEV, ToxicWaste, check_safe, is_dev
from torchzk.groth16.vk_file import key_sha256, load_vk, write_vk
from torchzk.scheduler.memory_need import (
    check_disk,
    check_memory,
    free_memory,
    key_bytes,
    key_stays,
    setup_need,
)
from torchzk.scheduler.session import Session


@dataclass(frozen=True)
class Keys:
    """A proving key that fits the session's circuit, and what to say about it.

    Holds the key's file open: close it, or use it in a `with`.
    """

    proving: ProvingKey
    """The file itself, or its points on the session's device where they fit."""
    verifying: VerifyingKey
    sha256: str
    """Of the bytes of the verifying key."""
    insecure: bool
    """Whether anybody can forge proofs under this key: its toxic waste is public."""
    file: ParamsFile

    @property
    def path(self) -> Path:
        """Where the key lies."""
        return self.file.path

    @property
    def stays(self) -> bool:
        """Whether the points lie on the session's device."""
        return self.proving is not self.file

    def close(self) -> None:
        """Give the key's file back; proving from it fails afterwards."""
        self.file.close()

    def __enter__(self) -> Keys:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def get_keys(session: Session) -> Keys:
    """The keys that the session's config names, checked; dev keys are made when not cached.

    Raises:
        KeyFileError: The file is damaged, unsafe, holds no proving key, or is another circuit's.
    """
    named = session.config.keys
    if named == "dev":
        path = _dev_path(session)
        if not path.is_file():
            make_dev_keys(session, path.parent)
    elif named.suffix == ".vk":
        raise KeyFileError(f"{named}: a verifying key cannot prove; name the .params file")
    else:
        path = named
    file = ParamsFile.open(path, session.backend)
    try:
        circuit, r1cs = session.circuit, session.r1cs
        vk = file.vk
        check_lengths(file, expected_lengths(r1cs), r1cs.n_inputs, circuit.name)
        check_safe(vk)
        key: ProvingKey = file
        device = session.device
        if key_stays(device, session.choice.name, r1cs, free_memory(device)):
            with session.timeline.span("load key"):
                key = held(file, device)
        _check_once(session, key, path)
        insecure = is_marked_insecure(path, circuit.sector_size) or is_dev(vk)
        return Keys(key, vk, key_sha256(vk), insecure, file)
    except BaseException:
        file.close()
        raise


def get_verifying_key(session: Session) -> VerifyingKey:
    """The verifying key of the session's config: of a `.vk` or `.params` file, or the dev key.

    Raises:
        KeyFileError: The file is damaged, unsafe, or of a circuit with other inputs.
    """
    named = _named_vk(session)
    if session.config.keys == "dev" and not named.is_file():
        return make_verifying_key(
            session.backend, session.r1cs, DEV, session.device, session.timeline
        )
    if named.suffix == ".params":
        with ParamsFile.open(named, session.backend) as params:
            vk = params.vk
    else:
        vk = load_vk(named)
    check_safe(vk)
    n_inputs = session.circuit.n_inputs
    if vk.n_inputs != n_inputs:
        raise KeyFileError(
            f"{named}: this is the key of another circuit than {session.circuit.name}, "
            f"which has {n_inputs:,} inputs; the key has {vk.n_inputs:,}"
        )
    return vk


def is_insecure(session: Session, vk: VerifyingKey) -> bool:
    """Whether the session's verifying key was made from known toxic waste, as far as it shows."""
    return is_dev(vk) or is_marked_insecure(_named_vk(session), session.circuit.sector_size)


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
    params = folder / _dev_path(session).name
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


def _named_vk(session: Session) -> Path:
    named = session.config.keys
    return _dev_path(session).with_suffix(".vk") if named == "dev" else named


def _dev_path(session: Session) -> Path:
    circuit = session.circuit
    return session.config.key_cache / f"{circuit.kind}_{circuit.sector_size}.params"


def _check_once(session: Session, key: ProvingKey, path: Path) -> None:
    """Check every point of the key of a file, unless a file of these very bytes passed before."""
    with session.timeline.span("key digest"), path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    mark = session.config.key_cache / "checked" / digest
    if mark.is_file():
        return
    with session.timeline.span("key check"):
        check_points(
            session.backend, key, session.device, name=str(path), timeline=session.timeline
        )
    make_folder(mark.parent)
    with atomic_write(mark) as file:
        file.write(f"every point of {path.name} was checked\n".encode())
