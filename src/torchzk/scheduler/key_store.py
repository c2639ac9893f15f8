"""Keys for a run: of files, the network's own, or dev keys, cached or made in memory.

A key file is checked in full when it is first seen: sizes, every point canonical, on its curve
and in its subgroup. That it passed is remembered by its digest. Of an official file the digest is
the check.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from torchzk.errors import KeyFileError
from torchzk.groth16.host_key import HostKey, held_on_host, to_host
from torchzk.groth16.keys import ProvingKey, VerifyingKey, check_lengths, held
from torchzk.groth16.meta_file import is_marked_insecure
from torchzk.groth16.params_file import ParamsFile, check_pair
from torchzk.groth16.setup import make_key, make_verifying_key, new_key
from torchzk.groth16.toxic_waste import DEV, check_safe, is_dev
from torchzk.groth16.vk_file import key_sha256, load_vk
from torchzk.scheduler.dev_keys import check_making
from torchzk.scheduler.key_files import check_once, digest_in, named_vk, params_path
from torchzk.scheduler.key_place import Where, where_made, where_of_file
from torchzk.scheduler.plan import Place
from torchzk.scheduler.replan import memory_counted
from torchzk.scheduler.session import Session


@dataclass(frozen=True)
class Keys:
    """A proving key that fits the session's circuit, and what to say about it.

    Close it, or use it in a `with`: what it lies in is given back then.
    """

    proving: ProvingKey
    verifying: VerifyingKey
    sha256: str
    """Of the bytes of the verifying key."""
    insecure: bool
    """Whether anybody can forge proofs under this key: its toxic waste is public."""
    where: Where
    """Where the points lie that `proving` gives."""
    path: Path | None
    """The key's file, if there is one."""
    _held: ExitStack

    @property
    def source(self) -> str:
        """Where the key is from: its file, or that it was made."""
        return "dev key, made in memory" if self.path is None else str(self.path)

    @property
    def stays(self) -> bool:
        """Whether the points lie on the session's device."""
        return self.where == "device"

    def moved_to_host(self, points: HostKey) -> Keys:
        """The same key, its points read from there; this one may be closed."""
        return replace(self, proving=points, where="host", _held=ExitStack())

    def close(self) -> None:
        """Give key and file back; proving with them fails afterwards, or slows others down."""
        self._held.close()

    def __enter__(self) -> Keys:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def get_keys(session: Session, *, place: Place | None = None) -> Keys:
    """The keys that the session's config names, checked; dev keys are made when not cached.

    Args:
        session: Whose config, circuit and device.
        place: Where the points shall lie, by default where the session's plan has them. On the
            host they are in pinned memory, or in their file alone where it does not fit.

    Raises:
        KeyFileError: The file is damaged, unsafe, holds no proving key, or is another circuit's.
        ResourceError: There is not the memory, or other circuits' keys take it.
    """
    # for what cannot be proven here no key is made
    _ = session.plan
    with memory_counted(session, "getting a key"), ExitStack() as stack:
        place = stack.enter_context(session.residents.hold(session, place))
        if session.config.keys == "dev-in-memory":
            return _made(session, stack, place)
        return _of_file(session, stack, place)


def get_verifying_key(session: Session) -> VerifyingKey:
    """The verifying key of the session's config: of a `.vk` or `.params` file, or the dev key.

    Raises:
        KeyFileError: The file is damaged, unsafe, or of a circuit with other inputs.
    """
    named = named_vk(session)
    if named is None or (session.config.keys == "dev" and not named.is_file()):
        return make_verifying_key(
            session.backend, session.r1cs, DEV, session.device, session.timeline
        )
    if named.suffix == ".params":
        with ParamsFile.open(named, session.backend) as params:
            vk = params.vk
    else:
        vk = load_vk(named)
    check_pair(named)
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
    if is_dev(vk):
        return True
    named = named_vk(session)
    return named is not None and is_marked_insecure(named, session.circuit.sector_size)


def _made(session: Session, stack: ExitStack, place: Place | None) -> Keys:
    """The dev key, made on the device, and never written."""
    device = session.device
    where = where_made(session, place, session.sizes.lengths.n_bytes)
    check_making(session, stays=where == "device")
    given = (session.backend, session.r1cs, DEV, device, session.timeline)
    key: ProvingKey
    with session.timeline.span("make key"):
        key = make_key(*given) if where == "device" else to_host(new_key(*given), device)
    return Keys(key, key.vk, key_sha256(key.vk), True, where, None, stack.pop_all())


def _of_file(session: Session, stack: ExitStack, place: Place | None) -> Keys:
    circuit, device = session.circuit, session.device
    path = params_path(session)
    file = stack.enter_context(ParamsFile.open(path, session.backend))
    vk = file.vk
    check_lengths(file, session.sizes.lengths, circuit.n_inputs, circuit.name, str(path))
    check_pair(path)
    check_safe(vk)
    digest = digest_in(session, path)
    if digest.state != file.state:
        # another file is there by now, and what is known of that one says nothing of this
        raise file.changed()
    where = where_of_file(session, place, file.lengths.n_bytes)
    key: ProvingKey = file
    if where != "file":
        load = held_on_host if where == "host" else held
        with session.timeline.span("load key"):
            key = load(file, device, session.timeline.advance)
    check_once(session, key, path, digest)
    insecure = is_marked_insecure(path, circuit.sector_size) or is_dev(vk)
    return Keys(key, vk, key_sha256(vk), insecure, where, path, stack.pop_all())
