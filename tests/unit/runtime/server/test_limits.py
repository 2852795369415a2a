"""The limits of the members' port: who is let in, who has to go, and that a good client is served beside them."""

import asyncio
import contextlib
from functools import partial

import pytest

from coordinator.config import ServerSettings
from coordinator.core.security.admission import SPARED_MS
from coordinator.protocol.codec import encode_message
from coordinator.protocol.errors import LocalProtocolError
from coordinator.protocol.messages import (
    ListGroups,
    ListGroupsResponse,
    Ping,
    PingResponse,
    RegisterConsumer,
    RegisterConsumerResponse,
    Request,
)
from coordinator.protocol.parts import GroupSummary, Subscription
from coordinator.protocol.session import REQUEST_BYTES, HelloReceived
from coordinator.runtime.server.connection import Connection
from tests.helpers.loopback import Peer, until
from tests.unit.runtime.server.test_server import Scene, play

pytestmark = pytest.mark.usefixtures("each_event_loop")

BIG = ListGroupsResponse(tuple(GroupSummary("g" * 250, "Stable", n, 1) for n in range(20_000)))
"""Some five megabytes: more than the kernel keeps for a peer that does not read."""


def registration(group_id: str = "g") -> RegisterConsumer:
    return RegisterConsumer(
        group_id,
        "m",
        "i",
        Subscription(("t",)),
        client_id="c",
        pid=1,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
    )


def answering(on: Scene) -> None:
    """Have the server answer as a node would."""

    def answer(connection: int, correlation: int, request: Request) -> None:
        answers = {Ping: PingResponse(), ListGroups: BIG, RegisterConsumer: RegisterConsumerResponse(member_id="m")}
        on.server.send_response(connection, correlation, answers[type(request)])  # type: ignore[arg-type]

    on.listener.on_request = answer


async def greeted(on: Scene) -> Peer:
    peer = await on.connect()
    assert isinstance(await peer.next_event(), HelloReceived)
    return peer


async def is_refused(on: Scene) -> bool:
    """Connect; return whether the server closes the connection without a word."""
    peer = await on.connect(hello=False)
    try:
        return await asyncio.wait_for(peer.reader.read(1), 60) == b""
    except ConnectionResetError:
        return True
    finally:
        await peer.close()


def test_who_says_hello_and_nothing_more_keeps_no_place_for_ever() -> None:
    async def act(on: Scene) -> None:
        answering(on)
        silent, asks = await greeted(on), await greeted(on)
        assert await asks.ask(Ping(1)) == PingResponse()
        on.pass_ms(59_999)
        assert on.server.connections == 2
        on.pass_ms(1)
        await silent.read_to_end()
        await until(lambda: on.server.connections == 1)
        assert await asks.ask(Ping(1)) == PingResponse()
        assert on.server.reached["server.first_request_timeout_ms"] == 1

    assert [line["why"] for line in play(act).log.of("idle-peer")] == ["no request came within 60000 ms"]


def test_one_address_may_have_so_many_connections() -> None:
    async def act(on: Scene) -> None:
        first, _ = await greeted(on), await greeted(on)
        assert await is_refused(on)
        assert on.server.reached["server.connections_per_address"] == 1
        await first.close()
        await until(lambda: on.server.connections == 1)
        await greeted(on)

    log = play(act, ServerSettings(connections_per_address=2)).log
    assert [line["host"] for line in log.of("too-many-connections")] == ["127.0.0.1"]


def test_silent_connections_give_way_to_one_that_speaks() -> None:
    async def act(on: Scene) -> None:
        answering(on)
        silent = [await on.connect(hello=False) for _ in range(3)]
        await until(lambda: on.server.connections == 3)
        assert await is_refused(on), "those that have just come may be about to speak"
        on.pass_ms(SPARED_MS)
        good = await greeted(on)
        assert await good.ask(Ping(1)) == PingResponse()
        await silent[0].read_to_end()
        await until(lambda: on.server.connections == 3)
        assert on.server.admission.half_open_count == 2
        assert on.server.reached["server.half_open_max"] == 2

    assert len(play(act, ServerSettings(half_open_max=3)).log.of("gave-way")) == 1


