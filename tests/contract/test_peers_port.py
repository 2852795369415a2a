"""The promises of `PeersPort`, kept by the real port over loopback."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from coordinator.core.log.snapshot import MAX_PIECE_BYTES
from coordinator.core.peers.events import ContactBegan, ContactEnded, PeerRefused
from coordinator.protocol import peer_messages as wire
from tests.helpers.event_loops import run
from tests.helpers.peer_nodes import PeerNode, in_contact, nodes, until_passed

pytestmark = pytest.mark.usefixtures("each_event_loop")


def play(act: Callable[..., Awaitable[None]], *ids: int) -> None:
    async def whole() -> None:
        async with nodes(*ids) as made:
            await asyncio.wait_for(act(*made), 60)

    run(whole())


def words(begin: int, end: int) -> list[wire.Confirm]:
    return [wire.Confirm(number) for number in range(begin, end)]


def test_nodes_that_want_it_are_in_contact_each_in_its_life() -> None:
    async def act(one: PeerNode, two: PeerNode, three: PeerNode) -> None:
        one.connect(two, three, life=7, lives=(8, 9))
        two.connect(one, three, life=8, lives=(7, 9))
        three.connect(one, two, life=9, lives=(7, 8))
        await in_contact(one, two, three)
        assert one.told == [event for event in one.told if isinstance(event, ContactBegan)]
        assert sorted(one.told, key=lambda event: event.peer) == [ContactBegan(2, 8), ContactBegan(3, 9)]
        assert sorted(three.told, key=lambda event: event.peer) == [ContactBegan(1, 7), ContactBegan(2, 8)]

    play(act, 1, 2, 3)


def test_all_that_one_says_comes_in_its_order() -> None:
    async def act(one: PeerNode, two: PeerNode) -> None:
        one.connect(two)
        two.connect(one)
        await in_contact(one, two)
        for number in range(1_000):
            one.say(2, wire.Confirm(number))
            two.say(1, wire.Confirm(number))
        await until_passed(lambda: len(one.heard(2)) == len(two.heard(1)) == 1_000, one, two)
        assert one.heard(2) == two.heard(1) == words(0, 1_000)
        large = wire.SnapshotPiece(0, 0, 0, 1, 0, 0, True, 0, (bytes(MAX_PIECE_BYTES - 5),))
        one.say(2, large)
        await until_passed(lambda: two.heard(1)[1_000:] == [large], two)

    play(act, 1, 2)


def test_without_a_contact_nothing_is_said() -> None:
    async def act(one: PeerNode, two: PeerNode) -> None:
        one.say(2, wire.Confirm(1))
        one.connect(two)
        one.say(2, wire.Confirm(2))
        two.connect(one)
        await in_contact(one, two)
        one.say(2, wire.Confirm(3))
        await until_passed(lambda: two.heard(1), one, two)
        assert two.heard(1) == [wire.Confirm(3)]

    play(act, 1, 2)


@pytest.mark.parametrize("who", [0, 1])
def test_a_contact_that_one_ends_is_over_at_both_and_nothing_of_it_comes_in_the_next(who: int) -> None:
    async def act(*pair: PeerNode) -> None:
        one, two = pair
        one.connect(two)
        two.connect(one)
        for turn in range(20):
            await in_contact(one, two)
            for number in range(5):
                one.say(2, wire.Confirm(10 * turn + number))
                two.say(1, wire.Confirm(10 * turn + number))
                if number == 2:
                    pair[who].end(2 - who, "it said nonsense")
            await until_passed(lambda ends=turn + 1: all(len(node.of(ContactEnded)) == ends for node in pair), *pair)
        await in_contact(one, two)
        assert all(len(node.of(ContactEnded)) == 20 for node in pair)
        for node in pair:
            turns, at = [list[int]()], 0
            for event in node.told:
                if isinstance(event, ContactEnded):
                    turns.append([])
                    at += 1
                elif not isinstance(event, ContactBegan):
                    turns[at].append(event.message.round)
            assert all(heard == list(range(10 * turn, 10 * turn + len(heard))) for turn, heard in enumerate(turns))
        whys = [event.why for event in pair[who].of(ContactEnded)]
        assert whys == ["it said nonsense"] * 20
        assert all("it said nonsense" in event.why for event in pair[1 - who].of(ContactEnded))

    play(act, 1, 2)


def test_a_node_that_is_gone_is_refused_until_it_is_there_again_in_another_life() -> None:
    async def act(one: PeerNode) -> None:
        two = await PeerNode(2).listen()
        one.connect(two)
        two.connect(one)
        await in_contact(one, two)
        await two.port.close("it is stopped")
        await until_passed(lambda: len(one.of(PeerRefused)) >= 3, one)
        assert one.told[:2] == [ContactBegan(2, 1), ContactEnded(2, 1, "the other end closed it: it is stopped")]
        assert set(one.told[2:]) == {PeerRefused(2, 1)}
        assert len(one.whys("peer-unreachable")) == 1, "the same is logged once"
        again = PeerNode(2)
        again.address = await again.port.bind(*two.address)
        await again.port.accept()
        try:
            again.connect(one, life=2)
            await in_contact(one, again)
            assert one.told[-1] == ContactBegan(2, 2)
        finally:
            await again.port.close("the test is over")

    play(act, 1)


def test_a_node_that_registers_anew_begins_its_contacts_anew() -> None:
    async def act(one: PeerNode, two: PeerNode) -> None:
        one.connect(two)
        two.connect(one)
        await in_contact(one, two)
        two.connect(one, life=5)
        await until_passed(lambda: ContactBegan(2, 5) in one.told, one, two)
        assert [type(event) for event in one.told] == [ContactBegan, ContactEnded, ContactBegan]
        assert "has registered anew" in one.told[1].why
        one.connect(two, lives=(6,))
        assert not await settled(lambda: one.is_in_contact(2), one, two), "a former life"
        two.connect(one, life=6)
        await in_contact(one, two)

    play(act, 1, 2)


async def settled(condition: Callable[[], bool], *pair: PeerNode) -> bool:
    """Return whether something is so after two seconds of their time."""
    for _ in range(100):
        for node in pair:
            node.pass_ms(20)
        await asyncio.sleep(0.001)
    return condition()


def test_a_peer_that_is_left_out_is_spoken_with_no_longer() -> None:
    async def act(one: PeerNode, two: PeerNode, three: PeerNode) -> None:
        for node, others in ((one, (two, three)), (two, (one, three)), (three, (one, two))):
            node.connect(*others)
        await in_contact(one, two, three)
        one.connect(two)
        await until_passed(lambda: three.of(ContactEnded, 1), one, two, three)
        assert not await settled(lambda: one.is_in_contact(3) or three.is_in_contact(1), one, two, three)
        assert one.is_in_contact(2)
        assert not one.of(ContactEnded, 2)
        assert any("does not expect node 3" in why for why in one.whys("stranger"))

    play(act, 1, 2, 3)


def test_a_contact_lasts_while_nobody_says_anything() -> None:
    async def act(one: PeerNode, two: PeerNode) -> None:
        one.connect(two)
        two.connect(one)
        await in_contact(one, two)
        for _ in range(100):
            for node in (one, two):
                node.pass_ms(100)
            await asyncio.sleep(0.002)
        assert not one.of(ContactEnded)
        assert not two.of(ContactEnded)

    play(act, 1, 2)
