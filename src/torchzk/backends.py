"""The operations a prover needs, and the modules that provide them.

A backend is a module. There is no registry and no fallback: who names a backend gets it or an
error, and who leaves the choice to `auto` is told what it took and why.
"""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, cast

import torch

from torchzk import captures, ops
from torchzk.errors import ConfigError
from torchzk.ops.csr import Copies, Csr
from torchzk.params.curves import Curve, Point
from torchzk.params.domains import Domain
from torchzk.params.fields import PrimeField
from torchzk.params.poseidon import Poseidon

if TYPE_CHECKING:
    from torchzk.triton_kernels.warm import Warmed

BackendName = Literal["torch", "triton"]

_NOT_WRITTEN = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR}


class Backend(Protocol):
    """Same names, same shapes, same bits; a backend differs in speed alone.

    The functions' documentation is that of the reference, `torchzk.ops`.
    """

    def add(self, a: torch.Tensor, b: torch.Tensor, field: PrimeField) -> torch.Tensor: ...
    def sub(self, a: torch.Tensor, b: torch.Tensor, field: PrimeField) -> torch.Tensor: ...
    def neg(self, a: torch.Tensor, field: PrimeField) -> torch.Tensor: ...
    def mont_mul(self, a: torch.Tensor, b: torch.Tensor, field: PrimeField) -> torch.Tensor: ...
    def mont_sqr(self, a: torch.Tensor, field: PrimeField) -> torch.Tensor: ...
    def scale(self, a: torch.Tensor, factor: int, field: PrimeField) -> torch.Tensor: ...
    def to_mont(self, a: torch.Tensor, field: PrimeField) -> torch.Tensor: ...
    def from_mont(self, a: torch.Tensor, field: PrimeField) -> torch.Tensor: ...
    def batch_inverse(self, a: torch.Tensor, field: PrimeField) -> torch.Tensor: ...
    def ntt_dif(self, x: torch.Tensor, domain: Domain) -> torch.Tensor: ...
    def intt_dit(self, x: torch.Tensor, domain: Domain) -> torch.Tensor: ...
    def ntt(self, x: torch.Tensor, domain: Domain) -> torch.Tensor: ...
    def intt(self, x: torch.Tensor, domain: Domain) -> torch.Tensor: ...
    def coset_scale(self, x: torch.Tensor, shift: int) -> torch.Tensor: ...
    def quotient(
        self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, domain: Domain
    ) -> torch.Tensor: ...
    def quotient_in_turn(
        self, vector: Callable[[str], torch.Tensor], domain: Domain, *, log_split: int = ...
    ) -> torch.Tensor: ...
    def add_affine(self, p: torch.Tensor, q: torch.Tensor, curve: Curve) -> torch.Tensor: ...
    def on_curve(self, points: torch.Tensor, curve: Curve) -> torch.Tensor: ...
    def msm(
        self, scalars: torch.Tensor, points: torch.Tensor, curve: Curve, *, limit_bytes: int = ...
    ) -> Point: ...
    def bit_sums(
        self,
        scalars: torch.Tensor,
        points: torch.Tensor,
        curve: Curve,
        n_bits: int,
        *,
        limit_bytes: int = ...,
    ) -> list[Point]: ...
    def batch_add(
        self, points: torch.Tensor, chosen: torch.Tensor | None, curve: Curve
    ) -> Point: ...
    def fixed_base(self, scalars: torch.Tensor, base: Point, curve: Curve) -> torch.Tensor: ...
    def spmv(self, matrix: Csr, z: torch.Tensor) -> torch.Tensor: ...
    def spmv_transposed(self, matrix: Csr, y: torch.Tensor) -> torch.Tensor: ...
    def spmv_copies(
        self,
        matrix: Csr,
        copies: Copies,
        inputs: torch.Tensor,
        aux: torch.Tensor,
        out: torch.Tensor,
    ) -> None: ...
    def classes(self, x: torch.Tensor) -> torch.Tensor: ...
    def from_mont_at(
        self, x: torch.Tensor, index: torch.Tensor | None, out: torch.Tensor
    ) -> None: ...
    def first_unsatisfied(
        self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor
    ) -> torch.Tensor: ...
    def poseidon(self, inputs: torch.Tensor, instance: Poseidon) -> torch.Tensor: ...
    def poseidon_wires(self, inputs: torch.Tensor, instance: Poseidon) -> torch.Tensor: ...
    def sha256(self, messages: torch.Tensor) -> torch.Tensor: ...
    def sha256_steps(self, blocks: torch.Tensor, states: torch.Tensor) -> torch.Tensor: ...


class Needs(Protocol):
    """What a backend's operations take of memory: pure functions of sizes, in bytes.

    Each is the peak beside the arguments, the result included; see `ops.needs`.
    """

    def pieces_bytes(self, *, on_cpu: bool) -> int: ...
    def quotient_bytes(self, domain: Domain) -> int: ...
    def quotient_in_turn_bytes(self, domain: Domain, log_split: int = ...) -> int: ...
    def held_in_turn_bytes(self, domain: Domain, log_split: int = ...) -> int: ...
    def tables_bytes(self, domain: Domain, *, in_turn: bool) -> int: ...
    def msm_bytes(self, n: int, curve: Curve, limit_bytes: int) -> int: ...
    def msm_window_bytes(self, n: int, curve: Curve) -> int: ...
    def msm_limit(self, n: int, curve: Curve, limit_bytes: int) -> int: ...
    def batch_add_bytes(self, n: int, curve: Curve) -> int: ...
    def fixed_base_bytes(self, n: int, curve: Curve) -> int: ...
    def classes_bytes(self, n: int) -> int: ...
    def matrix_bytes(self, rows: int, terms: int, coefficients: int) -> int: ...
    def preparing_bytes(self, rows: int, terms: int, coefficients: int) -> int: ...
    def spmv_bytes(self, rows: int, longest: int) -> int: ...
    def transposed_bytes(self, rows: int, terms: int, columns: int) -> int: ...
    def row_bytes(self, curve: Curve) -> int: ...


