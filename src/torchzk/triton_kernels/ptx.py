"""Writes inline PTX: carry chains over 32-bit words, and sums and differences mod p.

A `Block` collects the instructions of one asm block. Its operands are single registers `$0`,
`$1`, ...: first the words of the result, then those of the arguments. Its temporaries live
between its own braces. A chain of `.cc` instructions must not be cut by anything that touches the
carry flag, so a chain never leaves its block, and a block holds an operation as a whole.

Functions write to `out`, a list of registers, and take registers or immediates elsewhere. `out`
is written before every argument has been read, so it must be temporaries or the block's result,
never an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torchzk.params.fields import PrimeField, split

Words = Sequence[str]


@dataclass
class Block:
    """The text of one asm block, instruction by instruction."""

    lines: list[str] = field(default_factory=list)
    n_temporaries: int = 0
    n_predicates: int = 0

    def __call__(self, op: str, *operands: str) -> None:
        """Append one instruction; the destination is the first operand."""
        self.lines.append(f"{op} {', '.join(operands)};")

    def words(self, n: int) -> list[str]:
        """`n` fresh registers."""
        first = self.n_temporaries
        self.n_temporaries += n
        return [f"t{i}" for i in range(first, first + n)]

    def word(self) -> str:
        return self.words(1)[0]

    def predicate(self) -> str:
        self.n_predicates += 1
        return f"p{self.n_predicates - 1}"

    def text(self) -> str:
        head = ["{"]
        if self.n_temporaries:
            head.append(f".reg .u32 t<{self.n_temporaries}>;")
        if self.n_predicates:
            head.append(f".reg .pred p<{self.n_predicates}>;")
        return "\n".join([*head, *self.lines, "}"])


def write(body: Callable[..., None], n_words: int, n_arguments: int) -> str:
    """The text of `body(block, out, *arguments)`, each argument and the result of `n_words`."""
    block = Block()
    operands = [f"${i}" for i in range(n_words * (1 + n_arguments))]
    parts = [operands[i : i + n_words] for i in range(0, len(operands), n_words)]
    body(block, *parts)
    return block.text()


def constraints(n_words: int, n_arguments: int) -> str:
    """LLVM's constraint string for `write`: all operands are 32-bit registers.

    The result is written before every argument has been read, so it must not share registers
    with one (`&`): a chain of products in Fp2 came out wrong without.
    """
    return ",".join(["=&r"] * n_words + ["r"] * (n_words * n_arguments))


def immediates(value: int, n: int) -> list[str]:
    """An integer below 2^(32 n) as `n` literals."""
    return [hex(w) for w in split(value, n)]


def add(block: Block, out: Words, a: Words, b: Words) -> None:
    """out = a + b, which must fit."""
    last = len(out) - 1
    for i in range(last + 1):
        op = "add.cc" if i == 0 else "addc.cc" if i < last else "addc"
        block(f"{op}.u32", out[i], a[i], b[i])


def sub(block: Block, out: Words, a: Words, b: Words) -> str:
    """out = a - b mod 2^(32 n); returns a register: all ones if a < b, else zero."""
    for i in range(len(out)):
        block(f"sub{'c' if i else ''}.cc.u32", out[i], a[i], b[i])
    borrow = block.word()
    block("subc.u32", borrow, "0", "0")
    return borrow


def reduce_once(block: Block, out: Words, a: Words, p: Words) -> None:
    """out = a - p if a >= p, else a: from [0, 2p) to [0, p)."""
    reduced = block.words(len(out))
    borrow, keep = sub(block, reduced, a, p), block.predicate()
    block("setp.ne.u32", keep, borrow, "0")
    for i in range(len(out)):
        block("selp.u32", out[i], a[i], reduced[i], keep)


def add_mod(block: Block, out: Words, a: Words, b: Words, field: PrimeField) -> None:
    """out = a + b mod p, canonical. The spare top bit of p holds the carry."""
    total = block.words(len(out))
    add(block, total, a, b)
    reduce_once(block, out, total, immediates(field.modulus, len(out)))


def sub_mod(block: Block, out: Words, a: Words, b: Words, field: PrimeField) -> None:
    """out = a - b mod p, canonical: p is added back where the difference borrows."""
    n = len(out)
    difference, back = block.words(n), block.words(n)
    borrow = sub(block, difference, a, b)
    for word, p in zip(back, immediates(field.modulus, n), strict=True):
        block("and.b32", word, borrow, p)
    add(block, out, difference, back)


def neg_mod(block: Block, out: Words, a: Words, field: PrimeField) -> None:
    """out = -a mod p, canonical."""
    sub_mod(block, out, immediates(0, len(out)), a, field)


def sub_lazy(block: Block, out: Words, a: Words, b: Words, multiple: int) -> None:
    """out = a - b + multiple, not reduced. `multiple` of p is at least b; the sum must fit."""
    difference = block.words(len(out))
    sub(block, difference, a, b)
    add(block, out, difference, immediates(multiple, len(out)))
