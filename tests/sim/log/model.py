"""What a shard's log says, read by a second, simpler mind; every record has to make sense after those before it.

This is the part of the checker that looks at decisions: at any place in the log a partition has one owner, only the
owner commits and only what it has read, offsets never go back, epochs only grow, a start is resolved once. The rules,
one for each kind of record, are stated over the records alone; the state that the node itself keeps is compared with
the outcome.
"""

from collections import Counter
from collections.abc import Iterable, Set
from typing import Any, NamedTuple

from coordinator.core.groups.hard import records as r
from coordinator.core.groups.hard.state import ShardState
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.limits import Limits
from tests.sim.log import lived_time, lives, lost_logs, members, offsets, operators, ownership, recovery, timelines
from tests.sim.log.state import Facts, GroupModel, LostLog, Rule, ViolationError

RULES: dict[type, Rule] = (
    lived_time.RULES
    | lives.RULES
    | members.RULES
    | ownership.RULES
    | offsets.RULES
    | operators.RULES
    | recovery.RULES
    | timelines.RULES
)


class LogCopy(NamedTuple):
    """The records of a log at a time, and who was known from logs before it."""

    records: list[Any]
    times_ms: list[int]
    numbers: list[int]
    known_before: list[tuple[int, dict[str, set[str]]]]


NO_LOG = LogCopy([], [], [], [])


