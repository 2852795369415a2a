"""Nodes that do wrong, of every kind: each costs its own contact and a line in the log, and nothing else."""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coordinator.core.peers.events import ContactBegan, ContactEnded, PeerPinged, PeerRefused, PeerSaid
from coordinator.protocol import peer_messages as wire
from coordinator.protocol.session import Role, Session
from coordinator.runtime.peers import PeerLimits
from coordinator.runtime.server.port import ListenError
from tests.helpers.event_loops import run
from tests.helpers.peer_nodes import PeerNode, RawConnection, RawPeer, in_contact, nodes, raw_peer, until_passed

pytestmark = pytest.mark.usefixtures("each_event_loop")

LIMITS = PeerLimits(output_bytes=1_000_000, held_bytes=100_000, strangers=3)


def play(act: Callable[[PeerNode, RawPeer], Awaitable[None]], its_id: int = 3) -> None:
    """Have a real node 2 and a node that does as it is told."""

    async def whole() -> None:
        async with raw_peer(its_id) as raw, nodes(2, limits=LIMITS) as (node,):
            await asyncio.wait_for(act(node, raw), 60)

    run(whole())


BOTH = pytest.mark.parametrize("its_id", [1, 3])


@BOTH
def test_silence_ends_a_contact(its_id: int) -> None:
    async def act(node: PeerNode, raw: RawPeer) -> None:
        node.connect(raw)
        await raw.meet(node)
        node.pass_ms(100)
        node.pass_ms(LIMITS.silence_ms - 1)
        assert not node.of(ContactEnded)
        node.pass_ms(1)
        await until_passed(lambda: node.of(ContactEnded), node)
        assert node.of(ContactEnded) == [ContactEnded(its_id, 1, "nothing came from it for 1500 ms")]

    play(act, its_id)


@BOTH
def test_what_is_said_while_all_contacts_are_being_closed_is_void(its_id: int) -> None:
    async def act(node: PeerNode, raw: RawPeer) -> None:
        node.connect(raw)
        its, _ = await raw.meet(node)
        closing = asyncio.ensure_future(node.port.close("the node is shutting down"))
        await asyncio.sleep(0)
        node.say(its_id, wire.Confirm(1))
        assert await its.until_closed() == [wire.PeerClosing("the node is shutting down")]
        await closing

    play(act, its_id)


@BOTH
def test_a_peer_that_does_not_read_loses_its_contact_and_its_words_no_memory(its_id: int) -> None:
    async def act(node: PeerNode, raw: RawPeer) -> None:
        node.connect(raw)
        await raw.meet(node)
        piece = wire.SnapshotPiece(0, 0, 0, 1, 0, 0, True, 0, (bytes(900_000),))
        said = 0
        while not node.of(ContactEnded):
            node.say(its_id, piece)
            said += 1
            assert said < 1_000, "more than a gigabyte was taken for it"
            await asyncio.sleep(0)
        (ended,) = node.of(ContactEnded)
        assert "it does not read" in ended.why  # type: ignore[union-attr]

    play(act, its_id)


@BOTH
@pytest.mark.parametrize(
    ("nonsense", "why"),
    [
        (b"\0\0\0\0", "length 0"),
        (b"\xff" * 8, "over the limit"),
        (struct.pack(">II", 5, 0) + b"\xc1", "cannot be read"),
        (struct.pack(">II", 6, 9) + b"\x92\xcd", "cannot be read"),
    ],
)
def test_garbage_costs_its_own_contact_alone(its_id: int, nonsense: bytes, why: str) -> None:
    async def act(node: PeerNode, raw: RawPeer) -> None:
        other = await PeerNode(4).listen()
        try:
            node.connect(raw, other)
            other.connect(node)
            await in_contact(node, other)
            to, of = await raw.meet(node)
            to.say(wire.Confirm(1))
            to.writer.write(nonsense)
            await until_passed(lambda: node.of(ContactEnded), node, other)
            assert node.heard(its_id) == [wire.Confirm(1)]
            (ended,) = node.of(ContactEnded)
            assert why in ended.why  # type: ignore[union-attr]
            assert not other.of(ContactEnded)
            said = await of.until_closed()
            assert isinstance(said[-1], wire.PeerClosing)
            assert why in said[-1].why
        finally:
            await other.port.close("the test is over")

    play(act, its_id)


