"""The bytes of version 1, and that the form can grow. A change of version_1.txt breaks members in the field."""

from pathlib import Path
from typing import get_args

import msgspec
import pytest

from coordinator.protocol import messages, parts
from coordinator.protocol.codec import decode_answer, decode_request, encode_message
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.framing import VersionRange, decode_hello, encode_envelope, encode_hello
from coordinator.protocol.log_in import decode_log_in, decode_log_in_answer
from coordinator.protocol.messages.log_in import LogIn, LogInResponse
from tests.helpers.sentences import says
from tests.helpers.wire_examples import BEFORE_MEMBERS, PARTS, REQUESTS
from tests.helpers.wire_examples import MESSAGES as OF_MEMBERS

GOLDEN = dict(
    line.split(": ")
    for line in Path(__file__).with_name("version_1.txt").read_text(encoding="ascii").splitlines()
    if line and not line.startswith("#")
)
MESSAGE_CLASSES = {
    *get_args(messages.Request),
    *get_args(messages.Response),
    *get_args(messages.Push),
    LogIn,
    LogInResponse,
}
MESSAGES = OF_MEMBERS + BEFORE_MEMBERS
PART_CLASSES = {
    kind
    for kind in vars(parts).values()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and not kind.__name__.startswith("_")
}


def name_of(value):
    return type(value).__name__


def decode(data, like):
    if isinstance(like, LogIn):
        return decode_log_in(data)
    if isinstance(like, LogInResponse):
        return decode_log_in_answer(data)
    if isinstance(like, REQUEST_CLASSES):
        return decode_request(data)
    return decode_answer(data)


REQUEST_CLASSES = get_args(messages.Request)


def test_every_message_and_piece_has_an_example():
    assert {type(message) for message in MESSAGES} == MESSAGE_CLASSES
    assert len(MESSAGES) == len(MESSAGE_CLASSES)
    assert {type(part) for part in PARTS} == PART_CLASSES


@pytest.mark.parametrize("example", MESSAGES + PARTS, ids=name_of)
def test_examples_show_every_field(example):
    for field in msgspec.structs.fields(example):
        assert getattr(example, field.name) != field.default, f"{field.name} of the example is at its default"


def test_every_message_has_its_bytes_in_version_1():
    assert set(GOLDEN) == {kind.__name__ for kind in MESSAGE_CLASSES} | {"hello", "envelope"}


@pytest.mark.parametrize("example", MESSAGES, ids=name_of)
def test_messages_have_the_bytes_of_version_1(example):
    golden = bytes.fromhex(GOLDEN[name_of(example)])
    assert encode_message(example).hex() == golden.hex()
    assert decode(golden, example) == example


def test_hello_and_envelope_have_the_bytes_of_version_1():
    assert encode_hello(VersionRange(1, 1)).hex() == GOLDEN["hello"]
    assert decode_hello(bytes.fromhex(GOLDEN["hello"])[4:]) == VersionRange(1, 1)
    assert encode_envelope(258, b"\x91\x0b").hex() == GOLDEN["envelope"]


def test_numbers_are_unique():
    numbers = [kind.__struct_config__.tag for kind in MESSAGE_CLASSES]
    assert len(numbers) == len(set(numbers))


@says("A message of a newer peer may have more fields at its end; they are passed over.")
@pytest.mark.parametrize("example", MESSAGES + PARTS, ids=name_of)
def test_more_fields_at_the_end_are_passed_over(example):
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(example))
    newer = msgspec.msgpack.encode([*fields, {"new": [1, 2.5, None]}, b"\xff", "field"])
    if example in PARTS:
        assert msgspec.msgpack.decode(newer, type=type(example)) == example
    else:
        assert decode(newer, example) == example


@says("Fields missing at the end of an older peer's message take their defaults.")
@pytest.mark.parametrize("example", MESSAGES + PARTS, ids=name_of)
def test_fields_missing_at_the_end_take_their_defaults(example):
    fields = msgspec.structs.fields(example)
    required = sum(field.required for field in fields)
    is_message = example not in PARTS
    on_wire = msgspec.msgpack.decode(msgspec.msgpack.encode(example))
    for known in range(required, len(fields) + 1):
        older = msgspec.msgpack.encode(on_wire[: known + is_message])
        expected = type(example)(*(getattr(example, field.name) for field in fields[:known]))
        decoded = decode(older, example) if is_message else msgspec.msgpack.decode(older, type=type(example))
        assert decoded == expected
    if required:
        with pytest.raises(msgspec.DecodeError):
            msgspec.msgpack.decode(msgspec.msgpack.encode(on_wire[: required - 1 + is_message]), type=type(example))


@says("An absent value is nil and never 0.")
@pytest.mark.parametrize(
    "kind", sorted(MESSAGE_CLASSES | PART_CLASSES, key=lambda kind: kind.__name__), ids=lambda k: k.__name__
)
def test_no_offset_and_no_optional_number_is_absent_as_0(kind):
    for field in msgspec.structs.fields(kind):
        if "offset" in field.name or field.name in {"committed", "owner_epoch", "until", "duration_ms", "timestamp_ms"}:
            assert field.required or field.default in (None, ()), f"{kind.__name__}.{field.name}"
    assert msgspec.msgpack.encode(parts.FinalOffset("t", 0, 0)) == b"\x96\xa1t\x00\x00\xc0\xc0\xa0"
    assert msgspec.msgpack.encode(parts.FinalOffset("t", 0, 0, 0)) == b"\x96\xa1t\x00\x00\x00\xc0\xa0"


@says("An error code that is not known is read as UNKNOWN_SERVER_ERROR.")
@pytest.mark.parametrize("code", [-32768, -2, 13, 999, 5000, 2**40, 2**64 - 1])
def test_error_codes_of_a_newer_peer_are_read_as_unknown(code):
    answer = decode_answer(msgspec.msgpack.encode([100, code, "new"]))
    assert answer == messages.ErrorResponse(ErrorCode.UNKNOWN_SERVER_ERROR, "new")


def test_every_request_has_a_response_of_its_own():
    assert set(messages.RESPONSE_OF) == {type(request) for request in REQUESTS}
    assert len(set(messages.RESPONSE_OF.values())) == len(messages.RESPONSE_OF)
