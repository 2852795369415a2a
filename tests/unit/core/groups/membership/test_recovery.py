"""A group that was forgotten while members remember it: nothing that only one of them knows is passed over."""

import pytest

from coordinator.core.groups.hard.replay.replay import replay
from coordinator.core.groups.hard.snapshot import records_of
from coordinator.core.groups.hard.state import ShardState
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import CommitOffsets, CommitOffsetsResponse, RegisterConsumer, StartFetcher
from coordinator.protocol.messages.operators import DeleteGroup, DeleteGroupResponse
from coordinator.protocol.parts import Claim, ResetPolicy, StartHint, Subscription
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld, replace_registration
from tests.helpers.passing_time import let_pass

SESSION_MS = 10_000
BEGIN, END = 10, 100
FORGOTTEN = "earliest, because the group was forgotten and no checkpoint shows where it was"
ADDED = "earliest, because a member that had been in the group before brought the topic"


def shown(number: int, offset: int, epoch: int | None = None, topic: str = "t") -> StartHint:
    return StartHint(topic, f"id-{topic}", number, offset, from_checkpoint=True, owner_epoch=epoch)


def optional(number: int, offset: int, topic: str = "t") -> StartHint:
    return StartHint(topic, "", number, offset, from_checkpoint=False)


def starts(world: NodeWorld, topic: str = "t") -> dict[int, int]:
    return {number: part.offset for (name, number), part in world.group().offsets.items() if name == topic}


def notes_to(member: Member) -> list[str]:
    return [note for said in member.inbox if isinstance(said, StartFetcher) for note in said.notes]


def whys(world: NodeWorld) -> set[str]:
    return {event.why for event in world.events("start-resolved")}


def test_first_member_back_does_not_start_what_another_checkpoint_shows() -> None:
    world = NodeWorld({"t": 4})
    m1 = world.join("m1", hints=[shown(0, 50), shown(1, 51)])
    assert (m1.owned, world.describe().state) == ({}, "Recovering")
    let_pass(world, 5_000, m1)
    m2 = world.join("m2", hints=[shown(2, 52), shown(3, 53)])
    let_pass(world, 500, m1, m2)
    assert starts(world) == {0: 50, 1: 51, 2: 52, 3: 53}
    assert {**m1.owned, **m2.owned}.keys() == {("t", number) for number in range(4)}
    assert "the checkpoints show every partition" in world.events("recovered")[0].why


def test_partitions_that_no_checkpoint_shows_start_at_earliest_when_a_session_timeout_is_over() -> None:
    world = NodeWorld({"t": 3})
    m1 = world.join("m1", hints=[shown(0, 50)], reset_policy=ResetPolicy("latest"))
    assert "waiting 10000 ms for the checkpoints of others" in world.events("recovering")[0].why
    let_pass(world, 9_500, m1)
    assert m1.owned == {}
    let_pass(world, 500, m1)
    assert starts(world) == {0: 50, 1: BEGIN, 2: BEGIN}
    assert whys(world) == {"offset 50, by a checkpoint of a member", FORGOTTEN}
    assert world.describe().state == "Stable"


def test_member_is_told_what_starts_without_an_offset_and_why() -> None:
    world = NodeWorld({"t": 3})
    m1 = world.join("m1", hints=[shown(0, 50)])
    let_pass(world, SESSION_MS, m1)
    assert notes_to(m1) == [
        "the group has no offset of t-0: offset 50, by a checkpoint of a member",
        f"the group has no offset of t-1, t-2: {FORGOTTEN}",
    ]
    m1.leave()
    assert notes_to(world.join("m2")) == []


def test_nobody_waits_when_the_first_checkpoint_shows_every_partition() -> None:
    world = NodeWorld({"t": 2})
    m1 = world.join("m1", hints=[shown(0, 50), shown(1, 60)])
    assert {partition: part.offset for partition, part in m1.owned.items()} == {("t", 0): 50, ("t", 1): 60}
    assert world.events("recovering") == []


def test_process_that_was_a_member_and_held_nothing_is_no_first_member_either() -> None:
    world = NodeWorld({"t": 2})
    m1 = world.join("m1", is_returning=True)
    let_pass(world, SESSION_MS, m1)
    assert starts(world) == {0: BEGIN, 1: BEGIN}


def test_open_claim_says_that_its_member_was_there() -> None:
    world = NodeWorld({"t": 2})
    m1 = world.join("m1", claims=[Claim("t", "id-t", 0, 7, 50, 60)])
    let_pass(world, SESSION_MS, m1)
    assert starts(world) == {0: BEGIN, 1: BEGIN}


