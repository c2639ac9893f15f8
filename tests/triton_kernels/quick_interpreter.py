"""Spares Triton's interpreter what it does at every call without any effect."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from torchzk.params.fields import FP


def install() -> None:
    """Patch the language once for all functions, and look for no overflow; twice is once.

    Triton patches it again at every call of a device function. With every sum and product it
    computes whether they overflow, and heeds it only where `debug` is set.
    """
    everything = SimpleNamespace(__globals__={"tl": tl, "core": tl.core})
    interpreter._patch_lang(everything)
    patched = interpreter._LangPatchScope()
    interpreter._patch_lang = lambda function: patched
    builder = interpreter.interpreter_builder
    builder.options = replace(builder.options, sanitize_overflow=False)


def inverse(a: tl.tuple) -> tl.tuple:
    """What `divsteps.inverse` gives for a block, by integers: interpreted, that takes a second."""
    words = np.stack([word.handle.data for word in a], axis=-1).astype("<u4")
    inverses = b"".join(_inverse(x.tobytes()) for x in words.reshape(-1, FP.n_limbs))
    planes = np.frombuffer(inverses, "<u4").reshape(words.shape)
    return tl.tuple(
        [
            tl.tensor(interpreter.TensorHandle(planes[..., i].copy(), tl.uint32), word.type)
            for i, word in enumerate(a)
        ]
    )


def _inverse(raw: bytes) -> bytes:
    value = FP.from_mont(int.from_bytes(raw, "little"))
    inverted = pow(value, -1, FP.modulus) if value else 0
    return FP.to_mont(inverted).to_bytes(FP.n_bytes, "little")
