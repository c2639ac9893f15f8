"""What NVIDIA's driver says of itself and of its GPUs: by NVML, its own library, where that is.

No package is needed, and no CUDA context made. Source: NVIDIA, NVML API reference (nvml.h).
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from torchzk.errors import one_line

_LIBRARY = "libnvidia-ml.so.1"
_MODULE = Path("/proc/driver/nvidia/version")
_MAPS = Path("/proc/self/maps")
_NO_FAULT, _MISMATCH = 0, 18
_LIFETIME, _CORRECTED, _UNCORRECTED = 1, 0, 1
"""Which counter of errors, and of which kind."""


@dataclass(frozen=True)
class Driver:
    """The driver as far as it is there."""

    module: str | None = None
    """Version of the module that the kernel has loaded."""
    libraries: str | None = None
    """Version of NVML and of all that came with it."""
    cuda: str | None = None
    """The last CUDA that the driver knows; None where it does not start."""
    fault: str | None = None
    """Why NVML does not start, and what to do; None where it does, or is not installed."""

    def __str__(self) -> str:
        if self.module is None and self.libraries is None:
            return "none"
        cuda = f", CUDA up to {self.cuda}" if self.cuda else ""
        return f"kernel module {self.module or 'unknown'}{cuda}"


@dataclass(frozen=True)
class MemoryErrors:
    """What a GPU counted of its memory in its lifetime; None where it does not count."""

    corrected: int | None
    uncorrected: int | None
    remapped: int | None
    """Rows of memory that errors had replaced by others."""
    remapping_failed: bool = False
    """There was no row left to replace one by."""

    def __str__(self) -> str:
        if self.corrected is None or self.uncorrected is None:
            return "not counted: no ECC, or it is off"
        rows = "" if self.remapped is None else f", rows replaced: {self.remapped:,}"
        return f"corrected {self.corrected:,}, uncorrected {self.uncorrected:,}{rows}"


def driver() -> Driver:
    """The NVIDIA driver of this machine; all None where there is none."""
    module = _module()
    with _nvml() as (nvml, code):
        if nvml is None:
            return Driver(module)
        library, version = _library(), ctypes.c_int()
        if code == _MISMATCH:
            fault = (
                f"the driver's libraries ({library}) are not of the version of its kernel module "
                f"({module or 'unknown'}), as after an upgrade of a running system; restart the "
                "machine"
            )
            return Driver(module, library, None, fault)
        if code != _NO_FAULT:
            return Driver(module, library, None, f"the driver does not start: {_says(nvml, code)}")
        known = nvml.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(version)) == _NO_FAULT
        cuda = f"{version.value // 1000}.{version.value % 1000 // 10}" if known else None
        return Driver(module, library, cuda)


def memory_errors(uuid: str) -> MemoryErrors | None:
    """What the GPU of a UUID (`GPU-...`) counted; None where the driver does not say.

    Errors that were corrected harm no result. Those that were not end what computes there.
    """
    with _nvml() as (nvml, code):
        gpu = ctypes.c_void_p()
        if nvml is None or code != _NO_FAULT:
            return None
        if nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(gpu)) != _NO_FAULT:
            return None
        corrected, uncorrected = (_count(nvml, gpu, kind) for kind in (_CORRECTED, _UNCORRECTED))
        rows = [ctypes.c_uint() for _ in range(4)]
        if nvml.nvmlDeviceGetRemappedRows(gpu, *map(ctypes.byref, rows)) != _NO_FAULT:
            return MemoryErrors(corrected, uncorrected, None)
        after_corrected, after_uncorrected, _, failed = (row.value for row in rows)
        replaced = after_corrected + after_uncorrected
        return MemoryErrors(corrected, uncorrected, replaced, bool(failed))


@contextmanager
def _nvml() -> Iterator[tuple[ctypes.CDLL | None, int]]:
    """The library and what its start said; None where it is not installed."""
    try:
        nvml = ctypes.CDLL(_LIBRARY)
    except OSError:
        yield None, _NO_FAULT
        return
    code = int(nvml.nvmlInit_v2())
    try:
        yield nvml, code
    finally:
        if code == _NO_FAULT:
            nvml.nvmlShutdown()


def _count(nvml: ctypes.CDLL, gpu: ctypes.c_void_p, kind: int) -> int | None:
    count = ctypes.c_ulonglong()
    code = nvml.nvmlDeviceGetTotalEccErrors(gpu, kind, _LIFETIME, ctypes.byref(count))
    return count.value if code == _NO_FAULT else None


def _says(nvml: ctypes.CDLL, code: int) -> str:
    nvml.nvmlErrorString.restype = ctypes.c_char_p
    return one_line((nvml.nvmlErrorString(code) or b"").decode(errors="replace"))


def _module() -> str | None:
    with suppress(OSError):
        found = re.search(r"Module.*?\s(\d+\.[\d.]+)\s", _MODULE.read_text())
        return found[1] if found else None
    return None


def _library() -> str | None:
    """The version stands in the name of the file that the loader found."""
    with suppress(OSError):
        found = re.search(r"/libnvidia-ml\.so\.(\d+\.[\d.]+)$", _MAPS.read_text(), re.MULTILINE)
        return found[1] if found else None
    return None
