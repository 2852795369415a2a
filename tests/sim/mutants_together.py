"""Known mistakes in what is decided about many partitions at once; `mutants` has them beside its own."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.offsets import claims, claims_together, committed_offsets
from coordinator.protocol.messages import Advance
from coordinator.protocol.parts import TopicClaims, TopicOffsets

Patches = list[tuple[Any, str, Any]]


def together_without_owner_check() -> Patches:
    owned_topic_id = committed_offsets.owned_topic_id

    def by_anybody(group: GroupState, member_id: str, asked: TopicOffsets | TopicClaims) -> Any:
        grants = [grant for number in asked.partitions if (grant := group.grants.get((asked.topic, number)))]
        if grants and len(grants) == len(asked.partitions):
            member_id = grants[0].member_id
            asked = replace(asked, owner_epochs=tuple(grant.owner_epoch for grant in grants))
        return owned_topic_id(group, member_id, asked)

    return [(committed_offsets, "owned_topic_id", by_anybody)]


def whole_micro_batch_without_its_claims() -> Patches:
    """Finish whatever an owner says of what it owns, so that what was finished before is finished once more."""
    topic_id_of_whole = claims_together._topic_id_of_whole

    def whose_it_is(group: GroupState, member_id: str, asked: TopicClaims, *, is_running: bool) -> str | None:
        is_committed = group.offsets.rows(asked.topic).keys() >= set(asked.partitions)
        if is_running and is_committed:
            return committed_offsets.owned_topic_id(group, member_id, asked)
        return topic_id_of_whole(group, member_id, asked, is_running=is_running)

    return [(claims_together, "_topic_id_of_whole", whose_it_is)]


def portions_drop_each_other() -> Patches:
    advance = claims.advance

    def without_those_before(group: GroupState, member_id: str, request: Advance, commit_ms: int) -> Any:
        return advance(group, member_id, replace(request, keeps_offered=False), commit_ms)

    return [(claims, "advance", without_those_before)]


MISTAKES: Mapping[str, tuple[str, Callable[[], Patches]]] = {
    "together-without-owner-check": (
        "what is committed together is not asked for its owner",
        together_without_owner_check,
    ),
    "whole-micro-batch-without-its-claims": (
        "a micro-batch that is said again is committed again",
        whole_micro_batch_without_its_claims,
    ),
    "portions-drop-each-other": (
        "a further request of a micro-batch lets go of what those before it have claimed",
        portions_drop_each_other,
    ),
}
