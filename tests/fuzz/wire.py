"""Targets of the network: frames, messages, whole conversations, and what nodes say to each other."""

import msgspec

from coordinator.protocol.codec import decode_answer, decode_request, encode_message
from coordinator.protocol.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from coordinator.protocol.framing import encode_envelope, encode_hello
from coordinator.protocol.peer_messages.session import PEERS, PeerSession
from coordinator.protocol.session import (
    SUPPORTED_VERSIONS,
    HelloReceived,
    PushReceived,
    RequestReceived,
    ResponseReceived,
    Role,
    Session,
    UnknownRequestReceived,
)
from tests.fuzz.target import Taken, Target
from tests.helpers import peer_examples
from tests.helpers.wire_examples import MESSAGES, PUSHES, REQUESTS, RESPONSES

TAGS = sorted({type(message).__struct_config__.tag for message in MESSAGES})
KINDS = HelloReceived | RequestReceived | UnknownRequestReceived | ResponseReceived | PushReceived


def frames(data: bytes) -> None:
    """Any bytes on a new connection, cut anywhere: both ends hear the same as when they come at once."""
    taken = Taken(data)
    role, width = taken.one_of(list(Role)), taken.number() or 1
    said = taken.rest()
    heard = []
    for cuts in ([said], [said[at : at + width] for at in range(0, len(said), width)]):
        session, events, why = Session(role), [], None
        try:
            for piece in cuts:
                for event in session.receive_bytes(piece):
                    assert isinstance(event, KINDS)
                    events.append(event)
        except RemoteProtocolError as error:
            assert session.is_closed
            why = str(error)
        assert session.buffered_bytes <= len(said)
        heard.append((events, why))
    assert heard[0] == heard[1]
    if heard[0][1] is not None:
        raise RemoteProtocolError(ErrorCode.INVALID_REQUEST, heard[0][1])


def messages(data: bytes) -> None:
    """A message's number with any fields behind it: what is read is written and read again as the same."""
    taken = Taken(data)
    fields = [taken.value() for _ in range(taken.number() % 24)]
    body = taken.changed(msgspec.msgpack.encode([taken.one_of(TAGS), *fields]))
    for decode in (decode_request, decode_answer):
        try:
            message = decode(body)
        except msgspec.DecodeError:
            continue
        assert decode(encode_message(message)) == message


def bodies(data: bytes) -> None:
    """Any bytes as a message of members or nodes."""
    for decode in (decode_request, decode_answer, PEERS.decode_request, PEERS.decode_answer, PEERS.decode_greeting):
        try:
            decode(memoryview(data))
        except msgspec.DecodeError:
            continue


def conversation(data: bytes) -> None:
    """Two ends that speak in any order, over a link that now and then changes a byte: each is right or says why."""
    taken = Taken(data)
    member, coordinator = Session(Role.MEMBER), Session(Role.COORDINATOR)
    to_coordinator, to_member = bytearray(member.send_hello()), bytearray(coordinator.send_hello())
    while not taken.is_empty:
        match taken.number() % 6:
            case 0:
                to_coordinator += member.send_request(taken.one_of(REQUESTS))[1]
            case 1:
                to_member += coordinator.send_push(taken.one_of(PUSHES))
            case 2:
                waiting = sorted(coordinator._in_flight)
                number = taken.one_of(waiting) if waiting else taken.number()
                to_member += coordinator.send_response(number, taken.one_of(RESPONSES))
            case 3:
                list(coordinator.receive_bytes(_delivered(to_coordinator, taken)))
            case 4:
                list(member.receive_bytes(_delivered(to_member, taken)))
            case _:
                link = taken.one_of((to_coordinator, to_member))
                if link and taken.number() % 4 == 0:
                    link[taken.number(2) % len(link)] = taken.number()


def _delivered(link: bytearray, taken: Taken) -> bytes:
    count = taken.number(2) or len(link)
    piece = bytes(link[:count])
    del link[:count]
    return piece


def peers(data: bytes) -> None:
    """Any bytes of another node, after its hello or instead of it."""
    taken = Taken(data)
    session = PeerSession()
    own = PeerSession()
    session.greet(peer_examples.HELLO)
    greeting = own.greet(peer_examples.HELLO)
    if taken.number() % 8:
        list(session.receive(greeting))
    if taken.number() % 4:
        for _ in range(taken.number() % 5):
            tag = taken.one_of(PEER_TAGS)
            body = msgspec.msgpack.encode([tag, *(taken.value() for _ in range(taken.number() % 12))])
            list(session.receive(encode_envelope(0, body)))
    list(session.receive(taken.rest()))


PEER_TAGS = sorted({type(message).__struct_config__.tag for message in peer_examples.MESSAGES})


def _frames_of_all() -> list[bytes]:
    hello = encode_hello(SUPPORTED_VERSIONS)
    return [bytes((role, 7)) + hello + encode_envelope(1, encode_message(one)) for role in (0, 1) for one in MESSAGES]


TARGETS = (
    Target(
        "frames",
        frames,
        (RemoteProtocolError,),
        lambda: [*_frames_of_all(), b"\x00\x01GET / HTTP/1.1\r\n\r\n", b"\x00\x05\x16\x03\x01\x02\x00\x01\x00\x01\xfc"],
    ),
    Target("messages", messages, (), lambda: [bytes([number]) * 60 for number in range(0, 256, 5)]),
    Target("bodies", bodies, (), lambda: [encode_message(one) for one in (*MESSAGES, *peer_examples.MESSAGES)]),
    Target(
        "conversation",
        conversation,
        (RemoteProtocolError, LocalProtocolError),
        lambda: [
            b"\x03\0\0\x04\0\0\x00" + bytes([number]) + b"\x03\0\0\x02\0" + bytes([number]) for number in range(30)
        ],
    ),
    Target(
        "peers",
        peers,
        (RemoteProtocolError,),
        lambda: [b"\x01\x00" + encode_envelope(0, encode_message(one)) for one in peer_examples.MESSAGES],
    ),
)
