"""What runs have to exercise: a promise about something that never happened was not checked.

Every kind of fault, record, notice, subscription, assignor, policy and way to commit is counted by name over all runs.
One that never came in `ENOUGH_RUNS` runs or more fails them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import get_args

from coordinator.core.groups.assignment.assignors import ASSIGNORS
from coordinator.core.groups.hard.records import (
    GroupSettings,
    IdentityAwaited,
    MemberFacts,
    MemberJoined,
    Record,
    TargetsAssigned,
)
from coordinator.core.groups.soft.timeline import EventKind
from coordinator.protocol.vocabulary import IsolationLevel, PolicyKind
from tests.sim import group_batch, outputs, sink, turns
from tests.sim.by_hand import rules as by_hand
from tests.sim.faults import FAULT_OF
from tests.sim.log.model import LogModel
from tests.sim.reading import ANSWERS

ENOUGH_RUNS = 500
"""From so many runs on everything has to have happened."""
RECORD_KINDS = tuple(kind.__name__ for kind in get_args(Record) if kind is not IdentityAwaited)
REFUSALS = (
    "CLAIM_CLOSED",
    "CLAIM_NOT_RUNNING",
    "COORDINATOR_NOT_AVAILABLE",
    "FENCED_OWNER_EPOCH",
    "GROUP_ID_NOT_FOUND",
    "MEMBER_ID_IN_USE",
    "NOT_COORDINATOR",
    "NON_EMPTY_GROUP",
    "OFFSET_OUT_OF_RANGE",
    "PARTITION_OWNED",
    "SECOND_MEMBER_OF_APPLICATION",
    "STATE_LIMIT_REACHED",
    "UNKNOWN_MEMBER_ID",
    "UNKNOWN_TOPIC_OR_PARTITION",
)
FEATURES: Mapping[str, tuple[str, ...]] = {
    "world": ("slow", "losing", "full"),
    "memory": ("full", "full of what is paused"),
    "room": ("refused to an offset", "refused to a member", "kept for a member", "made"),
    "group": ("forgotten in the end",),
    "left": ("to its own query", "to the next run"),
    "fault": tuple(FAULT_OF),
    "record": RECORD_KINDS,
    "notice": tuple(kind for kind in EventKind if kind is not EventKind.TOPICS_LEFT_OUT),
    "refusal": REFUSALS,
    "commit": ("by ping", "by a request", "by an operator", "by a listener"),
    "member": (
        "topics",
        "pattern",
        "partitions",
        "exclusions",
        "instance",
        "weight",
        "streams",
        "auto commit",
        "two sources",
        "commits nothing",
        "read_committed",
    ),
    "assignor": tuple(ASSIGNORS),
    "policy": (*PolicyKind, "default"),
    "handover": ("takeover", "hold", "hold for a time"),
    "sink": sink.KINDS,
    "output": outputs.KINDS,
    "block": group_batch.KINDS,
    "by hand": by_hand.KINDS,
    "call": ("in portions",),
    "answer": ANSWERS,
    "listed": ("claims", "starts"),
    "page": ("last", "of more"),
    "led": ("again", "again while it was loaded"),
    "resigned": ("with what waited", "while it was loaded"),
    "while": turns.KINDS,
    "run": ("ended", "left to others", "lost data", "missed its coordinator"),
    "snapshot": ("whole", "in pieces", "cut off", "read"),
    "transaction": ("open", "committed", "aborted", "read up to an open one"),
}
"""Everything that has to happen, by what it is."""
EXCUSES = ("excuse", "end")
"""Checks that were let off, and the words of errors that processes may end with: as often as they came, for a person to
see one that has come to cover everything. None has to happen."""


def of_log(log: LogModel) -> Counter[str]:
    """Count what a log shows of what was exercised."""
    found = Counter({f"excuse {name}": count for name, count in log.excuses.items()})
    for kind, count in log.kinds.items():
        found[f"record {kind.__name__}"] += count
    for record in log.records:
        match record:
            case TargetsAssigned():
                found[f"assignor {record.assignor}"] += 1
            case MemberJoined():
                found.update(f"member {trait}" for trait in _traits(record.facts))
            case GroupSettings():
                policy = record.reset_policy
                found["policy " + (policy.kind if policy is not None else "default")] += 1
                limit = " for a time" if record.claim_timeout_ms is not None else ""
                found[f"handover {record.handover}{limit}"] += 1
    return found


def _traits(facts: MemberFacts) -> Iterable[str]:
    if facts.partitions:
        yield "partitions"
    else:
        yield "topics" if facts.pattern is None else "pattern"
    if facts.exclusions:
        yield "exclusions"
    if facts.instance_id is not None:
        yield "instance"
    if facts.streams > 1:
        yield "weight"
    if facts.wants_streams:
        yield "streams"
    if facts.shares_application:
        yield "two sources"
    if not facts.commits:
        yield "commits nothing"
    if facts.auto_commit:
        yield "auto commit"
    if facts.isolation_level == IsolationLevel.READ_COMMITTED:
        yield IsolationLevel.READ_COMMITTED


def missing(found: Mapping[str, int]) -> list[str]:
    """Return what never happened."""
    return [f"{what} {name}" for what, names in FEATURES.items() for name in names if not found.get(f"{what} {name}")]


def shown(found: Mapping[str, int]) -> list[str]:
    """Return the counts as lines for people."""
    features = [
        f"{what + 's:':<10} " + ", ".join(f"{name} {found.get(f'{what} {name}', 0)}" for name in names)
        for what, names in FEATURES.items()
    ]
    return features + [f"{what + 's:':<10} " + (", ".join(_named(found, what)) or "none") for what in EXCUSES]


def _named(found: Mapping[str, int], what: str) -> list[str]:
    return [f"{name.removeprefix(what + ' ')} {found[name]}" for name in sorted(found) if name.startswith(what + " ")]
