import asyncio
import contextlib
import select
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest

from coordinator.config import ServerSettings
from coordinator.core.security.principal import Principal
from coordinator.protocol.codec import encode_message
from coordinator.protocol.framing import encode_envelope
from coordinator.protocol.messages import (
    CommitOffsets,
    CommitOffsetsResponse,
    ListGroups,
    ListGroupsResponse,
    Ping,
    PingResponse,
    Probe,
    Request,
)
from coordinator.protocol.parts import GroupSummary
from coordinator.protocol.session import HelloReceived, PushReceived, ResponseReceived
from coordinator.runtime.server.listening import ACCEPTING
from coordinator.runtime.server.port import DROPPED_AT_ONCE, FLUSH_LOT, ListenError, Server
from tests.helpers.event_loops import run
from tests.helpers.loopback import Peer, RememberedLog, until
from tests.helpers.processes import eventually

pytestmark = pytest.mark.usefixtures("each_event_loop")

SETTINGS = ServerSettings(max_connections=100)


class HandClock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_ms = 1000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return 0

    def take_stall_ms(self) -> int:
        return 0

    def hold(self) -> None:
        raise AssertionError("this clock is not held")

    def go_on(self) -> int:
        raise AssertionError("this clock is not held")


class Listener:
    """Remembers what it is told and answers as it is told to."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int, object]] = []
        self.principals: dict[int, Principal] = {}
        self.on_request: Callable[[int, int, Request], None] = lambda *_: None

    def connection_opened(self, connection_id: int, host: str, principal: Principal) -> None:
        self.principals[connection_id] = principal
        self.told.append(("opened", connection_id, host))

    def request_received(self, connection_id: int, correlation_id: int, request: Request) -> None:
        self.told.append(("request", connection_id, request))
        self.on_request(connection_id, correlation_id, request)

    def connection_closed(self, connection_id: int, why: str) -> None:
        self.told.append(("closed", connection_id, why))

    def closed_whys(self) -> list[object]:
        return [why for kind, _, why in self.told if kind == "closed"]


class Scene:
    def __init__(self, settings: ServerSettings) -> None:
        self.listener = Listener()
        self.clock = HandClock()
        self.log = RememberedLog()
        self.server = Server(settings, self.listener, self.clock, self.log.logger)
        self.address = ("", 0)
        self.peers: list[Peer] = []

    async def connect(self, *, hello: bool = True) -> Peer:
        peer = await Peer.connect(self.address, hello=hello)
        self.peers.append(peer)
        return peer

    def pass_ms(self, milliseconds: int) -> None:
        self.clock.now_ms += milliseconds
        self.server.check_deadlines(self.clock.now_ms)


@contextlib.asynccontextmanager
async def scene(settings: ServerSettings = SETTINGS) -> AsyncIterator[Scene]:
    made = Scene(settings)
    made.address = await made.server.bind("127.0.0.1", 0)
    assert await made.server.accept() == made.address
    try:
        yield made
    finally:
        for peer in made.peers:
            await peer.close()
        await made.server.close("the test is over")


def play(act: Callable[[Scene], Awaitable[None]], settings: ServerSettings = SETTINGS) -> Scene:
    async def whole() -> Scene:
        async with scene(settings) as made:
            await asyncio.wait_for(act(made), 60)
        return made

    return run(whole())


def test_a_request_is_told_and_its_answer_comes_back() -> None:
    async def act(on: Scene) -> None:
        answer = ListGroupsResponse((GroupSummary("g", "Stable", 3, 1),))
        on.listener.on_request = lambda connection, correlation, _: on.server.send_response(
            connection, correlation, answer
        )
        peer = await on.connect()
        assert await peer.ask(ListGroups()) == answer
        assert on.listener.told == [("opened", 1, "127.0.0.1"), ("request", 1, ListGroups())]
        await peer.close()
        await until(lambda: on.listener.closed_whys() == ["its process closed it or ended"])
        assert on.server.connections == 0

    assert play(act).log.lines == []


def test_who_is_accepted_by_any_listener_is_kept_alive_and_written_to_at_once() -> None:
    options = ((socket.SOL_SOCKET, socket.SO_KEEPALIVE), (socket.IPPROTO_TCP, socket.TCP_NODELAY))

    async def act(on: Scene) -> None:
        await connect_many(on, 2 * ACCEPTING)
        socks = [connection._transport.get_extra_info("socket") for connection in on.server._live]  # type: ignore[union-attr]
        assert len(socks) == 2 * ACCEPTING
        assert all(sock.getsockopt(*option) for sock in socks for option in options)

    play(act)


def test_everything_that_came_in_one_read_is_answered_by_few_writes() -> None:
    async def act(on: Scene) -> None:
        on.listener.on_request = lambda connection, correlation, _: on.server.send_response(
            connection, correlation, PingResponse()
        )
        peer = await on.connect()
        assert isinstance(await peer.next_event(), HelloReceived)
        on.server.turns.now_ns = lambda: 0  # a turn that takes long is cut, and no machine is so slow here
        asked = [peer.session.send_request(Ping(1)) for _ in range(50)]
        peer.writer.write(b"".join(data for _, data in asked))
        # 50 answers are far less than a segment: written at once they also come at once.
        numbers: list[int] = []
        reads = 0
        while len(numbers) < len(asked):
            answers = await asyncio.wait_for(peer.reader.read(65536), 60)
            numbers += [event.correlation_id for event in peer.session.receive_bytes(answers)]
            reads += 1
        assert numbers == [n for n, _ in asked]
        assert reads < 10

    play(act)


def test_what_a_member_said_before_the_end_of_its_connection_is_told_before_its_end_also_when_handling_takes_long() -> (
    None
):
    async def act(on: Scene) -> None:
        loop = asyncio.get_running_loop()

        def take_long(connection_id: int, correlation_id: int, request: Request) -> None:
            del connection_id, correlation_id, request
            until_s = loop.time() + 0.01
            while loop.time() <= until_s:
                pass

        peers = await connect_many(on, 4)
        for connection in on.server._live:
            connection.is_member = True
        on.listener.on_request = take_long
        for peer in peers:
            peer.writer.write(peer.session.send_request(Ping(1))[1])
            peer.writer.close()
        await until(lambda: len(on.listener.told) == 12)
        for connection_id in range(1, 5):
            kinds = [told[0] for told in on.listener.told if told[1] == connection_id]
            assert kinds == ["opened", "request", "closed"]

    play(act)


def test_who_hangs_up_while_it_waits_for_its_turn_is_not_heard() -> None:
    async def act(on: Scene) -> None:
        gone, stays = await connect_many(on, 2)
        on.server.hold_input(1 << 30)  # which gives nobody a turn
        for connection in tuple(on.server._live):
            connection._wait()
        for peer in (gone, stays):
            peer.writer.write(peer.session.send_request(Ping(1))[1])
        gone.writer.close()
        await until(lambda: on.server.connections == 1)
        assert on.listener.told[2:] == [("closed", 1, "its process closed it or ended")]
        on.server.release_input()
        on.pass_ms(1)
        await until(lambda: on.listener.told[3:] == [("request", 2, Ping(1))])

    play(act)


def test_what_is_said_meanwhile_is_heard_in_the_same_turn_and_only_a_little_of_it_is_read() -> None:
    async def act(on: Scene) -> None:
        peer = await on.connect(hello=False)
        await until(lambda: on.server.connections == 1)
        (connection,) = on.server._live
        on.server.hold_input(1 << 30)
        connection._wait()
        said = peer.session.send_hello(), encode_envelope(1, encode_message(Ping(1)))
        for each in said:
            peer.writer.write(each)
            await peer.writer.drain()
        await until(lambda: connection._held == b"".join(said))
        connection.take_turn()
        assert [told[0] for told in on.listener.told] == ["opened", "request"]
        connection._wait()
        peer.writer.write(bytes(8 << 20))
        await until(lambda: bool(connection._held))
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert len(connection._held) < 1 << 20
        peer.writer.transport.abort()

    play(act)


def test_pushes_and_close_reach_the_peer_in_order() -> None:
    async def act(on: Scene) -> None:
        peer = await on.connect()
        await until(lambda: on.listener.told)
        on.server.send_push(1, Probe())
        on.server.close_connection(1, "it was replaced")
        assert isinstance(await peer.next_event(), HelloReceived)
        assert await peer.next_event() == PushReceived(Probe())
        with pytest.raises(EOFError):
            await peer.next_event()
        await until(lambda: on.listener.closed_whys() == ["it was replaced"])
        on.server.send_push(1, Probe())
        on.server.send_response(1, 7, PingResponse())
        on.server.close_connection(1, "again")
        on.server.flush()

    play(act)


async def connect_many(on: Scene, count: int) -> list[Peer]:
    """Connect peers whose connections have the ids 1 to `count`."""
    peers = []
    for number in range(1, count + 1):
        peers.append(await on.connect())
        assert isinstance(await peers[-1].next_event(), HelloReceived)
        await until(lambda number=number: len(on.listener.told) == number)
    return peers


def said_to(peers: Sequence[Peer]) -> list[bool]:
    """Tell who of these, who do not read, has been written to: the kernel has the bytes."""
    files = [peer.writer.get_extra_info("socket").fileno() for peer in peers]
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    ready = {file for file, _ in poll.poll(0)}
    return [file in ready for file in files]


def test_many_connections_are_written_to_in_lots_with_the_rest_in_the_next_turn_of_the_loop() -> None:
    async def act(on: Scene) -> None:
        peers = await connect_many(on, FLUSH_LOT + 2)
        for connection_id in range(1, FLUSH_LOT + 3):
            on.server.send_push(connection_id, Probe())
        between: list[list[bool]] = []
        for peer in peers:
            peer.writer.transport.pause_reading()

        def look() -> None:
            assert eventually(lambda: all(said_to(peers[:FLUSH_LOT]))), "the first lot was not written at once"
            between.append(said_to(peers))

        asyncio.get_running_loop().call_soon(look)
        on.server.flush()
        await until(lambda: all(said_to(peers)))
        assert between == [[True] * FLUSH_LOT + [False] * 2], "what waited for the loop was not served between the lots"
        for peer in peers:
            peer.writer.transport.resume_reading()
            assert await peer.next_event() == PushReceived(Probe())

    play(act, ServerSettings(max_connections=FLUSH_LOT + 2, kept_for_members_percent=0))


def test_connection_that_is_closed_before_its_lot_comes_harms_nobody() -> None:
    async def act(on: Scene) -> None:
        peers = await connect_many(on, FLUSH_LOT + 3)
        for connection_id in range(1, FLUSH_LOT + 4):
            on.server.send_push(connection_id, Probe())
        on.server.flush()
        on.server.close_connection(FLUSH_LOT + 1, "it was replaced")
        peers[FLUSH_LOT + 1].writer.transport.abort()
        await until(lambda: len(on.listener.closed_whys()) == 2)
        for number, peer in enumerate(peers):
            if number != FLUSH_LOT + 1:
                assert await peer.next_event() == PushReceived(Probe())
        assert "it was replaced" in on.listener.closed_whys()
        on.server.send_push(FLUSH_LOT + 3, Probe())
        on.server.flush()
        assert await peers[-1].next_event() == PushReceived(Probe())

    assert play(act, ServerSettings(max_connections=FLUSH_LOT + 3, kept_for_members_percent=0)).log.lines == []


@pytest.mark.parametrize(
    ("first_bytes", "why"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "an HTTP request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 32, "a TLS handshake"),
        (struct.pack(">ihhih", 20, 18, 3, 1, 10) + b"kafka-java", "a Kafka request"),
        (b"\xff\xff\xff\xff garbage", "over the limit of 16384 bytes"),
        (b"\x00\x00\x00\x00", "a frame of length 0"),
        (struct.pack(">I4sHH", 8, b"KCRD", 7, 9), "speaks protocol version 7 to 9"),
    ],
)
def test_a_stranger_is_closed_with_one_log_line(first_bytes: bytes, why: str) -> None:
    async def act(on: Scene) -> None:
        peer = await on.connect(hello=False)
        peer.writer.write(first_bytes)
        await peer.read_to_end()
        await until(lambda: on.server.connections == 0)
        await peer.close()
        assert on.listener.told == []

    log = play(act).log
    assert [(line["level"], line["event"]) for line in log.lines] == [("warning", "stranger")]
    assert why in log.lines[0]["why"]
    assert log.lines[0]["host"] == "127.0.0.1"
    assert "exc_info" not in log.lines[0]


def test_a_frame_over_the_limit_is_refused_before_its_bytes_come() -> None:
    async def act(on: Scene) -> None:
        peer = await on.connect()
        peer.writer.write(struct.pack(">I", 1024 * 1024 + 1))
        await peer.read_to_end()
        await until(lambda: on.listener.closed_whys())
        assert "over the limit of 1048576 bytes" in str(on.listener.closed_whys()[0])
        await peer.close()

    assert [line["event"] for line in play(act).log.lines] == ["broken-peer"]


def test_an_unknown_request_is_answered_and_the_connection_stays() -> None:
    async def act(on: Scene) -> None:
        on.listener.on_request = lambda connection, correlation, _: on.server.send_response(
            connection, correlation, PingResponse()
        )
        peer = await on.connect()
        await peer.next_event()
        correlation_id, data = peer.session.send_request(Ping(1))
        peer.writer.write(data.replace(b"\x94\x03", b"\x94\x5e"))
        answer = await peer.next_event()
        assert getattr(answer, "correlation_id", None) == correlation_id
        assert "request number 94 is not known" in str(answer)
        assert await peer.ask(Ping(1)) == PingResponse()

    play(act)


def test_who_says_no_hello_in_time_is_disconnected() -> None:
    async def act(on: Scene) -> None:
        silent = await on.connect(hello=False)
        await until(lambda: on.server.connections == 1)
        on.pass_ms(6000)
        polite = await on.connect()
        await until(lambda: on.listener.told)
        on.pass_ms(4000)
        await silent.read_to_end()
        await until(lambda: on.server.connections == 1)
        on.pass_ms(60_000)
        assert on.server.connections == 1
        await silent.close()
        await polite.close()

    assert [line["why"] for line in play(act).log.of("stranger")] == ["no hello came within 10000 ms"]


def test_of_those_who_are_too_late_some_at_a_time_are_dropped_until_all_are() -> None:
    count = 2 * DROPPED_AT_ONCE + 1

    async def act(on: Scene) -> None:
        peers = [await on.connect(hello=False) for _ in range(count)]
        await until(lambda: on.server.connections == count)
        on.pass_ms(10_000)
        assert len(on.log.of("stranger")) == DROPPED_AT_ONCE
        on.pass_ms(50)  # the next tick before the rest was dropped begins nothing of its own
        assert len(on.log.of("stranger")) == DROPPED_AT_ONCE
        for peer in peers:
            await peer.read_to_end()

    assert len(play(act).log.of("stranger")) == count


def test_who_stops_inside_a_frame_is_disconnected_and_who_goes_on_is_not() -> None:
    async def act(on: Scene) -> None:
        on.listener.on_request = lambda connection, correlation, _: on.server.send_response(
            connection, correlation, PingResponse()
        )
        stuck = await on.connect()
        busy = await on.connect()
        await stuck.next_event()
        await busy.next_event()
        _, data = stuck.session.send_request(Ping(1))
        stuck.writer.write(data[:6])
        # the busy one always has half of its next frame out
        frames = b"".join(busy.session.send_request(Ping(1))[1] for _ in range(20))
        half = len(data) // 2
        for start in range(0, 15 * len(data), len(data)):
            busy.writer.write(frames[max(0, start - half) : start + len(data) - half])
            await busy.next_event() if start else None
            on.pass_ms(2500)
        await stuck.read_to_end()
        await until(lambda: on.listener.closed_whys())
        assert on.listener.closed_whys() == ["the rest of a frame did not come within 30000 ms"]
        assert on.server.connections == 1

    play(act)


def test_who_does_not_read_is_disconnected_at_the_buffer_limit() -> None:
    async def act(on: Scene) -> None:
        deaf = await on.connect()
        await until(lambda: on.listener.told)
        big = ListGroupsResponse(tuple(GroupSummary("g" * 250, "Stable", n, 1) for n in range(1000)))
        on.listener.on_request = lambda connection, correlation, _: on.server.send_response(
            connection, correlation, big
        )
        for _ in range(60):
            deaf.writer.write(deaf.session.send_request(ListGroups())[1] if deaf.session.version else b"")
            if deaf.session.version is None:
                await deaf.next_event()
                deaf.writer.transport.pause_reading()
        await until(lambda: on.listener.closed_whys())
        assert "it does not read" in str(on.listener.closed_whys()[0])
        deaf.writer.transport.abort()

    settings = ServerSettings(max_connections=100, output_buffer_bytes=64 * 1024)
    assert [line["event"] for line in play(act, settings).log.lines] == ["slow-reader"]


def test_a_closing_peer_that_does_not_read_is_given_up_after_the_close_timeout() -> None:
    async def act(on: Scene) -> None:
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(on.address)
            deaf.sendall(struct.pack(">I4sHH", 8, b"KCRD", 1, 1))
            await until(lambda: on.listener.told)
            big = ListGroupsResponse(tuple(GroupSummary("g" * 250, "Stable", n, 1) for n in range(30_000)))
            on.listener.on_request = lambda connection, correlation, _: on.server.send_response(
                connection, correlation, big
            )
            deaf.sendall(struct.pack(">II", 6, 1) + b"\x91\x0b")
            await until(lambda: len(on.listener.told) == 2)
            on.server.close_connection(1, "enough")
            on.pass_ms(4999)
            await asyncio.sleep(0)
            assert on.listener.closed_whys() == []
            on.pass_ms(1)
            await until(lambda: on.listener.closed_whys() == ["enough"])

    play(act, ServerSettings(max_connections=100, output_buffer_bytes=64 * 1024 * 1024))


def test_a_connection_that_is_closed_twice_has_its_first_deadline_and_holds_up_nobody_else() -> None:
    async def act(on: Scene) -> None:
        for _ in range(2):
            await on.connect()
        await until(lambda: on.server.connections == 2)
        first, second = sorted(on.server._live, key=lambda live: live.id)
        on.server.await_close(first)
        on.server.await_close(second)
        on.pass_ms(SETTINGS.close_timeout_ms - 1)
        on.server.await_close(first)
        on.pass_ms(1)
        await until(lambda: on.server.connections == 0)

    play(act)


def test_connections_over_the_limit_are_closed_with_one_line_for_all() -> None:
    async def act(on: Scene) -> None:
        welcome = [await on.connect() for _ in range(2)]
        await until(lambda: on.server.connections == 2)
        refused = [await on.connect() for _ in range(3)]
        for peer in refused:
            assert await peer.read_to_end() == b""
        assert on.server.connections == 2
        for peer in [*welcome, *refused]:
            await peer.close()
        await until(lambda: on.server.connections == 0)

    log = play(act, ServerSettings(max_connections=2)).log
    assert [line["event"] for line in log.lines] == ["too-many-connections"]


def test_a_taken_port_is_a_clear_error() -> None:
    async def act(on: Scene) -> None:
        second = Server(SETTINGS, on.listener, on.clock, on.log.logger)
        with pytest.raises(ListenError, match=r"cannot listen on 127\.0\.0\.1:\d+: .*in use.*--listen"):
            await second.bind(*on.address)

    play(act)


def test_a_crowd_that_connects_at_once_is_accepted_before_it_takes_the_node_for_dead() -> None:
    """Uvloop accepts one connection a turn of its loop: 5,000 that came at once waited for seconds for a hello."""

    async def act(on: Scene) -> None:
        crowd = [socket.socket() for _ in range(90)]
        for sock in crowd:
            sock.setblocking(False)
            sock.connect_ex(on.address)
        turns = 0
        while on.server.connections < len(crowd):
            await asyncio.sleep(0)
            turns += 1
        assert turns <= len(crowd) // ACCEPTING + 10
        for sock in crowd:
            sock.close()
        await until(lambda: on.server.connections == 0)

    play(act)


def test_whoever_stops_accepting_leaves_no_socket_that_takes_connections() -> None:
    async def act(on: Scene) -> None:
        on.server.stop_accepting()
        await asyncio.sleep(0)
        with socket.socket() as sock, pytest.raises(ConnectionRefusedError):
            sock.connect(on.address)

    play(act)


def test_an_address_that_another_process_took_before_anybody_could_connect_is_a_clear_error() -> None:
    """Both may bind it; uvloop told nobody who of them did not get it, and that one served nobody."""

    async def act(on: Scene) -> None:
        late, soon = (Server(SETTINGS, on.listener, on.clock, on.log.logger) for _ in range(2))
        address = await late.bind("127.0.0.1", 0)
        assert await soon.bind(*address) == address
        await soon.accept()
        with pytest.raises(ListenError, match=rf"cannot listen on 127\.0\.0\.1:{address[1]}: .*in use.*--listen"):
            await late.accept()
        for server in (late, soon):
            await server.close("the test is over")

    play(act)


def test_few_open_files_lower_the_number_of_connections_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (256, 256))

    async def act(on: Scene) -> None:
        with_logs = Server(ServerSettings(max_connections=90_000), on.listener, on.clock, on.log.logger, open_logs=50)
        await with_logs.bind("127.0.0.1", 0)
        await with_logs.close("over", timeout_ms=0)

    alone, with_logs = play(act, ServerSettings(max_connections=100_000)).log.of("few-open-files")
    assert "the limit on open files is 256, so at most 128 connections are accepted and not 100000" in alone["why"]
    assert "so at most 78 connections are accepted and not 90000; raise it with `ulimit -n 90178`" in with_logs["why"]


def test_input_that_is_held_is_taken_in_once_it_is_released_and_in_order() -> None:
    async def act(on: Scene) -> None:
        on.listener.on_request = lambda connection, correlation, request: on.server.send_response(
            connection, correlation, PingResponse() if isinstance(request, Ping) else CommitOffsetsResponse()
        )
        small, large = await on.connect(), await on.connect()
        for peer in (small, large):
            assert isinstance(await peer.next_event(), HelloReceived)
        on.server.hold_input(500)
        many = [large.session.send_request(Ping(number)) for number in range(60)]
        long = [large.session.send_request(CommitOffsets("g" * 900, ()))]
        large.writer.write(b"".join(data for _, data in long + many[:3]))
        assert await small.ask(Ping(7)) == PingResponse()
        assert [request for kind, number, request in on.listener.told if kind == "request" and number == 2] == []
        large.writer.write(b"".join(data for _, data in many[3:]))
        assert await small.ask(Ping(8)) == PingResponse()
        on.pass_ms(SETTINGS.frame_timeout_ms + 1)
        on.server.release_input()
        answered = [await large.next_event() for _ in range(61)]
        assert [event.correlation_id for event in answered] == [number for number, _ in long + many]
        requests = [request for kind, number, request in on.listener.told if kind == "request" and number == 2]
        assert requests == [CommitOffsets("g" * 900, ()), *(Ping(number) for number in range(60))]

    play(act)


def test_nobody_is_read_while_all_input_is_held_and_a_connection_may_go_meanwhile() -> None:
    async def act(on: Scene) -> None:
        stays, goes = await on.connect(), await on.connect()
        for peer in (stays, goes):
            assert isinstance(await peer.next_event(), HelloReceived)
        on.server.hold_input(0)
        asked = stays.session.send_request(Ping(1))[1]
        stays.writer.write(asked[:5])
        goes.writer.write(goes.session.send_request(Ping(2))[1])
        await until(lambda: len(on.server.held) == 2)
        on.server.hold_input(0)
        await goes.close()
        stays.writer.write(asked[5:])
        on.server.release_input()
        await until(lambda: ("request", 1, Ping(1)) in on.listener.told)
        await until(lambda: on.server.connections == 1)
        assert len(on.server.held) == 0

    play(act)


def test_those_for_whom_the_most_waits_are_disconnected_when_too_much_waits_for_all() -> None:
    sent = {1: 24, 2: 60, 3: 1}  # megabytes, of which the sockets of each take some

    async def act(on: Scene) -> None:
        readers = [await on.connect() for _ in sent]
        for peer in readers:
            assert isinstance(await peer.next_event(), HelloReceived)
        answer = ListGroupsResponse(tuple(GroupSummary("g" * 1_000, "Stable", 3, 1) for _ in range(1_000)))
        asked: list[tuple[int, int]] = []
        on.listener.on_request = lambda connection, correlation, _: asked.append((connection, correlation))
        for number, peer in enumerate(readers, 1):
            peer.writer.write(b"".join(peer.session.send_request(ListGroups())[1] for _ in range(sent[number])))
        await until(lambda: len(asked) == sum(sent.values()))
        for connection, correlation in sorted(asked):  # a node may have taken them all in before anybody is behind
            on.server.send_response(connection, correlation, answer)
            on.server.flush()
            await asyncio.sleep(0)
        await until(lambda: on.listener.closed_whys() != [])  # at once: no tick comes
        (why,) = on.listener.closed_whys()
        assert "bytes wait for it, and" in str(why)
        assert [number for kind, number, _ in on.listener.told if kind == "closed"] == [2]
        on.pass_ms(1)
        assert isinstance(await readers[2].next_event(), ResponseReceived)
        assert on.server.connections == 2

    settings = ServerSettings(max_connections=100, output_buffer_bytes=1 << 30, output_total_bytes=48 << 20)
    assert [line for line in play(act, settings).log.lines if "slow-reader" in str(line)] != []


def test_those_of_whom_the_most_has_come_are_disconnected_when_too_many_frames_are_begun() -> None:
    async def act(on: Scene) -> None:
        peers = [await on.connect() for _ in range(3)]
        for number, peer in enumerate(peers):
            assert isinstance(await peer.next_event(), HelloReceived)
            peer.writer.write((1 << 19).to_bytes(4, "big") + bytes((400_000, 500_000, 300_000)[number]))
        await until(lambda: on.server.begun_bytes > 1_200_000)
        on.pass_ms(1)
        await until(lambda: on.listener.closed_whys() != [])
        assert [number for kind, number, _ in on.listener.told if kind == "closed"] == [2]
        on.pass_ms(1)
        assert on.server.connections == 2

    play(act, ServerSettings(max_connections=100, input_total_bytes=1 << 20))
