"""Invariants of the small model: of every state, and of those in which nothing is left to happen."""

from itertools import combinations

from coordinator.core.replica.replica import Declined, Doubting, Follower, FollowerPhase, Leader
from tests.model.node import BrokenInvariantError, Node
from tests.model.state import NODES, Scope, State

OPTIONAL = frozenset(
    {"appends", "sees who is late", "decides a stale reply", "does not hear of", "restarts", "is wiped", "is put back"}
)
"""Steps that need not be taken for everything to come to rest."""


def check_state(scope: Scope, state: State, nodes: list[Node]) -> None:
    """Raise BrokenInvariantError unless every invariant holds in a state."""
    committed, zookeeper = state.committed, state.zookeeper
    _require(zookeeper.leader in zookeeper.isr, "LeaderInIsr", zookeeper)
    _require(len(zookeeper.isr) >= _least_members(scope, state), "IsrNotBelowMin", zookeeper)
    leaders = [node.replica.leader_epoch for node in nodes if isinstance(node.replica.role, Leader)]
    _require(len(leaders) == len(set(leaders)), "OneLeaderAnEpoch", leaders)
    for member in zookeeper.isr:
        node = nodes[member]
        durable = node.records[: node.synced]
        if node.is_copy:
            continue  # it cannot know; the others have to find it out before it leads
        _require(durable[: len(committed)] == committed, "StrongIsr", (member, node, committed))
    for node in nodes:
        replica, records = node.replica, node.records
        known = replica.high_watermark
        is_valid = known <= len(records) and records[:known] == committed[:known] and known <= len(committed)
        _require(is_valid, "ValidHighWatermark", (node, committed))
        if isinstance(replica.role, Leader):
            is_in = replica.node in replica.role.isr.maximal
            _require(is_in, "LeaderInIsr", node)
            if replica.leader_epoch == zookeeper.epoch:
                _require(records[: len(committed)] == committed, "CommittedForEver", (node, committed))
    for one, other in combinations(nodes, 2):
        _require(_match(one.records, other.records), "LogMatching", (one, other))


def check_rest(scope: Scope, state: State, nodes: list[Node]) -> None:
    """Raise BrokenInvariantError unless all follow and all is committed, in a state that nothing leads out of.

    Nothing that was sent is lost by then. A leader that restarted waits for an election, and so does one that has heard
    of a longer log, or of too few others.
    """
    zookeeper = state.zookeeper
    leader = nodes[zookeeper.leader]
    if leader.obeys_from > zookeeper.epoch:
        return
    role, log = leader.replica.role, leader.replica.log
    if isinstance(role, Doubting | Declined):
        return
    _require(isinstance(role, Leader) and leader.replica.leader_epoch == zookeeper.epoch, "ComesToRest", leader)
    assert isinstance(role, Leader)
    for node in NODES:
        if node == zookeeper.leader:
            continue
        replica = nodes[node].replica
        follows = isinstance(replica.role, Follower) and replica.role.phase is FollowerPhase.FOLLOWING
        is_whole = replica.log.end == log.end == nodes[node].synced and replica.leader_epoch == zookeeper.epoch
        _require(follows and is_whole, "ComesToRest", (nodes[node], leader))
    is_enough = role.isr.smallest() >= scope.min_insync
    _require(leader.replica.high_watermark == log.end or not is_enough, "ComesToRest", leader)


def extended(committed: tuple[int, ...], more: tuple[int, ...]) -> tuple[int, ...]:
    """Return the committed records with those of a leader's high watermark, which are the same as far as both go."""
    both = min(len(committed), len(more))
    _require(committed[:both] == more[:both], "CommittedForEver", (committed, more))
    return committed if both == len(more) else more


def _least_members(scope: Scope, state: State) -> int:
    """Return how many members the ISR has at least: those who lost their disks have left it regardless."""
    lost = scope.wiped - state.left.wiped + scope.put_back - state.left.put_back
    return max(1, scope.min_insync - lost)


def _match(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Return whether two logs are equal up to the last offset at which they have a record of the same epoch."""
    for end in range(min(len(one), len(other)), 0, -1):
        if one[end - 1] == other[end - 1]:
            return one[:end] == other[:end]
    return True


def _require(holds: bool, invariant: str, what: object) -> None:
    if not holds:
        raise BrokenInvariantError(f"{invariant}: {what}")
