"""The soft state of groups: looking at a group makes none, and what is left of one that is no more goes in turns."""

from coordinator.core.groups.describe import describe, summaries
from coordinator.core.groups.desk import Clock, Desk
from coordinator.core.groups.hard.journal import Journal
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.shard import Shard
from coordinator.core.groups.soft.lost_owners import LostOwner
from coordinator.core.groups.soft.sessions import Connection
from coordinator.core.kafka_metadata import Catalog
from coordinator.core.limits import Limits
from coordinator.core.requests.survey import survey
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import CommitOffsets


def test_what_is_left_of_a_large_group_is_let_go_of_in_turns() -> None:
    """It took longer than everything else that is done when a group is forgotten."""
    desk = Desk(Journal(0), Limits(), Catalog(("k:1",)), Clock(), {})
    lost_owners = desk.soft_of("g").lost_owners
    lost_owners.note([("t", number) for number in range(25_000)], LostOwner(1, "why"))
    (lost,) = lost_owners.parts()
    desk.forget_group(GroupState("g"))
    assert not desk.soft
    left = []
    while desk.remains.drop():
        left.append(len(lost))
    assert left == [15_000, 5_000]
    assert not lost


def test_looking_at_a_group_makes_no_soft_state_of_it() -> None:
    """Every group that was listed, described or surveyed kept two kilobytes more, for as long as it was there."""
    journal = Journal(0)
    desk = Desk(journal, Limits(), Catalog(("k:1",)), Clock(), {})
    groups = journal.state.groups
    groups.update({group_id: GroupState(group_id) for group_id in ("a", "b")})
    assert [line.state for line in summaries(desk, "", 10)] == ["Empty", "Empty"]
    assert describe(desk, groups["a"], None, 10).state == "Empty"
    assert len(list(survey(lambda: desk))) == 2
    assert not desk.soft


def test_commits_for_a_group_without_members_make_no_soft_state_of_it() -> None:
    """The second one looked whether a member waited for the offset, and kept two kilobytes for each such group."""
    desk = Desk(Journal(0), Limits(), Catalog(("k:1",)), Clock(), {})
    shard = Shard(desk, {}, lambda: 1)
    for offset in (10, 20):
        asked = CommitOffsets("g", in_columns([OffsetToCommit("t", 0, offset)]))
        shard.handle_commit(Connection(1, "10.0.0.1"), 1, asked)
    group = desk.group("g")
    assert group is not None
    assert group.offsets.offset_of(("t", 0)) == 20
    assert not desk.soft