@BOTH
def test_a_peer_speaks_on_its_own_connection_alone(its_id: int) -> None:
    async def act(node: PeerNode, raw: RawPeer) -> None:
        node.connect(raw)
        _, of = await raw.meet(node)
        of.say(wire.Confirm(1))
        await until_passed(lambda: node.of(ContactEnded), node)
        assert node.heard(its_id) == []

    play(act, its_id)


def test_what_comes_before_the_contact_has_begun_here_is_told_after_that() -> None:
    async def act(node: PeerNode, raw: RawPeer) -> None:
        node.connect(raw)
        to = await raw.open(node.address)
        await to.next()
        of = await raw.accept()
        while (hello := await of.next()) and isinstance(hello, wire.PeerHello) and not hello.answers:
            of = await raw.accept()
        for number in range(3):
            to.say(wire.Confirm(number))
        await to.writer.drain()
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert node.told == []
        of.greet(raw.hello())
        await until_passed(lambda: len(node.told) == 4, node)
        assert node.told == [ContactBegan(1, 1), *(PeerSaid(1, 1, wire.Confirm(number)) for number in range(3))]

    play(act, 1)


def test_who_says_very_much_before_the_contact_has_begun_is_closed() -> None:
    async def act(node: PeerNode, raw: RawPeer) -> None:
        node.connect(raw)
        to = await raw.open(node.address)
        await to.next()
        for _ in range(200):
            to.say(wire.SnapshotRefused(0, 0, 0, "x" * 490))
        to.say(wire.SnapshotPiece(0, 0, 0, 1, 0, 0, True, 0, (bytes(200_000),)))
        said = await to.until_closed()
        assert isinstance(said[-1], wire.PeerClosing)
        assert "before the contact has begun" in said[-1].why
        assert node.told == []

    play(act, 1)


@BOTH
def test_ping_of_a_peer_in_contact_is_told_with_its_life(its_id: int) -> None:
    async def act(node: PeerNode, raw: RawPeer) -> None:
        node.connect(raw)
        to, of = await raw.meet(node)
        of.say(wire.PeerPing())  # on the connection that the node has opened: it lives, and is told so by the other
        to.say(wire.PeerPing())
        to.say(wire.Confirm(1))
        await until_passed(lambda: node.heard(its_id), node)
        assert node.told == [ContactBegan(its_id, 1), PeerPinged(its_id, 1), PeerSaid(its_id, 1, wire.Confirm(1))]

    play(act, its_id)


@BOTH
def test_one_direction_alone_is_no_contact_and_the_refused_one_is_told(its_id: int) -> None:
    async def act(node: PeerNode, raw: RawPeer) -> None:
        node.connect(raw)
        await raw.close()
        to = await raw.open(node.address)
        await to.next()
        await until_passed(lambda: len(node.of(PeerRefused)) >= 2, node)
        to.say(wire.Confirm(1))
        await until_passed(lambda: len(node.of(PeerRefused)) >= 4, node)
        assert set(node.told) == {PeerRefused(its_id, 1)}

    play(act, its_id)


# ---- who is not spoken with ------------------------------------------------------------------------------------------


async def refused(node: PeerNode, raw: RawPeer, hello: wire.PeerHello) -> str:
    """Return the last word of a node to whoever says such a hello to it."""
    connection = await raw.open(node.address, hello=hello)
    said = await connection.until_closed()
    assert isinstance(said[-1], wire.PeerClosing)
    return said[-1].why


@pytest.mark.parametrize(
    ("hello", "why"),
    [
        (
            wire.PeerHello("another", 3, 4, "1.0", 1),
            "node 3 is of cluster 'another' and node 2 of cluster 'the cluster'",
        ),
        (wire.PeerHello("the cluster", 3, 3, "1.0", 1), "node epoch 3 and has been registered in 4 since"),
        (wire.PeerHello("the cluster", 5, 1, "1.0", 1), "node 2 does not expect node 5"),
        (wire.PeerHello("the cluster", 2, 1, "1.0", 1), "both ends are node 2"),
    ],
)
def test_a_stranger_is_told_why_and_so_is_the_log(hello: wire.PeerHello, why: str) -> None:
    async def act(node: PeerNode, raw: RawPeer) -> None:
        node.connect(raw, lives=(4,))
        assert why in await refused(node, raw, hello)
        assert why in await refused(node, raw, hello)
        assert [why in line for line in node.whys("stranger")] == [True], "said once"
        assert node.told == []

    play(act)


