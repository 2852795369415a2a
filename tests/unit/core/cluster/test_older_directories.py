"""A directory that is older than another of its node is told as that, whatever its starts have come to."""

from dataclasses import replace

import pytest

from coordinator.core.cluster.effects import LifeBegan, RememberSeen
from coordinator.core.cluster.identity import Identity
from coordinator.core.cluster.transactions import BucketChange, change_shards
from tests.unit.core.cluster.test_registration import NEW, Newcomer, World, identity, two_nodes

EXPIRED_MS = 4_000
IN_SYNC, LEFT = [(1, 2), (2, 1)], [(2,), (2,)]


def copied(process: Newcomer, starts: int) -> Identity:
    """Return the directory of a process as a copy of it that is started for the so manieth time."""
    (*_, wrote) = process.wrote
    directory = replace(process.machine.identity, seen=process.remembered, lacks=wrote.lacks, starts=starts)
    return replace(directory, intended_epoch=wrote.intended_epoch)


def ended(world: World, process: Newcomer) -> None:
    process.kill()
    world.run(EXPIRED_MS)


@pytest.mark.parametrize("failed_starts", [0, 1, 5])
def test_an_older_directory_is_told_however_many_starts_of_it_have_failed(failed_starts: int) -> None:
    world, one, _ = two_nodes()
    copy = copied(one, starts=2 + failed_starts)
    ended(world, one)
    newest = Newcomer(world, copied(one, starts=2))
    world.run()
    assert world.isrs() == IN_SYNC
    ended(world, newest)
    back = Newcomer(world, copy)
    world.run()
    assert back.said == [LifeBegan(2)]
    assert world.isrs() == LEFT
    assert back.wrote[0] == RememberSeen(0, {}, frozenset({0, 1}), 2), "before it has left them"
    assert back.wrote[-1] == RememberSeen(2, {0: 1}, frozenset(), 2)


def test_the_directory_that_was_the_newest_is_an_older_one_after_another_was_registered() -> None:
    world, one, _ = two_nodes()
    copy = copied(one, starts=2)
    ended(world, one)
    newest = Newcomer(world, copied(one, starts=2))
    world.run()
    ended(world, newest)
    back = Newcomer(world, copy)
    world.run()
    ended(world, back)
    again = Newcomer(world, copied(newest, starts=3))
    world.run()
    assert again.said == [LifeBegan(3)]
    assert again.machine.has_lost_all


def test_an_older_directory_is_told_after_a_start_that_ended_when_it_was_to_be_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, one, _ = two_nodes()
    copy = copied(one, starts=2)
    ended(world, one)
    newest = Newcomer(world, copied(one, starts=2))
    world.run()
    ended(world, newest)
    back = Newcomer(world, copy)
    monkeypatch.setattr(back.port, "commit", lambda _: back.kill())
    world.run(EXPIRED_MS)
    assert (back.is_up, world.image().known[1].version) == (False, 1)
    again = Newcomer(world, copied(back, starts=9))
    world.run()
    assert world.isrs() == LEFT
    assert again.wrote[-1].lacks == frozenset()


def test_a_directory_is_as_new_as_a_registration_whose_outcome_it_never_heard() -> None:
    world, one, _ = two_nodes()
    ended(world, one)
    second = Newcomer(world, copied(one, starts=2))
    while 1 not in world.image().live:
        world.run(1)
    assert second.remembered.node_epoch == 0, "it is registered and has not heard of it"
    ended(world, second)
    third = Newcomer(world, copied(second, starts=3))
    world.run()
    assert third.said == [LifeBegan(2)]
    assert world.isrs() == IN_SYNC


def test_a_directory_that_an_older_release_has_written_is_told_by_its_starts() -> None:
    world, one, _ = two_nodes()
    ended(world, one)
    of_before = replace(copied(one, starts=2), intended_epoch=None)
    second = Newcomer(world, of_before)
    world.run()
    assert (second.said, world.isrs()) == ([LifeBegan(1)], IN_SYNC)
    ended(world, second)
    back = Newcomer(world, of_before)
    world.run()
    assert (back.said, world.isrs()) == ([LifeBegan(2)], LEFT)


def test_a_directory_that_has_lost_all_but_its_identity_is_in_sync_with_nothing() -> None:
    world, one, _ = two_nodes()
    ended(world, one)
    back = Newcomer(world, replace(identity(1, starts=2, cluster="c1"), has_memory=False))
    world.run()
    assert (back.said, world.isrs()) == ([LifeBegan(1)], LEFT)


def test_a_node_with_a_new_disk_says_once_what_it_lacks_and_goes_on_with_that_after_its_session() -> None:
    world, one, _ = two_nodes()
    former = world.image().buckets[0].value
    ended(world, one)
    back = Newcomer(world, NEW)
    world.run()
    world.write(*next(change_shards(0, [BucketChange(0, former, world.image().buckets[0].version)])))
    world.run()
    before = len(back.wrote)
    world.servers.expire(back.port.owner)
    world.run()
    assert back.said[-1] == LifeBegan(2)
    assert {(wrote.lacks, wrote.intended_epoch) for wrote in back.wrote[before:]} == {(frozenset(), 2)}
    assert world.isrs() == IN_SYNC
