"""Which file has a run's key, and that its bytes are sound, which is checked once."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from torchzk.errors import KeyFileError
from torchzk.files import atomic_write, make_folder
from torchzk.groth16.key_checks import check_points
from torchzk.groth16.keys import ProvingKey
from torchzk.scheduler.dev_keys import dev_path, make_dev_keys
from torchzk.scheduler.file_digests import FileDigest, digest_of
from torchzk.scheduler.official_keys import OfficialFile, official_file
from torchzk.scheduler.session import Session


def params_path(session: Session) -> Path:
    """The `.params` file that the config names; a dev key is made if it is not there."""
    config = session.config
    if config.keys == "dev":
        path = dev_path(session)
        if not path.is_file():
            make_dev_keys(session, path.parent)
        return path
    if isinstance(config.keys, Path):
        if config.keys.suffix == ".vk":
            raise KeyFileError(
                f"{config.keys}: a verifying key cannot prove; name the .params file"
            )
        return config.keys
    return _official_path(session, "params")


def check_official(session: Session) -> None:
    """Raise `KeyFileError` where the network's key is wanted and its file is not there."""
    if session.config.keys == "official":
        official = _official(session, "params")
        official.in_folder(session.config.parameter_folder, session.circuit.name)


def named_vk(session: Session) -> Path | None:
    """The file that has the verifying key, whether it is there or not; None for one in memory."""
    keys = session.config.keys
    if isinstance(keys, Path):
        return keys
    if keys == "official":
        return _official_path(session, "vk")
    return dev_path(session).with_suffix(".vk") if keys == "dev" else None


def digest_in(session: Session, path: Path) -> FileDigest:
    """The digest of a key file, which the session's cache remembers; errors as `digest_of`."""
    return digest_of(path, session.config.key_cache / "digests", session.timeline)


def check_once(session: Session, key: ProvingKey, path: Path, digest: FileDigest) -> None:
    """Check every point of the key of a file, unless a file of these very bytes passed before.

    Of an official file the digest is the check.
    """
    if session.config.keys == "official":
        _official(session, "params").check(path, digest.blake2b)
        return
    mark = session.config.key_cache / "checked" / digest.blake2b
    if not mark.is_file():
        with session.timeline.span("key check"):
            check_points(
                session.backend, key, session.device, name=str(path), timeline=session.timeline
            )
        make_folder(mark.parent)
        with atomic_write(mark) as file:
            file.write(f"every point of {path.name} was checked\n".encode())
    # nothing is remembered of a file that was refused
    digest.remember()


def _official(session: Session, extension: Literal["params", "vk"]) -> OfficialFile:
    return official_file(session.circuit.cache_identifier, extension, session.circuit.name)


def _official_path(session: Session, extension: Literal["params", "vk"]) -> Path:
    official = _official(session, extension)
    path = official.in_folder(session.config.parameter_folder, session.circuit.name)
    digest = digest_in(session, path)
    official.check(path, digest.blake2b)
    digest.remember()
    return path
