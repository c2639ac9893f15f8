"""What the driver says, from a library that answers as NVIDIA's does."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from torchzk.errors import ResourceError
from torchzk.scheduler import devices, nvml
from torchzk.scheduler.nvml import Driver, MemoryErrors

UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"
MODULES = {
    "550.54.15": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 2024\n",
    "580.1": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.1  Release Build\n"
    "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n",
}


class Library:
    """Writes where it is told to, and returns a code, as a C function does."""

    def __init__(self, start: int = 0, ecc: int = 0, rows: int = 0) -> None:
        self.start, self.ecc, self.rows = start, ecc, rows
        self.open = 0
        self.nvmlErrorString: Callable[[int], bytes] = lambda code: b"fault\x1b %d" % code

    def nvmlInit_v2(self) -> int:  # noqa: N802 - the library's own names
        self.open += not self.start
        return self.start

    def nvmlShutdown(self) -> int:  # noqa: N802
        self.open -= 1
        return 0

    def nvmlSystemGetCudaDriverVersion_v2(self, out: Any) -> int:  # noqa: N802
        out._obj.value = 12040
        return 0

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes, out: Any) -> int:  # noqa: N802
        out._obj.value = 1 << 40
        return 0 if uuid == UUID.encode() else 6

    def nvmlDeviceGetTotalEccErrors(  # noqa: N802
        self, gpu: ctypes.c_void_p, kind: int, counter: int, out: Any
    ) -> int:
        assert (gpu.value, counter) == (1 << 40, 1)
        out._obj.value = (5 << 32) + kind
        return self.ecc

    def nvmlDeviceGetRemappedRows(self, gpu: ctypes.c_void_p, *out: Any) -> int:  # noqa: N802
        for value, each in zip((3, 1, 0, 1), out, strict=True):
            each._obj.value = value
        return self.rows


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str | None], None]:
    """Put a library and a kernel module's version in the place of this machine's."""

    def put(library: Library | None, module: str | None) -> None:
        def load(name: str) -> Library:
            assert name == "libnvidia-ml.so.1"
            if library is None:
                raise OSError(f"{name}: cannot open shared object file")
            return library

        monkeypatch.setattr(ctypes, "CDLL", load)
        maps = tmp_path / "maps"
        maps.write_text("7f00-7f01 r-xp 0 08:01 9  /usr/lib/libnvidia-ml.so.555.42.02\n")
        monkeypatch.setattr(nvml, "_MAPS", maps)
        version = tmp_path / "version"
        if module is not None:
            version.write_text(MODULES[module])
        monkeypatch.setattr(nvml, "_MODULE", version)

    return put


@pytest.mark.parametrize("module", [*MODULES, None])
def test_the_driver_by_its_versions(install: Any, module: str | None) -> None:
    library = Library()
    install(library, module)
    found = nvml.driver()
    assert found == Driver(module, "555.42.02", "12.4")
    assert str(found) == f"kernel module {module or 'unknown'}, CUDA up to 12.4"
    assert library.open == 0


def test_no_driver_is_none(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    install(None, None)
    assert str(nvml.driver()) == "none"
    assert nvml.memory_errors(UUID) is None
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert devices.why_none() is None


def test_a_module_without_its_libraries(install: Any) -> None:
    install(None, "580.1")
    assert nvml.driver() == Driver("580.1")


def test_an_upgraded_driver_says_to_restart(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    install(Library(start=18), "550.54.15")
    fault = nvml.driver().fault
    assert fault is not None and "(555.42.02)" in fault and "(550.54.15)" in fault
    assert "restart the machine" in fault
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    # whoever named a GPU, and whoever takes what there is
    with pytest.raises(ResourceError, match="0 CUDA devices found: the driver's libraries"):
        devices.find_device("cuda")
    assert devices.why_none() == fault


def test_other_faults_are_in_the_drivers_words(install: Any) -> None:
    install(Library(start=9), None)
    assert nvml.driver().fault == "the driver does not start: fault\\x1b 9"
    assert nvml.memory_errors(UUID) is None


def test_memory_errors(install: Any) -> None:
    library = Library()
    install(library, None)
    found = nvml.memory_errors(UUID)
    assert found == MemoryErrors(5 << 32, (5 << 32) + 1, 4, True)
    assert nvml.memory_errors("GPU-0") is None
    assert library.open == 0
    install(Library(rows=3), None)
    assert str(nvml.memory_errors(UUID)) == ("corrected 21,474,836,480, uncorrected 21,474,836,481")


def test_a_gpu_without_ecc(install: Any) -> None:
    install(Library(ecc=3, rows=3), None)
    assert str(nvml.memory_errors(UUID)) == "not counted: no ECC, or it is off"
