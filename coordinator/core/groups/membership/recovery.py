"""Groups that were forgotten: expired, deleted, or lost with the coordinator's disk, while members remember them.

A registration that shows that its member was in the group before is no first member's. What such a member brings into
view starts at earliest where no checkpoint shows more: by the policy `latest` it would pass over what nobody has read.
If the group is not known at all, it first waits a session time-out for the checkpoints of the others, so that one
member's return does not have everything read again that another one's checkpoint shows as done. The wait is hard state
and begins anew with a restart; it ends at once when checkpoints show every partition. Whoever comes later, new members
too, brings no topic that starts by the policy: somebody who is not back yet may have read of it.
"""

from collections.abc import Iterator
from typing import Final

from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.records import RecoveryChanged, TopicSeen
from coordinator.core.groups.hard.state import GroupState, TopicState
from coordinator.core.groups.partitions.partition_table import is_same_topic
from coordinator.core.groups.reconciliation.reconciler import Reconciler
from coordinator.core.groups.soft.shown import Shown
from coordinator.core.groups.soft.timeline import EventKind
from coordinator.core.groups.soft.timers import Timer, TimerKind
from coordinator.protocol.messages import RegisterConsumer

FORGOTTEN: Final = "the group was forgotten and no checkpoint shows where it was"
ADDED: Final = "a member that had been in the group before brought the topic"

_MEMBERS_ASKED_ONE_BY_ONE: Final = 100
"""A larger group waits its time out: to look at all that is shown with each member that comes would be dear."""


def was_member(request: RegisterConsumer, shown: Shown) -> bool:
    """True when a registration says or shows that its member was in the group before."""
    is_remembered = request.is_returning or request.log is not None or bool(shown.claims)
    return is_remembered or any(hints.from_checkpoint for hints in shown.hints)


def is_yet_to_begin(group: GroupState) -> bool:
    """True when no member that commits has been in the group, so that little is known of where it was.

    Offsets that an operator has committed count, and say nothing of the other partitions.
    """
    return all(topic.by_readers for topic in group.topics.values())


def _without_start(group: GroupState, topic: str, seen: TopicState, numbers: set[int]) -> Iterator[int]:
    """Yield those of a topic's partitions that have no offset, and had none taken from them."""
    committed = group.offsets.rows(topic)
    for number in numbers:
        found = committed.get(number)
        has_offset = found is not None and is_same_topic(found.topic_id, seen.topic_id)
        if not has_offset and (topic, number) not in group.by_policy:
            yield number


