"""Where a member has come to that leaves: committed together where it can be, and the same as one by one."""

from typing import Any

import pytest

from coordinator.core.groups.hard.records import MemberRemoved, OffsetsCommitted, Released, decode_record
from coordinator.core.groups.offsets import committed_offsets
from coordinator.protocol.ids import MAX_NAMED
from coordinator.protocol.parts import FinalOffset
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld

PARTITIONS = {"t": 40, "u": 3}


def kinds_of_records(world: NodeWorld) -> list[type]:
    return [type(decode_record(data)) for data in world.written[world.node.shard_of("g")]]


def leaves(*finals: tuple[str, int, int, int | None], metadata: str = "", doing: Any = None) -> tuple[Any, list[type]]:
    """Return the offsets and the kinds of records of a member that leaves; a final is by its owner epoch's difference.

    `doing` is done to the world, and the member, before that.
    """
    world = NodeWorld(PARTITIONS)
    member = world.join("m1", topics=("t", "u"))
    if doing is not None:
        doing(world, member)
    named = [
        FinalOffset(topic, number, member.epoch((topic, number)) + ahead, offset, metadata=metadata)
        for topic, number, ahead, offset in finals
    ]
    before = len(kinds_of_records(world))
    member.leave(*named)
    kinds = kinds_of_records(world)[before:]
    world.restart()
    return world.committed(), kinds


def claims_one(_: NodeWorld, member: Member) -> None:
    member.advance(claims=[member.claim(("t", 1), 100, 110)])


ALL = [("t", number, 0, 200 + number) for number in range(40)] + [("u", 2, 0, 300)]


@pytest.mark.parametrize(
    ("finals", "options", "is_together"),
    [
        (ALL, {}, True),
        (ALL[::-1], {}, True),
        ([*ALL[:5], ("t", 7, 1, 500)], {}, True),  # under another owner epoch: it is not its any more
        ([*ALL[:5], ("u", 0, 0, None)], {}, True),
        ([*ALL[:5], ("t", 2, 0, 500)], {}, False),
        ([*ALL[:5], ("t", 7, 0, 99)], {}, False),
        ([*ALL[:5], ("t", 7, 0, -1)], {}, False),
        (ALL, {"metadata": "where I was"}, False),
        (ALL, {"doing": claims_one}, False),
    ],
)
def test_last_offsets_are_the_same_together_and_one_by_one(
    finals: list[tuple[str, int, int, int | None]],
    options: dict[str, Any],
    is_together: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    committed, kinds = leaves(*finals, **options)
    assert (OffsetsCommitted in kinds, Released in kinds) == (is_together, not is_together)
    assert MemberRemoved in kinds
    monkeypatch.setattr(committed_offsets, "finals_together", lambda *_: None)
    assert leaves(*finals, **options)[0] == committed
    assert committed["t", 0] == 200


def test_a_member_that_leaves_without_an_offset_is_removed_and_no_more() -> None:
    _, kinds = leaves(("t", 0, 0, None), ("u", 1, 0, None))
    assert kinds[0] is MemberRemoved


def test_a_member_that_commits_nothing_leaves_no_offset() -> None:
    world = NodeWorld(PARTITIONS)
    member = world.join("m1", commits=False)
    member.leave(FinalOffset("t", 0, member.epoch(("t", 0)), 200))
    assert world.committed() == {}


def test_last_offsets_of_a_member_with_very_many_partitions_are_few_and_large_records() -> None:
    world = NodeWorld({"t": 5_000})
    member = world.join("m1")
    world.advance(2_000)
    before = len(kinds_of_records(world))
    finals = [FinalOffset("t", number, member.owned["t", number].owner_epoch, 200) for number in range(MAX_NAMED)]
    member.leave(*finals)
    kinds = kinds_of_records(world)[before:]
    assert kinds[: kinds.index(MemberRemoved)] == [OffsetsCommitted]
    assert {world.group().offsets.offset_of(("t", number)) for number in range(MAX_NAMED)} == {200}
