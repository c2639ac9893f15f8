"""What a compiler made of inline PTX: whether a block writes a register it still has to read."""

from __future__ import annotations

import re

_BLOCK = re.compile(r"// begin inline asm\n(.*?)// end inline asm", re.DOTALL)
_INSTRUCTION = re.compile(r"(?:@!?%\w+ )?[a-z][a-z0-9._]*\s+(%?\w+), *(.*);")


def overwritten(ptx: str) -> set[str]:
    """Registers that a block takes as arguments and also writes; of loads and stores none do."""
    return set().union(*map(_overwritten, _BLOCK.findall(ptx)))


def _overwritten(block: str) -> set[str]:
    written: set[str] = set()
    arguments: set[str] = set()
    for line in block.splitlines():
        found = _INSTRUCTION.fullmatch(line.strip())
        if found:
            arguments |= set(re.findall(r"%r\d+", found[2])) - written
            written.add(found[1])
    return arguments & written
