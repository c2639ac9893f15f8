"""Vanilla proofs: both forms read the same, every damage is named."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from torchzk.circuits.json_input import Node, parse_json
from torchzk.circuits.sectors import SECTOR_SHAPES
from torchzk.circuits.vanilla import sector_from_base64, sector_from_bincode, sector_from_json
from torchzk.errors import InputError
from torchzk.params.fields import FR

TREE = SECTOR_SHAPES[2048].tree_r
U64_MAX = (1 << 64) - 1


@pytest.fixture
def raw(golden: Path) -> bytes:
    job = json.loads((golden / "jobs" / "sector2k_a_window1.bincode.json").read_text())
    return base64.b64decode(job["vanilla_proofs"][0])


@pytest.fixture
def parsed(golden: Path) -> dict[str, Any]:
    job = json.loads((golden / "jobs" / "sector2k_a_window1.json").read_text())
    proof: dict[str, Any] = job["vanilla_proofs"][0]
    return proof


def from_json(value: dict[str, Any]) -> object:
    return sector_from_json(Node(value, "proof"), TREE, 10)


def test_both_forms_are_one(raw: bytes, parsed: dict[str, Any]) -> None:
    sector = sector_from_json(Node(parsed, "proof"), TREE, 10)
    assert sector == sector_from_bincode(raw, TREE, 10, "proof")
    assert sector == sector_from_base64(Node(base64.b64encode(raw).decode(), "proof"), TREE, 10)
    assert sector.sector_id == 1
    assert len(sector.paths) == 10
    first = parsed["vanilla_proof"]["sectors"][0]["inclusion_proofs"][0]["data"]["Single"]
    path = sector.paths[0]
    assert path.leaf == bytes(first["leaf"])
    assert path.root == sector.comm_r_last == bytes(first["root"])
    assert path.indices == bytes([3, 0])
    rows = [row for level in first["path"]["path"] for row in level["hashes"]]
    assert path.siblings == b"".join(map(bytes, rows))


@pytest.mark.parametrize(("name", "size"), [("synth32g", 32 << 30), ("synth64g", 64 << 30)])
def test_sub_and_top_trees(golden: Path, name: str, size: int) -> None:
    """The bincode is written here, by the layout of spec/porep.md section 8."""
    with gzip.open(golden / "jobs" / f"{name}_winning.json.gz") as file:
        (proof,) = json.load(file)["vanilla_proofs"]
    tree = SECTOR_SHAPES[size].tree_r
    sector = sector_from_json(Node(proof, "proof"), tree, 66)
    assert len(sector.paths[0].siblings) == 32 * sum(a - 1 for a in tree.arities)
    assert sector_from_bincode(write(proof), tree, 66, "proof") == sector


def write(proof: dict[str, Any]) -> bytes:
    (sector,) = proof["vanilla_proof"]["sectors"]
    out = u64(proof["sector_id"]) + bytes(proof["comm_r"]) + u64(1)
    out += u64(len(sector["inclusion_proofs"]))
    for item in sector["inclusion_proofs"]:
        ((variant, data),) = item["data"].items()
        out += ("Single", "Sub", "Top").index(variant).to_bytes(4, "little")
        for part in ("base_proof", "sub_proof", "top_proof"):
            if part in data:
                out += u64(len(data[part]["path"]))
                for level in data[part]["path"]:
                    out += u64(len(level["hashes"])) + b"".join(map(bytes, level["hashes"]))
                    out += u64(level["index"])
        out += bytes(data["root"]) + bytes(data["leaf"])
    return out + bytes(sector["comm_c"]) + bytes(sector["comm_r_last"])


def u64(value: int) -> bytes:
    return value.to_bytes(8, "little")


def test_every_prefix_is_refused(raw: bytes) -> None:
    for n in [*range(200), *range(200, len(raw), 61), len(raw) - 1]:
        with pytest.raises(InputError, match=r"proof: byte \d+: \S+: needs \d+ bytes, \d+ are"):
            sector_from_bincode(raw[:n], TREE, 10, "proof")


def test_bytes_too_many(raw: bytes) -> None:
    with pytest.raises(InputError, match="1 bytes too many"):
        sector_from_bincode(raw + b"\0", TREE, 10, "proof")


@pytest.mark.parametrize("value", [0, 8, 1 << 32, 1 << 63, U64_MAX])
def test_every_length_field(raw: bytes, value: int) -> None:
    """Counts are at 40 (sectors), 48 (proofs), then in each proof of 600 bytes."""
    start = 56
    fields = {
        40: "vanilla_proof.sectors: must have 1",
        48: r"inclusion_proofs: must have 10",
        start + 68: r"inclusion_proofs\[0\].data.Single.path.path: must have 2",
        start + 76: r"inclusion_proofs\[0\].data.Single.path.path\[0\].hashes: must have 7",
        start + 316: r"inclusion_proofs\[0\].data.Single.path.path\[1\].hashes: must have 7",
        start + 308: r"inclusion_proofs\[0\].data.Single.path.path\[0\].index: must be below 8",
        start + 548: r"inclusion_proofs\[0\].data.Single.path.path\[1\].index: must be below 8",
    }
    for position, message in fields.items():
        damaged = raw[:position] + u64(value) + raw[position + 8 :]
        if value == 0 and "index" in message:
            continue
        with pytest.raises(InputError, match=rf"byte {position}: .*{message}"):
            sector_from_bincode(damaged, TREE, 10, "proof")


@pytest.mark.parametrize(
    ("variant", "message"),
    [(1, "must be Single, is Sub"), (3, "must be below 3"), (255, "must be below 3")],
)
def test_variant_of_the_enum(raw: bytes, variant: int, message: str) -> None:
    damaged = raw[:56] + bytes([variant]) + raw[57:]
    with pytest.raises(InputError, match=rf"byte 56: .*data.variant: {message}"):
        sector_from_bincode(damaged, TREE, 10, "proof")


@pytest.mark.parametrize("text", ["", "AA==", "A", "AB CD", "AAAA\n", "é", "=" * 8, "!!!!"])
def test_no_base64(text: str) -> None:
    with pytest.raises(InputError, match="proof: .*(is no base64|needs 8 bytes)"):
        sector_from_base64(Node(text, "proof"), TREE, 10)


def places(proof: dict[str, Any]) -> dict[str, list[int]]:
    """One element of every sort, by the place errors should name."""
    (sector,) = proof["vanilla_proof"]["sectors"]
    last = sector["inclusion_proofs"][9]["data"]["Single"]
    at = "vanilla_proof.sectors[0]"
    return {
        "comm_r": proof["comm_r"],
        f"{at}.comm_c": sector["comm_c"],
        f"{at}.comm_r_last": sector["comm_r_last"],
        f"{at}.inclusion_proofs[9].data.Single.leaf": last["leaf"],
        f"{at}.inclusion_proofs[9].data.Single.root": last["root"],
        f"{at}.inclusion_proofs[9].data.Single.path.path[1].hashes[6]": last["path"]["path"][1][
            "hashes"
        ][6],
    }


@pytest.mark.parametrize("value", [FR.modulus, FR.modulus + 1, (1 << 256) - 1])
def test_elements_are_canonical(parsed: dict[str, Any], raw: bytes, value: int) -> None:
    for place, element in places(parsed).items():
        before = bytes(element)
        element[:] = value.to_bytes(32, "little")
        with pytest.raises(InputError) as e:
            from_json(parsed)
        assert f".{place}: is no field element" in str(e.value)
        damaged = raw.replace(before, bytes(element))
        assert damaged != raw
        with pytest.raises(InputError, match="is no field element"):
            sector_from_bincode(damaged, TREE, 10, "proof")
        element[:] = (FR.modulus - 1).to_bytes(32, "little")
        from_json(parsed)
        element[:] = before


def test_layout_errors_name_the_place(parsed: dict[str, Any]) -> None:
    (sector,) = parsed["vanilla_proof"]["sectors"]
    data = sector["inclusion_proofs"][3]["data"]
    level = data["Single"]["path"]["path"][1]
    at = r"vanilla_proof\.sectors\[0\]\.inclusion_proofs\[3\]\.data"
    for bad in (8, -1, True, "3", None, U64_MAX):
        with pytest.raises(InputError, match=rf"{at}\.Single\.path\.path\[1\]\.index: must be"):
            with_value(parsed, level, "index", bad)
    with pytest.raises(InputError, match=rf"{at}\.Single\.path\.path\[1\]\.hashes: must have 7"):
        with_value(parsed, level, "hashes", level["hashes"][:6])
    with pytest.raises(InputError, match=rf"{at}\.Single\.path\.path: must have 2 .* has 1"):
        with_value(parsed, data["Single"]["path"], "path", [level])
    with pytest.raises(InputError, match=rf"{at}: the key 'Sub' is unknown; .* Single"):
        with_value(parsed, sector["inclusion_proofs"][3], "data", {"Sub": data["Single"]})
    with pytest.raises(InputError, match="inclusion_proofs: must have 10 elements, has 9"):
        with_value(parsed, sector, "inclusion_proofs", sector["inclusion_proofs"][:9])
    with pytest.raises(InputError, match="sectors: must have 1 elements, has 2"):
        with_value(parsed, parsed["vanilla_proof"], "sectors", [sector, sector])
    with pytest.raises(InputError, match="sectors: must have 1 elements, has 0"):
        with_value(parsed, parsed["vanilla_proof"], "sectors", [])
    for bad in (-1, 1 << 64, "1", 1.0):
        with pytest.raises(InputError, match="sector_id: must be"):
            with_value(parsed, parsed, "sector_id", bad)


def with_value(proof: dict[str, Any], holder: dict[str, Any], key: str, value: object) -> None:
    """Read `proof` with `holder[key]` replaced for the time being."""
    before = holder[key]
    holder[key] = value
    try:
        from_json(proof)
    finally:
        holder[key] = before


def test_real_proof_of_32_gib(golden: Path) -> None:
    data = json.loads((golden / "window_post_32gib_vanilla.json").read_text())
    tree = SECTOR_SHAPES[32 << 30].tree_r
    node = parse_json(json.dumps(data["proof"]).encode(), "proof")
    sector = sector_from_json(node, tree, 10)
    assert sector_from_bincode(write(data["proof"]), tree, 10, "proof") == sector
    with pytest.raises(InputError, match="the key 'Sub' is unknown"):
        sector_from_json(node, TREE, 10)
