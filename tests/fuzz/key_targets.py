"""Keys, what stands beside them, and proofs that nobody trusts."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path

from curve_samples import OUTSIDE_G1
from fuzz.mutators import after_first_byte, json_text, slots
from fuzz.target import Read, Target
from torchzk.backends import load_backend
from torchzk.circuits.randomness_file import load_randomisers
from torchzk.errors import ConfigError, InputError, KeyFileError, ProofError
from torchzk.groth16.encoding import encode_uncompressed
from torchzk.groth16.keys import QUERIES, QueryLengths, VerifyingKey
from torchzk.groth16.meta_file import is_marked_insecure
from torchzk.groth16.params_file import ParamsFile, write_params
from torchzk.groth16.proofs import Proof
from torchzk.groth16.toxic_waste import check_safe, is_dev, load_toxic_waste
from torchzk.groth16.verifier import verify
from torchzk.groth16.vk_file import load_vk, vk_from_bytes, vk_to_bytes
from torchzk.params.curves import G1, G2
from torchzk.params.fields import FP
from torchzk.params.integers import mul
from torchzk.proof_file import FORMATS, encode, read_proof

GOLDEN = Path(__file__).parents[1] / "golden" / "groth16"
P = FP.modulus.to_bytes(48, "big")
POINTS = (
    *(encode_uncompressed(G1, point) for point in (G1.generator, None, OUTSIDE_G1)),
    *(encode_uncompressed(G2, point) for point in (G2.generator, None)),
    *(P, bytes(48), bytes(96), bytes(192), b"\xff" * 48, b"\x80" + bytes(47), b"\xc0" + bytes(47)),
    *(n.to_bytes(4, "big") for n in (0, 1, 2, 3, 255, 1 << 31, (1 << 32) - 1)),
)


def small_vk(n_inputs: int = 2) -> bytes:
    g1 = [mul(G1, k, G1.generator) for k in range(2, 6 + n_inputs)]
    beta, gamma, delta = (mul(G2, k, G2.generator) for k in (7, 8, 9))
    ic = tuple(g1[3 : 3 + n_inputs])
    return vk_to_bytes(VerifyingKey(g1[0], g1[1], beta, gamma, g1[2], delta, ic))


def small_params(lengths: QueryLengths) -> bytes:
    raw = small_vk()
    for name, curve in QUERIES.items():
        points = [mul(curve, 3 + k, curve.generator) for k in range(lengths.of(name))]
        raw += len(points).to_bytes(4, "big")
        raw += b"".join(encode_uncompressed(curve, point) for point in points)
    return raw


def params_files() -> Iterator[bytes]:
    for lengths in (QueryLengths(1, 1, 1, 1, 1), QueryLengths(2, 0, 3, 1, 0)):
        yield small_params(lengths)
    whole = small_params(QueryLengths(1, 2, 1, 1, 1))
    yield from (b"", whole[:-1], whole + b"\0", whole[:870], whole[:868] + b"\xff" * 400)


def open_params(folder: Path) -> AbstractContextManager[Read]:
    backend, path, again = load_backend("torch"), folder / "key.params", folder / "again.params"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        with ParamsFile.open(path, backend) as key:
            pieces = [(name, key.query(name, 0, key.lengths.of(name), "cpu")) for name in QUERIES]
        write_params(again, key.vk, key.lengths, pieces, backend)
        assert again.read_bytes() == data

    return nullcontext(read)


def vk_files() -> Iterator[bytes]:
    yield from (small_vk(1), small_vk(3), (GOLDEN / "update_2048.vk").read_bytes())
    yield from (b"", bytes(868), small_vk()[:-1], small_vk() + b"\0")


def open_vk(folder: Path) -> AbstractContextManager[Read]:
    path = folder / "key.vk"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        key = load_vk(path)
        assert vk_to_bytes(key) == data and vk_from_bytes(data, "again") == key
        is_dev(key)
        check_safe(key)

    return nullcontext(read)


@cache
def known_proof() -> tuple[VerifyingKey, bytes, tuple[int, ...]]:
    """A small key, a proof that holds under it, and its inputs."""
    known = json.loads((GOLDEN / "proofs_2kib.json").read_text())["proofs"]
    found = next(p for p in known if p["name"] == "sector2k_a_update 0")
    inputs = tuple(int.from_bytes(bytes.fromhex(x), "little") for x in found["public_inputs"])
    return load_vk(GOLDEN / "update_2048.vk"), bytes.fromhex(found["proof"]), inputs


def proof_files() -> Iterator[bytes]:
    _, proof, _ = known_proof()
    for k, how in enumerate(FORMATS):
        yield bytes([k]) + encode(proof, how)
        yield bytes([k]) + encode(proof[:-1], how)
        yield bytes([k]) + b" \n" + encode(proof[::-1], how)
    yield from (b"\0" + b"\xc0" + bytes(191), b"\1" + b"zz" * 192, b"\2" + b" A=" * 64, b"")


def open_proof(folder: Path) -> AbstractContextManager[Read]:
    path, (key, good, inputs) = folder / "proof", known_proof()
    x_only = _without_signs(good)

    def read(data: bytes) -> None:
        path.write_bytes(data[1:])
        raw = read_proof(path, FORMATS[data[0] % 3 if data else 0])
        proof = Proof.from_bytes(raw)
        assert proof.to_bytes() == raw
        # A and B may be negated together; nobody makes another one of the same inputs by chance
        if verify(key, proof, inputs):
            assert _without_signs(raw) == x_only

    return nullcontext(read)


def _without_signs(raw: bytes) -> bytes:
    return bytes(b & 0xDF if i in (0, 48, 144) else b for i, b in enumerate(raw))


def secret_files() -> Iterator[bytes]:
    names = ("alpha", "beta", "gamma", "delta", "tau")
    waste = dict.fromkeys(names, "02" + "00" * 31)
    yield b"\0" + json.dumps(waste).encode()
    yield b"\0" + json.dumps({**waste, "tau": "0x17"}).encode()
    yield b"\1" + json.dumps([{"r": "03" * 31 + "00", "s": "00" * 32}]).encode()
    yield b"\2" + json.dumps({"sector_size": 2048, "insecure": "yes"}).encode()
    yield b"\2" + json.dumps({"sector_size": 2048}).encode()
    yield from (b"\0\xff\xfe{\0}\0", b"\1[]", b'\2{"sector_size":2048,"sector_size":2048}')


def open_secrets(folder: Path) -> AbstractContextManager[Read]:
    key = folder / "key.params"

    def waste(path: Path) -> None:
        found, said = load_toxic_waste(path), json.loads(path.read_bytes())
        for name, text in said.items():
            given = (
                int(text, 16)
                if text.startswith("0x")
                else int.from_bytes(bytes.fromhex(text), "little")
            )
            assert getattr(found, name) == given

    def randomness(path: Path) -> None:
        (found,) = load_randomisers(path, 1)
        (said,) = json.loads(path.read_bytes())
        assert found.r.to_bytes(32, "little").hex() == said["r"].lower()

    def meta(path: Path) -> None:
        path.rename(key.with_suffix(".meta"))
        marked = is_marked_insecure(key, 2048)
        said = json.loads(key.with_suffix(".meta").read_bytes())
        assert type(said["sector_size"]) is int and said["sector_size"] == 2048
        assert marked or not said.get("insecure")

    readers: tuple[Callable[[Path], None], ...] = (waste, randomness, meta)

    def read(data: bytes) -> None:
        path = folder / "secret.json"
        path.write_bytes(data[1:])
        readers[data[0] % 3 if data else 0](path)

    return nullcontext(read)


def _texts(points: Iterable[bytes]) -> tuple[bytes, ...]:
    return tuple(form for p in points for form in (p, p.hex().encode(), base64.b64encode(p)))


TARGETS = (
    Target(
        name="params",
        open=open_params,
        seeds=params_files,
        errors=(KeyFileError,),
        mutate=slots(4, POINTS),
        longest=1 << 12,
    ),
    Target(
        name="vk",
        open=open_vk,
        seeds=vk_files,
        errors=(KeyFileError,),
        mutate=slots(4, POINTS),
        longest=1 << 12,
    ),
    Target(
        name="proof",
        open=open_proof,
        seeds=proof_files,
        errors=(ProofError, ConfigError),
        mutate=after_first_byte(slots(48, _texts(POINTS))),
        longest=1 << 10,
    ),
    Target(
        name="secrets",
        open=open_secrets,
        seeds=secret_files,
        errors=(InputError, KeyFileError),
        mutate=after_first_byte(json_text),
        longest=1 << 12,
    ),
)
