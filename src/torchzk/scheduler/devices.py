"""From a device's name in a config to the device, with no silent fallback."""

from __future__ import annotations

import torch

from torchzk.config import check_device_name
from torchzk.errors import ResourceError


def find_device(name: str) -> torch.device:
    """The device that `name` stands for.

    Args:
        name: `cpu`, `cuda`, `cuda:N`, or `auto`: the first CUDA device, or else the CPU. Whoever
            passes `auto` shows what came back.

    Raises:
        ConfigError: `name` is none of these.
        ResourceError: A CUDA device was asked for by name and is not there.
    """
    check_device_name(name)
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        return torch.device("cuda:0" if count else "cpu")
    if name == "cpu":
        return torch.device("cpu")
    index = int(name.partition(":")[2] or 0)
    if index >= count:
        built = "" if torch.version.cuda else "; this torch is built without CUDA"
        raise ResourceError(
            f"device {name}: not there, {count} CUDA devices found{built}. "
            "Use --device cpu, or auto to take what there is"
        )
    return torch.device("cuda", index)
