"""What the kernels of transforms are told: the field's code, and the texts of the butterflies."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property

import torch
import triton.language as tl

from torchzk.params.fields import FR, split
from torchzk.triton_kernels import ptx, ptx_shoup
from torchzk.triton_kernels.code import FieldCode
from torchzk.triton_kernels.ptx import Block, Words
from torchzk.triton_kernels.variants import field_code_on


@dataclass(frozen=True, repr=False)
class NttCode:
    """Kernels take it as a `tl.constexpr` named `T`; Triton keys them by its `repr`."""

    F: FieldCode

    def __repr__(self) -> str:
        return self._name

    @cached_property
    def _name(self) -> str:
        texts = [self.mul, self.minus, self.near, self.canonical, self.low_product]
        texts += [self.forth, self.back, self.forth_trivial, self.back_trivial]
        texts += [self.entry, self.short_entry, self.load4, self.load8, self.store4, self.store8]
        texts += [self.entry_constraints, self.pair_constraints, self.butterfly_constraints]
        return f"ntt_{self.F}_{hashlib.sha256(''.join(texts).encode()).hexdigest()[:12]}"

    @property
    def variant(self) -> str:
        return self.F.variant

    @property
    def max_radix_log(self) -> int:
        """Radix 8 fits registers; plain code compiles too slowly for more than one product."""
        return 3 if self.variant == "ptx" else 1

    pair = (tl.uint32,) * 16
    element = (tl.uint32,) * 8
    quad = (tl.uint32,) * 4
    one = (tl.uint32,)
    quad_bytes = 16
    short_quad = 128
    """Bytes from a quarter of an entry to the next: between them are those of eight entries."""
    entry_constraints = ",".join(["=r"] * 16 + ["l"])
    load4_constraints = ",".join(["=r"] * 4 + ["l"])
    load8_constraints = ",".join(["=r"] * 8 + ["l"])
    store8_constraints = ",".join(["=r", "l"] + ["r"] * 9)
    store4_constraints = "=r,l,r,r,r,r,r"
    pair_constraints = ",".join(["=&r"] * 16 + ["r"] * 16)
    butterfly_constraints = ",".join(["=&r"] * 16 + ["r"] * 32)

    @cached_property
    def entry(self) -> str:
        """Loads the two elements of a table's entry."""
        return _entry(self.quad_bytes)

    @cached_property
    def short_entry(self) -> str:
        """The same of a table for short distances."""
        return _entry(self.short_quad)

    @cached_property
    def load4(self) -> str:
        """Loads four words."""
        return "ld.global.v4.u32 {$0, $1, $2, $3}, [$4];"

    @cached_property
    def store4(self) -> str:
        """Stores four words where the last operand is not zero."""
        return (
            "{\n.reg .pred p;\nsetp.ne.u32 p, $6, 0;\n"
            "@p st.global.v4.u32 [$1], {$2, $3, $4, $5};\nmov.u32 $0, 0;\n}"
        )

    @cached_property
    def load8(self) -> str:
        """Loads a row of eight words."""
        return (
            "ld.global.v4.u32 {$0, $1, $2, $3}, [$8];\nld.global.v4.u32 {$4, $5, $6, $7}, [$8+16];"
        )

    @cached_property
    def store8(self) -> str:
        """Stores a row of eight words where the last operand is not zero."""
        return (
            "{\n.reg .pred p;\nsetp.ne.u32 p, $10, 0;\n"
            "@p st.global.v4.u32 [$1], {$2, $3, $4, $5};\n"
            "@p st.global.v4.u32 [$1+16], {$6, $7, $8, $9};\nmov.u32 $0, 0;\n}"
        )

    @cached_property
    def mul(self) -> str:
        return self._write(lambda b, o, v, w, q: ptx_shoup.mul(b, o, v, w, q, self.F.field), 3)

    @cached_property
    def minus(self) -> str:
        return self._write(lambda b, o, x, y: ptx_shoup.minus(b, o, x, y, self.F.field), 2)

    @cached_property
    def canonical(self) -> str:
        return self._write(lambda b, o, x: ptx_shoup.canonical(b, o, x, self.F.field), 1)

    @cached_property
    def near(self) -> str:
        def body(block: Block, out: Words, a: Words) -> None:
            for word, value in zip(out, ptx_shoup.near(block, a, self.F.field), strict=True):
                block("mov.u32", word, value)

        return self._write(body, 1)

    @cached_property
    def forth(self) -> str:
        return self._butterfly(ptx_shoup.forth, False)

    @cached_property
    def back(self) -> str:
        return self._butterfly(ptx_shoup.back, False)

    @cached_property
    def forth_trivial(self) -> str:
        return self._butterfly(ptx_shoup.forth, True)

    @cached_property
    def back_trivial(self) -> str:
        return self._butterfly(ptx_shoup.back, True)

    @cached_property
    def unary(self) -> str:
        return ptx.constraints(8, 1)

    @cached_property
    def binary(self) -> str:
        return ptx.constraints(8, 2)

    @cached_property
    def ternary(self) -> str:
        return ptx.constraints(8, 3)

    @cached_property
    def minus_p_inverse(self) -> tl.constexpr:
        """The words of -1 / p mod R."""
        return tl.constexpr(split(-pow(self.F.field.modulus, -1, 1 << 256) % (1 << 256), 8))

    @cached_property
    def integer_one(self) -> tl.constexpr:
        """The words of the integer 1."""
        return tl.constexpr(split(1, 8))

    @cached_property
    def low_product(self) -> str:
        """a b mod R."""
        return self._write(ptx_shoup.low_product, 2)

    def _write(self, body: Callable[..., None], n: int) -> str:
        return "" if self.variant == "plain" else ptx.write(body, 8, n)

    def _butterfly(self, body: Callable[..., None], trivial: bool) -> str:
        if self.variant == "plain":
            return ""
        block = Block()
        n_operands = 32 if trivial else 48
        body(block, [f"${i}" for i in range(n_operands)], self.F.field, trivial)
        return block.text()


def _entry(apart: int) -> str:
    """Loads four words from each of four places."""
    words = [", ".join(f"${4 * i + k}" for k in range(4)) for i in range(4)]
    parts = [f"ld.global.nc.v4.u32 {{{w}}}, [$16+{apart * i}];" for i, w in enumerate(words)]
    return "\n".join(parts)


@cache
def ntt_code(code: FieldCode) -> NttCode:
    """The one object for a field's code."""
    if code.field != FR or not ptx_shoup.has_cheap_words(code.field):
        raise ValueError(f"transforms are over {FR.name}, not {code.field.name}")
    return NttCode(code)


def ntt_code_on(device: torch.device) -> NttCode:
    """The code for transforms on a device, in the variant that was chosen there."""
    return ntt_code(field_code_on(device, FR))
