"""The right that each request asks for: Kafka's map of groups, and the cluster's verbs.

A request that has no row here is refused by nobody's mistake: a test holds that each has one. Nothing here knows who
asks, nor what the rules are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, assert_never

from coordinator.core.security.acl import CLUSTER_NAME, Operation, ResourceKind
from coordinator.protocol.messages import (
    Advance,
    BeginClaims,
    CommitOffsets,
    ConfirmClaims,
    DescribeCluster,
    DescribeGroup,
    DrainNode,
    ElectLeaders,
    FetcherStarted,
    FetcherStopped,
    FetchOffsets,
    FindCoordinator,
    FinishClaims,
    LeaveGroup,
    ListClaims,
    ListGroupEvents,
    ListGroups,
    Ping,
    ReassignShards,
    RegisterConsumer,
    ReportOutOfRange,
    Request,
)
from coordinator.protocol.messages.operators import (
    CancelResets,
    ChangeDrain,
    ChangePause,
    DeleteGroup,
    DeleteOffsets,
    DescribeControls,
    ReleaseClaims,
    ResetOffsets,
)


@dataclass(frozen=True, slots=True)
class OnGroup:
    """A right on the group that the request names."""

    operation: Operation


@dataclass(frozen=True, slots=True)
class OnOwnGroup:
    """A right on the group of the member that the connection is; on one that is no member's nothing is asked."""

    operation: Operation


@dataclass(frozen=True, slots=True)
class OnCluster:
    """A right on the cluster."""

    operation: Operation


@dataclass(frozen=True, slots=True)
class Filtered:
    """No right: the answer has only what may be described."""


@dataclass(frozen=True, slots=True)
class OfAnybody:
    """No right: it says nothing of anybody, and changes nothing but the connection itself."""


Right = OnGroup | OnOwnGroup | OnCluster | Filtered | OfAnybody

_READ, _DESCRIBE, _ALTER, _DELETE = Operation.READ, Operation.DESCRIBE, Operation.ALTER, Operation.DELETE

RIGHT_OF: Final[Mapping[type[Request], Right]] = {
    FindCoordinator: OnGroup(_DESCRIBE),
    RegisterConsumer: OnGroup(_READ),
    ListClaims: OfAnybody(),
    Ping: OnOwnGroup(_READ),
    FetcherStarted: OnOwnGroup(_READ),
    FetcherStopped: OnOwnGroup(_READ),
    Advance: OnOwnGroup(_READ),
    ConfirmClaims: OnOwnGroup(_READ),
    ReportOutOfRange: OnOwnGroup(_READ),
    LeaveGroup: OnOwnGroup(_READ),
    CommitOffsets: OnGroup(_READ),
    FinishClaims: OnGroup(_READ),
    BeginClaims: OnGroup(_READ),
    FetchOffsets: OnGroup(_DESCRIBE),
    DescribeGroup: OnGroup(_DESCRIBE),
    ListGroupEvents: OnGroup(_DESCRIBE),
    DescribeControls: OnGroup(_DESCRIBE),
    ListGroups: Filtered(),
    ChangePause: OnGroup(_ALTER),
    ChangeDrain: OnGroup(_ALTER),
    ResetOffsets: OnGroup(_ALTER),
    CancelResets: OnGroup(_ALTER),
    ReleaseClaims: OnGroup(_ALTER),
    DeleteOffsets: OnGroup(_DELETE),
    DeleteGroup: OnGroup(_DELETE),
    DescribeCluster: OnCluster(_DESCRIBE),
    ReassignShards: OnCluster(_ALTER),
    ElectLeaders: OnCluster(_ALTER),
    DrainNode: OnCluster(_ALTER),
}
"""The right for each request of members and operators."""


OF_READERS: Final = frozenset(kind for kind, right in RIGHT_OF.items() if right == OnOwnGroup(_READ))
"""Requests of members that ask for the right to read their own group and for no other."""


TOPIC_RIGHTS_OF: Final[Mapping[type[Request], tuple[Operation, ...]]] = {
    RegisterConsumer: (_DESCRIBE,),
    CommitOffsets: (_READ,),
    ResetOffsets: (_READ, _DESCRIBE),
    DeleteOffsets: (_READ,),
}
"""The rights on each topic that a request names, beside that on its group (decision 0073).

A reset commits, and tells of a partition what Kafka's ListOffsets does. Requests without a row tell and change nothing
but what is the group's already."""


def operations_of(verb: str, kind: ResourceKind) -> tuple[Operation, ...]:
    """Return the operation of that name, or those that a message of that name asks for; nothing for neither."""
    if verb in set(Operation) - {Operation.ALL}:
        return (Operation(verb),)
    request = next((request for request in RIGHT_OF if request.__name__ == verb), None)
    if request is None:
        return ()
    if kind is ResourceKind.TOPIC and request in TOPIC_RIGHTS_OF:
        return TOPIC_RIGHTS_OF[request]
    right = RIGHT_OF[request]
    return (right.operation,) if isinstance(right, OnGroup | OnOwnGroup | OnCluster) else ()


@dataclass(frozen=True, slots=True)
class Asked:
    """A right on one resource."""

    operation: Operation
    kind: ResourceKind
    name: str


def group_named(request: Request) -> str | None:
    """Return the group that a request names; a member's own requests name none."""
    return getattr(request, "group_id", None)


def rights_for(request: Request, own_group_id: str | None) -> tuple[Asked, ...]:
    """Return all that a request asks for; `own_group_id` is the group of the member whose connection it came on.

    Each topic that is named is asked for, and one that is refused has all of the request refused; what a pattern
    matches is filtered. Those of a commit are asked for one by one where offsets are committed.
    """
    right = RIGHT_OF[type(request)]
    match right:
        case OnGroup(operation):
            group_id = group_named(request)
            assert group_id is not None, "a request that wants a right on a group names it"
            first = Asked(operation, ResourceKind.GROUP, group_id)
        case OnOwnGroup(operation):
            if own_group_id is None:
                return ()
            first = Asked(operation, ResourceKind.GROUP, own_group_id)
        case OnCluster(operation):
            first = Asked(operation, ResourceKind.CLUSTER, CLUSTER_NAME)
        case Filtered() | OfAnybody():
            return ()
        case _:
            assert_never(right)
    topics = _topics_named(request)
    if not topics:
        return (first,)
    operations = TOPIC_RIGHTS_OF[type(request)]
    return (first, *(Asked(each, ResourceKind.TOPIC, topic) for topic in sorted(topics) for each in operations))


def _topics_named(request: Request) -> set[str]:
    """Return the topics of a request for all of which it must have rights."""
    match request:
        case RegisterConsumer(subscription=said):
            return {*said.topics, *(topic for topic, _ in said.partitions)}
        case ResetOffsets(targets=targets):
            return {target.topic for target in targets}
        case DeleteOffsets(partitions=partitions):
            return {topic for topic, _ in partitions}
        case _:
            return set()
