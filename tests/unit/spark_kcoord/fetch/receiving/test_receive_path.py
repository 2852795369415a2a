"""The receive paths, the large one compiled and not: the same responses however bytes come, the same ends."""

import gc
import logging
import os
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import kafka.errors as kafka_errors
import pyarrow as pa
import pytest
from kafka.net.connection import KafkaConnection
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaTCPTransport
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.protocol.schemas import BaseField, StructField

from spark_kcoord.errors import KcoordError
from spark_kcoord.fetch.receiving import receive_path
from spark_kcoord.fetch.receiving.compiled import receive_compiled

LIMIT = 4 << 20
TURN_MS = 20
SIZES = [0, 1, 65_000, 66_000, 300_000]


class NotedSocket(socket.socket):
    """A socket that notes how many bytes it was asked to wait for, and does not wait."""

    def __init__(self, fileno: int) -> None:
        super().__init__(fileno=fileno)
        self.waits: list[int] = []

    def setsockopt(self, *arguments: Any) -> None:
        level, option, count = arguments
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_RCVLOWAT)
        self.waits.append(count)


class Link:
    """A connection of kafka-python that is up, and the broker's end of its socket."""

    def __init__(self, wish: str) -> None:
        self.net = NetworkSelector(client_id="tests", slow_task_threshold_secs=0)
        plain, self.broker = socket.socketpair()
        self.sock = ours = NotedSocket(fileno=plain.detach())
        ours.setblocking(False)
        self.connection = KafkaConnection(self.net, receive_message_max_bytes=LIMIT, client_id="tests")
        self.connection.broker_version_data = BrokerVersionData((3, 9))
        receive_path.take_path(self.connection, wish)
        self.transport = KafkaTCPTransport(self.net, ours)
        try:
            self.connection.connection_made(self.transport)
        except KcoordError:
            self.close()
            raise
        self.connection.initializing = False
        self.connection.connected = True

    @property
    def is_large(self) -> bool:
        return "_sock_recv" in vars(self.transport)

    def turn(self) -> None:
        for _ in range(3):
            self.net.poll(timeout_ms=TURN_MS)

    def close(self) -> None:
        self.connection.close()
        self.turn()
        self.net.close()
        self.broker.close()


@pytest.fixture(params=["stock", "large", "large, compiled"])
def link(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Link]:
    wish, _, form = request.param.partition(", ")
    if not form:
        monkeypatch.setattr(receive_path, "receive_compiled", lambda: None)
    made = Link(wish)
    assert made.is_large == (wish == "large")
    yield made
    made.close()


large = pytest.mark.parametrize("link", ["large", "large, compiled"], indirect=True)


def fetched(size: int, fill: bytes = bytes(range(256))) -> FetchResponse:
    topic = FetchResponse.FetchableTopicResponse
    data = topic.PartitionData(partition_index=0, error_code=0, high_watermark=7, records=(fill * size)[:size])
    return FetchResponse(throttle_time_ms=0, error_code=0, responses=[topic(topic="t", partitions=[data])])


def framed(response: Any, version: int, correlation_id: int) -> bytes:
    response.API_VERSION = version
    response.with_header(correlation_id=correlation_id)
    return bytes(response.encode(framed=True, header=True))


def ask(link: Link, count: int) -> list[Any]:
    return [
        link.connection.send_request(FetchRequest(max_wait_ms=1, min_bytes=1, topics=[], max_version=11))
        for _ in range(count)
    ]


@pytest.mark.parametrize("pieces", [1, 2, 7, 50])
def test_responses_are_the_same_however_their_bytes_are_cut(link: Link, pieces: int) -> None:
    futures = ask(link, len(SIZES))
    data = b"".join(framed(fetched(size), 11, number + 1) for number, size in enumerate(SIZES))
    link.broker.setblocking(False)
    step = len(data) // pieces + 1
    for start in range(0, len(data), step):
        piece = memoryview(data)[start : start + step]
        while piece:
            try:
                piece = piece[link.broker.send(piece) :]
            except BlockingIOError:
                link.turn()
        link.turn()
    link.turn()

    seen = [future.value.responses[0].partitions[0].records for future in futures]
    assert seen == [fetched(size).responses[0].partitions[0].records for size in SIZES]


def test_a_response_is_not_changed_by_the_next(link: Link) -> None:
    (first,) = ask(link, 1)
    link.broker.sendall(framed(fetched(100_000), 11, 1))
    link.turn()
    (second,) = ask(link, 1)
    link.broker.sendall(framed(fetched(90_000, b"other"), 11, 2))
    link.turn()

    assert first.value.responses[0].partitions[0].records == fetched(100_000).responses[0].partitions[0].records
    assert second.value.responses[0].partitions[0].records == b"other" * 18_000


