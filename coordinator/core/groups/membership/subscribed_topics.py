"""The topics that members subscribe to, held against what Kafka has said of them.

A registration is refused for a topic only when Kafka has just said that it does not exist or may not be spoken about;
what is not known yet is waited for. What a group sees of a topic is recorded before anything is decided upon it.
Patterns are matched as far as the step at hand may; what is left waits in `pattern_turns`.
"""

from typing import Final

from msgspec.structs import replace

from coordinator.core.events import TopicsRead
from coordinator.core.groups.assignment.subscriptions import named_topics, why_costly_pattern, why_no_such_partition
from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.records import TopicSeen, TopicsMatched
from coordinator.core.groups.hard.state import GroupState, MemberState
from coordinator.core.groups.membership.pattern_turns import GroupTurn, PatternTurns
from coordinator.core.groups.membership.topics_seen import look_at_topic, note_deleted, say_topic_change
from coordinator.core.groups.membership.validation import Refusal
from coordinator.core.groups.soft.timeline import EventKind
from coordinator.core.groups.soft.timers import Timer, TimerKind
from coordinator.core.security.acl import Operation, ResourceKind
from coordinator.core.security.principal import ANONYMOUS, Principal
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import RegisterConsumer
from coordinator.protocol.parts import Subscription

_COMPARED: Final = 200
"""The cost of a member whose pattern was matched for another one already."""
_FOUND: Final = 20
"""The cost of a topic that is found for another pattern, or with other exclusions."""
_ASKED_ABOUT: Final = 100
"""The cost of a topic that is found where rights are asked for, also if it is not shown then."""
_LOOKED_AT: Final = 500
"""The cost of a topic that a group is to read, and looks at."""


