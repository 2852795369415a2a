"""Processes that claim one place in a group: whether it is the same one, and words that say whose the place is.

An identity comes from a checkpoint, as a member id, or from an instance id; who is refused learns which of the two it
is, who has it, and what to give itself instead. Who of them lives is decided elsewhere.
"""

from collections.abc import Sequence
from typing import Final

from coordinator.core.groups.bounds.claim_watch import ClaimWatch
from coordinator.core.groups.hard.records import MemberFacts
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.membership.listed_claims import Listed
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.groups.soft.sessions import Connection, Registration
from coordinator.core.security.principal import Principal
from coordinator.protocol.messages import RegisterConsumer

SHOWN: Final = 5
"""The number of partitions that a refusal names."""


def registers_again(group: GroupState | None, connection: Connection, request: RegisterConsumer) -> bool:
    """Return whether a connection is that of the very process that registers on it, with another subscription then."""
    if group is None or connection.group_id != request.group_id or connection.member_id != request.member_id:
        return False
    member = group.members.get(request.member_id)
    return member is not None and member.facts.incarnation == request.incarnation


def why_id_in_use(group: GroupState, request: RegisterConsumer, member_id: str) -> str:
    """Say that a living member has the identity which a registration asks for."""
    facts = group.members[member_id].facts
    if request.member_id == member_id:
        also = " and an instance id" if request.instance_id is not None else ""
        return (
            f"member id {member_id} is in use by {_say_process(facts)}, which lives; stop it, or give this one a "
            f"checkpoint{also} of its own"
        )
    where = f"instance id {request.instance_id} is that of member {member_id}, {_say_process(facts)}, which lives"
    if request.application is not None and request.application == facts.application:
        return (
            f"{where} in the same application: each source needs an instance id of its own, and so options of its own; "
            "within a query, load a topic once and use that DataFrame wherever it is needed"
        )
    return f"{where}; stop it, or give this one an instance id of its own"


def why_of_another_principal(group: GroupState, member_id: str, principal: Principal) -> str | None:
    """Say that a member id, or the instance id that stands for it, is another principal's; None when it is not.

    A member of somebody who did not log in is whoever's that comes back first: so log-ins can begin in a running group.
    One that is gone is its principal's as long as it has left running claims.
    """
    known = group.members.get(member_id)
    registered_by = group.left_by.get(member_id, "") if known is None else known.facts.principal
    if registered_by in ("", str(principal)):
        return None
    whose = f"was registered by another principal than {principal}; take an identity of its own"
    if known is not None:
        return f"member {member_id} {whose}"
    return f"member {member_id}, which is gone and left running claims, {whose}, or have the claims released"


def why_replaced(group: GroupState, member_id: str, claimed: Sequence[TopicPartition]) -> str:
    """Say that a later process has been the member, whose running claims the one that comes back does not know."""
    by = f", {_say_process(group.members[member_id].facts)}," if member_id in group.members else ""
    return (
        f"another process{by} has been member {member_id} since this one began, and has left running claims on "
        f"{_say_claimed(claimed)}, which only a process that begins with its checkpoint can finish; stop this one, and "
        "start its query again"
    )


def why_perhaps_replaced(member_id: str, claimed: Sequence[TopicPartition]) -> str:
    """Say that running claims, which the process that comes back does not have, may be of a later one.

    Since when a claim runs is not in the log: a node that has read it knows only that it was before.
    """
    return (
        f"running claims of member {member_id} on {_say_claimed(claimed)} are not in the checkpoint of this process, "
        "and this coordinator cannot tell whether a later process has made them: it has read the group's log since "
        "this process began; stop this one, and start its query again, which finishes them or gives them up"
    )


def why_fenced_instance(group: GroupState, request: RegisterConsumer) -> str:
    """Say that an instance id stands for another member than the one that a registration names."""
    assert request.instance_id is not None
    other = group.by_facts.instances[request.instance_id]
    return (
        f"instance id {request.instance_id} is that of member {other}, {_say_process(group.members[other].facts)}, and "
        f"this one is member {request.member_id}; stop that one, or give this one an instance id of its own"
    )


def _say_claimed(claimed: Sequence[TopicPartition]) -> str:
    shown = ", ".join(f"{topic}-{number}" for topic, number in claimed[:SHOWN])
    return shown if len(claimed) <= SHOWN else f"{shown} and {len(claimed) - SHOWN} more"


def _say_process(facts: MemberFacts) -> str:
    return f"process {facts.pid} on {facts.host} ({facts.client_id})"


def why_of_later_process(
    group: GroupState, registration: Registration, member_id: str, listed: Listed, watch: ClaimWatch
) -> str | None:
    """Say why claims run that a registration does not name, if a later process has made them or may have.

    A process that has been the member knows its claims. One that has not yet may have begun with a checkpoint that a
    later process went on with; what runs since before it began, it does not have in its checkpoint. Claims that the log
    showed as running count from when it was read.
    """
    if registration.request.is_rejoining:
        unknown = listed.running(group)
        return why_replaced(group, member_id, unknown) if unknown else None
    began_ms = registration.at_ms - registration.request.age_ms
    later: list[TopicPartition] = []
    perhaps: list[TopicPartition] = []
    for dropped in listed.dropped:
        for since, numbers in watch.began_together(group, dropped):
            if since.at_ms > began_ms:
                (later if since.was_seen else perhaps).extend([(dropped.topic, number) for number in numbers])
    if later:
        return why_replaced(group, member_id, later)
    return why_perhaps_replaced(member_id, perhaps) if perhaps else None
