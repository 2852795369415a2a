"""The rights on topics: each request that names topics has them, or is known to tell and change the group's alone."""

from msgspec import inspect

from coordinator.core.security.rights import RIGHT_OF, TOPIC_RIGHTS_OF
from coordinator.protocol.messages import (
    Advance,
    BeginClaims,
    ConfirmClaims,
    DescribeGroup,
    FetcherStarted,
    FetcherStopped,
    FetchOffsets,
    FinishClaims,
    LeaveGroup,
    ListClaims,
    Ping,
    ReportOutOfRange,
    Request,
)
from coordinator.protocol.messages.operators import CancelResets, ChangePause, ReleaseClaims

OF_OWNERS: set[type[Request]] = {
    Advance,
    BeginClaims,
    ConfirmClaims,
    FetcherStarted,
    FetcherStopped,
    FinishClaims,
    LeaveGroup,
    ListClaims,
    Ping,  # the offsets in it are a commit's, and asked for where they are committed
    ReportOutOfRange,
}
"""Requests about partitions that the member owns, which it got for topics that it was allowed to describe."""
OF_THE_GROUP: set[type[Request]] = {DescribeGroup, FetchOffsets, ChangePause, CancelResets, ReleaseClaims}
"""Requests that tell of the topics that a group has, or hold its partitions up, and set no offset."""


def names_topics(kind: inspect.Type) -> bool:
    """Say whether a value of this type names a topic: in a field of that name, or with a number behind it."""
    match kind:
        case inspect.StructType(fields=fields):
            return any(field.name in ("topic", "topics") or names_topics(field.type) for field in fields)
        case inspect.TupleType(item_types=items):
            is_partition = [type(item) for item in items[:2]] == [inspect.StrType, inspect.IntType]
            return is_partition or any(map(names_topics, items))
        case inspect.VarTupleType(item_type=item):
            return names_topics(item)
        case inspect.UnionType(types=types):
            return any(map(names_topics, types))
        case _:
            return False


def test_every_request_that_names_topics_asks_for_them_or_is_known_not_to() -> None:
    found = {kind for kind in RIGHT_OF if names_topics(inspect.type_info(kind))}
    assert found == TOPIC_RIGHTS_OF.keys() | OF_OWNERS | OF_THE_GROUP