class SubscribedTopics:
    """The topics of the groups of one shard."""

    def __init__(self, desk: Desk, turns: PatternTurns) -> None:
        self._desk = desk
        self._turns = turns

    def are_known(
        self,
        request: RegisterConsumer,
        group: GroupState | None,
        old: MemberState | None,
        read: TopicsRead | None,
        principal: Principal,
    ) -> Refusal | bool | None:
        """Return whether a registration can go on, has to wait for Kafka, or why it is refused.

        None when it has to wait until more topics are held against its pattern.

        `old` is the member as it was when the same identity registered before. `read` is the answer of Kafka that just
        came, if one did.
        """
        desk = self._desk
        if request.subscription.pattern is not None:
            if _matched_before(request.subscription, old) is not None:
                return True
            why = why_costly_pattern(request.subscription.pattern)
            if why is None and desk.catalog.all_topics is not None:
                topics = self._matching(request.subscription, principal)
                if topics is None:
                    return None
                why = self._why_too_many(len(topics))
            return desk.catalog.all_topics is not None if why is None else Refusal(ErrorCode.INVALID_REQUEST, why)
        unknown, absent = [], []
        for topic in named_topics(request.subscription):
            seen = group.topics.get(topic) if group is not None else None
            if desk.catalog.topic(topic) is not None or (seen is not None and seen.partitions > 0):
                continue
            if read is not None and topic in read.absent:
                absent.append(topic)
            elif read is not None and topic in read.refused:
                why = f"Kafka does not speak about topic {topic}: {read.refused[topic]}"
                return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
            elif seen is None or not request.wait_for_topics:
                unknown.append(topic)
        if absent and not request.wait_for_topics:
            why = (
                f"topic {', '.join(absent)} does not exist; create it, correct the name, or set "
                "kcoord.wait.for.topics to true"
            )
            return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
        if unknown:
            return False
        if request.subscription.partitions and not request.wait_for_topics:
            return self._have_partitions(request.subscription)
        return True

    def _matching(self, subscription: Subscription, principal: Principal) -> tuple[str, ...] | None:
        """Return the topics that a pattern stands for, however many; None when the step has matched enough.

        No pattern matches topics that the principal may not describe.
        """
        assert subscription.pattern is not None
        topics = self._found(subscription.pattern)
        return None if topics is None else self._shown(topics, subscription, principal)

    def _found(self, pattern: str) -> tuple[str, ...] | None:
        assert self._desk.catalog.all_topics is not None
        return self._desk.matching.topics(pattern, self._desk.catalog.all_topics)

    def _shown(self, topics: tuple[str, ...], subscription: Subscription, principal: Principal) -> tuple[str, ...]:
        desk = self._desk
        if subscription.exclusions:
            excluded = frozenset(subscription.exclusions)
            topics = tuple(topic for topic in topics if topic not in excluded)
        if desk.authorizer is None:
            return topics
        may_describe = desk.authorizer.matcher(principal, Operation.DESCRIBE, ResourceKind.TOPIC)
        return tuple(filter(may_describe.allows, topics))

    def _why_too_many(self, count: int) -> str | None:
        most = self._desk.limits.pattern_max_topics
        if count <= most:
            return None
        return (
            f"the pattern matches {count} topics and at most {most} are allowed; narrow it, or spread it over members"
        )

    def _have_partitions(self, subscription: Subscription) -> Refusal | bool:
        known = [topic for name in named_topics(subscription) if (topic := self._desk.catalog.topic(name)) is not None]
        why = why_no_such_partition({topic.topic: topic.partitions for topic in known}, subscription.partitions)
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why) if why is not None else True

    def standing_for(
        self, group_id: str, subscription: Subscription, old: MemberState | None, principal: Principal
    ) -> tuple[str, ...]:
        """Return the topics that a subscription stands for now.

        A member that comes back keeps those that it had where the step has matched enough, and is looked at later.
        """
        if subscription.pattern is None:
            return named_topics(subscription)
        if self._desk.catalog.all_topics is not None:
            topics = self._matching(subscription, principal)
            if topics is not None:
                return topics[: self._desk.limits.pattern_max_topics]
        before = _matched_before(subscription, old)
        assert old is not None, "a pattern is matched once Kafka has said what topics there are"
        assert before is not None, "another pattern is matched before it counts"
        if self._desk.catalog.all_topics is not None:
            self._turns.group_waits(group_id, [old.facts.member_id])
            self._desk.timers.set(Timer(TimerKind.REST, ""), self._desk.now_ms)
        return before

    def listed(self, group_id: str) -> None:
        """Have the patterns of a group's members matched anew if there are other topics, or rights, than there were."""
        desk = self._desk
        group = desk.group(group_id)
        assert group is not None
        soft, listing = desk.soft_of(group_id), self._listing
        if soft.matched_listing != listing:
            soft.matched_listing = listing
            self._turns.group_waits(group_id, group.members)

    @property
    def _listing(self) -> int:
        """A number that stands for the topics that there are, and for who may describe which."""
        desk = self._desk
        # Both numbers only grow, so that their sum is another one once either has.
        return desk.catalog.listings + (0 if desk.authorizer is None else desk.authorizer.changes)

    def match_patterns(self, turn: GroupTurn) -> bool:
        """Match the patterns of members of a group anew, and return whether they stand for other topics now.

        Members that this step has no time for are left in the turn.
        """
        desk, group_id = self._desk, turn.group_id
        group = desk.group(group_id)
        if group is None or desk.catalog.all_topics is None:
            turn.members.clear()  # the next listing of all topics has other names, and begins anew
            return False
        if turn.listing != self._listing:
            turn.listing = self._listing
            turn.matched.clear()
        changed: dict[tuple[str, ...], list[str]] = {}
        for member_id in list(turn.members):
            member = group.members.get(member_id)
            if member is not None and member.facts.pattern is not None:
                topics = self._topics_of(turn, member) if desk.meter.may_match else None
                if topics is None:
                    break
                desk.meter.match(_COMPARED)
                if topics != member.facts.topics:
                    if topics not in changed:
                        desk.meter.match(_LOOKED_AT * len(topics))
                    changed.setdefault(topics, []).append(member_id)
            del turn.members[member_id]
        for topics, member_ids in changed.items():
            by_readers = group.by_facts.readers.issuperset(member_ids)
            for topic in topics:
                self.look_at(group_id, topic, is_new=True, by_readers=by_readers)
            desk.journal.decide(TopicsMatched(group_id, tuple(member_ids), topics))
        return bool(changed)

    def _topics_of(self, turn: GroupTurn, member: MemberState) -> tuple[str, ...] | None:
        """Return the topics of a member, the first that its pattern matches if they have become too many."""
        desk, facts = self._desk, member.facts
        assert facts.pattern is not None
        key = facts.pattern, facts.exclusions, facts.principal if desk.authorizer is not None else ""
        topics = turn.matched.get(key)
        if topics is not None:
            return topics
        subscription = Subscription(pattern=facts.pattern, exclusions=facts.exclusions)
        principal = Principal.parse(facts.principal) if facts.principal else ANONYMOUS
        found = self._found(facts.pattern)
        if found is None:
            return None
        desk.meter.match((_FOUND if desk.authorizer is None else _ASKED_ABOUT) * len(found))
        topics = self._shown(found, subscription, principal)
        most = desk.limits.pattern_max_topics
        if len(topics) > most:
            why = (
                f"the pattern {facts.pattern[:100]!r} matches {len(topics)} topics and at most {most} are read; "
                f"{topics[most]} and those after it are left out: narrow the pattern, or spread it over members"
            )
            desk.note(turn.group_id, EventKind.TOPICS_LEFT_OUT, why)
        topics = topics[:most]
        turn.matched[key] = topics = facts.topics if facts.topics == topics else topics
        return topics

    def look_at(
        self,
        group_id: str,
        topic: str,
        *,
        is_new: bool = False,
        by_readers: bool | None = None,
        earliest_why: str = "",
    ) -> bool:
        """Record what Kafka says of a topic that a group reads, and return whether anything is new.

        A topic that `is_new` was not there before the group: all of it is read from its beginning. The look is
        `by_readers` when only members that commit nothing are about to read it; the group's first look is then still
        to come. None means that nobody is new. `earliest_why` says why a topic at which the group looks for the first
        time starts at earliest where no checkpoint shows more.
        """
        desk = self._desk
        group = desk.group(group_id)
        assert group is not None
        known = desk.catalog.topic(topic)
        before = group.topics.get(topic)
        if known is None and before is not None:
            record = note_deleted(group, topic) if desk.catalog.is_deleted(topic) else None
        else:
            topic_id, partitions = (known.topic_id, known.partitions) if known is not None else ("", 0)
            record = look_at_topic(group, topic, topic_id, partitions)
        is_first = before is None or (before.by_readers and by_readers is False)
        if is_first and record is None:
            assert before is not None
            record = TopicSeen(group_id, topic, before.topic_id, before.partitions, before.partitions)
        if record is None:
            return False
        if is_first:
            first_partitions = 0 if is_new else record.partitions
            record = TopicSeen(
                group_id, topic, record.topic_id, first_partitions, record.partitions, bool(by_readers), earliest_why
            )
        elif before is not None and before.by_readers:
            record = replace(record, by_readers=True)
        desk.journal.decide(record)
        desk.soft_of(group_id).has_news_of_topics = True
        said = say_topic_change(before, record)
        if said is not None:
            desk.note(group_id, *said)
        return True


def _matched_before(subscription: Subscription, old: MemberState | None) -> tuple[str, ...] | None:
    """Return what a pattern matched as a member that comes back had it, if it had the same."""
    if old is None or old.facts.pattern != subscription.pattern:
        return None
    same = old.facts.exclusions == tuple(sorted(set(subscription.exclusions)))
    return old.facts.topics if same else None
