"""Two members of one program that both are connected and would divide what each is to read, though not both share."""

from collections.abc import Iterable

from coordinator.core.groups.hard.records import MemberFacts
from tests.sim.log.state import GroupModel, ViolationError


def must_not_divide(group: GroupModel, member_id: str, others: Iterable[str]) -> None:
    """Raise when a member was let in beside another one of its program that lives."""
    facts = group.facts[member_id]
    for other_id in others:
        other = group.facts.get(other_id)
        if other is None or other_id == member_id or facts.application is None:
            continue
        shares = facts.shares_application and other.shares_application
        if other.application == facts.application and not shares and _have_in_common(facts, other):
            raise ViolationError(
                "divided-topic", f"{member_id} is let in beside {other_id} of the same program: {facts}, {other}"
            )


def _have_in_common(one: MemberFacts, another: MemberFacts) -> bool:
    if one.partitions and another.partitions:
        return not set(one.partitions).isdisjoint(another.partitions)
    return not set(one.topics).isdisjoint(another.topics)
