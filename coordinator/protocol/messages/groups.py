"""Groups as anybody may read them: the list, one group, and its timeline. Nothing is changed by these.

Each answer is a page of bounded size; `up_to` is where it ends, if there is more.
"""

from typing import Annotated, ClassVar, Final

from coordinator.protocol.errors import (
    ErrorCode,
)
from coordinator.protocol.messages.message import WireMessage, WireRequest, codes
from coordinator.protocol.parts import (
    DescribedUpTo,
    GroupEvent,
    GroupSummary,
    ListedUpTo,
    MemberDescription,
    PartitionDescription,
    ResetPolicy,
)
from coordinator.protocol.vocabulary import GroupStatus, Handover


class ListGroups(WireRequest, frozen=True, tag=11):
    """List the groups of this node, in pages; `after` is the `up_to` of the page before.

    A node of a cluster that does not serve every shard refuses it, unless only the groups `of_served` are asked for.
    """

    after: ListedUpTo | None = None
    of_served: bool = False


class ListGroupsResponse(WireMessage, frozen=True, tag=111):
    """Answers ListGroups, sorted by group id within a page.

    `up_to` is there when there are more groups. A group that is there all the while is on one page. `shards` are those
    whose groups these are, where the groups `of_served` were asked for.
    """

    groups: tuple[GroupSummary, ...] = ()
    up_to: ListedUpTo | None = None
    shards: tuple[int, ...] = ()


class DescribeGroup(WireRequest, frozen=True, tag=12):
    """Describe one group: members, partitions, offsets, ends and claims, in pages.

    `after` is the `up_to` of the page before.
    """

    refused_with: ClassVar = codes(ErrorCode.GROUP_ID_NOT_FOUND)

    group_id: str
    after: DescribedUpTo | None = None


class DescribeGroupResponse(WireMessage, frozen=True, tag=112):
    """Answers DescribeGroup; members by id, then partitions by topic and number.

    `up_to` is there when there is more. Every page says what holds for the group as of itself: what changes between
    two pages may be on both of them as it was at each. `topic_ids` are of the topics of these partitions.
    """

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    group_id: str = ""
    state: Annotated[str, GroupStatus] = ""
    group_epoch: int = 0
    assignor: str = ""
    reset_policy: ResetPolicy | None = None
    handover: Annotated[str, Handover] = ""
    members: tuple[MemberDescription, ...] = ()
    partitions: tuple[PartitionDescription, ...] = ()
    forgotten_in_ms: int | None = None
    up_to: DescribedUpTo | None = None
    bytes: int = 0
    kafka_failure: str = ""
    claim_timeout_ms: int | None = None
    topic_ids: tuple[tuple[str, str], ...] = ()


AFTER_ALL: Final = 2**53
"""More entries than a timeline ever has: after it there is none, and the ends of the timeline are told."""


class ListGroupEvents(WireRequest, frozen=True, tag=13):
    """Read a group's timeline after a sequence number: for a further page, the `up_to` of the one before.

    With `since_ms` only what is not older by the coordinator's wall clock, with `kinds` only what is of one of them.
    """

    refused_with: ClassVar = codes(ErrorCode.GROUP_ID_NOT_FOUND)

    group_id: str
    after_sequence: int = 0
    since_ms: int | None = None
    kinds: tuple[str, ...] = ()


class ListGroupEventsResponse(WireMessage, frozen=True, tag=113):
    """Answers ListGroupEvents, oldest first; the node keeps a bounded number a group.

    `up_to` is there when there are more than one page holds: the sequence number at which this one ends, which may be
    that of an entry that was not asked for. `last_sequence` is the number of the newest entry there is, also of what
    was not asked for: where it is below what was asked after, the timeline has begun anew. `first_sequence` is that of
    the oldest, and is above it while there is none.
    """

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    events: tuple[GroupEvent, ...] = ()
    up_to: int | None = None
    last_sequence: int = 0
    first_sequence: int = 0