@pytest.mark.parametrize("version", [4, 11, 12, 17])
@pytest.mark.parametrize(("partitions", "is_view"), [(1, True), (32, True), (33, False)])
def test_records_of_few_partitions_stay_where_they_were_received(
    link: Link, version: int, partitions: int, *, is_view: bool
) -> None:
    wanted = FetchRequest.FetchTopic
    request = FetchRequest(
        max_wait_ms=1,
        min_bytes=1,
        topics=[wanted(topic="t", partitions=[wanted.FetchPartition(partition=n) for n in range(partitions)])],
        min_version=version,
        max_version=version,
    )
    future = link.connection.send_request(request)
    receive_path.read_in_place(link.connection, request)
    answer = fetched(100_000)
    small = answer.responses[0].PartitionData(partition_index=1, high_watermark=8, records=b"small")
    answer.responses[0].partitions.append(small)
    link.broker.sendall(framed(answer, version, 1))
    link.turn()

    large, small = future.value.responses[0].partitions
    assert (large.high_watermark, large.records) == (7, bytes(fetched(100_000).responses[0].partitions[0].records))
    assert (small.high_watermark, small.records) == (8, b"small")
    assert isinstance(large.records, memoryview) == (link.is_large and is_view)
    assert isinstance(small.records, bytes)


def test_records_that_stay_in_place_are_not_changed_by_the_next_answer(link: Link) -> None:
    kept = []
    for number, fill in enumerate((b"one..", b"two..", b"three")):
        request = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[], max_version=11)
        future = link.connection.send_request(request)
        receive_path.read_in_place(link.connection, request)
        link.broker.sendall(framed(fetched(100_000, fill), 11, number + 1))
        link.turn()
        kept.append(future.value.responses[0].partitions[0].records)

    assert kept == [b"one.." * 20_000, b"two.." * 20_000, b"three" * 20_000]


@large
def test_memory_of_an_answer_is_let_go_with_its_records(link: Link) -> None:
    request = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[], max_version=11)
    future = link.connection.send_request(request)
    receive_path.read_in_place(link.connection, request)
    gc.collect()
    before = pa.total_allocated_bytes()
    link.broker.sendall(framed(fetched(100_000), 11, 1))
    link.turn()
    del request
    assert len(future.value.responses[0].partitions[0].records) == 100_000
    assert pa.total_allocated_bytes() - before >= 100_000

    del future
    gc.collect()
    assert pa.total_allocated_bytes() == before


@large
def test_other_library_that_describes_messages_otherwise_has_records_copied(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[], max_version=11)
    future = link.connection.send_request(request)
    with monkeypatch.context() as otherwise:
        otherwise.delattr(StructField, "decode")
        otherwise.delattr(BaseField, "decode")
        receive_path.read_in_place(link.connection, request)
    link.broker.sendall(framed(fetched(100_000), 11, 1))
    link.turn()

    assert isinstance(future.value.responses[0].partitions[0].records, bytes)


def test_fetch_on_a_connection_that_has_ended_fails_as_the_library_says(link: Link) -> None:
    link.connection.close()
    request = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[], max_version=11)
    future = link.connection.send_request(request)
    receive_path.read_in_place(link.connection, request)
    link.turn()

    assert isinstance(future.exception, kafka_errors.KafkaConnectionError)


@large
def test_records_in_place_that_are_cut_end_the_connection(link: Link) -> None:
    request = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[], max_version=11)
    future = link.connection.send_request(request)
    receive_path.read_in_place(link.connection, request)
    cut = framed(fetched(100_000), 11, 1)[4:-100]
    link.broker.sendall(len(cut).to_bytes(4, "big") + cut)
    link.turn()

    assert isinstance(future.exception, kafka_errors.KafkaError)
    assert link.connection.closed


@pytest.mark.parametrize("length", [-1, LIMIT + 1])
def test_length_that_cannot_be_ends_the_connection(link: Link, length: int) -> None:
    (future,) = ask(link, 1)
    link.broker.sendall(length.to_bytes(4, "big", signed=True))
    link.turn()

    assert isinstance(future.exception, kafka_errors.KafkaError)
    assert link.connection.closed


