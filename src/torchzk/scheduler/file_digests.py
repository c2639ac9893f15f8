"""Digests of large files, computed once and remembered as long as the file stays as it is."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from torchzk.errors import KeyFileError
from torchzk.files import atomic_write, make_folder
from torchzk.groth16.vk_file import FileState, open_key, state_of
from torchzk.timeline import Timeline

_READ_BYTES = 1 << 24


@dataclass(frozen=True)
class FileDigest:
    """The digest of a file in the state that it was found in."""

    blake2b: str
    """Unkeyed BLAKE2b-512, in 128 hex digits."""
    state: FileState
    _note: Path
    _facts: dict[str, str | int] | None
    """What the note shall say; None where it says so already."""

    def remember(self) -> None:
        """Keep it for the next time; raises `ConfigError` where the folder cannot be written."""
        if self._facts is not None:
            make_folder(self._note.parent)
            with atomic_write(self._note) as out:
                out.write(json.dumps(self._facts).encode() + b"\n")


def digest_of(path: Path, folder: Path, timeline: Timeline) -> FileDigest:
    """The digest of a key file, computed unless it is remembered.

    A file is known again by its path, inode, size, and the time of its last change; who has the
    right to set that time back can deceive this, as who may write to `folder` can.

    Args:
        path: The file.
        folder: In which digests are remembered.
        timeline: Gets a span with the fraction done, if the digest is not known yet.

    Raises:
        KeyFileError: There is no such file, or it changed while it was read.
    """
    with open_key(path) as file:
        state = state_of(file)
        note = folder / f"{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]}.json"
        known = _recall(note, state)
        if known is not None:
            return FileDigest(known, state, note, None)
        digest, done = hashlib.blake2b(), 0
        buffer = memoryview(bytearray(_READ_BYTES))
        with timeline.span("key digest"):
            while n := file.readinto(buffer):  # type: ignore[attr-defined]
                digest.update(buffer[:n])
                done += n
                timeline.advance(min(1.0, done / max(1, state.size)))
        if state_of(file) != state or done != state.size:
            raise KeyFileError(f"{path}: the file changed while it was in use")
    found = digest.hexdigest()
    facts = {"path": str(path.resolve()), **state._asdict(), "blake2b": found}
    return FileDigest(found, state, note, facts)


def _recall(note: Path, state: FileState) -> str | None:
    """The digest of a note, if it is whole and of a file in this state."""
    try:
        facts = json.loads(note.read_bytes())
        digest = facts["blake2b"]
        noted = FileState(*(facts[key] for key in FileState._fields))
        if noted == state and len(bytes.fromhex(digest)) == 64:
            return str(digest)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        # there is none, or it is damaged: it is made again
        pass
    return None