@pytest.mark.parametrize(
    ("hello", "why"),
    [
        (wire.PeerHello("the cluster", 5, 4, "1.0"), "looked for node 3 and found node 5"),
        (wire.PeerHello("another", 3, 4, "1.0"), "of cluster 'another'"),
        (wire.PeerHello("the cluster", 3, 3, "1.0"), "a former life"),
        (wire.PeerHello("the cluster", 2, 4, "1.0"), "both ends are node 2"),
    ],
)
def test_a_stranger_at_a_peer_s_address_is_told_why_and_so_is_the_log(hello: wire.PeerHello, why: str) -> None:
    async def act(node: PeerNode, raw: RawPeer) -> None:
        node.connect(raw, lives=(4,))
        for _ in range(2):
            await until_passed(lambda: raw.accepted, node)
            of = await raw.accept()
            of.greet(hello)
            said = await of.until_closed()
            assert isinstance(said[-1], wire.PeerClosing)
            assert why in said[-1].why
        assert [why in line for line in node.whys("peer-refused")] == [True], "said once"
        assert node.told == []

    play(act)


def test_a_members_port_at_a_peer_s_address_is_named() -> None:
    async def act(node: PeerNode, raw: RawPeer) -> None:
        node.connect(raw)
        of = await raw.accept()
        of.writer.write(Session(Role.COORDINATOR).send_hello())
        await until_passed(lambda: node.whys("peer-refused"), node)
        (why,) = node.whys("peer-refused")
        assert "the other end speaks as members and coordinators do" in why

    play(act)


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (Session(Role.MEMBER).send_hello(), "the other end speaks as members"),
        (b"GET / HTTP/1.1\r\n\r\n", "an HTTP request"),
        (b"\0\0\0\x04junk", "not the hello of one kcoord node"),
    ],
)
def test_whoever_is_no_node_is_named_in_the_log(first: bytes, why: str) -> None:
    async def act(node: PeerNode, raw: RawPeer) -> None:
        node.connect(raw)
        connection = RawConnection(*await asyncio.open_connection(*node.address))
        connection.writer.write(first)
        await connection.until_closed()
        connection.writer.close()
        (line,) = node.whys("stranger")
        assert why in line

    play(act)


def test_before_it_is_registered_a_node_speaks_with_nobody() -> None:
    async def act(node: PeerNode, raw: RawPeer) -> None:
        connection = await raw.open(node.address)
        assert await connection.until_closed() == []
        assert node.told == []

    play(act)


def test_strangers_that_say_nothing_are_few_and_go_in_time() -> None:
    async def act(node: PeerNode, raw: RawPeer) -> None:
        node.connect()
        silent: list[Any] = [await asyncio.open_connection(*node.address) for _ in range(LIMITS.strangers + 1)]
        await until_passed(lambda: node.whys("stranger"), node)
        assert node.whys("stranger") == ["3 connections have not said an acceptable hello yet; no more may"]
        node.pass_ms(100)
        node.pass_ms(LIMITS.silence_ms)
        for reader, writer in silent:
            while await asyncio.wait_for(reader.read(65536), 60):
                pass
            writer.close()
        assert "nothing came from it for 1500 ms" in node.whys("stranger")[-1]

    play(act)


def test_an_address_that_is_taken_is_named() -> None:
    async def act(node: PeerNode, raw: RawPeer) -> None:
        with pytest.raises(ListenError, match=r"cannot listen on 127\.0\.0\.1:\d+ for other nodes: .*peers\.listen"):
            await PeerNode(4).port.bind(*raw.address)

    play(act)


def test_an_address_that_another_process_took_before_anybody_could_connect_is_named() -> None:
    """uvloop told nobody: a node went on that no other one could reach."""

    async def act(*_: object) -> None:
        late, soon = PeerNode(4).port, PeerNode(5).port
        address = await late.bind("127.0.0.1", 0)
        assert await soon.bind(*address) == address
        await soon.accept()
        with pytest.raises(ListenError, match=r"cannot listen on 127\.0\.0\.1:\d+ for other nodes: .*peers\.listen"):
            await late.accept()
        for port in (late, soon):
            await port.close("the test is over")

    play(act)
