"""The context that the rooms of a shard share while they work on one event: journal, soft state and what is said.

A desk gathers the effects of one step. Sends and closings are kept apart from the rest, because they wait until the
records of the step are durable. It decides nothing about groups.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from coordinator.core.effects import CloseConnection, Effect, Notice, Respond, SendPush
from coordinator.core.events import TopicMetadata, TopicsRead
from coordinator.core.groups.hard.account import Usage
from coordinator.core.groups.hard.journal import Journal
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.soft.group_soft import GroupSoft, Lookup
from coordinator.core.groups.soft.remains import Remains
from coordinator.core.groups.soft.sessions import Connection, MemberSession, Registration
from coordinator.core.groups.soft.timeline import (
    TOLD_TOGETHER_MS,
    WARNINGS,
    EventKind,
    Partitions,
    Timelines,
    entry_of,
)
from coordinator.core.groups.soft.timers import Timer, TimerKind
from coordinator.core.kafka_metadata import Catalog
from coordinator.core.limits import Limits
from coordinator.core.matching import Matching
from coordinator.core.meter import Meter
from coordinator.core.node_wide import NodeWide
from coordinator.core.security.authorizer import Authorizer
from coordinator.core.timers import Timers
from coordinator.protocol.messages import Push, Response
from coordinator.protocol.parts import NodeAddress

_TIMERS_OF_A_GROUP = (
    TimerKind.WINDOW,
    TimerKind.SLICE,
    TimerKind.LOOKUP,
    TimerKind.CLAIM_AGE,
    TimerKind.CLAIM_TIMEOUT,
    TimerKind.EXPIRY,
    TimerKind.RECOVERY,
    TimerKind.LEFT_OUT,
)


@dataclass(slots=True)
class Clock:
    """The time of the event at hand, how far wall-clock time is ahead of it, and whether more is said than is heard.

    Written by the node.
    """

    now_ms: int = 0
    wall_offset_ms: int = 0
    is_behind: bool = False

    @property
    def wall_ms(self) -> int:
        """Wall-clock time as of the event at hand."""
        return self.now_ms + self.wall_offset_ms


@dataclass(slots=True)
class Desk:
    """The state of one shard and the effects of the step at hand."""

    journal: Journal
    limits: Limits
    catalog: Catalog
    clock: Clock
    connections: dict[int, Connection]
    soft: dict[str, GroupSoft] = field(default_factory=dict)
    """Of the groups with which something goes on, or did: most groups are many and idle, and looking makes none."""
    registrations: dict[int, Registration] = field(default_factory=dict)
    """Registrations that wait for Kafka, by connection."""
    awaited_topics: dict[str, int] = field(default_factory=dict)
    """The number of them that name each topic; no zeros."""
    awaited_patterns: int = 0
    """The number of them that subscribe by a pattern."""
    awaited_changes: int = 0
    """A count of the times that a topic, or the first pattern, began or ceased to be waited for."""
    known: deque[tuple[Registration, TopicsRead]] = field(default_factory=deque)
    """Registrations whose topics Kafka has answered about, and that have not been looked at since."""
    newcomers: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Group and member whose connection is being probed, by the connection that waits for it."""
    unsent_probes: dict[tuple[str, str], int] = field(default_factory=dict)
    """Group and member whose probe waits for records like all that is said, and the end of those records."""
    durable_end: int = 0
    """The end of the durable records; written by the node."""
    lookups: dict[int, Lookup] = field(default_factory=dict)
    timers: Timers[Timer] = field(default_factory=Timers)
    """Few and exact: a node asks to be woken for them."""
    sessions: Timers[tuple[str, str]] = field(default_factory=Timers)
    """The times to look whether a member has said nothing for its session time-out, at the latest when that would be
    so: a message is only noted in the session, and the deadline is moved when it has come."""
    remains: Remains = field(default_factory=Remains)
    sends: list[Effect] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    """Shared by the shards of a node."""
    node_wide: NodeWide = field(default_factory=lambda: NodeWide(Limits()))
    """Shared by the shards of a node."""
    meter: Meter = field(default_factory=Meter)
    """Shared by the shards of a node."""
    matching: Matching = field(default_factory=lambda: Matching(Meter()))
    """Shared by the shards of a node."""
    authorizer: Authorizer | None = None
    """Asked which topics a pattern may match; None where nobody is asked for rights."""
    timelines: Timelines = field(default_factory=lambda: Timelines(Limits()))
    successors: Sequence[tuple[NodeAddress, ...] | None] = (None,)
    """By shard, the nodes that would lead it next: the same tuple while they stay. Shared by the shards of a node."""

    @property
    def now_ms(self) -> int:
        """The time of the event at hand."""
        return self.clock.now_ms

    def group(self, group_id: str) -> GroupState | None:
        """Return a group's hard state, if there is such a group."""
        return self.journal.state.groups.get(group_id)

    def topic_id_now(self, group: GroupState, topic: str, asked: TopicMetadata | None = None) -> str:
        """Return the id that a topic has now for a group, empty if unknown; `asked` is the topic as Kafka just had it.

        A group that nobody reads the topic for is not told of one that was made again; Kafka's answers are about that.
        """
        seen, known = group.topics.get(topic), self.catalog.topic(topic) or asked
        if seen is not None and (topic in group.by_facts.subscribers or known is None):
            return seen.topic_id
        return known.topic_id if known is not None else ""

    def soft_of(self, group_id: str) -> GroupSoft:
        """Return a group's soft state, which begins empty."""
        soft = self.soft.get(group_id)
        if soft is None:
            soft = self.soft[group_id] = GroupSoft(self.timelines.noting())
        return soft

    def forget_group(self, group: GroupState) -> None:
        """Drop the soft state of a group that is no more, and let go of what it had in turns."""
        soft = self.soft.pop(group.group_id, None)
        if soft is not None:
            self.remains.add_soft(soft)
        self.timelines.forget(group)
        self.remains.add_group(group)
        for kind in _TIMERS_OF_A_GROUP:
            self.timers.cancel(Timer(kind, group.group_id))

    def session_of(self, group_id: str, member_id: str) -> MemberSession | None:
        """Return what is known of a member's connection."""
        soft = self.soft.get(group_id)
        return soft.sessions.get(member_id) if soft is not None else None

    def respond(self, connection_id: int, correlation_id: int, response: Response) -> None:
        """Answer a request once the records so far are durable."""
        self.sends.append(Respond(connection_id, correlation_id, response))

    def push(self, connection_id: int | None, push: Push) -> None:
        """Say something to a member once the records so far are durable; without a connection it is not said."""
        if connection_id is not None:
            self.sends.append(SendPush(connection_id, push))

    def note_reached(self, setting: str, connection: Connection, why: str) -> None:
        """Count a refusal for a limit, and say whom it met."""
        self.effects.append(self.node_wide.note_reached(setting, connection.host, why))

    def close(self, connection_id: int, why: str) -> None:
        """Close a connection after what was said on it; nothing that still comes from it is looked at."""
        connection = self.connections.get(connection_id)
        if connection is not None and not connection.is_closing:
            connection.unbind()
            connection.is_closing = True
            self.sends.append(CloseConnection(connection_id, why))

    def note(
        self,
        group_id: str,
        kind: EventKind,
        why: str,
        *,
        member_id: str = "",
        partitions: Partitions = (),
        duration_ms: int | None = None,
    ) -> None:
        """Put an event on a group's timeline, with the records of this step, and say it as a notice."""
        group = self.group(group_id)
        group_epoch = group.group_epoch if group is not None else 0
        entry = entry_of(kind, self.clock.wall_ms, member_id, why, group_epoch, partitions, duration_ms)
        if not self.timelines.note(group_id, self.soft_of(group_id).noting, entry, self.now_ms):
            self.timers.set(Timer(TimerKind.LEFT_OUT, group_id), self.now_ms + TOLD_TOGETHER_MS)
        fields: list[tuple[str, str | int | None]] = [("group_epoch", group_epoch)]
        if entry.partition_count:
            fields.append(("partitions", entry.partition_count))
        if duration_ms is not None:
            fields.append(("duration_ms", duration_ms))
        self.effects.append(Notice(str(kind), why, group_id, member_id, tuple(fields), kind in WARNINGS))

    def tell_left_out(self, group_id: str) -> None:
        """Put on a group's timeline what came too fast, all of a kind together."""
        if not self.timelines.tell_left_out(group_id, self.soft_of(group_id).noting, self.now_ms):
            self.timers.set(Timer(TimerKind.LEFT_OUT, group_id), self.now_ms + TOLD_TOGETHER_MS)

    def write_timelines(self) -> None:
        """Decide the records of what the step has noted, after all others of the step."""
        groups = self.journal.state.groups
        wall_ms = self.clock.wall_ms
        for record in self.timelines.take(groups, wall_ms):
            self.journal.decide(record)
        for record in self.timelines.make_room(groups, wall_ms):
            self.journal.decide(record)
