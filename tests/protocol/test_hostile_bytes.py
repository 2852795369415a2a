"""Bytes that nobody sane would send: whatever comes, a session hands over messages or says which rule was broken."""

import contextlib

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from coordinator.protocol.codec import decode_answer, decode_request, encode_message
from coordinator.protocol.errors import RemoteProtocolError
from coordinator.protocol.framing import encode_envelope
from coordinator.protocol.parts import TopicClaims, TopicOffsets
from coordinator.protocol.session import (
    PushReceived,
    RequestReceived,
    ResponseReceived,
    Role,
    Session,
    UnknownRequestReceived,
)
from tests.helpers.sentences import says
from tests.helpers.session_pair import SessionPair
from tests.helpers.wire_examples import MESSAGES, PUSHES, REQUESTS, RESPONSES

numbers = st.one_of(st.integers(-(2**63), 2**64 - 1), st.sampled_from([0, -1, 1, 2**31, 2**32, 2**63, 2**64 - 1]))
wild_values = st.recursive(
    st.none() | st.booleans() | numbers | st.floats() | st.text(max_size=20) | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=20,
)
frames = st.sampled_from([encode_envelope(1, encode_message(message)) for message in MESSAGES])


def deliver(session: Session, data: bytes) -> None:
    """Anything but RemoteProtocolError fails the test; an event must be what the session says it is."""
    with contextlib.suppress(RemoteProtocolError):
        for event in session.receive_bytes(data):
            assert isinstance(event, RequestReceived | UnknownRequestReceived | ResponseReceived | PushReceived)
        return
    assert session.is_closed


def deliver_to_both(data: bytes) -> None:
    pair = SessionPair().greet()
    pair.member.send_request(REQUESTS[0])
    deliver(pair.coordinator, data)
    deliver(pair.member, data)


@says("Whatever bytes come, the session hands over messages or ends; nothing else goes wrong.")
@given(st.binary(max_size=400))
@example(b"\x00\x00\x00\x08KCRD\x00\x00\x00\x00")
@example(b"\x00\x00\x00\x06\x00\x00\x00\x01\x92\x01")
def test_random_bytes_are_messages_or_a_broken_rule(data):
    for role in Role:
        session = Session(role)
        with contextlib.suppress(RemoteProtocolError):
            list(session.receive_bytes(data))
    deliver_to_both(data)


@given(st.binary(min_size=1, max_size=300), st.integers(0, 2**32 - 1))
def test_random_bytes_in_a_frame_are_a_message_or_a_broken_rule(body, correlation_id):
    deliver_to_both(encode_envelope(correlation_id, body))


@given(frames, st.data())
def test_damaged_frames_are_messages_or_a_broken_rule(frame, data):
    damaged = bytearray(frame)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(4, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    deliver_to_both(bytes(damaged))


@given(frames, st.integers(0, 300), st.binary(max_size=8))
def test_frames_that_are_cut_and_mended_are_messages_or_a_broken_rule(frame, at, patch):
    body = frame[8:]
    at = min(at, len(body))
    deliver_to_both(encode_envelope(1, body[:at] + patch + body[at + len(patch) :]))


@given(st.sampled_from(MESSAGES), st.lists(wild_values, max_size=22))
def test_wild_fields_are_a_message_or_a_broken_rule(message, fields):
    body = msgspec.msgpack.encode([type(message).__struct_config__.tag, *fields])
    deliver_to_both(encode_envelope(1, body))


@given(st.sampled_from(REQUESTS), st.data())
def test_wild_values_of_the_right_type_come_through_unchanged(request, data):
    """What the schema allows is the node's to judge, so the session must hand over every such value as it was sent."""
    strange = data.draw(wild_instance(type(request)))
    encoded = encode_message(strange)
    assert decode_request(encoded) == strange
    pair = SessionPair().greet()
    correlation_id, sent = pair.member.send_request(strange)
    assert pair.to_coordinator(sent) == [RequestReceived(correlation_id, strange)]


@given(st.sampled_from(RESPONSES + PUSHES), st.data())
def test_wild_answers_of_the_right_type_come_through_unchanged(answer, data):
    strange = data.draw(wild_instance(type(answer)))
    assert decode_answer(encode_message(strange)) == strange
    if type(strange) in {type(push) for push in PUSHES}:
        pair = SessionPair().greet()
        assert pair.to_member(pair.coordinator.send_push(strange)) == [PushReceived(strange)]


def wild_instance(kind: type) -> st.SearchStrategy:
    """Any value that the schema of a message or piece allows."""
    if kind in {TopicOffsets, TopicClaims}:
        return wild_columns(kind)
    return st.builds(kind, **{field.name: wild_field(field.type) for field in msgspec.structs.fields(kind)})


@st.composite
def wild_columns(draw: st.DrawFn, kind: type[TopicOffsets | TopicClaims]) -> TopicOffsets | TopicClaims:
    """Columns of any content, which are equally long or empty, as nothing else can be built."""
    count = draw(st.integers(0, 3))
    columns = {
        field.name: draw(st.tuples(*[_wild(msgspec.inspect.type_info(field.type).item_type)] * count))
        for field in msgspec.structs.fields(kind)
        if not field.name.startswith("topic") and (field.required or draw(st.booleans()))
    }
    names = {name: draw(st.text(max_size=20)) for name in ("topic", "topic_id") if name in kind.__struct_fields__}
    return kind(**names, **columns)


def wild_field(kind) -> st.SearchStrategy:
    described = msgspec.inspect.type_info(kind)
    return _wild(described)


def _wild(described) -> st.SearchStrategy:
    match described:
        case msgspec.inspect.StrType():
            return st.text(max_size=20)
        case msgspec.inspect.IntType(le=None):
            return numbers
        case msgspec.inspect.IntType(le=most):
            return numbers.map(lambda number: min(number, most))
        case msgspec.inspect.BoolType():
            return st.booleans()
        case msgspec.inspect.NoneType():
            return st.none()
        case msgspec.inspect.EnumType():
            return st.sampled_from(list(described.cls))
        case msgspec.inspect.UnionType():
            return st.one_of([_wild(choice) for choice in described.types])
        case msgspec.inspect.VarTupleType():
            return st.lists(_wild(described.item_type), max_size=3).map(tuple)
        case msgspec.inspect.TupleType():
            return st.tuples(*(_wild(item) for item in described.item_types))
        case msgspec.inspect.StructType():
            return wild_instance(described.cls)
    raise AssertionError(f"no strategy for {described}")
