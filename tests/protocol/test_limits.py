"""Every limit of the session, on both sides of it, and what hostile lengths cost."""

import contextlib
import struct
import tracemalloc

import msgspec
import pytest

from coordinator.protocol import messages as m
from coordinator.protocol import parts as p
from coordinator.protocol.codec import encode_message
from coordinator.protocol.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from coordinator.protocol.framing import FrameReader, encode_envelope
from coordinator.protocol.ids import MAX_LIST_ITEMS
from coordinator.protocol.session import RequestReceived, ResponseReceived, Role, Session, SessionLimits, State
from tests.helpers.sentences import says
from tests.helpers.session_pair import SessionPair

HELLO_LIMIT, REQUEST_LIMIT, ANSWER_LIMIT = 16384, 1048576, 16777216


def claims(count: int) -> p.TopicClaims:
    return p.TopicClaims("", "", *[(0,) * count] * 4)


def length(announced: int) -> bytes:
    return struct.pack(">I", announced)


def find_of_size(body_bytes: int) -> m.FindCoordinator:
    """A request whose envelope has exactly this many bytes: 4 id, 2 array and number, 5 text header, 1 for nil."""
    return m.FindCoordinator("g" * (body_bytes - 12))


@says(
    "A hello may have 16384 bytes, a request 1048576 bytes, a response or a push 16777216 bytes, the envelope included."
)
def test_the_limits_are_those_of_the_document():
    limits = SessionLimits()
    assert (limits.hello_bytes, limits.frame_bytes, limits.answer_bytes) == (HELLO_LIMIT, REQUEST_LIMIT, ANSWER_LIMIT)


@says("A frame whose length is over the limit ends the session with FRAME_TOO_LARGE as soon as its length has come.")
@pytest.mark.parametrize("over", [1, 2**32 - 1 - ANSWER_LIMIT])
def test_a_length_over_the_limit_is_refused_before_the_body(over):
    fresh = Session(Role.COORDINATOR)
    pair = SessionPair().greet()
    for session, limit in ((fresh, HELLO_LIMIT), (pair.coordinator, REQUEST_LIMIT), (pair.member, ANSWER_LIMIT)):
        assert list(session.receive_bytes(length(limit + over)[:3])) == []
        with pytest.raises(RemoteProtocolError, match=f"over the limit of {limit} bytes") as caught:
            list(session.receive_bytes(length(limit + over)[3:]))
        assert caught.value.code is ErrorCode.FRAME_TOO_LARGE
        assert session.is_closed


def test_frames_of_exactly_the_limit_pass():
    longest_hello = length(HELLO_LIMIT) + b"KCRD\0\1\0\1" + bytes(HELLO_LIMIT - 8)
    coordinator = Session(Role.COORDINATOR)
    list(coordinator.receive_bytes(longest_hello))
    assert coordinator.state is State.OPEN
    pair = SessionPair().greet()
    request = find_of_size(REQUEST_LIMIT)
    correlation_id, data = pair.member.send_request(request)
    assert data[:4] == length(REQUEST_LIMIT)
    assert pair.to_coordinator(data) == [RequestReceived(correlation_id, request)]
    response = m.FindCoordinatorResponse(message="x" * (ANSWER_LIMIT - 20))
    answer = pair.coordinator.send_response(correlation_id, response)
    assert answer[:4] == length(ANSWER_LIMIT)
    assert pair.to_member(answer) == [ResponseReceived(correlation_id, request, response)]


@says("A request that is over a limit is refused on the side that wants to send it, and the session goes on.")
@pytest.mark.parametrize(
    "request_sent",
    [find_of_size(REQUEST_LIMIT + 1), m.FetchOffsets("g", (("t", 0),) * (MAX_LIST_ITEMS + 1))],
    ids=["too many bytes", "too many items"],
)
def test_a_request_too_large_is_not_sent(request_sent):
    pair = SessionPair().greet()
    with pytest.raises(LocalProtocolError) as caught:
        pair.member.send_request(request_sent)
    assert caught.value.code is ErrorCode.FRAME_TOO_LARGE
    assert pair.member.unanswered == 0
    assert pair.member.send_request(m.ListGroups())[0] == 1


