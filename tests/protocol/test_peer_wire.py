"""The bytes of what nodes say to each other in version 1, and the conversation that they are said in."""

import types
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from coordinator.core.log.entry import MAX_LEADER_EPOCH, MAX_OFFSET
from coordinator.core.log.snapshot import MAX_PIECE_BYTES
from coordinator.protocol import peer_messages as wire
from coordinator.protocol.codec import encode_message
from coordinator.protocol.errors import LocalProtocolError, RemoteProtocolError
from coordinator.protocol.framing import HELLO_MAGIC, PEER_MAGIC, VersionRange, encode_envelope, encode_hello
from coordinator.protocol.messages.message import WireMessage
from coordinator.protocol.peer_messages import ranges
from coordinator.protocol.peer_messages.ranges import Part
from coordinator.protocol.peer_messages.session import PEER_LIMITS, PEERS, PeerSession, Said
from coordinator.protocol.session import Role, Session
from tests.helpers.peer_examples import ABOUT_THE_CONNECTION, HELLO, MESSAGES, PARTS
from tests.helpers.wire_examples import BEFORE_MEMBERS
from tests.helpers.wire_examples import MESSAGES as MEMBERS_MESSAGES

GOLDEN = dict(
    line.split(": ")
    for line in Path(__file__).with_name("peers_1.txt").read_text(encoding="ascii").splitlines()
    if line and not line.startswith("#")
)
SAID = (*MESSAGES, *ABOUT_THE_CONNECTION)


def name_of(value: object) -> str:
    return type(value).__name__


def pair() -> tuple[PeerSession, PeerSession]:
    """Return two ends that have heard each other's hello."""
    one, other = PeerSession(), PeerSession()
    assert list(other.receive(one.greet(HELLO))) == [HELLO]
    assert list(one.receive(other.greet(HELLO))) == [HELLO]
    return one, other


def test_every_message_and_piece_has_an_example() -> None:
    assert {type(message) for message in MESSAGES} == set(get_args(wire.PeerMessage))
    assert {type(said) for said in SAID} == set(get_args(Said))
    named = [getattr(wire, name) for name in wire.__all__]
    kinds = [kind for kind in named if isinstance(kind, type) and not isinstance(kind, types.GenericAlias)]
    assert {kind for kind in kinds if issubclass(kind, WireMessage)} == {type(each) for each in (*SAID, HELLO)}
    assert {kind for kind in kinds if issubclass(kind, Part)} == {type(part) for part in PARTS}


@pytest.mark.parametrize("example", [*SAID, HELLO], ids=name_of)
def test_messages_have_the_bytes_of_version_1(example: WireMessage) -> None:
    assert encode_message(example).hex() == GOLDEN[name_of(example)]


def test_the_hello_frame_has_the_bytes_of_version_1() -> None:
    assert PeerSession().greet(HELLO).hex() == GOLDEN["hello"]
    assert set(GOLDEN) == {name_of(each) for each in (*SAID, HELLO)} | {"hello"}


def test_numbers_are_unique_also_among_those_of_members() -> None:
    tags = [type(each).__struct_config__.tag for each in (*SAID, HELLO, *MEMBERS_MESSAGES, *BEFORE_MEMBERS)]
    assert len(tags) == len(set(tags))


