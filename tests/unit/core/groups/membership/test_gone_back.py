"""The log went back: a disk that was lost or restored from an old copy is noticed by what members show."""

import pytest

from coordinator.core.groups.hard.replay.life_replay import MOST_LIVES
from coordinator.core.groups.hard.replay.replay import replay
from coordinator.core.groups.hard.snapshot import records_of
from coordinator.core.groups.hard.state import ShardState
from coordinator.core.groups.membership.gone_back import MARGIN, MOST_SHOWN
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import FetcherTaken, RegisterConsumerResponse
from coordinator.protocol.parts import Claim, ClaimState, LogPosition, ResetPolicy, StartHint
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld
from tests.helpers.passing_time import let_pass

T0, T1 = ("t", 0), ("t", 1)
BEGIN, END = 10, 100
SESSION_MS = 10_000


def world_of(partitions: int = 1) -> NodeWorld:
    return NodeWorld({"t": partitions}, shards=1)


def told(member: Member) -> LogPosition:
    """Return what a member remembers of the log: what it was told, raised by its grants."""
    answer = next(said for said in reversed(member.inbox) if isinstance(said, RegisterConsumerResponse))
    assert answer.log is not None
    epochs = [part.owner_epoch + 1 for part in member.owned.values()]
    return LogPosition(answer.log.incarnation, max([answer.log.end, *epochs]))


def went_back(world: NodeWorld) -> list[str]:
    return [event.why for event in world.events("log-went-back")]


def checkpoint(claim: Claim) -> StartHint:
    return StartHint(claim.topic, claim.topic_id, claim.partition, claim.from_offset, True, claim.owner_epoch)


# ---- what is no sign -------------------------------------------------------------------------------------------------


def test_restart_of_the_node_is_no_sign() -> None:
    world = world_of()
    m1 = world.join("m1")
    claim, log = m1.run(T0, 100, 110), told(m1)
    world.restart()
    again = world.join("m1", incarnation="process-of-m1", claims=[claim], log=log, is_returning=True)
    assert (went_back(world), again.epoch(T0)) == ([], claim.owner_epoch)
    assert again.confirm(claim).claims[0].state is ClaimState.RUNNING


def test_copy_of_the_whole_log_is_no_sign() -> None:
    world = world_of()
    m1 = world.join("m1")
    log, epoch = told(m1), m1.epoch(T0)
    world.restore(world.copy_disk())
    again = world.join("m1", incarnation="process-of-m1", log=log, is_returning=True)
    assert (went_back(world), again.epoch(T0)) == ([], epoch)


def test_member_without_any_memory_is_no_sign() -> None:
    world = world_of()
    world.join("m1")
    world.restore(None)
    assert world.join("m2").owned[T0].offset == END
    assert went_back(world) == []


def test_incarnation_that_was_forgotten_for_so_many_since_is_no_sign() -> None:
    world = world_of()
    m1 = world.join("m1")
    log = told(m1)
    for _ in range(MOST_LIVES):
        world.restart()
    assert log.incarnation not in world.state(0).lives
    assert len(world.state(0).lives) == MOST_LIVES
    world.join("m1", log=log, is_returning=True)
    assert went_back(world) == []


def test_number_that_no_log_reaches_says_nothing() -> None:
    world = world_of()
    world.join("m1")
    hint = StartHint("t", "id-t", 0, 50, True, owner_epoch=2**63 - 1)
    world.join("m2", hints=[hint], log=LogPosition("elsewhere", MOST_SHOWN))
    assert went_back(world) == []


# ---- what is ---------------------------------------------------------------------------------------------------------


def test_lost_disk_gives_no_owner_epoch_a_second_time() -> None:
    world = world_of()
    m1 = world.join("m1", reset_policy=ResetPolicy("earliest"))
    epoch, log = m1.epoch(T0), told(m1)
    world.restore(None)
    again = world.join("m1", hints=[StartHint("t", "id-t", 0, 37, True, epoch)], log=log, is_returning=True)
    assert again.owned[T0].offset == 37
    assert again.epoch(T0) >= log.end + MARGIN
    assert f"m1 was told of this group's log up to {log.end}" in went_back(world)[0]
    assert "--data" in went_back(world)[0]


