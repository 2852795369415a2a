"""The checks of a registration: what a member may ask for, with the limits and the group as they are.

The first thing that is wrong is answered: what, why, and what to do.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from coordinator.core.groups.assignment.subscriptions import why_bad_subscription, why_owned
from coordinator.core.groups.bounds.settings import why_bad_handover, why_bad_policy
from coordinator.core.groups.hard.held_claims import awaited_owners, say_awaited
from coordinator.core.groups.hard.records import MemberFacts
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.membership.registration_size import why_bad_assignors, why_too_large
from coordinator.core.groups.partitions.partition_table import in_order
from coordinator.core.groups.soft.sessions import Connection
from coordinator.core.groups.soft.shown import Shown
from coordinator.core.limits import Limits
from coordinator.core.security.principal import ANONYMOUS
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import MAX_ID_LENGTH, why_bad_id
from coordinator.protocol.messages import RegisterConsumer
from coordinator.protocol.parts import ResetPolicy
from coordinator.protocol.vocabulary import AssignorName, Handover, IsolationLevel

DEFAULT_ASSIGNORS: Final = (AssignorName.STICKY,)
"""The assignors of a member that names none."""


class Refusal(NamedTuple):
    """Why a registration is refused."""

    error: ErrorCode
    message: str


def assignors_of(request: RegisterConsumer) -> tuple[str, ...]:
    """Return the assignors a member names, each once, or the default."""
    return tuple(dict.fromkeys(request.assignors)) or DEFAULT_ASSIGNORS


def facts_of(
    request: RegisterConsumer, shown: Shown, member_id: str, connection: Connection, topics: tuple[str, ...]
) -> MemberFacts:
    """Return what a registration says of a member, in the form of the records; `topics` are those it stands for."""
    longest = max(1, request.session_timeout_ms // 3)
    return MemberFacts(
        member_id=member_id,
        incarnation=request.incarnation,
        instance_id=request.instance_id,
        client_id=request.client_id,
        host=connection.host,
        pid=request.pid,
        topics=topics,
        streams=request.streams,
        assignors=assignors_of(request),
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        ping_interval_ms=longest if request.ping_interval_ms is None else min(request.ping_interval_ms, longest),
        auto_commit=request.auto_commit,
        hints=shown.hints,
        pattern=request.subscription.pattern,
        partitions=tuple(in_order(dict.fromkeys(request.subscription.partitions))),
        exclusions=tuple(sorted(set(request.subscription.exclusions))),
        wants_streams=request.wants_streams,
        application=request.application,
        shares_application=request.shares_application,
        commits=request.commits,
        own_policy=None if request.commits else request.reset_policy,
        isolation_level=request.isolation_level,
        principal="" if connection.principal == ANONYMOUS else str(connection.principal),
    )


def why_malformed(
    request: RegisterConsumer, shown: Shown, limits: Limits, known_assignors: Sequence[str]
) -> Refusal | None:
    """Say what is wrong with a registration whatever its group, or return None."""
    return (
        _why_bad_ids(request)
        or _why_bad_numbers(request, limits)
        or _why_bad_subscription(request, limits)
        or _why_bad_handover(request, limits)
        or _why_bad_start(request)
        or (Refusal(ErrorCode.INVALID_REQUEST, why) if (why := shown.why_refused or shown.why_bad) else None)
        or _why_bad_reader(request, shown)
        or _why_bad_isolation_level(request)
        or _why_unknown_assignors(request, known_assignors)
        or _why_too_large(request, shown)
    )


def _why_bad_ids(request: RegisterConsumer) -> Refusal | None:
    if why := why_bad_id(request.group_id):
        return Refusal(ErrorCode.INVALID_GROUP_ID, f"the group id is not allowed: {why}")
    if request.member_id and (why := why_bad_id(request.member_id)):
        return Refusal(ErrorCode.INVALID_REQUEST, f"the member id is not allowed: {why}")
    if request.instance_id is not None and (why := why_bad_id(request.instance_id)):
        return Refusal(ErrorCode.INVALID_REQUEST, f"the instance id is not allowed: {why}")
    if why := why_bad_id(request.incarnation):
        return Refusal(ErrorCode.INVALID_REQUEST, f"the incarnation is not allowed: {why}; send a random text")
    if request.application is not None and (why := why_bad_id(request.application)):
        return Refusal(ErrorCode.INVALID_REQUEST, f"the name of the application is not allowed: {why}")
    if len(request.client_id) > MAX_ID_LENGTH or not (request.client_id == "" or request.client_id.isprintable()):
        return Refusal(
            ErrorCode.INVALID_REQUEST,
            f"the client id is not allowed: at most {MAX_ID_LENGTH} printable characters may be used",
        )
    return None


def _why_bad_numbers(request: RegisterConsumer, limits: Limits) -> Refusal | None:
    if not limits.session_timeout_min_ms <= request.session_timeout_ms <= limits.session_timeout_max_ms:
        return Refusal(
            ErrorCode.INVALID_SESSION_TIMEOUT,
            f"a session time-out of {request.session_timeout_ms} ms is not allowed; choose one from "
            f"{limits.session_timeout_min_ms} to {limits.session_timeout_max_ms} ms",
        )
    if not limits.rebalance_timeout_min_ms <= request.rebalance_timeout_ms <= limits.rebalance_timeout_max_ms:
        return Refusal(
            ErrorCode.INVALID_REQUEST,
            f"a rebalance time-out of {request.rebalance_timeout_ms} ms is not allowed; choose one from "
            f"{limits.rebalance_timeout_min_ms} to {limits.rebalance_timeout_max_ms} ms",
        )
    if request.ping_interval_ms is not None and request.ping_interval_ms < limits.ping_interval_min_ms:
        return Refusal(
            ErrorCode.INVALID_REQUEST,
            f"a ping interval of {request.ping_interval_ms} ms is not allowed; choose at least "
            f"{limits.ping_interval_min_ms} ms",
        )
    if not 1 <= request.streams <= limits.streams_max:
        return Refusal(
            ErrorCode.INVALID_REQUEST,
            f"{request.streams} streams are not allowed; choose from 1 to {limits.streams_max}",
        )
    return None


def _why_bad_subscription(request: RegisterConsumer, limits: Limits) -> Refusal | None:
    why = why_bad_subscription(request.subscription, limits)
    return Refusal(ErrorCode.INVALID_REQUEST, why) if why is not None else None


def _why_bad_isolation_level(request: RegisterConsumer) -> Refusal | None:
    if request.isolation_level in set(IsolationLevel):
        return None
    return Refusal(
        ErrorCode.INVALID_REQUEST,
        f"the isolation level {request.isolation_level[:50]!r} is not known; use one of {', '.join(IsolationLevel)}",
    )


def _why_bad_handover(request: RegisterConsumer, limits: Limits) -> Refusal | None:
    if request.handover == Handover.HOLD and request.instance_id is None:
        return Refusal(
            ErrorCode.INVALID_REQUEST,
            "the hand-over hold needs an instance id, by which a claim's owner is known again; set kcoord.instance.id",
        )
    why = why_bad_handover(request.handover, request.claim_timeout_ms, limits)
    return Refusal(ErrorCode.INVALID_REQUEST, why) if why is not None else None


def _why_bad_reader(request: RegisterConsumer, shown: Shown) -> Refusal | None:
    if request.commits or not (request.auto_commit or shown.claims):
        return None
    what = "auto commit" if request.auto_commit else "a claim"
    why = f"{what} is named by a member that commits nothing; leave it out, or register as one that commits"
    return Refusal(ErrorCode.INVALID_REQUEST, why)


def _why_bad_start(request: RegisterConsumer) -> Refusal | None:
    why = why_bad_policy(request.reset_policy)
    return Refusal(ErrorCode.INVALID_REQUEST, why) if why is not None else None


def _why_too_large(request: RegisterConsumer, shown: Shown) -> Refusal | None:
    why = why_too_large(request, shown)
    return Refusal(ErrorCode.INVALID_REQUEST, why) if why is not None else None


def _why_unknown_assignors(request: RegisterConsumer, known_assignors: Sequence[str]) -> Refusal | None:
    if why := why_bad_assignors(request.assignors):
        return Refusal(ErrorCode.INVALID_REQUEST, why)
    if any(name in known_assignors for name in assignors_of(request)):
        return None
    return Refusal(
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        f"none of the assignors {', '.join(name[:50] for name in assignors_of(request)[:10])} is known; name one of "
        f"{', '.join(known_assignors)}",
    )


def why_unfit(
    group: GroupState, request: RegisterConsumer, member_id: str, limits: Limits, known_assignors: Sequence[str]
) -> Refusal | None:
    """Say why a well-formed registration does not fit its group as it is, or return None."""
    own = group.members.get(member_id)
    others = len(group.members) - (own is not None)
    if own is None and others >= limits.group_max_members:
        return Refusal(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"group {group.group_id} has {others} members and at most {limits.group_max_members} are allowed",
        )
    if others:
        own_names = own.facts.assignors if own is not None else ()
        supporters = group.by_facts.assignor_supporters
        common = [name for name in known_assignors if supporters.get(name, 0) - (name in own_names) == others]
        if not set(common).intersection(assignors_of(request)):
            return Refusal(
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                f"none of the assignors {', '.join(assignors_of(request))} is common to all members of group "
                f"{group.group_id}; name one of {', '.join(common)}",
            )
    if owned := why_owned(group, member_id, request.subscription.partitions):
        return Refusal(ErrorCode.PARTITION_OWNED, owned)
    if not request.commits:
        return None
    others -= len(group.by_facts.readers) - (member_id in group.by_facts.readers)
    policy = request.reset_policy
    if others and policy is not None and group.reset_policy is not None and policy != group.reset_policy:
        return Refusal(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"the reset policy {say_policy(policy)} differs from {say_policy(group.reset_policy)}, which the first "
            f"member of group {group.group_id} to name one has set; use that one, or none",
        )
    return _why_other_handover(group, request, member_id, others)


def _why_other_handover(group: GroupState, request: RegisterConsumer, member_id: str, others: int) -> Refusal | None:
    awaited = set(awaited_owners(group)) - {member_id}
    if not others and not awaited:
        return None
    if request.handover is None:
        return None
    if request.handover != group.handover:
        whose = "its other members use" if others else f"{say_awaited(group, min(awaited))} left a running claim under"
        return Refusal(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"the hand-over {request.handover} differs from {group.handover}, which {whose} in group {group.group_id}; "
            f"set kcoord.handover to {group.handover}",
        )
    wanted, set_by_first = request.claim_timeout_ms, group.claim_timeout_ms
    if wanted is not None and set_by_first is not None and wanted != set_by_first:
        return Refusal(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"the claim time-out of {wanted} ms differs from {set_by_first} ms, which the first member of group "
            f"{group.group_id} to name one has set; use that one, or none",
        )
    return None


def say_policy(policy: ResetPolicy) -> str:
    """Return a reset policy as people write it."""
    return f"{policy.kind} {policy.timestamp_ms}" if policy.timestamp_ms is not None else policy.kind
