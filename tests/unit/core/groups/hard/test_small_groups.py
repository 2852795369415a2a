"""The memory of a group that has next to nothing: groups are many, and whoever reaches the port can make some."""

import sys
from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest

from coordinator.core.groups.hard.controls import NO_CONTROLS, Controls, Decree
from coordinator.core.groups.hard.facts_index import NO_FACTS, FactsIndex
from coordinator.core.groups.hard.snapshot import GrowingSnapshot
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.hard.tables.claim_table import NO_CLAIMS, ClaimTable, OpenClaims, Owner
from coordinator.core.groups.hard.tables.timeline import NO_TIMELINE, Timeline
from coordinator.core.groups.partitions.no_entries import NO_ENTRIES
from coordinator.core.groups.partitions.partition_set import NOTHING, PartitionSet
from coordinator.core.groups.partitions.partition_table import NO_PARTITIONS, PartitionTable
from coordinator.protocol.claim_columns import claims_in_columns
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import CommitOffsets, CommitOffsetsResponse, FinishClaims, FinishClaimsResponse
from coordinator.protocol.messages.operators import (
    ChangePause,
    ChangePauseResponse,
    DeleteOffsets,
    DeleteOffsetsResponse,
)
from tests.helpers.node_world import NodeWorld

GROUPS = ("group-a", "group-b")
"""Names of more than a letter: those of one are strings that Python itself has once."""
IDLE_BYTES = 650
"""A group of one offset has 612 bytes of its own, also after a load, with Python 3.11."""
MEMBER_BYTES = 5_700
"""One of a member that owns a partition has 5,170."""
OWN: dict[str, Callable[[], Any]] = {
    "topics": dict,
    "members": dict,
    "grants": PartitionTable,
    "claims": ClaimTable,
    "by_policy": PartitionSet,
    "controls": Controls,
    "timeline": Timeline,
    "target_owners": PartitionTable,
    "owned": dict,
    "stopping": dict,
    "awaited": dict,
    "left_by": dict,
    "by_facts": FactsIndex,
}
"""The fields that groups share as long as there is nothing in them, and an empty one of a group's own."""
OF_MEMBERS = {"members", "grants", "claims", "target_owners", "owned", "stopping", "awaited", "left_by", "by_facts"}
"""Those that are for members, and for what members have left behind."""


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
    """Return the bytes of what the first group has and does not share with the other."""
    a, b = (reached_from(world.group(group_id)) for group_id in GROUPS)
    return sum(sys.getsizeof(thing) for key, thing in a.items() if key not in b)


def shared(group: GroupState, other: GroupState) -> set[str]:
    """Return the fields that hold one thing for both groups, of those that can be written to."""
    return {name for name in OWN if getattr(group, name) is getattr(other, name)}


def committed_to(world: NodeWorld, group_id: str, topic: str = "t") -> None:
    wishes = in_columns([OffsetToCommit(topic, 0, 1)])
    assert world.connect().ask(CommitOffsets(group_id, wishes), CommitOffsetsResponse).accepted == 1


def test_group_of_offsets_alone_is_small_also_after_a_load() -> None:
    world = NodeWorld({"topic": 1})
    for group_id in GROUPS:
        committed_to(world, group_id, "".join(("to", "pic")))  # a string by itself, as each request brings one
    assert own_bytes(world) <= IDLE_BYTES
    world.restart()
    assert own_bytes(world) <= IDLE_BYTES


def test_group_of_one_member_stays_below_a_bound() -> None:
    world = NodeWorld({"topic": 1})
    for group_id in GROUPS:
        world.join(f"m-{group_id}", group_id=group_id, topics=("topic",))
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
    assert not shared(group, other) & {"members", "target_owners", "by_facts"}
    member.leave()
    assert shared(group, other) >= OF_MEMBERS


def test_group_whose_last_claim_is_finished_after_its_members_left_has_nothing_of_its_own_again() -> None:
    world = NodeWorld({"t": 1})
    member = world.join("m", instance_id="i", handover="hold")
    start = member.owned["t", 0].offset
    claim = member.run(("t", 0), start, start + 1)
    member.close()
    world.advance(60_000)
    group, fresh = world.group(), GroupState("fresh")
    assert (list(group.members), list(group.owned), group.awaited) == ([], ["m"], {"i": "m"})
    assert not shared(group, fresh) & {"grants", "claims", "owned", "awaited"}
    world.connect().ask(FinishClaims("g", "m", claims_in_columns([claim])), FinishClaimsResponse)
    assert shared(group, fresh) >= OF_MEMBERS
    again = world.join("m2", instance_id="i")
    assert (set(group.members), world.owners()) == ({"m2"}, {("t", 0): "m2"})
    assert again.commit(("t", 0), start + 7).error is ErrorCode.NONE
    assert shared(fresh, GroupState("another")) == set(OWN)


def test_snapshot_keeps_a_group_that_changes_meanwhile_without_empty_copies() -> None:
    """Whoever commits to many groups while they wait for a snapshot has each of them kept as it was."""
    world = NodeWorld({"t": 1})
    committed_to(world, "a")
    state = world.state(world.node.shard_of("a"))
    growing = GrowingSnapshot(state, 1)
    growing.before_change("a")
    kept = growing._copied["a"]
    assert kept == state.groups["a"]
    assert shared(kept, state.groups["a"]) == set(OWN)
    assert kept.offsets is not state.groups["a"].offsets


def open_a_claim() -> None:
    NO_CLAIMS.open("t", OpenClaims((0,), (1,), (2,)), Owner(0, "m", "id", (1,)))


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda: NO_ENTRIES.__setitem__("m", 1), id="entry"),
        pytest.param(lambda: NO_ENTRIES.setdefault("m", 1), id="entry-unless-there"),
        pytest.param(lambda: NO_ENTRIES.update({"m": 1}), id="entries"),
        pytest.param(lambda: NO_ENTRIES.__ior__({"m": 1}), id="entries-joined"),
        pytest.param(lambda: NO_PARTITIONS.__setitem__(("t", 0), 1), id="partition"),
        pytest.param(lambda: NO_PARTITIONS.rows_to_fill("t"), id="rows"),
        pytest.param(lambda: NO_PARTITIONS.fill("t", (0, 1), 1), id="partitions"),
        pytest.param(open_a_claim, id="claim"),
        pytest.param(lambda: NOTHING.add_all("t", (0,)), id="set"),
        pytest.param(lambda: NO_TIMELINE.take(1, (b"",), 0), id="timeline"),
        pytest.param(lambda: NO_FACTS.instances.update(i="m"), id="facts"),
        pytest.param(lambda: NO_CONTROLS.drained.setdefault("m", Decree("ann", "", 1)), id="controls"),
    ],
)
def test_write_to_what_groups_share_fails_and_is_not_seen_by_them(write: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match="only read"):
        write()
    group, own = GroupState("g"), GroupState("g", **{name: made() for name, made in OWN.items()})
    assert group == own
    assert shared(group, GroupState("other")) == set(OWN)
    assert shared(own, group) == set()