def test_old_copy_gives_no_owner_epoch_a_second_time() -> None:
    world = world_of(2)
    m1 = world.join("m1")
    copy = world.copy_disk()
    m2 = world.join("m2")
    m1.stop_all()
    world.settle()
    (partition,) = m2.owned
    lost, log = m2.epoch(partition), told(m2)
    world.restore(copy)
    back = world.join("m1", log=told(m1), is_returning=True)
    assert went_back(world) == []
    m2 = world.join("m2", log=log, is_returning=True)
    assert len(went_back(world)) == 1
    back.stop_all()
    world.settle()
    epochs = [part.owner_epoch for member in (back, m2) for part in member.owned.values()]
    assert len(epochs) == 2
    assert min(epochs) > lost


def test_members_that_are_there_already_are_told_that_they_have_nothing_and_get_it_anew() -> None:
    world = world_of(2)
    m1 = world.join("m1")
    copy = world.copy_disk()
    log = told(world.join("m2"))
    world.restore(copy)
    m1 = world.join("m1", is_returning=True)
    m1.run(T0, 100, 110)
    before = m1.epoch(T0)
    world.joining("m2", log=LogPosition(log.incarnation, 1_000), is_returning=True).register()
    taken = [said for said in m1.inbox if isinstance(said, FetcherTaken)]
    assert [(part.topic, part.partition) for push in taken for part in push.partitions] == [T0, T1]
    world.settle()
    assert m1.epoch(T0) > 1_000 + MARGIN > before
    assert m1.commit(T0, 110, before).error is ErrorCode.FENCED_OWNER_EPOCH
    assert world.committed()[T0] == 100


def test_claim_of_an_old_copy_neither_runs_again_nor_is_committed() -> None:
    world = world_of()
    m1 = world.join("m1")
    claim = m1.run(T0, 100, 110)
    copy = world.copy_disk()
    m2 = world.join("m2")
    log = told(m2)
    world.restore(copy)
    world.join("m2", log=LogPosition(log.incarnation, log.end + 5), is_returning=True)
    m1 = world.join("m1", incarnation="another", claims=[claim], hints=[checkpoint(claim)], is_returning=True)
    assert m1.confirm(claim).claims[0].state is ClaimState.CLOSED
    assert m1.advance([claim]).finished[0].error is ErrorCode.FENCED_OWNER_EPOCH
    assert world.committed()[T0] == 100


def test_member_that_shows_it_gets_nothing_under_an_epoch_that_it_had() -> None:
    world = world_of()
    m1 = world.join("m1")
    copy = world.copy_disk()
    m1.leave()
    m1 = world.join("m1")
    claim, log = m1.run(T0, 100, 105), told(m1)
    world.restore(copy)
    m1 = world.join("m1", claims=[claim], log=log, is_returning=True)
    assert m1.epoch(T0) > claim.owner_epoch
    assert m1.confirm(claim).claims[0].state is ClaimState.CLOSED


def test_later_member_that_shows_more_of_what_was_lost_changes_nothing() -> None:
    world = world_of(2)
    copy = world.copy_disk()
    world.restore(copy)
    m1 = world.join("m1", log=LogPosition("lost", 9), is_returning=True)
    let_pass(world, SESSION_MS, m1)
    epoch = m1.epoch(T0)
    assert epoch > 50 + MARGIN
    world.join("m2", log=LogPosition("lost", 50), hints=[StartHint("t", "id-t", 0, 40, True, 49)], is_returning=True)
    assert len(went_back(world)) == 1
    assert m1.epoch(T0) == epoch


def test_later_member_that_shows_what_is_not_above_begins_anew_once_more() -> None:
    world = world_of()
    m1 = world.join("m1", log=LogPosition("lost", 9), is_returning=True)
    let_pass(world, SESSION_MS, m1)
    before = m1.epoch(T0)
    m2 = world.join("m2", log=LogPosition("lost", before + 5), is_returning=True)
    world.settle()
    assert len(went_back(world)) == 2
    owner = m1 if T0 in m1.owned and m1.epoch(T0) > before else m2
    assert owner.epoch(T0) > before + 5 + MARGIN