@dataclass(frozen=True)
class BackendChoice:
    """The backend of a run."""

    name: BackendName
    why: str = ""
    """What decided, where the choice was left to `auto`."""
    advice: str = ""
    """What would let a faster backend run here, if one could."""

    def __str__(self) -> str:
        return f"{self.name} (auto: {self.why})" if self.why else self.name


@dataclass(frozen=True)
class KernelVariant:
    """Which of its variants the kernels of a backend run in on a device."""

    name: Literal["ptx", "plain"]
    triton: str
    """Triton's version."""
    summary: str
    """Both, the device, and what was found wrong there if anything was."""


def choose_backend(wanted: BackendName | Literal["auto"], device: torch.device) -> BackendChoice:
    """The backend for `device`: the one that is named, or Triton's on CUDA if Triton runs there.

    Raises:
        ConfigError: `triton` is named, and Triton is not installed or does not start.
        ResourceError: `triton` is named for a device that it has no kernels for.
    """
    if wanted == "torch":
        return BackendChoice("torch")
    if wanted == "triton":
        fault = _triton_fault(device)
        if fault is not None:
            raise ConfigError(f"backend triton: {fault}, or choose backend torch")
        if device.type != "cuda":
            # refused, unless Triton interprets
            variant_on("triton", device)
        return BackendChoice("triton")
    if device.type != "cuda":
        return BackendChoice("torch", f"the device is {device}")
    fault = _triton_fault(device)
    if fault is not None:
        return BackendChoice("torch", "Triton does not run", f"backend torch, since {fault}")
    return BackendChoice("triton", f"the device is {device}")


def load_backend(name: BackendName) -> Backend:
    """The module that implements `name`.

    Raises:
        ConfigError: Triton is not installed.
    """
    match name:
        case "torch":
            return cast(Backend, ops)
        case "triton":
            fault = _triton_fault(torch.device("cpu"))
            if fault is not None:
                raise ConfigError(f"backend triton: {fault}, or choose backend torch")
            # late: nobody else needs Triton
            from torchzk import triton_kernels

            return cast(Backend, triton_kernels)


def load_needs(name: BackendName) -> Needs:
    """What the operations of `name` take of memory; errors as `load_backend`."""
    match name:
        case "torch":
            from torchzk.ops import needs as of_reference

            return cast(Needs, of_reference)
        case "triton":
            load_backend(name)
            from torchzk.triton_kernels import needs as of_kernels

            return cast(Needs, of_kernels)


def forget_tables(name: BackendName, device: torch.device) -> None:
    """Give back what a backend keeps on a device for the next call, such as roots of unity.

    It is made again when it is wanted. Waits for the device: its streams may
    still read it. Others' tables, and what is kept on other devices, stay.
    """
    if name == "torch" or device.type != "cuda":
        return
    from torchzk.triton_kernels import twiddles
    from torchzk.triton_kernels.graphs import GRAPHS

    with captures.at_rest():
        # graphs and tables may be in use on any stream, and none of them is known here
        torch.cuda.synchronize(device)
    GRAPHS.drop(device)
    twiddles.roots.forget(device)
    twiddles.short_roots.forget(device)
    captures.empty_cache()


def variant_on(name: BackendName, device: torch.device) -> KernelVariant | None:
    """The variant of a backend's kernels on a device, by known answers there; None for `torch`.

    The first call for a device compiles the kernels of the field operations, which takes seconds.

    Raises:
        ResourceError: The device runs no kernels of this backend, or computes wrongly.
    """
    if name == "torch":
        return None
    from torchzk.triton_kernels import variants

    choice = variants.choose(device)
    return KernelVariant(choice.variant, choice.triton, str(choice))


def compile_ahead(
    name: BackendName, device: torch.device, advance: Callable[[float], None] = lambda _: None
) -> Warmed | None:
    """Compile what Triton's cache lacks of a backend's kernels; None where nothing is compiled.

    Takes as long as all first calls together, over the number of cores, and below a second from
    then on. Everything works without it, and waits at first use.

    Args:
        name: The backend.
        device: Where it runs.
        advance: Gets the fraction done, from 0 to 1.
    """
    if name == "torch" or device.type != "cuda" or torch.version.hip:
        return None
    from torchzk.triton_kernels import warm

    return warm.warm(device, advance)


def _triton_fault(device: torch.device) -> str | None:
    """What keeps Triton from running on `device`, and what to do about it; None if nothing does."""
    try:
        import triton

        if device.type == "cuda":
            # builds a small library at the first use, with a compiler and the headers of Python
            _ = triton.runtime.driver.active
    except ImportError as e:
        return f"Triton cannot be imported ({e}); pip install 'torchzk[triton]'"
    except (RuntimeError, OSError, subprocess.SubprocessError) as e:
        if isinstance(e, OSError) and e.errno in _NOT_WRITTEN:
            return f"Triton cannot write to its cache ({e}); mend that, or set TRITON_CACHE_DIR"
        reason = str(e).rstrip(".")
        return f"Triton does not start ({reason}); install a C compiler and the headers of Python"
    return None
