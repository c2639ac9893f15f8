"""One served circuit: its sessions on all devices, and its key while somebody wants it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from torchzk.errors import ResourceError
from torchzk.scheduler.proof_work import Site, open_sites
from torchzk.scheduler.session import Session
from torchzk.serving.engine import Evicted, KeyReport, Preloaded

_PLACES = {"device": "device", "host": "pinned", "file": "mapped"}
"""Where a key lies, in the words of `KeyReport`."""


@dataclass
class _Loaded:
    """The key of a circuit on every device, and what gives it back."""

    sites: Mapping[str, Site]
    stack: ExitStack
    n_bytes: int
    """Of the points, on all devices together."""
    users: int = 0

    @property
    def _first(self) -> Site:
        return next(iter(self.sites.values()))

    def report(self, circuit: str) -> KeyReport:
        where = _PLACES[self._first.keys.where]
        return KeyReport(circuit_id=circuit, place=where, size_bytes=self.n_bytes, users=self.users)


class CircuitSites:
    """Loads the circuit's key when it is first wanted, once however many want it."""

    def __init__(self, sessions: Sequence[Session], warn: Callable[[str], None]) -> None:
        """Args:
        sessions: Of the circuit, one a device.
        warn: Told when the key is insecure.
        """
        self.sessions, self._warn = sessions, warn
        # loading takes minutes, and who only looks does not wait for it
        self._loading, self._guard = threading.Lock(), threading.Lock()
        self._loaded: _Loaded | None = None

    @property
    def name(self) -> str:
        """The circuit's, such as `window-2KiB`."""
        return self.sessions[0].circuit.name

    def lease(self) -> tuple[Mapping[str, Site], Callable[[], None]]:
        """The circuit's sites, which stay until what comes with them is called, once or more.

        Raises:
            As `open_sites`.
        """
        with self._loading:
            loaded, _ = self._load()
            with self._guard:
                loaded.users += 1
        given_back = threading.Event()

        def give_back() -> None:
            with self._guard:
                if not given_back.is_set():
                    given_back.set()
                    loaded.users -= 1

        return loaded.sites, give_back

    def preload(self) -> Preloaded:
        """Load the key if it is not there; errors as `open_sites`."""
        with self._loading:
            _, seconds = self._load()
        return Preloaded(seconds is None, seconds or 0.0)

    def evict(self) -> Evicted:
        """Give the key back.

        Raises:
            ResourceError: Jobs hold it.
        """
        with self._loading:
            with self._guard:
                loaded = self._loaded
                if loaded is None:
                    return Evicted(False, 0)
                if loaded.users:
                    raise ResourceError(
                        f"{self.name}: {loaded.users} jobs hold the key; wait for them, or cancel"
                    )
                self._loaded = None
            n_bytes = loaded.n_bytes
            loaded.stack.close()
        return Evicted(True, n_bytes)

    def report(self) -> KeyReport | None:
        """The key, if it is there."""
        with self._guard:
            return None if self._loaded is None else self._loaded.report(self.name)

    def sites(self) -> Sequence[Site]:
        """Where the circuit is proved, if its key is there; otherwise nowhere."""
        with self._guard:
            return [] if self._loaded is None else list(self._loaded.sites.values())

    def close(self) -> None:
        """Give the key back, whoever holds it."""
        with self._loading, self._guard:
            loaded, self._loaded = self._loaded, None
        if loaded is not None:
            loaded.stack.close()

    def _load(self) -> tuple[_Loaded, float | None]:
        """The key, and how long it took if it was not there. The loading lock is held."""
        if self._loaded is not None:
            return self._loaded, None
        began = time.monotonic()
        with ExitStack() as stack:
            sites = stack.enter_context(open_sites(self.sessions))
            if sites[0].keys.insecure:
                self._warn(
                    f"{self.name}: INSECURE KEY, made from known secrets, so proofs under it can"
                    " be forged. For development alone"
                )
            # a key on the host is there once for all
            n_bytes = sum(
                site.session.plan.key_bytes for site in sites if site.keys.stays or site is sites[0]
            )
            loaded = _Loaded({site.device: site for site in sites}, stack.pop_all(), n_bytes)
        with self._guard:
            self._loaded = loaded
        return loaded, time.monotonic() - began