def test_log_that_goes_back_twice_is_noticed_twice() -> None:
    world = world_of()
    m1 = world.join("m1", log=LogPosition("lost", 9), is_returning=True)
    let_pass(world, SESSION_MS, m1)
    copy = world.copy_disk()
    m1.leave()
    m1 = world.join("m1")
    log, epoch = told(m1), m1.epoch(T0)
    world.restore(copy)
    m1 = world.join("m1", log=log, is_returning=True)
    assert len(went_back(world)) == 2, "the copy has the first one on its timeline"
    assert m1.epoch(T0) > epoch


def test_epochs_stay_above_after_a_restart_and_from_a_snapshot() -> None:
    world = world_of()
    m1 = world.join("m1", log=LogPosition("lost", 9), is_returning=True)
    let_pass(world, SESSION_MS, m1)
    rebuilt = ShardState()
    for record in records_of(world.state(0)):
        replay(rebuilt, record, None)
    assert rebuilt == world.state(0)
    epoch, before = m1.epoch(T0), went_back(world)
    world.restart()
    m1 = world.join("m1", log=told(m1), is_returning=True)
    assert (m1.epoch(T0), went_back(world)) == (epoch, before)


def test_deleted_group_leaves_epochs_of_the_shard_where_they_are() -> None:
    world = world_of()
    m1 = world.join("m1", log=LogPosition("lost", 9), is_returning=True)
    let_pass(world, SESSION_MS, m1)
    epoch = m1.epoch(T0)
    m2 = world.join("m2", group_id="h")
    assert m2.epoch(T0) > epoch
    assert world.events("log-went-back", group_id="h") == []


def test_second_group_of_the_shard_begins_anew_where_the_first_one_left_off() -> None:
    world = world_of()
    m1 = world.join("m1", log=LogPosition("lost", 9), is_returning=True)
    let_pass(world, SESSION_MS, m1)
    m2 = world.join("m2", group_id="h", log=LogPosition("lost", 200), is_returning=True)
    let_pass(world, SESSION_MS, m1, m2)
    assert world.events("log-went-back", group_id="h")
    assert m1.epoch(T0) < m2.epoch(T0) < m1.epoch(T0) + 100


def test_partition_without_an_offset_in_the_copy_waits_for_the_others_and_is_not_started_by_policy() -> None:
    world = world_of(2)
    world.kafka.cannot_resolve = True
    world.join("m1")
    copy = world.copy_disk()
    world.restore(copy)
    world.kafka.cannot_resolve = False
    m1 = world.join("m1", incarnation="process-of-m1", log=LogPosition("lost", 99), is_returning=True)
    assert m1.owned == {}
    assert world.describe().state == "Recovering"
    m2 = world.join("m2", hints=[StartHint("t", "id-t", 1, 60, True, 80)], is_returning=True)
    let_pass(world, SESSION_MS, m1, m2)
    assert {number: part.offset for (_, number), part in world.group().offsets.items()} == {0: BEGIN, 1: 60}


def test_reader_shows_it_too() -> None:
    world = world_of()
    m1 = world.join("m1")
    before = m1.epoch(T0)
    world.join("r1", commits=False, log=LogPosition("lost", 99), is_returning=True)
    assert len(went_back(world)) == 1
    m1.stop_all()
    world.settle()
    assert all(grant.owner_epoch > before + MARGIN for _, grant in world.group().grants.items())


@pytest.mark.parametrize("shown", [MOST_SHOWN - 1, MOST_SHOWN - 2])
def test_greatest_number_that_may_be_shown_leaves_room_for_epochs(shown: int) -> None:
    world = world_of()
    for number in range(20):
        world.join(f"m{number}", group_id=f"g{number}", log=LogPosition("lost", shown), is_returning=True)
    assert world.state(0).epochs_ahead < MOST_SHOWN + 4 * MARGIN


def test_what_was_held_for_a_member_that_had_gone_is_in_a_target_again() -> None:
    world = world_of(2)
    m1, m2 = (world.join(name, handover="hold", instance_id=f"i-{name}") for name in ("m1", "m2"))
    m1.stop_all()
    m2.run(T1, 100, 110)
    m2.close()
    let_pass(world, SESSION_MS + 1, m1)
    assert sorted(m1.owned) == [T0]
    world.restore(world.copy_disk())
    again = world.join("m1", handover="hold", instance_id="i-m1", log=LogPosition("another", 1_000), is_returning=True)
    let_pass(world, SESSION_MS, again)
    assert len(went_back(world)) == 1
    assert sorted(again.owned) == [T0, T1]
