"""From a device's name in a config to the device, with no silent fallback."""

from __future__ import annotations

import warnings

import torch

from torchzk.config import check_device_name
from torchzk.errors import ResourceError, one_line
from torchzk.scheduler import machine, nvml


def find_device(name: str) -> torch.device:
    """The device that `name` stands for, or the first of several; errors as `find_devices`."""
    return find_devices(name)[0]


def find_devices(name: str) -> list[torch.device]:
    """The devices that `name` stands for, each once.

    Args:
        name: `cpu`, `cuda`, `cuda:N`, a GPU's UUID as `nvidia-smi -L` and the doctor show it,
            several of the last three with commas, `all`: every CUDA device, or `auto`: the first
            CUDA device, or else the CPU. Whoever passes `auto` shows what came back.

    Raises:
        ConfigError: `name` is none of these.
        ResourceError: A CUDA device was asked for and is not there.
    """
    check_device_name(name)
    count = _count()
    if name == "auto":
        return [torch.device("cuda:0" if count else "cpu")]
    if name == "cpu":
        return [torch.device("cpu")]
    if name == "all":
        return [_cuda(name, index, count) for index in range(max(count, 1))]
    found = [_cuda(one, _index(one, count), count) for one in name.split(",")]
    return list(dict.fromkeys(found))


def why_none() -> str | None:
    """What keeps torch from a GPU of this machine; None where it has one, or there is no driver.

    Whoever takes the CPU for want of a GPU says so.
    """
    driver = nvml.driver()
    if _count() or driver == nvml.Driver():
        return None
    return driver.fault or _torch_says()


def _count() -> int:
    with warnings.catch_warnings():
        # of a driver that does not work, which is asked for where it matters
        warnings.simplefilter("ignore")
        return torch.cuda.device_count() if torch.cuda.is_available() else 0


def _index(name: str, count: int) -> int:
    """Which CUDA device it is; `count` for a UUID that none has."""
    if not name.startswith("GPU-"):
        return int(name.partition(":")[2] or 0)
    return next((k for k, gpu in enumerate(machine.gpus()) if gpu.uuid == name), count)


def _cuda(name: str, index: int, count: int) -> torch.device:
    if index >= count:
        reason = "" if count else f": {nvml.driver().fault or _torch_says()}"
        raise ResourceError(
            f"device {name}: not there, {count} CUDA devices found{reason}. "
            "Use --device cpu, or auto to take what there is"
        )
    return torch.device("cuda", index)


def _torch_says() -> str:
    if not torch.version.cuda:
        return "this torch is built without CUDA"
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
    except RuntimeError as e:
        return f"torch says: {one_line(str(e).partition('. ')[0])}"
    return "torch sees none; CUDA_VISIBLE_DEVICES may hide them"