def test_new_member_without_a_checkpoint_starts_by_the_policy_at_once() -> None:
    world = NodeWorld({"t": 1})
    m1 = world.join("m1", hints=[optional(0, 33)])
    assert (m1.owned["t", 0].offset, world.events("recovering")) == (33, [])


def test_new_member_of_a_forgotten_group_waits_with_the_others_and_its_option_does_not_count() -> None:
    world = NodeWorld({"t": 2, "u": 1})
    m1 = world.join("m1", hints=[shown(0, 50)])
    m2 = world.join("m2", topics=("t", "u"), hints=[optional(1, 90), optional(0, 90, "u")])
    assert (m1.owned, m2.owned) == ({}, {})
    let_pass(world, SESSION_MS, m1, m2)
    assert (starts(world), starts(world, "u")) == ({0: 50, 1: BEGIN}, {0: BEGIN})


def test_policy_none_still_waits_for_an_operator() -> None:
    world = NodeWorld({"t": 2})
    m1 = world.join("m1", hints=[shown(0, 50)], reset_policy=ResetPolicy("none"))
    let_pass(world, SESSION_MS, m1)
    assert starts(world) == {0: 50}
    assert "commit an offset" in world.events("start-unresolved")[0].why


def test_policy_by_time_does_not_count_in_a_forgotten_group() -> None:
    world = NodeWorld({"t": 2})
    world.kafka.at_timestamp["t", 1] = 70
    m1 = world.join("m1", hints=[shown(0, 50)], reset_policy=ResetPolicy("timestamp", 5))
    let_pass(world, SESSION_MS, m1)
    assert starts(world) == {0: 50, 1: BEGIN}


def test_wait_survives_a_restart_in_its_middle() -> None:
    world = NodeWorld({"t": 2})
    first = world.join("m1", hints=[shown(0, 50)])
    let_pass(world, 5_000, first)
    asked = first.registration
    world.restart()
    m1 = come_back(world, asked)
    assert world.describe().state == "Recovering"
    m2 = world.join("m2", hints=[shown(1, 60)])
    let_pass(world, 1_000, m1, m2)
    assert starts(world) == {0: 50, 1: 60}


def test_wait_ends_after_a_restart_although_nobody_else_comes() -> None:
    world = NodeWorld({"t": 2})
    asked = world.join("m1", hints=[shown(0, 50)]).registration
    world.restart()
    m1 = come_back(world, asked)
    let_pass(world, SESSION_MS, m1)
    assert (starts(world), world.group().recovery_ms) == ({0: 50, 1: BEGIN}, None)


def test_snapshot_in_the_middle_of_the_wait_is_the_whole_state() -> None:
    world = NodeWorld({"t": 2})
    world.join("m1", hints=[shown(0, 50)])
    empty = ShardState()
    for record in records_of(world.state(world.node.shard_of("g"))):
        replay(empty, record, None)
    assert empty == world.state(world.node.shard_of("g"))
    assert empty.groups["g"].recovery_ms == SESSION_MS


def test_deleted_group_comes_back_as_its_checkpoints_show_it() -> None:
    world = NodeWorld({"t": 2})
    world.join("m1").leave()
    world.connect().ask(DeleteGroup("g", "ann", "", is_dry_run=False), DeleteGroupResponse)
    m1 = world.join("m1", hints=[shown(0, 50)])
    assert world.describe().state == "Recovering"
    m1.leave()
    world.connect().ask(DeleteGroup("g", "ann", "", is_dry_run=False), DeleteGroupResponse)
    assert world.join("m2").owned["t", 0].offset == END


def test_group_of_which_only_an_operator_said_something_since_it_was_deleted_is_forgotten_all_the_same() -> None:
    world = NodeWorld({"t": 3})
    world.join("m1").leave()
    world.connect().ask(DeleteGroup("g", "ann", "", is_dry_run=False), DeleteGroupResponse)
    world.connect().ask(CommitOffsets("g", in_columns((OffsetToCommit("t", 1, 70),))), CommitOffsetsResponse)
    m1 = world.join("m1", hints=[shown(0, 50)])
    assert world.describe().state == "Recovering"
    let_pass(world, SESSION_MS + 1_000, m1)
    assert starts(world) == {0: 50, 1: 70, 2: BEGIN}


def test_checkpoint_that_comes_after_the_wait_finds_its_partitions_at_earliest() -> None:
    world = NodeWorld({"t": 2})
    m1 = world.join("m1", hints=[shown(0, 50)])
    let_pass(world, SESSION_MS, m1)
    world.join("m2", hints=[shown(1, 60)])
    assert starts(world) == {0: 50, 1: BEGIN}
    assert world.group().recovery_ms is None


