"""The memory of a group that has next to nothing: groups are many, and whoever reaches the port can make some."""

import sys
from enum import Enum

from coordinator.core.groups.hard.controls import NO_CONTROLS
from coordinator.core.groups.hard.facts_index import NO_FACTS, FactsIndex
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.hard.tables.timeline import NO_TIMELINE, Timeline
from coordinator.core.groups.partitions.partition_set import NOTHING, PartitionSet
from coordinator.core.groups.partitions.partition_table import PartitionTable
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import CommitOffsets, CommitOffsetsResponse
from coordinator.protocol.messages.operators import (
    ChangePause,
    ChangePauseResponse,
    DeleteOffsets,
    DeleteOffsetsResponse,
)
from tests.helpers.node_world import NodeWorld

IDLE_BYTES = 1_900
"""A group of one offset has 1,793 bytes of its own after a load, with Python 3.11."""
MEMBER_BYTES = 6_300
"""One of a member that owns a partition has 5,865."""


def of(thing: object) -> list[object]:
    """Return what a value of the state is made of."""
    if isinstance(thing, dict):
        return [*thing, *thing.values()]
    if isinstance(thing, list | tuple | set | frozenset):
        return list(thing)
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    names = getattr(thing, "__struct_fields__", slots)
    return [getattr(thing, name) for name in names if hasattr(thing, name)]


def reached_from(group: GroupState) -> dict[int, object]:
    """Return all that a group refers to, by identity."""
    found: dict[int, object] = {}
    waiting: list[object] = [group]
    while waiting:
        thing = waiting.pop()
        if id(thing) not in found and thing is not None and not isinstance(thing, type | Enum):
            found[id(thing)] = thing
            waiting += of(thing)
    return found


def own_bytes(world: NodeWorld) -> int:
    """Return the bytes of what group a has and shares with no group b."""
    a, b = (reached_from(world.group(group_id)) for group_id in ("a", "b"))
    return sum(sys.getsizeof(thing) for key, thing in a.items() if key not in b)


def committed_to(world: NodeWorld, group_id: str) -> None:
    wishes = in_columns([OffsetToCommit("t", 0, 1)])
    assert world.connect().ask(CommitOffsets(group_id, wishes), CommitOffsetsResponse).accepted == 1


def test_group_of_offsets_alone_is_small_also_after_a_load() -> None:
    world = NodeWorld({"t": 1})
    for group_id in ("a", "b"):
        committed_to(world, group_id)
    assert own_bytes(world) <= IDLE_BYTES
    world.restart()
    assert own_bytes(world) <= IDLE_BYTES


def test_group_of_one_member_stays_below_a_bound() -> None:
    world = NodeWorld({"t": 1})
    for group_id in ("a", "b"):
        world.join(f"m-{group_id}", group_id=group_id)
    assert own_bytes(world) <= MEMBER_BYTES


def test_what_groups_share_while_it_is_empty_stays_empty() -> None:
    world = NodeWorld({"t": 1})
    for group_id in ("a", "b"):
        committed_to(world, group_id)
    tool = world.connect()
    tool.ask(DeleteOffsets("a", (("t", 0),), "ann", is_dry_run=False), DeleteOffsetsResponse)
    tool.ask(ChangePause("a", None, is_paused=True, who="ann", is_dry_run=False), ChangePauseResponse)
    member = world.join("m-a", group_id="a", instance_id="i", application="p")
    group, other = world.group("a"), world.group("b")
    assert (list(group.by_policy), bool(group.controls.group_pause)) == ([("t", 0)], True)
    assert (group.by_facts.instances, group.by_facts.applications) == ({"i": "m-a"}, {"p": {"m-a"}})
    assert group.timeline.last_sequence > 0
    assert (other.by_policy, other.controls, other.by_facts) == (NOTHING, NO_CONTROLS, NO_FACTS)
    assert (PartitionSet(), FactsIndex(), Timeline()) == (NOTHING, NO_FACTS, NO_TIMELINE)
    assert (NO_CONTROLS.group_pause, list(PartitionTable[str]().topics())) == (None, [])
    member.leave()
    assert group.by_facts is NO_FACTS