class LogModel:
    """One shard's log."""

    def __init__(self, shard: int, facts: Facts, limits: Limits) -> None:
        self.shard = shard
        self.limits = limits
        self.facts = facts
        self.records: list[Any] = []
        self.times_ms: list[int] = []
        """When each record was written, in the time of the machine room."""
        self.groups: dict[str, GroupModel] = {}
        self.known_members: dict[str, set[str]] = {}
        """Who was ever in a group, also before it was forgotten."""
        self.known_before: list[tuple[int, dict[str, set[str]]]] = []
        """The same of logs that are lost, each with the place from which on it counts: what stands before was kept."""
        self.numbers: list[int] = []
        """When each record was written, as a number that no other has, whatever disk it was on."""
        self.newest_epoch = -1
        self.leader_epoch = 0
        """The last one that a record begins."""
        self.epochs_ahead = 0
        self.lives: list[str] = []
        self.places: dict[int, int] = {}
        """Where what was granted under an owner epoch stands."""
        self.lost: list[LostLog] = []
        """What was lost with a disk, or when an old copy was put back, the newest last."""
        self.excuses: Counter[str] = Counter()
        """How often what breaks a rule was excused, by the name of the excuse."""
        self._next_number = 0
        self.newest_lived_at: int | None = None
        """Where the newest record stands that says how long nodes ran."""
        self.is_reading_again = False
        """True while records are read again that made sense when they were written."""
        self.handovers = 0
        self.resets = 0
        self.takings = 0
        self.life = 0
        """How often the coordinator was started again."""
        self.kinds: Counter[type] = Counter()
        """How often each kind of record was written; what a crash lost stays counted."""

    @property
    def end(self) -> int:
        return len(self.records)

    def append(self, base_offset: int, records: Iterable[bytes], now_ms: int = 0) -> None:
        """Take in what the node wants written."""
        if base_offset != self.end:
            raise ViolationError("log-gap", f"shard {self.shard}: append at {base_offset}, the log ends at {self.end}")
        for data in records:
            record = r.decode_record(data)
            self.kinds[type(record)] += 1
            self._take(record, now_ms)

    def copy(self) -> LogCopy:
        """Return what a copy of the disk has of it, and perhaps a little more that is not durable."""
        return LogCopy(list(self.records), list(self.times_ms), list(self.numbers), list(self.known_before))

    def exchange(self, copy: LogCopy, end: int, told: Set[str]) -> None:
        """Have the records of a copy that ends here at the latest in place of these; who was a member stays known."""
        lost_logs.lose(self, end, told)
        known: dict[str, set[str]] = {}
        for others in (self.known_members, *(before for _, before in self.known_before)):
            for group_id, member_ids in others.items():
                known.setdefault(group_id, set()).update(member_ids)
        self.records, self.times_ms, self.numbers = list(copy.records), list(copy.times_ms), list(copy.numbers)
        self.known_before = [*copy.known_before, (end, known)]

    def cut(self, end: int) -> None:
        """Forget what a crash has lost: read the log again up to its new end."""
        kept, times_ms, self.numbers = self.records[:end], self.times_ms[:end], self.numbers[:end]
        counted = self.handovers, self.resets, self.takings
        self.records, self.times_ms, self.groups, self.newest_epoch = [], [], {}, -1
        self.leader_epoch, self.epochs_ahead, self.lives, self.places = 0, 0, [], {}
        self.newest_lived_at = None
        self.known_members = {}
        self.known_before = [(min(place, end), known) for place, known in self.known_before]
        self.is_reading_again = True
        for record, at_ms in zip(kept, times_ms, strict=True):
            self._take(record, at_ms)
        self.is_reading_again = False
        self.handovers, self.resets, self.takings = counted
        self.life += 1

    def _take(self, record: Any, at_ms: int) -> None:
        at = self.end
        recovery.remember_lost_logs(self, at)
        self.records.append(record)
        self.times_ms.append(at_ms)
        if not self.is_reading_again:
            self.numbers.append(self._next_number)
            self._next_number += 1
        group = self.groups.get(record.group_id)
        if group is None:
            group = GroupModel()
            if record.group_id:
                self.groups[record.group_id] = group
        if getattr(record, "who", None) == operators.DRY:
            raise self.broken("dry-run-done", at, f"it was only to be tried: {record}")
        rule = RULES.get(type(record))
        if rule is None:
            raise self.broken("no-rule", at, f"nothing is known of records like {record}")
        rule(self, group, at, record)

    def excused(self, name: str) -> None:
        """Count an excuse; what made sense when it was written is not counted again when it is read again."""
        if not self.is_reading_again:
            self.excuses[name] += 1

    def broken(self, name: str, at: int, why: str) -> ViolationError:
        """Return the violation of a rule at a place of the log."""
        return ViolationError(name, f"shard {self.shard}, record {at}: {why}")

    # ---- the node's own state ---------------------------------------------------------------------------------------

    def compare(self, state: ShardState, group_ids: Iterable[str]) -> None:
        """Raise unless the node's state of these groups is what the log says."""
        _same("epochs", "of any name", state.epochs_ahead, self.epochs_ahead)
        for group_id in group_ids:
            theirs, ours = state.groups.get(group_id), self.groups.get(group_id)
            if theirs is ours is None:
                continue
            if theirs is None or ours is None:
                raise ViolationError("state-differs", f"group {group_id}: in the node {theirs}, in the log {ours}")
            controls = theirs.controls
            _same("owners", group_id, _owners_in(theirs), _owners_of(ours))
            _same(
                "offsets",
                group_id,
                {key: (known.topic_id, known.offset, known.owner_epoch) for key, known in theirs.offsets.items()},
                {
                    key: (last.topic_id, last.offset, last.owner_epoch)
                    for key, (*_, last) in ours.commits.items()
                    if last.offset is not None
                },
            )
            _same(
                "members",
                group_id,
                {key: (member.member_epoch, member.target) for key, member in theirs.members.items()},
                {key: (ours.member_epochs[key], ours.targets[key]) for key in ours.facts},
            )
            _same(
                "resets",
                group_id,
                {key: reset.offset for key, reset in controls.resets.items()},
                {key: planned.offset for key, planned in ours.resets.items()},
            )
            _same(
                "controls",
                group_id,
                (controls.group_pause is not None, controls.paused.keys(), controls.drained.keys()),
                (ours.is_paused, ours.paused, ours.drained),
            )
            _same("lost starts", group_id, theirs.by_policy, ours.by_policy)
            timeline = theirs.timeline
            _same(
                "timeline",
                group_id,
                (timeline.last_sequence, *_ends_of(timeline.entries)),
                (ours.last_sequence, *_ends_of(ours.entries)),
            )
            _same("epoch", group_id, theirs.group_epoch, ours.group_epoch)


def _ends_of(entries: list[bytes]) -> tuple[int, list[bytes], list[bytes]]:
    """Return what tells two timelines apart, without a look at all of them after each record."""
    return len(entries), entries[:2], entries[-2:]


def _owners_in(group: Any) -> dict[TopicPartition, tuple[Any, ...]]:
    return {
        key: (
            grant.member_id,
            grant.owner_epoch,
            grant.is_stopping,
            (claim.from_offset, claim.until_offset, claim.is_running) if (claim := group.claims.get(key)) else None,
        )
        for key, grant in group.grants.items()
    }


def _owners_of(group: GroupModel) -> dict[TopicPartition, tuple[Any, ...]]:
    return {
        key: (
            owner.member_id,
            owner.owner_epoch,
            owner.is_stopping,
            (*owner.claim.range, owner.claim.running_at is not None) if owner.claim else None,
        )
        for key, owner in group.owners.items()
    }


def _same(what: str, group_id: str, theirs: object, ours: object) -> None:
    if theirs != ours:
        raise ViolationError("state-differs", f"{what} of group {group_id}: the node has {theirs}, its log says {ours}")