def test_answer_to_another_request_ends_the_connection(link: Link) -> None:
    (future,) = ask(link, 1)
    link.broker.sendall(framed(fetched(100_000), 11, 77))
    link.turn()

    assert isinstance(future.exception, kafka_errors.KafkaError)
    assert link.connection.closed


@pytest.mark.parametrize("size", [0, 100_000])
def test_broker_that_hangs_up_in_the_middle_ends_the_connection(link: Link, size: int) -> None:
    (future,) = ask(link, 1)
    link.broker.sendall(framed(fetched(size), 11, 1)[:-1])
    link.broker.close()
    link.turn()

    assert isinstance(future.exception, kafka_errors.KafkaConnectionError)
    assert link.connection.closed


@large
def test_what_a_broker_says_before_it_hangs_up_is_heard(link: Link) -> None:
    (future,) = ask(link, 1)
    link.turn()
    link.broker.sendall(framed(fetched(10), 11, 1))
    link.broker.close()
    link.turn()

    assert len(future.value.responses[0].partitions[0].records) == 10
    assert link.connection.closed


@pytest.mark.parametrize("link", ["large"], indirect=True)
def test_many_bytes_of_a_large_answer_are_awaited_at_once_and_nothing_else_is(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = vars(link.transport)["_sock_recv"].__self__
    monkeypatch.setattr(frames, "_may_wait", True)
    small, large, after = ask(link, 3)
    answers = [framed(fetched(size), 11, number) for number, size in enumerate((100, 300_000, 100), start=1)]
    large_at = len(answers[0])
    after_at = large_at + len(answers[1])
    rest = len(answers[1]) - 4 - 300_000
    data = memoryview(b"".join(answers))

    def send(start: int, end: int) -> list[int]:
        for at in range(start, end, 50_000):
            link.broker.sendall(data[at : min(end, at + 50_000)])
            link.turn()
        told, link.sock.waits = link.sock.waits, []
        return told

    assert send(0, large_at - 1) == []
    assert send(large_at - 1, large_at + 2) == []
    assert send(large_at + 2, large_at + 4) == [256 << 10]
    assert send(large_at + 4, large_at + 50_004) == [250_000 + rest]
    assert send(large_at + 50_004, after_at - 1) == [*range(200_000 + rest, 0, -50_000), 1]
    assert send(after_at - 1, after_at + 2) == []
    assert send(after_at + 2, len(data)) == []
    assert [len(one.value.responses[0].partitions[0].records) for one in (small, large, after)] == [100, 300_000, 100]


@pytest.mark.parametrize("link", ["large, compiled"], indirect=True)
@pytest.mark.parametrize("waits", [True, False])
def test_compiled_receive_awaits_many_bytes_of_a_large_answer_and_then_any(
    link: Link, monkeypatch: pytest.MonkeyPatch, *, waits: bool
) -> None:
    frames = vars(link.transport)["_sock_recv"].__self__
    monkeypatch.setattr(frames, "_may_wait", waits)
    large_one, after = ask(link, 2)
    answers = [framed(fetched(size), 11, number) for number, size in enumerate((300_000, 100), start=1)]
    seen = []
    for data in (answers[0][:100_000], answers[0][100_000:200_000], answers[0][200_000:], answers[1]):
        link.broker.sendall(data)
        link.turn()
        seen.append(link.sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT))

    total = len(answers[0])
    assert seen == ([total - 100_000, total - 200_000, 1, 1] if waits else [1, 1, 1, 1])
    assert [len(one.value.responses[0].partitions[0].records) for one in (large_one, after)] == [300_000, 100]


def test_compiled_receive_tells_a_reset_the_end_and_a_closed_socket_apart() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    broker, _ = listener.accept()
    listener.close()
    client.setblocking(False)
    target = memoryview(bytearray(100_000))
    broker.sendall(b"x" * 1_000)
    broker.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    receive = receive_compiled()
    assert receive is not None
    assert receive(client.fileno(), target, 0) == 1_000
    with pytest.raises(BlockingIOError):
        receive(client.fileno(), target[1_000:], 0)
    broker.close()

    with pytest.raises(ConnectionResetError):
        receive(client.fileno(), target[1_000:], 0)
    assert receive(client.fileno(), target[1_000:], 0) == 0
    client.close()
    with pytest.raises(OSError, match=r"^\[Errno \d+\] Bad file descriptor$"):
        receive(client.fileno(), target, 0)


class OneByte:
    """A compiled receive of a response whose bytes come one by one, always in time for one more; counts its calls."""

    def __init__(self, after: Callable[[], None] = lambda: None) -> None:
        self.after = after
        self.calls = 0

    def __call__(self, sock: int, target: memoryview, many: int) -> int:
        self.calls += 1
        count = os.readv(sock, [target[:1]])
        self.after()
        return count


