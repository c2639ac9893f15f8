"""What a run may be told. One YAML file in, one frozen dataclass out.

Facts of a circuit (sizes, partitions) are those of `circuits`, not of a file.
Light on purpose: a fault in a config is reported before torch is loaded.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from torchzk import strict_yaml
from torchzk.errors import ConfigError
from torchzk.strict_yaml import ByteSize

_PACKAGE = Path(__file__).resolve().parent
_MOST_WORKERS = 64


def cache_folder(key: str, name: str) -> Path:
    """The default of a config's `key`: a folder of that name in the user's home.

    Raises:
        ConfigError: The user has none, as in a container that runs as nobody in particular.
    """
    try:
        return Path("~/.cache/torchzk", name).expanduser()
    except RuntimeError:
        raise ConfigError(f"{key}: there is no home folder; name one, or set HOME") from None


@dataclass(frozen=True, kw_only=True)
class CircuitConfig:
    """Which statement is proven."""

    kind: Literal["porep", "winning", "window", "update"]
    """The proof's kind."""

    sector_size: ByteSize
    """Bytes of a sector, one of the sizes of the network and its test nets."""


@dataclass(frozen=True, kw_only=True)
class RunsLimit:
    """How much of `runs` is kept: the oldest go first, each with all that its folder has. The
    newest stays, and so does what is still written to."""

    count: int | None = None
    """Runs; by default all."""

    size: ByteSize | None = None
    """Bytes of their files, all together; by default any."""

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 1:
            raise ConfigError("count: must be 1 at least, the newest run stays")


@dataclass(frozen=True, kw_only=True)
class Config:
    """The whole of `configs/*.yaml`. Paths in a file are relative to the file's folder."""

    circuit: CircuitConfig

    keys: Literal["dev", "dev-in-memory", "official"] | Path
    """`dev` makes an insecure key from public randomness and keeps it in `key_cache`;
    `dev-in-memory` makes the same key for this run and writes nothing; `official` takes the
    network's key from `parameter_folder`; or a `.params` or `.vk` file."""

    input: Path | None = None
    """The job file; `--input` overrides it."""

    synthetic: str | None = None
    """Instead of a job file the name of a sector that nobody sealed, in ASCII: its job is made in
    `input_cache` unless it is there. It stores nothing; `--input` overrides it as well."""

    input_cache: Path | None = None
    """Folder in which jobs of synthetic sectors are kept; by default `~/.cache/torchzk/inputs`."""

    key_cache: Path = field(default_factory=lambda: cache_folder("key_cache", "keys"))
    """Folder in which `dev` keys are kept between runs."""

    parameter_folder: Path = Path("/var/tmp/filecoin-proof-parameters")
    """Folder of the network's own parameter files, as Filecoin's tools fetch them."""

    block_cache: Path = field(default_factory=lambda: cache_folder("block_cache", "blocks"))
    """Folder in which the constraints of circuits are kept, once they are recorded."""

    device: str = "auto"
    """`cpu`, `cuda`, `cuda:N`, a GPU's UUID; `auto` takes the first CUDA device, or else the CPU,
    and says so. `all` proves on every CUDA device, and `cuda:0,cuda:1` on some, each with the key
    on it."""

    backend: Literal["auto", "torch", "triton"] = "auto"
    """Which implementation of the tensor operations: `torch` runs anywhere, `triton` on CUDA;
    `auto` takes `triton` on CUDA if Triton runs there, or else `torch`, and says so."""

    vram_limit: ByteSize | None = None
    """Memory of the GPU that this run may take at most; by default all that is free."""

    workers: int | None = None
    """Threads a device that prove partitions; by default 1 on a CPU and 2 on a GPU, where one
    stages its inputs and finishes its sums while another one's kernels run."""

    policy: Literal["two-locks", "ahead", "kernels", "whole"] = "two-locks"
    """What a worker holds a device for: `whole` partitions, their `kernels` alone, those with the
    next inputs staged `ahead` by all at once, or `two-locks`: by one at a time."""

    witness_graph: bool = True
    """Whether a GPU computes witnesses as a CUDA graph, a circuit's launches as one. Takes as much
    memory as a witness is, between partitions as well; where there is not so much, or other
    circuits' keys are on the GPU, they are launched one by one."""

    runs: Path = Path("runs")
    """Folder that gets one folder a run; by default `runs` in the working folder."""

    runs_limit: RunsLimit = field(default_factory=RunsLimit)
    """How much of it is kept, proofs that were written there included; by default everything."""

    def __post_init__(self) -> None:
        check_device_name(self.device)
        if self.workers is not None and not 1 <= self.workers <= _MOST_WORKERS:
            raise ConfigError(f"workers: must be 1 to {_MOST_WORKERS}, got {self.workers}")
        if self.synthetic is not None:
            _check_synthetic(self.synthetic)
            if self.input is not None:
                raise ConfigError("synthetic: there is an input as well; name one of them")


def _check_synthetic(name: str) -> None:
    # a file is called by it
    if not re.fullmatch(r"[0-9A-Za-z_-]{1,100}", name):
        raise ConfigError(
            f"synthetic: must be 1 to 100 letters, digits, - and _, got {ascii(name[:100])}"
        )


def check_device_name(name: str) -> None:
    """Raise `ConfigError` unless `name` is `auto`, `cpu`, `all`, or CUDA devices with commas."""
    one = r"(cuda(:(0|[1-9][0-9]{0,3}))?|GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})"
    if not re.fullmatch(rf"auto|cpu|all|{one}(,{one})*", name):
        raise ConfigError(
            f"device: must be auto, cpu, cuda, cuda:N or a GPU's UUID (GPU-...), several of the "
            f"last three with commas, or all, got {name[:80]!r}"
        )


def load_config(path_or_name: str | Path) -> Config:
    """Read a config strictly: unknown, missing, mistyped and repeated keys all fail.

    Args:
        path_or_name: Looked up as given, then in `./configs/`, then among the configs that ship
            with the package.

    Raises:
        ConfigError: No such file, or the first fault in it with file, line and dotted key.
    """
    return strict_yaml.read(Config, find_config(path_or_name))


def find_config(path_or_name: str | Path) -> Path:
    """The file that `load_config` reads."""
    given = expanded(path_or_name)
    shipped = shipped_configs()
    folders = [Path("configs"), *{path.parent for path in shipped}]
    candidates = [given] if given.is_absolute() else [given, *(f / given for f in folders)]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    if given.is_dir():
        raise ConfigError(f"{given}: is a folder, and no config")
    names = [path.name for path in shipped]
    # what all names end with makes none of them the likelier
    near = difflib.get_close_matches(given.stem, [path.stem for path in shipped], n=1)
    hint = f"did you mean {near[0]}.yaml?" if near else f"shipped: {', '.join(names) or 'none'}"
    raise ConfigError(f"{given}: no such config, neither as given nor in ./configs; {hint}")


def expanded(path_or_name: str | Path) -> Path:
    """The path, its `~` a home folder; raises `ConfigError` where that is nobody's."""
    try:
        return Path(path_or_name).expanduser()
    except RuntimeError as e:
        raise ConfigError(f"{path_or_name}: {e}") from e


def shipped_configs() -> list[Path]:
    """The configs that come with the package, by name: a wheel's, or those of the checkout."""
    for folder in (_PACKAGE / "configs", _PACKAGE.parents[1] / "configs"):
        if folder.is_dir():
            return sorted(folder.glob("*.yaml"))
    return []