def test_some_places_are_kept_for_addresses_from_which_members_came() -> None:
    async def act(on: Scene) -> None:
        answering(on)
        first = await greeted(on)
        assert await is_refused(on)
        assert getattr(await first.ask(registration()), "member_id", "") == "m"
        await greeted(on)
        assert await is_refused(on), "no place is left at all"
        assert on.server.reached["server.kept_for_members_percent"] == 1
        assert on.server.reached["server.max_connections"] == 1

    play(act, ServerSettings(max_connections=2, kept_for_members_percent=50))


def test_an_address_that_breaks_the_protocol_again_and_again_has_to_wait() -> None:
    async def act(on: Scene) -> None:
        answering(on)
        for _ in range(3):
            bad = await on.connect(hello=False)
            bad.writer.write(b"GET / HTTP/1.1\r\n\r\n")
            await bad.read_to_end()
            await until(lambda: on.server.connections == 0)
        assert await is_refused(on)
        on.pass_ms(1_000)
        assert await (await greeted(on)).ask(Ping(1)) == PingResponse()
        assert on.server.reached["server.failures_burst"] == 1

    play(act, ServerSettings(failures_burst=3, failures_per_s=1))


def test_who_reads_nothing_is_closed_after_a_while_and_who_reads_slowly_is_not() -> None:
    async def act(on: Scene) -> None:
        answering(on)
        deaf, slow = await greeted(on), await greeted(on)
        for peer, answers in ((deaf, 3), (slow, 40)):  # the slow one has something left to read after many looks
            peer.writer.transport.pause_reading()
            for _ in range(answers):
                peer.writer.write(peer.session.send_request(ListGroups())[1])
        await until(lambda: len(on.server._unread) == 2)
        on.pass_ms(1)
        rounds = 0
        while not on.listener.closed_whys():  # the sockets may have taken some more of the first answers for some looks
            rounds += 1
            assert rounds < 20
            on.pass_ms(14_000)
            (before,) = [live.taken_bytes() for live in on.server._live if live.id == 2]
            slow.writer.transport.resume_reading()
            (live,) = [live for live in on.server._live if live.id == 2]
            # As little as a slow link takes. How much must be read until the socket takes more is the machine's to say.
            while live.taken_bytes() < before + (1 << 16):
                await slow.reader.readexactly(1 << 16)
                await asyncio.sleep(0)
            slow.writer.transport.pause_reading()
        (why,) = on.listener.closed_whys()
        assert "it took none within 30000 ms" in str(why)
        assert [number for kind, number, _ in on.listener.told if kind == "closed"] == [1]

    play(act)


def test_a_peer_that_does_not_read_is_not_heard_until_it_does() -> None:
    async def act(on: Scene) -> None:
        answering(on)
        peer = await greeted(on)
        peer.writer.transport.pause_reading()
        peer.writer.write(b"".join(peer.session.send_request(ListGroups())[1] for _ in range(2)))
        await until(lambda: len(on.server._unread) == 1)
        asked = len(on.listener.told)
        last, data = peer.session.send_request(Ping(1))
        peer.writer.write(data)
        other = await greeted(on)
        assert await other.ask(Ping(2)) == PingResponse()
        assert [request for kind, number, request in on.listener.told[asked:] if (kind, number) == ("request", 1)] == []
        peer.writer.transport.resume_reading()
        answers = [await peer.next_event() for _ in range(3)]
        assert getattr(answers[2], "correlation_id", None) == last

    play(act)