@pytest.mark.parametrize("link", ["large, compiled"], indirect=True)
def test_answer_that_trickles_holds_nobody_else(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    receive = OneByte()
    monkeypatch.setattr(receive_path, "receive_compiled", lambda: receive)
    (future,) = ask(link, 1)
    link.broker.sendall(framed(fetched(100_000), 11, 1))
    link.turn()

    assert receive.calls in (2, 3)
    assert not future.is_done


@pytest.mark.parametrize("link", ["large, compiled"], indirect=True)
def test_ctrl_c_while_an_answer_comes_is_not_lost(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        # As the handler of the signal does it, when it comes within the step.
        raise KeyboardInterrupt

    receive = OneByte(after=interrupt)
    monkeypatch.setattr(receive_path, "receive_compiled", lambda: receive)
    request = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[], max_version=11)
    future = link.connection.send_request(request, request_timeout_ms=1_000)
    link.broker.sendall(framed(fetched(100_000), 11, 1))

    async def answer() -> Any:
        return await future

    with pytest.raises(KeyboardInterrupt):
        link.net.run(answer)
    assert link.connection.closed


@pytest.mark.parametrize(
    ("system", "release", "waits"),
    [
        ("linux", "5.12.0", True),
        ("linux", "6.1.0-18-amd64", True),
        ("linux", "5.11.22", False),
        ("linux", "4.18.0-553.el8_10.x86_64", False),
        ("linux", "unknown", False),
        ("darwin", "23.6.0", False),
        ("win32", "", False),
    ],
)
def test_socket_waits_for_many_bytes_only_where_the_system_never_waits_too_long(
    system: str, release: str, waits: bool
) -> None:
    assert receive_path.waits_for_many(system, release) == waits


def test_metadata_comes_by_the_same_path(link: Link) -> None:
    future = link.connection.send_request(MetadataRequest(topics=[], max_version=8))
    answer = MetadataResponse(throttle_time_ms=0, brokers=[], cluster_id="c", controller_id=1, topics=[])
    link.broker.sendall(framed(answer, 8, 1))
    link.turn()

    assert future.value.cluster_id == "c"


@pytest.fixture
def changed_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make a kafka-python whose transport is another inside, and forget what was said and found."""
    receive_path._say.cache_clear()
    monkeypatch.setattr(receive_path, "_found_wrong", [])
    monkeypatch.setattr(KafkaTCPTransport, "_sock_recv", lambda self, most: None)
    yield
    receive_path._say.cache_clear()


@pytest.mark.usefixtures("changed_library")
def test_other_library_is_left_as_it_is_and_said(caplog: pytest.LogCaptureFixture) -> None:
    link = Link("auto")

    assert not link.is_large
    assert "the receive path is stock: responses are received in small pieces" in caplog.text
    assert "KafkaTCPTransport._sock_recv takes other arguments" in caplog.text
    link.close()


@pytest.mark.usefixtures("changed_library")
def test_other_library_is_an_error_where_the_large_path_is_wished() -> None:
    with pytest.raises(KcoordError, match="KCOORD_RECEIVE_PATH is 'large' but this kafka-python"):
        Link("large")


def test_library_that_reads_otherwise_ends_the_large_path(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(receive_path, "_found_wrong", [])
    receive_path._say.cache_clear()
    link = Link("auto")
    (future,) = ask(link, 1)
    link.connection.parser._process_response = lambda frame: frame.other
    link.broker.sendall(framed(fetched(100_000), 11, 1))
    link.turn()

    assert isinstance(future.exception, kafka_errors.KafkaProtocolError)
    assert "the receive path is stock from now on: this kafka-python reads responses otherwise" in caplog.text
    link.close()
    after = Link("auto")
    assert not after.is_large
    after.close()
    receive_path._say.cache_clear()


def test_path_that_was_taken_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    receive_path._say.cache_clear()
    with caplog.at_level(logging.INFO, "spark_kcoord.fetch.receiving.receive_path"):
        for _ in range(2):
            Link("auto").close()

    assert caplog.messages.count("the receive path is large: responses are received whole") == 1


def test_wish_that_is_no_path_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KCOORD_RECEIVE_PATH", "fast")

    with pytest.raises(KcoordError, match="KCOORD_RECEIVE_PATH is 'fast' but must be one of auto, large, stock"):
        receive_path.path_wished()
