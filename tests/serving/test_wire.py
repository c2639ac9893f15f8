"""The committed messages are those of the `.proto`, and those of cuzk."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.message import Message
from grpc_tools import protoc

from serving.services import HERE
from torchzk.errors import InputError
from torchzk.serving.front import method_names
from torchzk.serving.wire import proving_pb2 as wire
from torchzk.serving.wire_scan import MAX_FIELDS, check_fields

SOURCE = HERE.parents[1] / "src"
PROTO = "torchzk/serving/wire/proving.proto"


def test_committed_messages_are_made_by_the_command_in_the_proto(tmp_path: Path) -> None:
    (command,) = re.findall(r"^//   python -m (grpc_tools.*)$", (SOURCE / PROTO).read_text(), re.M)
    tool, *arguments = command.split()
    assert tool == "grpc_tools.protoc" and arguments.count("src") == 1
    here = [a.replace("_out=src", f"_out={tmp_path}") for a in arguments]
    here[here.index("src")] = str(SOURCE)
    assert protoc.main(["protoc", *here]) == 0
    made = sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*.py*"))
    assert [p.suffix for p in made] == [".py", ".pyi"]
    for path in made:
        assert (tmp_path / path).read_text() == (SOURCE / path).read_text(), path


def test_messages_are_those_of_cuzk(tmp_path: Path) -> None:
    out = tmp_path / "cuzk.bin"
    assert protoc.main(["", f"-I{HERE}", f"--descriptor_set_out={out}", "cuzk.proto"]) == 0
    (theirs,) = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    ours = descriptor_pb2.FileDescriptorProto()
    wire.DESCRIPTOR.CopyToProto(ours)
    for message in theirs.message_type:
        for field in message.field:
            # which protoc adds when it writes descriptors
            field.ClearField("json_name")
    for message in ours.message_type:
        for place in reversed(range(len(message.field))):
            if message.field[place].number >= 100:
                del message.field[place]
    ours.name = theirs.name
    assert ours == theirs
    assert len(list(method_names())) == 8


def request(n: int) -> wire.SubmitProofRequest:
    return wire.SubmitProofRequest(
        request_id="x",
        proof_kind=wire.WINDOW_POST_PARTITION,
        vanilla_proofs=[b"ab"] * n,
        miner_id=2**63,
        randomness=b"c",
    )


@pytest.mark.parametrize("depth", [0, 1])
def test_fields_are_counted(depth: int) -> None:
    def raw(n: int) -> bytes:
        said: Message = request(n)
        if depth:
            said = wire.ProveRequest(submit=request(n))
        return said.SerializeToString()

    check_fields(raw(0), "x", depth=depth)
    check_fields(raw(MAX_FIELDS - 4), "x", depth=depth)
    with pytest.raises(InputError, match=f"x: has more than {MAX_FIELDS} fields"):
        check_fields(raw(MAX_FIELDS - 3), "x", depth=depth)


def test_every_prefix_of_a_message_is_judged_as_protobuf_does() -> None:
    whole = request(3).SerializeToString() + b"\xfd\x7f1234" + b"\xf9\x7f12345678"
    for length in range(len(whole) + 1):
        try:
            wire.SubmitProofRequest.FromString(whole[:length])
        except Exception:
            with pytest.raises(InputError, match="no number ends|ends within a field"):
                check_fields(whole[:length], "x")
        else:
            check_fields(whole[:length], "x")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"\x0b\x0c", "wire type 3 at byte 1 is none of proto3"),
        (b"\x80" * 12, "no number ends at byte 10"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "ends within a field"),
        (b"\x52\x01", "ends within a field"),
    ],
)
def test_what_is_no_message_is_refused(raw: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_fields(raw, "x")


def test_a_wrapped_message_is_alone_in_its_wrapping() -> None:
    said = wire.ProveRequest(submit=request(1)).SerializeToString()
    with pytest.raises(InputError, match="more than the one field"):
        check_fields(said + said, "x", depth=1)
    # nothing in it: who asks is told what is missing
    check_fields(b"", "x", depth=1)