def test_newest_grant_knows_best_and_of_equal_ones_the_smallest_end_counts() -> None:
    world = NodeWorld({"t": 3})
    m1 = world.join("m1", hints=[shown(0, 90, 5), shown(1, 40), shown(2, 70, 9)])
    let_pass(world, 500, m1)
    assert starts(world) == {0: 90, 1: 40, 2: 70}
    other = NodeWorld({"t": 4})
    m1 = other.join("m1", hints=[shown(0, 90, 5), shown(1, 40), shown(2, 70, 9)])
    m2 = other.join("m2", hints=[shown(0, 60, 8), shown(1, 30), shown(2, 20, 9), shown(3, 20)])
    let_pass(other, 500, m1, m2)
    assert starts(other) == {0: 60, 1: 30, 2: 20, 3: 20}


# ---- an old copy of the disk ----------------------------------------------------------------------------------------


def test_offsets_of_an_old_copy_win_and_what_it_never_had_starts_as_checkpoints_show_or_at_earliest() -> None:
    world = NodeWorld({"t": 1, "u": 2})
    world.join("m1").leave()
    m1 = world.join("m1", topics=("t", "u"), hints=[shown(0, 300), shown(0, 70, topic="u")])
    let_pass(world, SESSION_MS, m1)
    assert (starts(world), starts(world, "u")) == ({0: END}, {0: 70, 1: BEGIN})


def test_topic_of_which_an_old_copy_has_no_offsets_yet_is_not_started_by_policy() -> None:
    world = NodeWorld({"t": 2})
    world.kafka.cannot_resolve = True
    m1 = world.join("m1")
    world.kafka.cannot_resolve = False
    m2 = world.join("m2", hints=[shown(1, 60)])
    assert world.describe().state == "Recovering"
    let_pass(world, SESSION_MS, m1, m2)
    assert starts(world) == {0: BEGIN, 1: 60}


# ---- topics that come later -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("subscription", [Subscription(("t", "u")), Subscription(pattern="[tu]")])
def test_topic_that_a_returning_query_adds_starts_at_earliest(subscription: Subscription) -> None:
    world = NodeWorld({"t": 1, "u": 1})
    world.join("m1").leave()
    m1 = world.joining("m1", subscription=subscription, hints=[shown(0, 100)])
    m1.register()
    world.poll_topics()
    world.settle()
    assert m1.owned["u", 0].offset == BEGIN
    assert ADDED in whys(world)


def test_topic_that_a_member_of_the_group_adds_starts_at_earliest() -> None:
    world = NodeWorld({"t": 1, "u": 1})
    m1 = world.join("m1")
    assert m1.registration is not None
    wider = replace_registration(m1.registration, {"subscription": Subscription(("t", "u"))})
    again = world.connect()
    again.registration = wider
    again.register()
    world.settle()
    assert again.owned["u", 0].offset == BEGIN


def test_topic_that_a_query_brings_which_left_a_running_claim_starts_at_earliest() -> None:
    """It comes back without a checkpoint, in a process that knows nothing of the one before, and is no new member."""
    world = NodeWorld({"t": 1, "u": 1})
    hold = {"handover": "hold", "instance_id": "i"}
    m1 = world.join("m1", **hold)
    m1.run(("t", 0), END, END + 5)
    m1.close()
    world.advance(world.limits.closed_connection_grace_ms + 1_000)
    again = world.join("", incarnation="second", topics=("t", "u"), **hold)
    world.settle()
    assert (again.member_id, again.owned["u", 0].offset) == ("m1", BEGIN)


def test_topic_that_a_new_member_brings_starts_by_its_option_or_the_policy() -> None:
    world = NodeWorld({"t": 1, "u": 2})
    m1 = world.join("m1")
    m2 = world.join("m2", topics=("t", "u"), hints=[optional(1, 33, "u")])
    let_pass(world, 100, m1, m2)
    assert starts(world, "u") == {0: END, 1: 33}


def come_back(world: NodeWorld, asked: RegisterConsumer | None) -> Member:
    again = world.connect()
    again.registration = asked
    again.register()
    world.settle()
    return again


def test_reader_that_commits_nothing_is_back_first_and_the_group_is_forgotten_all_the_same() -> None:
    world = NodeWorld({"t": 2})
    reader = world.join("r1", commits=False, is_returning=True)
    m1 = world.join("m1", hints=[shown(0, 50)])
    assert world.describe().state == "Recovering"
    let_pass(world, SESSION_MS, reader, m1)
    reader.stop_all()
    let_pass(world, 500, reader, m1)
    m1.stop_all()
    let_pass(world, 500, reader, m1)
    reader.leave()
    world.settle()
    assert starts(world) == {0: 50, 1: BEGIN}