def test_what_a_peer_has_asked_at_once_is_answered_as_it_reads() -> None:
    """All answers were made for it all the same, and it was disconnected for letting them wait."""

    async def act(on: Scene) -> None:
        answering(on)
        peer = await greeted(on)
        peer.writer.transport.pause_reading()
        peer.writer.write(b"".join(peer.session.send_request(ListGroups())[1] for _ in range(16)))
        await until(lambda: len(on.server._unread) == 1 and len(on.server.turns) == 0)
        other = await greeted(on)
        assert await other.ask(Ping(2)) == PingResponse()
        assert on.server.unread_bytes < 5 * len(encode_message(BIG))
        assert sum((kind, number) == ("request", 1) for kind, number, _ in on.listener.told) < 6
        peer.writer.transport.resume_reading()
        assert len([await peer.next_event() for _ in range(16)]) == 16
        assert on.listener.closed_whys() == []

    play(act)


def test_reading_stops_while_requests_that_wait_for_answers_are_too_many_bytes() -> None:
    async def act(on: Scene) -> None:
        waiting: list[int] = []
        on.listener.on_request = lambda _, correlation, __: waiting.append(correlation)
        small, large = await greeted(on), await greeted(on)
        for _ in range(20):
            large.writer.write(large.session.send_request(registration("g" * 200_000))[1])
        await until(lambda: on.server.requests.is_holding and len(on.server.turns) + len(on.server.held) > 0)
        assert on.server.in_flight.bytes < (1 << 20) + 300_000
        small.writer.write(small.session.send_request(Ping(1))[1])
        while len(waiting) < 20 or on.server.in_flight.bytes:
            for correlation_id in waiting:
                with contextlib.suppress(LocalProtocolError):  # it is answered, or the small one's
                    on.server.send_response(2, correlation_id, RegisterConsumerResponse())
            on.pass_ms(100)
            await asyncio.sleep(0)
            if ("request", 1, Ping(1)) in on.listener.told:
                with contextlib.suppress(LocalProtocolError):
                    on.server.send_response(1, 1, PingResponse())
        assert ("request", 1, Ping(1)) in on.listener.told
        assert len(on.server.held) == 0

    assert play(act, ServerSettings(requests_total_bytes=1 << 20)).log.of("requests-held") != []


def test_a_member_is_answered_between_the_frames_of_those_who_say_much_at_once() -> None:
    async def act(on: Scene) -> None:
        answering(on)
        order: list[int] = []
        answer = on.listener.on_request

        def take_long(connection: int, correlation: int, request: Request) -> None:
            if connection == 1 and isinstance(request, Ping):
                until_s = asyncio.get_running_loop().time() + 0.002
                while asyncio.get_running_loop().time() <= until_s:
                    pass
            order.append(connection)
            answer(connection, correlation, request)

        on.listener.on_request = take_long
        greedy, member = await greeted(on), await greeted(on)
        await member.ask(registration())
        greedy.writer.write(b"".join(greedy.session.send_request(Ping(1))[1] for _ in range(50)))
        await until(lambda: len(on.server.turns) == 1)
        for _ in range(3):
            assert await member.ask(Ping(1)) == PingResponse()
        assert order.count(1) < 50, "the member had to wait until all was handled"
        assert len([await greedy.next_event() for _ in range(50)]) == 50
        assert len(on.server.turns) == 0

    play(act)


def test_whoever_has_said_hello_and_waits_for_a_turn_is_not_late_and_who_is_late_is_no_failure() -> None:
    async def act(on: Scene) -> None:
        slow, silent = await on.connect(), await on.connect(hello=False)
        await until(lambda: on.server.connections == 2)
        (waiting,) = [live for live in on.server._live if live.id == 1]
        waiting._wait()
        on.pass_ms(10_000)
        await silent.read_to_end()
        await until(lambda: on.server.connections == 1)
        assert on.server.admission.failing_addresses == 0
        assert isinstance(await slow.next_event(), HelloReceived)

    play(act)


