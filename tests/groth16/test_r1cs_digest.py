"""The streamed digest: against a plain encoder, and blind to how the system is cut."""

from __future__ import annotations

import hashlib
import struct

import pytest

import r1cs_digest as module
from plain_r1cs import row_terms
from r1cs_digest import digest, run_digests
from replicated_r1cs import CIRCUITS
from torchzk.groth16.r1cs import R1cs


def _encode(r1cs: R1cs) -> list[bytes]:
    """A system that is not repeated, row by row as spec/vectors.md section 2 says."""
    block = r1cs.block
    rows = []
    for row in zip(*(row_terms(block, m) for m in block.matrices), strict=True):
        encoded = b""
        for terms in row:
            encoded += struct.pack("<I", len(terms))
            for col, k in sorted(terms.items()):
                is_aux = col >= block.input_columns
                index = col - block.input_columns if is_aux else col
                encoded += struct.pack("<BI", is_aux, index) + k.to_bytes(32, "little")
        rows.append(encoded)
    return rows


def _input_row(index: int) -> bytes:
    return struct.pack("<IBI", 1, 0, index) + (1).to_bytes(32, "little") + bytes(8)


@pytest.mark.parametrize("copies", [0, 1, 5])
@pytest.mark.parametrize("rows_at_once", [1, 4, 1 << 20])
@pytest.mark.parametrize("name", CIRCUITS)
def test_digest_is_that_of_the_plain_encoding(
    name: str, rows_at_once: int, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ROWS", rows_at_once)
    system, flat, _ = CIRCUITS[name]
    rows = _encode(flat(copies))
    appended = [_input_row(i) for i in range(flat(copies).n_inputs)]
    for r1cs in (flat(copies), system(copies)):
        got = digest(r1cs)
        assert got.synthesised == hashlib.sha256(b"".join(rows)).hexdigest()
        assert got.with_input_rows == hashlib.sha256(b"".join(rows + appended)).hexdigest()


@pytest.mark.parametrize("run", [1, 4, 5, 17, 100])
@pytest.mark.parametrize("name", CIRCUITS)
def test_run_digests(name: str, run: int) -> None:
    system, flat, _ = CIRCUITS[name]
    rows = _encode(flat())
    expected = [
        hashlib.sha256(b"".join(rows[i : i + run])).hexdigest() for i in range(0, len(rows), run)
    ]
    assert list(run_digests(system(), run)) == expected
