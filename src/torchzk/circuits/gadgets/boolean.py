"""Booleans: constants, which cost nothing, and allocated bits or their negations.

Source: spec/gadgets.md section 1.
"""

from __future__ import annotations

from typing import NamedTuple

from torchzk.circuits.recorder import ONE, ConstraintSystem, Variable, add_scaled, linear


class Bit(NamedTuple):
    """An allocated bit, or 1 minus it."""

    variable: Variable
    negated: bool = False


Boolean = bool | Bit


def lc(a: Boolean, k: int = 1) -> dict[Variable, int]:
    """The linear form of k * a."""
    if isinstance(a, bool):
        return {ONE: k} if a else {}
    return {ONE: k, a.variable: -k} if a.negated else {a.variable: k}


def alloc_bit(cs: ConstraintSystem) -> Bit:
    """A new variable, constrained to 0 or 1."""
    v = cs.alloc()
    cs.enforce({ONE: 1, v: -1}, {v: 1}, {})
    return Bit(v)


def alloc_bits(cs: ConstraintSystem, n: int) -> list[Boolean]:
    """`n` new bits."""
    return [alloc_bit(cs) for _ in range(n)]


def negate(a: Boolean) -> Boolean:
    """1 - a; costs nothing."""
    if isinstance(a, bool):
        return not a
    return Bit(a.variable, not a.negated)


def xor(cs: ConstraintSystem, a: Boolean, b: Boolean) -> Boolean:
    """a xor b; of an allocated bit and a negation, the bit is the doubled operand."""
    if isinstance(a, bool):
        return negate(b) if a else b
    if isinstance(b, bool):
        return negate(a) if b else a
    x, y = (b, a) if a.negated and not b.negated else (a, b)
    out = cs.alloc()
    total = linear((x.variable, 1), (y.variable, 1), (out, -1))
    cs.enforce({x.variable: 2}, {y.variable: 1}, total)
    return Bit(out, a.negated != b.negated)


def conjunction(cs: ConstraintSystem, a: Boolean, b: Boolean) -> Boolean:
    """a and b; of an allocated bit and a negation, the bit goes into A."""
    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    x, y = (b, a) if a.negated and not b.negated else (a, b)
    out = cs.alloc()
    cs.enforce(lc(x), lc(y), {out: 1})
    return Bit(out)


def difference(a: Boolean, b: Boolean) -> dict[Variable, int]:
    """The linear form of a - b."""
    total = lc(a)
    add_scaled(total, lc(b), -1)
    return total


def choice(cs: ConstraintSystem, a: Boolean, b: Boolean, c: Boolean) -> Boolean:
    """SHA-256's ch: b where a, else c. The order of the cases is that of the spec."""
    if isinstance(a, bool) and isinstance(b, bool) and isinstance(c, bool):
        return b if a else c
    if a is False:
        return c
    if b is False:
        return conjunction(cs, negate(a), c)
    if c is False:
        return conjunction(cs, a, b)
    if c is True:
        return negate(conjunction(cs, a, negate(b)))
    if b is True:
        return negate(conjunction(cs, negate(a), negate(c)))
    out = cs.alloc()
    rest: dict[Variable, int] = {out: 1}
    add_scaled(rest, lc(c), -1)
    cs.enforce(difference(b, c), lc(a), rest)
    return Bit(out)


def majority(cs: ConstraintSystem, a: Boolean, b: Boolean, c: Boolean) -> Boolean:
    """SHA-256's maj: what at least two of a, b, c are. The order of the cases is the spec's."""
    if isinstance(a, bool) and isinstance(b, bool) and isinstance(c, bool):
        return a + b + c >= 2
    for known, x, y in ((a, b, c), (b, a, c), (c, a, b)):
        if known is False:
            return conjunction(cs, x, y)
    for known, x, y in ((c, a, b), (b, a, c), (a, b, c)):
        if known is True:
            return negate(conjunction(cs, negate(x), negate(y)))
    # the result is numbered before the conjunction it needs
    out = cs.alloc()
    both = conjunction(cs, b, c)
    excess = lc(both, 2)
    add_scaled(excess, lc(b), -1)
    add_scaled(excess, lc(c), -1)
    cs.enforce(excess, lc(a), {**lc(both), out: -1})
    return Bit(out)