def test_what_waits_for_a_turn_goes_with_its_connection() -> None:
    async def act(on: Scene) -> None:
        answering(on)
        greedy = await greeted(on)
        greedy.writer.write(b"".join(greedy.session.send_request(Ping(1))[1] for _ in range(64)))
        on.server.hold_input(0)
        greedy.writer.transport.abort()
        on.server.release_input()
        await until(lambda: on.server.connections == 0)
        assert (len(on.server.turns), on.server.in_flight.bytes) == (0, 0)

    play(act)


def test_what_a_connection_owed_is_forgotten_with_it() -> None:
    async def act(on: Scene) -> None:
        peers = [await greeted(on) for _ in range(2)]
        for peer in peers:
            peer.writer.write(peer.session.send_request(Ping(1))[1])
        await until(lambda: on.server.in_flight.bytes > 2 * REQUEST_BYTES)
        peers[0].writer.transport.abort()
        peers[1].writer.write(b"\xff\xff\xff\xff")
        await until(lambda: on.server.connections == 0)
        assert on.server.in_flight.bytes == 0

    play(act)


def test_those_who_trickle_are_not_all_looked_at_with_each_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty thousand of them took ten milliseconds of each tick."""
    looked_at: list[Connection] = []

    async def act(on: Scene) -> None:
        peers = [await greeted(on) for _ in range(5)]
        for peer in peers:
            peer.writer.write(b"\0\0")
        await until(lambda: len(on.server.frame_due) == 5)
        begun_bytes = Connection.begun_bytes

        def note_and_return(connection: Connection) -> int:
            looked_at.append(connection)
            return begun_bytes(connection)

        monkeypatch.setattr(Connection, "begun_bytes", note_and_return)
        for _ in range(10):
            on.pass_ms(100)
        assert looked_at == []
        assert on.server.begun_bytes == 10

    play(act)


def test_whoever_has_said_hello_and_is_left_unread_for_requests_of_others_is_not_late() -> None:
    async def act(on: Scene) -> None:
        large = await greeted(on)
        waiting: list[int] = []
        on.listener.on_request = lambda _, correlation, __: waiting.append(correlation)
        while on.server.in_flight.bytes <= 1 << 20:
            correlation_id, asked = large.session.send_request(registration("g" * 50_000))
            large.writer.write(asked)
            await until(partial(waiting.__contains__, correlation_id))
        slow = await on.connect()
        await until(lambda: len(on.server.held) == 1)
        on.pass_ms(10_000)
        for correlation_id in waiting:
            on.server.send_response(1, correlation_id, RegisterConsumerResponse())
        on.pass_ms(100)
        await until(lambda: len(on.server.held) == 0)
        assert isinstance(await slow.next_event(), HelloReceived)
        await until(lambda: on.listener.told[-1][:2] == ("opened", 2))

    assert play(act, ServerSettings(requests_total_bytes=1 << 20)).log.of("stranger") == []


def test_rest_of_a_frame_is_not_late_that_is_left_unread_while_its_peer_reads_slowly() -> None:
    """Its peer had said all of it, and was disconnected as one that breaks the protocol."""

    async def act(on: Scene) -> None:
        answering(on)
        peer = await greeted(on)
        peer.writer.transport.pause_reading()
        asked = peer.session.send_request(Ping(1))[1]
        peer.writer.write(peer.session.send_request(ListGroups())[1] + asked[:6])
        await until(lambda: len(on.server._unread) == 1)
        peer.writer.write(asked[6:])
        for _ in range(3):
            on.pass_ms(30_000)
        peer.writer.transport.resume_reading()
        answers = [await peer.next_event() for _ in range(2)]
        assert [getattr(answer, "correlation_id", None) for answer in answers] == [2, 1]
        assert len(on.server.frame_due) == 0

    assert play(act, ServerSettings(read_timeout_ms=600_000)).log.of("broken-peer") == []
