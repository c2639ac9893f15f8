"""What a service may be told: one strict YAML file, as for every command.

Light on purpose: a fault in it is reported before torch is loaded.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from torchzk import strict_yaml
from torchzk.circuits.sectors import SECTOR_SHAPES
from torchzk.config import CircuitConfig, Config, RunsLimit, cache_folder, find_config
from torchzk.errors import ConfigError
from torchzk.strict_yaml import ByteSize, Seconds


@dataclass(frozen=True, kw_only=True)
class ServedCircuit:
    """One circuit that is served."""

    kind: Literal["porep", "winning", "window", "update"]
    """The proof's kind."""

    sector_size: ByteSize
    """Bytes of a sector."""

    keys: Literal["dev", "dev-in-memory", "official"] | Path
    """As in a config of `torchzk.prove`."""

    preload: bool = True
    """Whether its key is loaded before the first request is taken."""

    def __post_init__(self) -> None:
        if self.sector_size not in SECTOR_SHAPES:
            sizes = ", ".join(shape.name for shape in SECTOR_SHAPES.values())
            raise ConfigError(f"sector_size: no sector has {self.sector_size} bytes, but {sizes}")

    @property
    def name(self) -> str:
        """The circuit's, such as `window-2KiB`."""
        return f"{self.kind}-{SECTOR_SHAPES[self.sector_size].name}"


@dataclass(frozen=True, kw_only=True)
class TlsConfig:
    """What the service shows who it is with."""

    certificate: Path
    """PEM: the certificate, and those between it and a root."""

    private_key: Path
    """PEM."""

    client_ca: Path | None = None
    """PEM: clients must show a certificate of this authority as well."""


@dataclass(frozen=True, kw_only=True)
class LimitConfig:
    """How much is taken, kept and waited for."""

    jobs: int = 1024
    """Jobs accepted and not ended; more are refused."""

    payload_bytes: ByteSize = 64 << 30
    """Bytes of their payloads on disk, all together."""

    message: ByteSize = 256 << 20
    """The largest message, which is what cuzk's Go client sends at most."""

    uploads: int = 4
    """Requests that are received at once; others wait, and their bytes with them."""

    upload_time: Seconds = 300.0
    """How long one may take to arrive."""

    calls: int = 8192
    """Calls at once, those that wait for a proof included."""

    keep_results: Seconds = 86400.0
    """How long the result of a job can be had after its end."""

    drain: Seconds = 600.0
    """How long running jobs may go on after SIGTERM."""

    def __post_init__(self) -> None:
        for name in ("jobs", "uploads", "calls"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}: must be 1 at least")
        if self.message >= 1 << 31:
            raise ConfigError(f"message: gRPC takes less than 2GiB, got {self.message} bytes")