@says("A response that is over the limit is sent as ErrorResponse with FRAME_TOO_LARGE instead.")
def test_a_response_too_large_says_so_instead():
    pair = SessionPair(limits=SessionLimits(answer_bytes=200)).greet()
    correlation_id, data = pair.member.send_request(m.DescribeGroup("g"))
    pair.to_coordinator(data)
    answer = pair.coordinator.send_response(correlation_id, m.DescribeGroupResponse(message="x" * 200))
    (event,) = pair.to_member(answer)
    assert isinstance(event, ResponseReceived)
    assert isinstance(event.response, m.ErrorResponse)
    assert event.response.error is ErrorCode.FRAME_TOO_LARGE
    assert "DescribeGroupResponse has 225 bytes and a frame may have 200" in event.response.message


def test_a_push_too_large_is_our_own_mistake():
    pair = SessionPair(limits=SessionLimits(answer_bytes=200)).greet()
    with pytest.raises(LocalProtocolError, match="StopFetcher"):
        pair.coordinator.send_push(m.StopFetcher((), 0, "x" * 200))


@says("64 requests of one connection may wait for their response; one more ends the session with INVALID_REQUEST.")
def test_requests_in_flight_are_bounded_on_both_ends():
    pair = SessionPair().greet()
    for _ in range(64):
        pair.to_coordinator(pair.member.send_request(m.Ping(1))[1])
    with pytest.raises(LocalProtocolError, match="64 requests wait"):
        pair.member.send_request(m.Ping(1))
    with pytest.raises(RemoteProtocolError, match="more than 64 requests") as caught:
        pair.to_coordinator(encode_envelope(65, encode_message(m.Ping(1))))
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_an_answer_makes_room_for_the_next_request():
    pair = SessionPair(limits=SessionLimits(in_flight=1)).greet()
    for _ in range(3):
        correlation_id, data = pair.member.send_request(m.ListGroups())
        pair.to_coordinator(data)
        pair.to_member(pair.coordinator.send_response(correlation_id, m.ListGroupsResponse()))
    assert pair.member.unanswered == pair.coordinator.unanswered == 0


@says("A list in a request and all of a commit may have 20000 items; more end the session with INVALID_REQUEST.")
@pytest.mark.parametrize(
    "make",
    [
        lambda count: m.FetcherStarted((p.OwnedPartition("", 0, 0),) * count),
        lambda count: m.FetcherStopped((p.FinalOffset("", 0, 0),) * count),
        lambda count: m.FetchOffsets("g", (("", 0),) * count),
        lambda count: m.CommitOffsets("g", (p.TopicOffsets("", (), ()),) * count),
        lambda count: m.CommitOffsets("g", (p.TopicOffsets("", (0,) * count, (0,) * count),)),
        lambda count: m.Ping(1, (p.TopicOffsets("", (), ()),) * count),
        lambda count: m.Advance((claims(count),), ()),
        lambda count: m.Advance((), (claims(count),)),
        lambda count: m.ConfirmClaims((claims(count),)),
        lambda count: m.LeaveGroup((p.FinalOffset("", 0, 0),) * count),
        lambda count: m.RegisterConsumer("g", "", "", p.Subscription(("",) * count), "", 0, 0, 0),
        lambda count: m.RegisterConsumer("g", "", "", p.Subscription(), "", 0, 0, 0, assignors=("",) * count),
    ],
)
def test_lists_of_requests_are_bounded(make):
    accepted = make(MAX_LIST_ITEMS)
    pair = SessionPair().greet()
    assert pair.to_coordinator(encode_envelope(1, encode_message(accepted))) == [RequestReceived(1, accepted)]
    with pytest.raises(RemoteProtocolError, match="length <= 20000") as caught:
        pair.to_coordinator(encode_envelope(2, encode_message(make(MAX_LIST_ITEMS + 1))))
    assert caught.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("make", [lambda topics: m.CommitOffsets("g", topics), lambda topics: m.Ping(1, topics)])