class Recovery:
    """The forgotten groups of one shard."""

    def __init__(self, desk: Desk, reconciler: Reconciler) -> None:
        self._desk = desk
        self._reconciler = reconciler

    def why_earliest(
        self, request: RegisterConsumer, shown: Shown, group: GroupState | None, *, is_new_group: bool, is_known: bool
    ) -> str:
        """Say why topics that a registration is the first to bring start at earliest; empty if the policy counts.

        `is_known` says that its member is in the group already, or left a running claim there.
        """
        if group is not None and group.was_forgotten:
            return FORGOTTEN
        if not request.commits:
            return ""
        if was_member(request, shown):
            return FORGOTTEN if is_new_group else ADDED
        return ADDED if is_known else ""

    def note_registered(
        self,
        group: GroupState,
        member_id: str,
        request: RegisterConsumer,
        shown: Shown,
        *,
        is_new_group: bool,
        has_gone_back: bool,
    ) -> None:
        """Begin to wait for other checkpoints if the group was forgotten, and wait no longer if nothing is missing.

        If the log was found to have gone back, any partition without an offset may have had one since.
        """
        if group.recovery_ms is None:
            if not was_member(request, shown) or not (request.commits or (has_gone_back and not is_new_group)):
                return
            lost = self._unsure_topics(group) if has_gone_back else self._lost_topics(group, shown)
            if not is_new_group and not has_gone_back and not lost:
                return
            self._begin(group, member_id, lost)
        elif len(group.members) <= _MEMBERS_ASKED_ONE_BY_ONE and self._is_all_shown(group):
            self._end(group, "the checkpoints show every partition")

    def _begin(self, group: GroupState, member_id: str, lost: list[str]) -> None:
        desk = self._desk
        for topic in lost:
            seen = group.topics[topic]
            desk.journal.decide(
                TopicSeen(
                    group.group_id,
                    topic,
                    seen.topic_id,
                    seen.first_partitions,
                    seen.partitions,
                    earliest_why=FORGOTTEN,
                )
            )
        if self._is_all_shown(group):
            desk.journal.decide(RecoveryChanged(group.group_id, None))
            return
        wait_ms = group.members[member_id].facts.session_timeout_ms
        desk.journal.decide(RecoveryChanged(group.group_id, wait_ms))
        self._wait(group)
        why = (
            f"{member_id} was in this group before, and where the group was is not known here; waiting {wait_ms} ms "
            "for the checkpoints of others, then what none shows starts at earliest. Unless the group was deleted or "
            "forgotten, look whether this node has the right data directory (--data)"
        )
        desk.note(group.group_id, EventKind.RECOVERING, why, member_id=member_id)

    def _unsure_topics(self, group: GroupState) -> list[str]:
        """Return known topics whose partitions would start by the policy where the group has no offset."""
        return sorted(topic for topic, seen in group.topics.items() if not seen.earliest_why and not seen.by_readers)

    def _lost_topics(self, group: GroupState, shown: Shown) -> list[str]:
        """Return known topics of which a checkpoint shows a partition that the group has no offset of, and once had."""
        lost = set()
        for hints in shown.hints:
            seen = group.topics.get(hints.topic)
            if not hints.from_checkpoint or seen is None or seen.earliest_why:
                continue
            if is_same_topic(hints.topic_id, seen.topic_id) and any(
                number < seen.partitions for number in _without_start(group, hints.topic, seen, set(hints.partitions))
            ):
                lost.add(hints.topic)
        return sorted(lost)

    def _is_all_shown(self, group: GroupState) -> bool:
        """True when each partition has an offset, or a checkpoint shows where it was."""
        shown: dict[tuple[str, str], set[int]] = {}
        for member in group.members.values():
            for hint in member.facts.hints if member.facts.commits else ():
                if hint.from_checkpoint:
                    shown.setdefault((hint.topic, hint.topic_id), set()).update(hint.partitions)
        for topic in group.by_facts.subscribers:
            seen = group.topics.get(topic)
            if seen is None:
                continue
            of_topic = shown.get((topic, seen.topic_id), set()) | shown.get((topic, ""), set())
            not_shown = set(range(seen.partitions)) - of_topic
            if next(_without_start(group, topic, seen, not_shown), None) is not None:
                return False
        return True

    # ---- time -------------------------------------------------------------------------------------------------------

    def start(self, group: GroupState) -> None:
        """Go on waiting after a load: the members have to come back first."""
        if group.recovery_ms is not None:
            self._wait(group)

    def _wait(self, group: GroupState) -> None:
        assert group.recovery_ms is not None, f"group {group.group_id} waits for nothing"
        timer = Timer(TimerKind.RECOVERY, group.group_id)
        self._desk.timers.set(timer, self._desk.now_ms + group.recovery_ms)

    def is_due(self, group: GroupState) -> None:
        """Wait no longer."""
        if group.recovery_ms is not None:
            self._end(group, f"{group.recovery_ms} ms are over")

    def _end(self, group: GroupState, why: str) -> None:
        desk = self._desk
        desk.journal.decide(RecoveryChanged(group.group_id, None))
        desk.timers.cancel(Timer(TimerKind.RECOVERY, group.group_id))
        desk.note(group.group_id, EventKind.RECOVERED, f"it waits for no more checkpoints: {why}")
        self._reconciler.grant_what_is_free(group.group_id)
