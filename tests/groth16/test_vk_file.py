"""Verifying key files: the reference's, and what is refused."""

from __future__ import annotations

import hashlib
import os
import random
import time
from dataclasses import replace
from pathlib import Path

import pytest

from groth16.samples import multiple, outsider, small_vk
from torchzk.errors import KeyFileError
from torchzk.groth16.vk_file import (
    HEAD_BYTES,
    key_sha256,
    load_vk,
    vk_from_bytes,
    vk_size,
    vk_to_bytes,
    write_vk,
)
from torchzk.params.curves import G1, G2

KEYS = {"porep": 40, "winning": 133, "window": 23, "update": 5}
AT = {"alpha_g1": 0, "beta_g1": 96, "beta_g2": 192, "gamma_g2": 384, "delta_g1": 576}
AT |= {"delta_g2": 672}


@pytest.mark.parametrize("kind", KEYS)
def test_the_references_keys_survive_a_round_trip(kind: str, golden: Path, tmp_path: Path) -> None:
    path = golden / "groth16" / f"{kind}_2048.vk"
    vk = load_vk(path)
    assert vk.n_inputs == KEYS[kind]
    assert vk_size(vk.n_inputs) == path.stat().st_size
    write_vk(tmp_path / "copy.vk", vk)
    assert (tmp_path / "copy.vk").read_bytes() == path.read_bytes()
    assert key_sha256(vk) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_layout_is_by_offset() -> None:
    vk = small_vk(3)
    raw = vk_to_bytes(vk)
    assert len(raw) == 868 + 3 * 96
    assert raw[864:868] == bytes([0, 0, 0, 3])
    assert raw[576:624] == multiple(G1, 7)[0][0].to_bytes(48, "big")
    assert raw[672:720] == multiple(G2, 7)[0][1].to_bytes(48, "big")
    assert raw[868 + 96 : 868 + 144] == multiple(G1, 12)[0][0].to_bytes(48, "big")
    assert vk_from_bytes(raw, "key") == vk


def test_every_prefix_is_refused(golden: Path) -> None:
    raw = (golden / "groth16" / "update_2048.vk").read_bytes()
    for n in range(len(raw)):
        with pytest.raises(KeyFileError, match=str(n)):
            vk_from_bytes(raw[:n], "key")


def test_every_flipped_byte_is_refused(golden: Path) -> None:
    raw = (golden / "groth16" / "update_2048.vk").read_bytes()
    rng = random.Random(1)
    for at in range(len(raw)):
        bad = bytearray(raw)
        bad[at] ^= 1 << rng.randrange(8)
        with pytest.raises(KeyFileError):
            vk_from_bytes(bytes(bad), "key")


@pytest.mark.parametrize("count", [0, 2, 4, 25_840, (1 << 32) - 1])
def test_a_count_that_does_not_fit_the_file_is_refused(count: int, tmp_path: Path) -> None:
    raw = bytearray(vk_to_bytes(small_vk(3)))
    raw[864:868] = count.to_bytes(4, "big")
    path = tmp_path / "bad.vk"
    path.write_bytes(raw)
    start = time.process_time()
    with pytest.raises(KeyFileError, match=f"bad.vk.*{count}"):
        load_vk(path)
    assert time.process_time() - start < 1


@pytest.mark.parametrize("extra", [1, 96])
def test_trailing_bytes_are_refused(extra: int, tmp_path: Path) -> None:
    path = tmp_path / "long.vk"
    path.write_bytes(vk_to_bytes(small_vk(3)) + bytes(extra))
    with pytest.raises(KeyFileError, match=f"1156 bytes, but the file has {1156 + extra}"):
        load_vk(path)


def test_a_count_is_not_believed_before_the_file_is_measured(tmp_path: Path) -> None:
    """Of a 60 GB file with the head of a key no more than the head is read."""
    path = tmp_path / "huge.vk"
    path.write_bytes(vk_to_bytes(small_vk(1)))
    os.truncate(path, 60 << 30)
    start = time.process_time()
    with pytest.raises(KeyFileError, match="1 inputs"):
        load_vk(path)
    assert time.process_time() - start < 1


@pytest.mark.parametrize("part", AT)
def test_a_bad_constant_is_named(part: str) -> None:
    curve = G1 if part.endswith("g1") else G2
    where = f"key: {part} at byte {AT[part]}"
    for bad, why in ((outsider(curve), "outside its subgroup"), (None, "infinity may not")):
        with pytest.raises(KeyFileError, match=f"{where}: .*{why}"):
            vk_from_bytes(vk_to_bytes(replace(small_vk(), **{part: bad})), "key")


@pytest.mark.parametrize("index", [0, 2])
def test_a_bad_point_of_ic_is_named(index: int) -> None:
    for bad, why in ((outsider(G1), "outside its subgroup"), (None, "infinity may not")):
        ic = list(small_vk(3).ic)
        ic[index] = bad
        where = rf"key: ic\[{index}\] at byte {HEAD_BYTES + 96 * index}"
        with pytest.raises(KeyFileError, match=f"{where}: .*{why}"):
            vk_from_bytes(vk_to_bytes(replace(small_vk(3), ic=tuple(ic))), "key")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="no such key file"):
        load_vk(tmp_path / "missing.vk")
    with pytest.raises(KeyFileError, match="no such key file"):
        load_vk(tmp_path)
    # opening a pipe would wait for a writer
    os.mkfifo(tmp_path / "pipe.vk")
    with pytest.raises(KeyFileError, match="no such key file"):
        load_vk(tmp_path / "pipe.vk")
    (tmp_path / "empty.vk").touch()
    with pytest.raises(KeyFileError, match="starts with 868 bytes, but there are 0"):
        load_vk(tmp_path / "empty.vk")
