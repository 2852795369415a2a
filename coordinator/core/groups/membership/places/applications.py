"""Two members of one program in one group: whether they take from each other what both are to read.

A group gives a partition to one of its members. Two sources of one query that read a topic in one group would therefore
each get a part of it, and a join or a union of them would miss the rest without an error. So the second is refused
unless both say that this is meant. Both, because whose registration comes first is chance. Which of them lives is not
known here.
"""

from collections.abc import Iterator

from coordinator.core.groups.assignment.comparison import Comparison
from coordinator.core.groups.hard.state import GroupState
from coordinator.protocol.messages import RegisterConsumer


def rivals(group: GroupState, request: RegisterConsumer, member_id: str, comparison: Comparison) -> Iterator[str]:
    """Yield the other members of the program of a registration that would share with it what each is to read.

    All of them where the comparison is through then.
    """
    if request.application is None:
        return
    for other in sorted(group.by_facts.applications.get(request.application, ())):
        facts = group.members[other].facts
        if other == member_id or (facts.shares_application and request.shares_application):
            continue
        do = comparison.overlap(request.subscription, other, facts)
        if do is None:
            return
        if do:
            yield other


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