@dataclass(frozen=True, kw_only=True)
class ServeConfig:
    """The whole of `serve.yaml`. Paths in a file are relative to the file's folder."""

    circuits: tuple[ServedCircuit, ...]
    """What is served; requests for others are refused."""

    data: Path
    """Folder of jobs and payloads, this service's alone."""

    listen: str = "127.0.0.1:9820"
    """`ADDRESS:PORT`, `[ADDRESS]:PORT` or `unix:///PATH`. An address that is not this machine's
    own needs `tls` and `token_file`."""

    status_listen: str | None = None
    """Where HTTP is answered: `/metrics`, `/status`, `/healthz`, `/readyz` and a page that shows
    it live. As `listen`, but no socket; nowhere by default."""

    socket_access: Literal["owner", "group", "all"] = "owner"
    """Who may connect to a Unix socket."""

    token_file: Path | None = None
    """Its text, 16 characters at least, must come with every call but health checks, as
    `authorization: Bearer TOKEN`. Nobody but its owner may read it."""

    tls: TlsConfig | None = None

    limits: LimitConfig = field(default_factory=LimitConfig)

    runs: Path | None = None
    """Folder that gets a trace and TensorBoard events of every `runs_every`, for whoever wants to
    see what devices did; nowhere by default."""

    runs_every: Seconds = 600.0
    """What goes into one of them."""

    runs_limit: RunsLimit = field(default_factory=lambda: RunsLimit(count=144, size=1 << 30))
    """How much of them is kept."""

    device: str = "auto"
    """This and what follows as in a config of `torchzk.prove`, for all circuits: `all` and
    `cuda:0,cuda:1` serve on several."""

    backend: Literal["auto", "torch", "triton"] = "auto"
    vram_limit: ByteSize | None = None
    workers: int | None = None
    witness_graph: bool = True
    key_cache: Path = field(default_factory=lambda: cache_folder("key_cache", "keys"))
    parameter_folder: Path = Path("/var/tmp/filecoin-proof-parameters")
    block_cache: Path = field(default_factory=lambda: cache_folder("block_cache", "blocks"))

    def __post_init__(self) -> None:
        if not self.circuits:
            raise ConfigError("circuits: names none, so there is nothing to serve")
        names = [(c.kind, c.sector_size) for c in self.circuits]
        if len(set(names)) < len(names):
            raise ConfigError("circuits: names the same one twice")
        if not any(c.preload for c in self.circuits):
            raise ConfigError(
                "circuits: preload one of them at least; devices are shared out by what it takes"
            )
        if self.runs_limit.count is None and self.runs_limit.size is None:
            raise ConfigError("runs_limit: give count or size, or a service fills the disk")
        if not 1.0 <= self.runs_every <= 86400.0:
            raise ConfigError(f"runs_every: must be 1s to 86400s, got {self.runs_every:g}s")
        # what is wrong with device or workers is found where they belong
        self.run_config(self.circuits[0])
        address = parse_address(self.listen)
        self._check_reach("listen", self.listen)
        if self.status_listen is not None:
            self._check_reach("status_listen", self.status_listen)
            if parse_address(self.status_listen).socket:
                raise ConfigError("status_listen: must be ADDRESS:PORT, HTTP needs no socket")
        if address.socket and self.tls is not None:
            raise ConfigError("tls: is for addresses of a network, listen is a Unix socket")

    def _check_reach(self, name: str, listen: str) -> None:
        """Refuse to be reached by others than this machine without TLS and a token."""
        if not parse_address(listen).local and (self.tls is None or self.token_file is None):
            raise ConfigError(
                f"{name}: {listen} can be reached from other machines; give tls and"
                " token_file, or listen on 127.0.0.1 or a Unix socket"
            )

    def run_config(self, circuit: ServedCircuit) -> Config:
        """What a session for one circuit is opened with."""
        return Config(
            circuit=CircuitConfig(kind=circuit.kind, sector_size=circuit.sector_size),
            keys=circuit.keys,
            key_cache=self.key_cache,
            parameter_folder=self.parameter_folder,
            block_cache=self.block_cache,
            device=self.device,
            backend=self.backend,
            vram_limit=self.vram_limit,
            workers=self.workers,
            witness_graph=self.witness_graph,
        )


@dataclass(frozen=True)
class Address:
    """Where a service listens, or a client calls."""

    target: str
    """As gRPC writes it."""
    socket: Path | None
    """The file of a Unix socket."""
    local: bool
    """Nobody on another machine can reach it."""


def parse_address(text: str) -> Address:
    """An address to listen on; raises `ConfigError`.

    Names are refused, for who knows what they will stand for; `localhost` is 127.0.0.1.
    """
    if text.startswith("unix:"):
        path = Path(text.removeprefix("unix://").removeprefix("unix:"))
        if not path.is_absolute() or len(str(path).encode()) > 100:
            raise ConfigError(
                f"listen: {text[:200]} must be unix:// and an absolute path of 100 bytes at most"
            )
        return Address(f"unix:{path}", path, True)
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+|localhost)):([0-9]{1,5})", text)
    try:
        if match is None or int(match[3]) > 65535:
            raise ValueError
        host = ipaddress.ip_address(
            match[1] or ("127.0.0.1" if match[2] == "localhost" else match[2])
        )
    except ValueError:
        raise ConfigError(
            f"listen: {text[:80]!r} must be ADDRESS:PORT with a numeric address, [ADDRESS]:PORT or"
            " unix:///PATH"
        ) from None
    spelt = f"[{host}]" if host.version == 6 else str(host)
    return Address(f"{spelt}:{match[3]}", None, host.is_loopback)


def load_serve_config(path_or_name: str | Path) -> ServeConfig:
    """Read a config strictly, looked up as `config.load_config` does; raises `ConfigError`."""
    return strict_yaml.read(ServeConfig, find_config(path_or_name))