def test_partitions_of_a_commit_are_bounded_in_all(make):
    half = p.TopicOffsets("", (0,) * (MAX_LIST_ITEMS // 2), (0,) * (MAX_LIST_ITEMS // 2))
    accepted = make((half, half))
    pair = SessionPair().greet()
    data = encode_message(accepted)
    assert pair.to_coordinator(encode_envelope(1, data)) == [RequestReceived(1, accepted)]
    with pytest.raises(ValueError, match="30000 partitions are named and at most 20000 may be"):
        make((half,) * 3)
    one = msgspec.msgpack.encode(half)
    begin, _, end = data.split(one)
    assert begin[-1:] == b"\x92", "an array of two"
    with pytest.raises(RemoteProtocolError, match="30000 partitions are named") as caught:
        pair.to_coordinator(encode_envelope(2, begin[:-1] + b"\x93" + one * 3 + end))
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_a_topic_of_a_commit_has_a_name_that_a_topic_can_have():
    pair = SessionPair().greet()
    longest = m.CommitOffsets("g", (p.TopicOffsets("t" * 249, (0,), (0,)),))
    assert pair.to_coordinator(encode_envelope(1, encode_message(longest))) == [RequestReceived(1, longest)]
    too_long = m.CommitOffsets("g", (p.TopicOffsets("t" * 250, (0,), (0,)),))
    with pytest.raises(RemoteProtocolError, match="length <= 249"):
        pair.to_coordinator(encode_envelope(2, encode_message(too_long)))


def memory_of(action) -> int:
    """Most bytes held at any time while `action` runs."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@says("No memory is set aside for what a length announces, only for what has come.")
def test_a_huge_announced_length_costs_nothing():
    coordinator = SessionPair().greet().coordinator
    assert memory_of(lambda: list(coordinator.receive_bytes(length(REQUEST_LIMIT) + b"\0\0\0\1"))) < 4096
    assert coordinator.is_inside_frame
    reader = FrameReader(2**32 - 1)
    assert memory_of(lambda: (reader.append(length(2**32 - 1)), reader.next_frame())) < 4096


@pytest.mark.parametrize("header", [b"\xdd\xff\xff\xff\xff", b"\xdd\x7f\xff\xff\xff", b"\xdd\x00\xff\xff\xff"])
@pytest.mark.parametrize("number", [b"\x05", b"\xcc\x68", b"\xcc\xc8", b"\xcc\x69"], ids=["5", "104", "200", "105"])
def test_a_huge_announced_list_costs_nothing(header, number):
    pair = SessionPair().greet()
    pair.member.send_request(m.FetcherStarted(()))

    def receive():
        for session in (pair.coordinator, pair.member):
            with pytest.raises(RemoteProtocolError):
                list(session.receive_bytes(encode_envelope(1, b"\x92" + number + header + b"\x93\xa0\x00\x00")))

    receive_once = memory_of(receive)
    assert receive_once < 64 * 1024


@pytest.mark.parametrize(
    "head",
    [b"\x92\x05", b"\x93\x07\xa0", b"\x92\x63", b"\x93\x01\xa1g"],
    ids=["known", "pairs", "unknown", "passed over"],
)
def test_a_frame_of_tiny_items_costs_little_more_than_its_size(head):
    coordinator = SessionPair().greet().coordinator
    item = b"\x92\xa0\x00" if head[1] == 7 else b"\x93\xa0\x00\x00"
    count = (REQUEST_LIMIT - 64) // len(item)
    data = encode_envelope(1, head + b"\xdd" + length(count) + item * count)

    def receive():
        with contextlib.suppress(RemoteProtocolError):
            list(coordinator.receive_bytes(data))

    assert memory_of(receive) < 4 * REQUEST_LIMIT


@pytest.mark.parametrize(
    "request_",
    [
        m.CommitOffsets("g", (p.TopicOffsets("t", (0,), (2**63,)),)),
        m.CommitOffsets("g", (p.TopicOffsets("t", (0,), (1,), (), (2**31,)),)),
        m.Advance((), (p.TopicClaims("t", "", (0,), (1,), (0,), (2**63,)),)),
        m.FetcherStopped((p.FinalOffset("t", 0, 1, 2**63),)),
    ],
)
def test_numbers_that_kafka_cannot_hold_are_no_message(request_):
    pair = SessionPair().greet()
    _, data = pair.member.send_request(request_)
    with pytest.raises(RemoteProtocolError, match="cannot be read") as caught:
        list(pair.coordinator.receive_bytes(data))
    assert caught.value.code is ErrorCode.INVALID_REQUEST