def test_ranges_are_those_of_a_log_and_a_frame_holds_the_largest_piece_of_a_snapshot() -> None:
    assert (ranges.MAX_LEADER_EPOCH, ranges.MAX_OFFSET) == (MAX_LEADER_EPOCH, MAX_OFFSET)
    records = (bytes(MAX_PIECE_BYTES // 2 - 5),) * 2
    most = wire.SnapshotPiece(99_999, MAX_LEADER_EPOCH, 2**62, MAX_OFFSET, 2**32 - 1, 2**62, True, 2**62, records)
    one, other = pair()
    assert list(other.receive(one.say(most))) == [most]


@pytest.mark.parametrize("example", SAID, ids=name_of)
def test_what_one_end_says_the_other_hears_however_it_is_cut(example: Said) -> None:
    one, other = pair()
    data = one.say(example)
    assert list(other.receive(data)) == [example]
    assert [said for index in range(len(data)) for said in other.receive(data[index : index + 1])] == [example]


@pytest.mark.parametrize("example", [*SAID, HELLO, *PARTS], ids=name_of)
def test_more_fields_at_the_end_are_passed_over(example: msgspec.Struct) -> None:
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(example))
    newer = msgspec.msgpack.encode([*fields, {"new": [1, None]}, b"\xff"])
    assert msgspec.msgpack.decode(newer, type=type(example)) == example


def test_a_reason_of_a_newer_node_is_read_as_one() -> None:
    assert msgspec.msgpack.decode(b"\x63", type=wire.StepDownReason) is wire.StepDownReason.STALLED


# ---- what is no conversation of nodes --------------------------------------------------------------------------------


def broken(data: bytes, session: PeerSession | None = None) -> str:
    """Return why bytes end a conversation, at its begin if none is given."""
    session = PeerSession() if session is None else session
    with pytest.raises(RemoteProtocolError) as error:
        list(session.receive(data))
    assert not session.is_open
    return str(error.value)


def test_a_member_s_port_is_named() -> None:
    assert "the other end speaks as members" in broken(Session(Role.COORDINATOR).send_hello())
    assert "the other end speaks as members" in broken(Session(Role.MEMBER).send_hello())
    with pytest.raises(RemoteProtocolError, match="the other end speaks as one node to another"):
        list(Session(Role.COORDINATOR).receive_bytes(PeerSession().greet(HELLO)))


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "an HTTP request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "a TLS handshake"),
        (b"\0\0\0\x0c\0\x12\0\x04\0\0\0\x01\0\x02ab", "the first frame is a Kafka request"),
        (b"\0\0\0\x04KCRP", "not the hello of one kcoord node"),
        (b"\0\0\0\x01x", "not the hello of one kcoord node"),
        (b"\0\0\0\0", "length 0"),
        (encode_hello(VersionRange(2, 9), PEER_MAGIC, encode_message(HELLO)), "speaks protocol version 2 to 9"),
        (encode_hello(VersionRange(1, 1), PEER_MAGIC), "a hello cannot be read"),
        (encode_hello(VersionRange(1, 1), PEER_MAGIC, b"\xc1garbage"), "a hello cannot be read"),
        (encode_hello(VersionRange(1, 1), PEER_MAGIC, encode_message(wire.PeerPing())), "a hello cannot be read"),
        (encode_hello(VersionRange(1, 1), PEER_MAGIC, bytes(17_000)), "over the limit of 16384"),
    ],
)
def test_whoever_does_not_begin_as_a_node_is_refused_with_the_reason(first: bytes, why: str) -> None:
    assert why in broken(first)


@pytest.mark.parametrize(
    ("message", "correlation_id", "why"),
    [
        (encode_message(wire.PeerPing()), 7, "came with a correlation id"),
        (encode_message(HELLO), 0, "a message cannot be read"),
        (b"\x91\x0b", 0, "a message cannot be read"),
        (b"\xff", 0, "a message cannot be read"),
        (b"\x91" * 5_000, 0, "a message cannot be read"),
        (msgspec.msgpack.encode([312, -1, 0]), 0, "a message cannot be read"),
        (msgspec.msgpack.encode([312, 0, 2**32]), 0, "a message cannot be read"),
        (msgspec.msgpack.encode([322, 2**63]), 0, "a message cannot be read"),
        (msgspec.msgpack.encode([312, "0", 1]), 0, "a message cannot be read"),
        (msgspec.msgpack.encode([321, 0, [[0, 0, 0, 0, [[0, 0, []]]]]]), 0, "a message cannot be read"),
        (msgspec.msgpack.encode([321, 0, [[0, 0, 0, 0, [[0, 0, [b""]]]]]]), 0, "a message cannot be read"),
        (msgspec.msgpack.encode([302, "x" * 501]), 0, "a message cannot be read"),
        (msgspec.msgpack.encode([302, b"\xff"]), 0, "a message cannot be read"),
    ],
)
def test_what_cannot_be_read_ends_the_conversation(message: bytes, correlation_id: int, why: str) -> None:
    assert why in broken(encode_envelope(correlation_id, message), pair()[0])


def test_a_second_hello_is_no_message() -> None:
    assert broken(PeerSession().greet(HELLO), pair()[0])


def test_a_length_above_the_limit_is_refused_before_the_rest_has_come() -> None:
    length = (wire.MAX_FRAME_BYTES + 1).to_bytes(4, "big")
    assert "over the limit" in broken(length, pair()[0])
    with pytest.raises(LocalProtocolError, match="a frame may have"):
        pair()[0].say(wire.SnapshotPiece(0, 0, 0, 1, 0, 0, True, 0, (bytes(wire.MAX_FRAME_BYTES),)))


def test_nobody_is_asked_anything() -> None:
    asked = Session(Role.COORDINATOR, PEER_LIMITS, VersionRange(1, 1), PEERS)
    asked.send_hello(encode_message(HELLO))
    list(asked.receive_bytes(PeerSession().greet(HELLO)))
    with pytest.raises(RemoteProtocolError, match="nodes ask each other nothing"):
        list(asked.receive_bytes(encode_envelope(1, encode_message(wire.PeerPing())[:1])))
    assert PEERS.magic != HELLO_MAGIC
