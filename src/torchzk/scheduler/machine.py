"""What this machine has: cores, memory, disks, devices, versions."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch

_PACKAGES = (
    ("torch", "triton", "numpy", "py-arkworks-bls12381", "tensorboard", "matplotlib")
    + ("pyyaml", "rich", "psutil")
)  # fmt: skip
_CGROUPS = Path("/sys/fs/cgroup")
_TESTED = {"torch": ((2, 11), (2, 13)), "triton": ((3, 6), (3, 7))}
"""The first and the last release of what results depend on that the tests have run with."""


@dataclass(frozen=True)
class Gpu:
    """One CUDA device."""

    name: str
    """As torch calls it, `cuda:0`."""
    model: str
    capability: str
    memory: int
    """Bytes."""
    uuid: str
    """`GPU-...`, as NVIDIA's tools write it."""


@dataclass(frozen=True)
class Memory:
    """Memory of the host in bytes."""

    total: int
    available: int
    cgroup_limit: int | None
    """What the control group allows; None where it sets no limit."""

    @property
    def usable(self) -> int:
        """What a process here may hope for."""
        return min(self.available, self.cgroup_limit or self.available)


def untested(versions: Mapping[str, str]) -> list[str]:
    """What to say of those of `versions` that the tests never ran with."""
    said = []
    for package, (first, last) in _TESTED.items():
        release = re.match(r"(\d+)\.(\d+)", versions[package])
        if release and not first <= tuple(map(int, release.groups())) <= last:
            tested = " to ".join(f"{major}.{minor}" for major, minor in (first, last))
            said.append(
                f"{package} {versions[package]} is untested: torchzk is tested with {tested}"
            )
    return said


def versions() -> dict[str, str]:
    """Python, the system and every package torchzk uses; `not installed` where one is not."""
    found = {"python": platform.python_version(), "system": platform.platform()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    found["CUDA of torch"] = torch.version.cuda or "none, a CPU build"
    return found


def cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0))


def memory() -> Memory:
    """Memory of the host, and the limit of the control group if there is one."""
    host = psutil.virtual_memory()
    return Memory(host.total, host.available, _cgroup_limit())


def gpus() -> list[Gpu]:
    """The CUDA devices that torch sees."""
    found = []
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        properties = torch.cuda.get_device_properties(index)
        capability = f"{properties.major}.{properties.minor}"
        uuid = f"GPU-{str(properties.uuid).removeprefix('GPU-')}"
        found.append(
            Gpu(f"cuda:{index}", properties.name, capability, properties.total_memory, uuid)
        )
    return found


def disk_free(folder: Path) -> int:
    """Bytes free on the disk that `folder` is on, or would be on once it is made."""
    there = folder.expanduser().absolute()
    while not there.exists():
        there = there.parent
    return shutil.disk_usage(there).free


def _cgroup_limit() -> int | None:
    """The tightest limit of the process's control group and those above it (versions 2 and 1)."""
    limits = [_limit(_CGROUPS / "memory" / "memory.limit_in_bytes")]
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("0::/"):
            group = _CGROUPS / line.removeprefix("0::/")
            limits += [_limit(g / "memory.max") for g in (group, *group.parents)]
    # version 1 says "no limit" with a number close to 2^63
    return min((n for n in limits if n is not None and n < 1 << 60), default=None)


def _limit(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None
