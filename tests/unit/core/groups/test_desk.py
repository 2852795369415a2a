"""What is left of groups that are no more is let go of in turns: it can be very much memory."""

from coordinator.core.groups.desk import Clock, Desk
from coordinator.core.groups.hard.journal import Journal
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.soft.lost_owners import LostOwner
from coordinator.core.kafka_metadata import Catalog
from coordinator.core.limits import Limits


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
