"""The rules of the conversation, each quoted from docs/PROTOCOL.md."""

import itertools
import struct

import msgspec
import pytest

from coordinator.protocol import messages as m
from coordinator.protocol import session as sessions
from coordinator.protocol.codec import encode_message
from coordinator.protocol.errors import ErrorCode, LocalProtocolError, ProtocolError, RemoteProtocolError
from coordinator.protocol.framing import VersionRange, encode_envelope, encode_hello
from coordinator.protocol.messages import RESPONSE_OF
from coordinator.protocol.session import (
    SUPPORTED_VERSIONS,
    TRANSITIONS,
    HelloReceived,
    PushReceived,
    RequestReceived,
    ResponseReceived,
    Role,
    Session,
    State,
    Step,
    UnknownRequestReceived,
)
from tests.helpers.sentences import says
from tests.helpers.session_pair import SessionPair, cut_at, every_byte
from tests.helpers.wire_examples import PUSHES, REQUESTS, RESPONSES

HELLO = encode_hello(SUPPORTED_VERSIONS)
RESPONSES_BY_CLASS = {type(response): response for response in RESPONSES}


def frame(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


def open_pair() -> SessionPair:
    return SessionPair().greet()


def breaks(session: Session, data: bytes) -> RemoteProtocolError:
    """Deliver bytes that break a rule and return the error; the session must be over."""
    with pytest.raises(RemoteProtocolError) as caught:
        list(session.receive_bytes(data))
    assert session.is_closed
    return caught.value


class TestFrames:
    @says("A frame is a four-byte big-endian length and a body of that many bytes.")
    def test_a_frame_is_its_length_and_its_body(self):
        data = open_pair().member.send_request(m.ListGroups())[1]
        assert data == struct.pack(">I", len(data) - 4) + data[4:]
        assert data[4:] == struct.pack(">I", 1) + encode_message(m.ListGroups())

    @says("How the network cuts the stream into pieces changes nothing.")
    def test_a_link_that_cuts_at_every_byte_changes_nothing(self):
        pair = SessionPair(every_byte)
        from_member = pair.member.send_hello()
        from_coordinator = pair.coordinator.send_hello()
        assert pair.to_coordinator(from_member) == [HelloReceived(1, SUPPORTED_VERSIONS)]
        assert pair.to_member(from_coordinator) == [HelloReceived(1, SUPPORTED_VERSIONS)]
        for request in REQUESTS:
            correlation_id, data = pair.member.send_request(request)
            assert pair.to_coordinator(data) == [RequestReceived(correlation_id, request)]
            response = RESPONSES_BY_CLASS[RESPONSE_OF[type(request)]]
            answered = pair.to_member(pair.coordinator.send_response(correlation_id, response))
            assert answered == [ResponseReceived(correlation_id, request, response)]
        for push in PUSHES:
            assert pair.to_member(pair.coordinator.send_push(push)) == [PushReceived(push)]

    def test_every_way_to_cut_a_conversation_in_two_gives_the_same_events(self):
        sender = open_pair().member
        requests = (m.FindCoordinator("g"), m.ListGroups(), m.Ping(3))
        stream = HELLO + b"".join(sender.send_request(request)[1] for request in requests)
        expected = [
            HelloReceived(1, SUPPORTED_VERSIONS),
            *(RequestReceived(number, request) for number, request in enumerate(requests, start=1)),
        ]
        for position in range(len(stream) + 1):
            pair = SessionPair(cut_at(position))
            assert pair.to_coordinator(stream) == expected

    def test_a_session_knows_when_it_is_inside_a_frame(self):
        session = Session(Role.COORDINATOR)
        seen = []
        for index in range(len(HELLO)):
            list(session.receive_bytes(HELLO[index : index + 1]))
            seen.append(session.is_inside_frame)
        assert seen == [True] * (len(HELLO) - 1) + [False]

    @says("A frame whose length is 0 ends the session with INVALID_REQUEST.")
    def test_a_frame_of_no_bytes_is_a_violation(self):
        assert breaks(Session(Role.COORDINATOR), frame(b"")).code is ErrorCode.INVALID_REQUEST
        assert breaks(open_pair().member, frame(b"")).code is ErrorCode.INVALID_REQUEST

    @pytest.mark.parametrize("body", [b"\0", b"\0\0\0\1"], ids=len)
    def test_a_frame_too_short_for_a_message_is_a_violation(self, body):
        assert breaks(open_pair().coordinator, frame(body)).code is ErrorCode.INVALID_REQUEST

    @says("When the first bytes on a connection are those of HTTP, TLS, SSH or Kafka, the error names that protocol.")
    @pytest.mark.parametrize(
        ("first_bytes", "name"),
        [
            (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP"),
            (b"POST /metrics HTTP/1.1\r\n", "HTTP"),
            (b"OPTIONS * HTTP/1.1\r\n", "HTTP"),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/2"),
            (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP"),
            (bytes.fromhex("160301020001000001fc0303"), "TLS"),
            (bytes.fromhex("15030300020246"), "TLS"),
            (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"),
            (frame(bytes.fromhex("00120004000000010006636c69656e7400") + b"\x01"), "Kafka"),
            (frame(bytes.fromhex("0003000000000001000463") + b"\0\0\0\0"), "Kafka"),
        ],
    )
    def test_strangers_are_named(self, first_bytes, name):
        error = breaks(Session(Role.COORDINATOR), first_bytes)
        assert name in str(error)
        assert ("look at tls.certificate" if name == "TLS" else "check address and port") in str(error)

    def test_the_same_bytes_later_are_only_a_length(self):
        error = breaks(open_pair().coordinator, b"GET / HTTP/1.1\r\n")
        assert error.code is ErrorCode.FRAME_TOO_LARGE
        assert "HTTP" not in str(error)


class TestHello:
    @says("The first frame of each side is a hello, sent at once and without waiting for the other's.")
    def test_both_sides_can_greet_first(self):
        pair = SessionPair()
        assert pair.member.send_hello() == HELLO == pair.coordinator.send_hello()
        assert {pair.member.state, pair.coordinator.state} == {State.AWAITING_HELLO}
        pair.to_coordinator(HELLO)
        pair.to_member(HELLO)
        assert {pair.member.state, pair.coordinator.state} == {State.OPEN}

    def test_a_hello_is_sent_once(self):
        session = Session(Role.MEMBER)
        session.send_hello()
        with pytest.raises(LocalProtocolError, match="once"):
            session.send_hello()

    def test_a_second_hello_is_a_violation(self):
        assert breaks(open_pair().coordinator, HELLO).code is ErrorCode.INVALID_REQUEST

    @says("Bytes of a hello after the versions are passed over.")
    def test_a_longer_hello_is_read(self):
        longer = frame(HELLO[4:] + b"what later versions say")
        assert list(Session(Role.MEMBER).receive_bytes(longer)) == [HelloReceived(1, SUPPORTED_VERSIONS)]

    @says("The session speaks the highest version that both ends speak.")
    @pytest.mark.parametrize(
        ("mine", "theirs", "version"),
        [
            ((1, 1), (1, 1), 1),
            ((1, 3), (2, 5), 3),
            ((2, 9), (1, 4), 4),
            ((3, 3), (1, 3), 3),
            ((1, 65535), (7, 65535), 65535),
        ],
    )
    def test_the_highest_common_version_is_spoken(self, mine, theirs, version):
        pair = SessionPair(member_versions=VersionRange(*mine), coordinator_versions=VersionRange(*theirs)).greet()
        assert pair.member.version == pair.coordinator.version == version

    @says("Without a common version the session ends with UNSUPPORTED_VERSION; the error names both ends' versions.")
    @pytest.mark.parametrize(("mine", "theirs"), [((1, 1), (2, 4)), ((3, 5), (1, 2))])
    def test_no_common_version_is_said_with_both(self, mine, theirs):
        session = Session(Role.COORDINATOR, versions=VersionRange(*mine))
        error = breaks(session, encode_hello(VersionRange(*theirs)))
        assert error.code is ErrorCode.UNSUPPORTED_VERSION
        assert str(VersionRange(*mine)) in str(error)
        assert str(VersionRange(*theirs)) in str(error)
        assert session.version is None

    @says("A first frame that is no hello, or names no version, ends the session with INVALID_REQUEST.")
    @pytest.mark.parametrize(
        "body", [b"K", b"KCRD", b"KCRD\0\1\0", b"kcrd\0\1\0\1", b"KCRD\0\2\0\1", b"\0\0\0\1\x91\x0b", b"\xff" * 64]
    )
    def test_another_first_frame_is_a_violation(self, body):
        for role in Role:
            assert breaks(Session(role), frame(body)).code is ErrorCode.INVALID_REQUEST


class TestNumbers:
    @pytest.mark.parametrize("number", [2**64, -(2**63) - 1])
    def test_a_request_with_a_number_that_no_message_holds_is_not_sent_and_the_session_goes_on(self, number):
        member = open_pair().member
        with pytest.raises(LocalProtocolError, match="ListGroupEvents has a number that is too large") as refused:
            member.send_request(m.ListGroupEvents("g", number))
        assert (refused.value.code, member.unanswered) == (ErrorCode.INVALID_REQUEST, 0)
        member.send_request(m.ListGroupEvents("g", 5))


class TestStates:
    @pytest.mark.parametrize(("state", "step"), list(itertools.product(State, Step)))
    def test_each_step_leads_where_the_table_says_or_nowhere(self, state, step):
        session = Session(Role.MEMBER)
        session._state = state
        following = TRANSITIONS[state].get(step)
        if following is None:
            with pytest.raises(LocalProtocolError):
                session._step(step)
            assert session.state is state
        else:
            session._step(step)
            assert session.state is following

    @says("While a session awaits the other's hello, nothing but our own hello can be sent.")
    def test_nothing_is_said_before_the_other_hello(self):
        member, coordinator = Session(Role.MEMBER), Session(Role.COORDINATOR)
        member.send_hello()
        coordinator.send_hello()
        for send in (
            lambda: member.send_request(m.ListGroups()),
            lambda: coordinator.send_response(1, m.ListGroupsResponse()),
            lambda: coordinator.send_push(m.Probe()),
        ):
            with pytest.raises(LocalProtocolError, match="awaiting hello"):
                send()

    def test_nothing_is_said_before_our_own_hello(self):
        member = Session(Role.MEMBER)
        list(member.receive_bytes(HELLO))
        with pytest.raises(LocalProtocolError, match="our hello comes first"):
            member.send_request(m.ListGroups())

    @says("In an open session requests, responses and pushes flow in both directions without taking turns.")
    def test_messages_do_not_take_turns(self):
        pair = open_pair()
        sent = [pair.member.send_request(request) for request in (m.ListGroups(), m.Ping(1))]
        pushed = pair.coordinator.send_push(m.Probe()) + pair.coordinator.send_push(m.Probe())
        assert pair.to_member(pushed) == [PushReceived(m.Probe())] * 2
        assert pair.to_coordinator(b"".join(data for _, data in sent)) == [
            RequestReceived(1, m.ListGroups()),
            RequestReceived(2, m.Ping(1)),
        ]
        assert pair.member.unanswered == pair.coordinator.unanswered == 2
        assert pair.member.state is pair.coordinator.state is State.OPEN

    @says("A broken rule closes the session, after everything that came before it has been handed over.")
    def test_what_came_before_a_broken_rule_is_handed_over(self):
        pair = open_pair()
        good = [pair.member.send_request(m.Ping(number))[1] for number in range(3)]
        events = []
        with pytest.raises(RemoteProtocolError):
            events.extend(pair.coordinator.receive_bytes(b"".join(good) + frame(b"") + good[0]))
        assert events == [RequestReceived(number + 1, m.Ping(number)) for number in range(3)]
        assert pair.coordinator.is_closed

    @says("A closed session drops every byte that still comes and sends nothing.")
    def test_a_closed_session_neither_hears_nor_speaks(self):
        pair = open_pair()
        request = pair.member.send_request(m.ListGroups())[1]
        pair.coordinator.close()
        pair.member.close()
        assert pair.to_coordinator(request) == []
        assert pair.to_member(frame(b"")) == []
        for send in (
            pair.member.send_hello,
            lambda: pair.member.send_request(m.ListGroups()),
            lambda: pair.coordinator.send_response(1, m.ListGroupsResponse()),
            lambda: pair.coordinator.send_push(m.Probe()),
        ):
            with pytest.raises(LocalProtocolError, match="closed"):
                send()

    @pytest.mark.parametrize("is_open", [False, True])
    @says("Closing a session that is closed changes nothing.")
    def test_closing_twice_is_closing_once(self, is_open):
        session = open_pair().member if is_open else Session(Role.MEMBER)
        session.close()
        session.close()
        assert session.state is State.CLOSED

    def test_a_role_cannot_send_what_the_other_role_sends(self):
        pair = open_pair()
        for send in (
            lambda: pair.coordinator.send_request(m.ListGroups()),
            lambda: pair.member.send_push(m.Probe()),
            lambda: pair.member.send_response(1, m.ListGroupsResponse()),
        ):
            with pytest.raises(LocalProtocolError, match="cannot send this"):
                send()


class TestRequests:
    @says("A request carries a correlation id from 1 to 4294967295; 0 ends the session with INVALID_REQUEST.")
    def test_correlation_ids_go_round_without_0(self):
        pair = open_pair()
        pair.member._next_id = sessions.MAX_CORRELATION_ID
        first, _ = pair.member.send_request(m.ListGroups())
        second, _ = pair.member.send_request(m.ListGroups())
        assert (first, second) == (4294967295, 1)
        error = breaks(pair.coordinator, encode_envelope(0, encode_message(m.ListGroups())))
        assert error.code is ErrorCode.INVALID_REQUEST

    def test_an_id_that_still_waits_is_not_used_again(self):
        pair = open_pair()
        assert pair.member.send_request(m.ListGroups())[0] == 1
        pair.member._next_id = sessions.MAX_CORRELATION_ID
        assert [pair.member.send_request(m.ListGroups())[0] for _ in range(2)] == [4294967295, 2]

    @says("A correlation id that an unanswered request already has ends the session with INVALID_REQUEST.")
    def test_a_correlation_id_is_used_once_at_a_time(self):
        pair = open_pair()
        data = encode_envelope(9, encode_message(m.ListGroups()))
        pair.to_coordinator(data)
        pair.coordinator.send_response(9, m.ListGroupsResponse())
        pair.to_coordinator(data)
        assert breaks(pair.coordinator, data).code is ErrorCode.INVALID_REQUEST

    @says("Every request gets exactly one response, with the request's correlation id.")
    def test_a_request_is_answered_once(self):
        pair = open_pair()
        correlation_id, data = pair.member.send_request(m.FindCoordinator("g"))
        pair.to_coordinator(data)
        response = m.FindCoordinatorResponse(shard=3)
        answered = pair.to_member(pair.coordinator.send_response(correlation_id, response))
        assert answered == [ResponseReceived(correlation_id, m.FindCoordinator("g"), response)]
        with pytest.raises(LocalProtocolError, match="waits for an answer"):
            pair.coordinator.send_response(correlation_id, response)

    @says("Responses may come in another order than their requests.")
    def test_responses_find_their_requests_in_any_order(self):
        pair = open_pair()
        asked = [pair.member.send_request(m.FindCoordinator(group)) for group in "abc"]
        pair.to_coordinator(b"".join(data for _, data in asked))
        answers = [
            pair.coordinator.send_response(number, m.FindCoordinatorResponse(shard=number)) for number in (3, 1, 2)
        ]
        assert pair.to_member(b"".join(answers)) == [
            ResponseReceived(number, m.FindCoordinator("abc"[number - 1]), m.FindCoordinatorResponse(shard=number))
            for number in (3, 1, 2)
        ]

    @says("A response of the wrong type, or to no request, ends the session with INVALID_REQUEST.")
    @pytest.mark.parametrize(
        ("correlation_id", "response"),
        [(7, m.ListGroupsResponse()), (0, m.ListGroupsResponse()), (1, m.LeaveGroupResponse())],
    )
    def test_a_response_must_answer_its_request(self, correlation_id, response):
        pair = open_pair()
        pair.member.send_request(m.ListGroups())
        error = breaks(pair.member, encode_envelope(correlation_id, encode_message(response)))
        assert error.code is ErrorCode.INVALID_REQUEST

    @says("A push carries correlation id 0 and gets no response; another id ends the session with INVALID_REQUEST.")
    def test_a_push_has_no_correlation_id(self):
        pair = open_pair()
        pair.member.send_request(m.ListGroups())
        data = pair.coordinator.send_push(m.Probe())
        assert data[4:8] == b"\0\0\0\0"
        assert pair.to_member(data) == [PushReceived(m.Probe())]
        assert pair.member.unanswered == 1
        assert breaks(pair.member, encode_envelope(1, encode_message(m.Probe()))).code is ErrorCode.INVALID_REQUEST


class TestErrors:
    @says("A request of an unknown number is answered by ErrorResponse with UNSUPPORTED_VERSION; the session goes on.")
    @pytest.mark.parametrize("rest", [[], [1, "two", [3, None]], [{"four": 5.0}]])
    def test_an_unknown_request_is_refused_alone(self, rest):
        pair = open_pair()
        correlation_id, data = pair.member.send_request(m.ListGroups())
        unknown = data[:8] + msgspec.msgpack.encode([99, *rest])
        (event,) = pair.to_coordinator(frame(unknown[4:]))
        assert isinstance(event, UnknownRequestReceived)
        assert (event.correlation_id, event.number) == (correlation_id, 99)
        assert event.answer.error is ErrorCode.UNSUPPORTED_VERSION
        assert "99" in event.answer.message
        answered = pair.to_member(pair.coordinator.send_response(correlation_id, event.answer))
        assert answered == [ResponseReceived(correlation_id, m.ListGroups(), event.answer)]
        assert pair.member.state is pair.coordinator.state is State.OPEN

    @says("Any request may be answered by ErrorResponse instead of its own response.")
    @pytest.mark.parametrize("request_sent", REQUESTS, ids=lambda request: type(request).__name__)
    def test_every_request_can_be_refused(self, request_sent):
        pair = open_pair()
        correlation_id, data = pair.member.send_request(request_sent)
        pair.to_coordinator(data)
        refusal = m.ErrorResponse(ErrorCode.NOT_COORDINATOR, "ask node 2")
        answered = pair.to_member(pair.coordinator.send_response(correlation_id, refusal))
        assert answered == [ResponseReceived(correlation_id, request_sent, refusal)]

    @says("A message that cannot be read ends the session with INVALID_REQUEST.")
    @pytest.mark.parametrize(
        "message",
        [
            pytest.param(b"\xc1", id="not msgpack"),
            pytest.param(b"\x92\x01", id="cut short"),
            pytest.param(b"\x91\x0b\x00", id="bytes after its end"),
            pytest.param(b"\x81\x01\x01", id="no array"),
            pytest.param(b"\x90", id="no number"),
            pytest.param(b"\x91\xa1x", id="a number that is text"),
            pytest.param(b"\x91\x01", id="a missing field"),
            pytest.param(b"\x92\x01\x05", id="a field of the wrong type"),
            pytest.param(b"\x92\x01\xc0", id="nil for what cannot be absent"),
            pytest.param(b"\x92\x01\xa2\xff\xfe", id="text that is no UTF-8"),
            pytest.param(b"\x92\x01\xa3\xed\xa0\x80", id="half a surrogate pair"),
            pytest.param(b"\x93\x01\xa1g" + b"\x91" * 200_000 + b"\xc0", id="deep in a field passed over"),
            pytest.param(b"\x92\x63" + b"\x91" * 200_000 + b"\xc0", id="deep in an unknown request"),
            pytest.param(b"\x92\x05\xdd\xff\xff\xff\xff", id="a list that is announced and does not come"),
            pytest.param(b"\x92\x01\xdb\xff\xff\xff\xff", id="a text that is announced and does not come"),
            pytest.param(encode_message(m.ListGroupsResponse()) + b"\0", id="a response with bytes after its end"),
        ],
    )
    def test_what_cannot_be_read_is_a_violation(self, message):
        pair = open_pair()
        pair.member.send_request(m.ListGroups())
        assert breaks(pair.coordinator, encode_envelope(1, message)).code is ErrorCode.INVALID_REQUEST
        assert breaks(pair.member, encode_envelope(1, message)).code is ErrorCode.INVALID_REQUEST

    def test_a_response_or_push_sent_to_a_coordinator_is_no_request(self):
        for message in (m.Probe(), m.ListGroupsResponse()):
            pair = open_pair()
            (event,) = pair.to_coordinator(encode_envelope(1, encode_message(message)))
            assert isinstance(event, UnknownRequestReceived)

    def test_both_kinds_of_protocol_error_say_which_side_is_at_fault(self):
        assert issubclass(RemoteProtocolError, ProtocolError)
        assert issubclass(LocalProtocolError, ProtocolError)
        assert not issubclass(RemoteProtocolError, LocalProtocolError)
