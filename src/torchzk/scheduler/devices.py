"""From a device's name in a config to the device, with no silent fallback."""

from __future__ import annotations

import torch

from torchzk.config import check_device_name
from torchzk.errors import ResourceError


def find_device(name: str) -> torch.device:
    """The device that `name` stands for, or the first of several; errors as `find_devices`."""
    return find_devices(name)[0]


def find_devices(name: str) -> list[torch.device]:
    """The devices that `name` stands for, each once.

    Args:
        name: `cpu`, `cuda`, `cuda:N`, several of the last two with commas, `all`: every CUDA
            device, or `auto`: the first CUDA device, or else the CPU. Whoever passes `auto` shows
            what came back.

    Raises:
        ConfigError: `name` is none of these.
        ResourceError: A CUDA device was asked for and is not there.
    """
    check_device_name(name)
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        return [torch.device("cuda:0" if count else "cpu")]
    if name == "cpu":
        return [torch.device("cpu")]
    if name == "all":
        return [_cuda(name, index, count) for index in range(max(count, 1))]
    found = [_cuda(one, int(one.partition(":")[2] or 0), count) for one in name.split(",")]
    return list(dict.fromkeys(found))


def _cuda(name: str, index: int, count: int) -> torch.device:
    if index >= count:
        built = "" if torch.version.cuda else "; this torch is built without CUDA"
        raise ResourceError(
            f"device {name}: not there, {count} CUDA devices found{built}. "
            "Use --device cpu, or auto to take what there is"
        )
    return torch.device("cuda", index)
