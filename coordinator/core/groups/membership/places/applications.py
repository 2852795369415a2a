"""Two members of one program in one group: whether they take from each other what both are to read.

A group gives a partition to one of its members. Two sources of one query that read a topic in one group would therefore
each get a part of it, and a join or a union of them would miss the rest without an error. So the second is refused
unless both say that this is meant. Both, because whose registration comes first is chance. Which of them lives is not
known here.
"""

from collections.abc import Iterable, Iterator

from coordinator.core.groups.assignment.subscriptions import matching_topics, named_topics
from coordinator.core.groups.hard.records import MemberFacts
from coordinator.core.groups.hard.state import GroupState
from coordinator.protocol.messages import RegisterConsumer
from coordinator.protocol.parts import Subscription


def rivals(group: GroupState, request: RegisterConsumer, member_id: str) -> Iterator[str]:
    """Yield the other members of the program of a registration that would share with it what each is to read."""
    if request.application is None:
        return
    for other in sorted(group.by_facts.applications.get(request.application, ())):
        facts = group.members[other].facts
        if other == member_id or (facts.shares_application and request.shares_application):
            continue
        if overlap(request.subscription, _subscription_of(facts)):
            yield other


def _subscription_of(facts: MemberFacts) -> Subscription:
    is_by_name = facts.pattern is None and not facts.partitions
    return Subscription(facts.topics if is_by_name else (), facts.pattern, facts.partitions, facts.exclusions)


def overlap(one: Subscription, another: Subscription) -> bool:
    """True when two subscriptions may come to stand for a partition in common.

    Two patterns always may: a topic that both match can be made at any time.
    """
    if one.pattern is not None and another.pattern is not None:
        return True
    if one.pattern is not None:
        return _matches(one.pattern, one.exclusions, another)
    if another.pattern is not None:
        return _matches(another.pattern, another.exclusions, one)
    if one.partitions and another.partitions:
        return not set(one.partitions).isdisjoint(another.partitions)
    return not set(named_topics(one)).isdisjoint(named_topics(another))


def _matches(pattern: str, exclusions: Iterable[str], named: Subscription) -> bool:
    return bool(matching_topics(pattern, exclusions, named_topics(named)))


def why_second(group: GroupState, rival: str, *, shares: bool) -> str:
    """Say why a registration is refused, and what to do; `shares` is what it says itself."""
    facts = group.members[rival].facts
    lacking = "the other member does not set it" if shares else "it has to be set for both"
    return (
        f"the same application reads the same topics as member {rival} already (process {facts.pid} on {facts.host}, "
        f"{facts.client_id}), and two members of group {group.group_id} would each get a part of the partitions: "
        "within a query, load the topic once and use that DataFrame wherever it is needed; give each query and each "
        "batch a group of its own, also where they are started from one DataFrame; where each is to read a part, set "
        f"kcoord.share.within.application to true ({lacking})"
    )
