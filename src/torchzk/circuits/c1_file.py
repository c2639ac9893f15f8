"""C1 outputs in whatever form they come, told apart by their content."""

from __future__ import annotations

from pathlib import Path

from torchzk.circuits.c1 import C1, check_c1
from torchzk.circuits.c1_bincode import c1_from_bincode
from torchzk.circuits.c1_json import c1_from_json, c1_from_text
from torchzk.circuits.circuit import Source, document_of
from torchzk.circuits.json_input import Node, read_file
from torchzk.circuits.porep_shapes import StackedShape

# the first number of a bincode is small, and no JSON text has a zero byte
_HEAD_BYTES = 8


def read_c1(source: Source, shape: StackedShape) -> C1:
    """Read the output of commit phase 1 that a circuit is to prove.

    Args:
        source: A file, its bytes, or parsed JSON.
        shape: The circuit's; the sector must be of it.

    Raises:
        InputError: The file cannot be read, or is no C1 output for `shape`; names the place.
    """
    document = document_of(source, "C1")
    if isinstance(source, Path):
        source = read_file(source)
    if not isinstance(source, bytes):
        c1 = c1_from_json(Node(source, document), shape)
    elif b"\0" in source[:_HEAD_BYTES]:
        c1 = c1_from_bincode(source, document, shape)
    else:
        c1 = c1_from_text(source, document, shape)
    check_c1(c1, document)
    return c1
