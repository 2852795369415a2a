"""The sessions of members: their connections, and registrations that wait.

A session is bound to one connection at a time. After a restart every known member has one anew, without a
connection and with all its time.
"""

from dataclasses import dataclass

import msgspec

from coordinator.core.groups.partitions.partition_set import NOTHING, PartitionSet
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.groups.soft.shown import Shown
from coordinator.core.security.addresses import address_of
from coordinator.core.security.principal import ANONYMOUS, Principal
from coordinator.protocol.messages import RegisterConsumer
from coordinator.protocol.parts import NodeAddress


@dataclass(slots=True)
class Connection:
    """One open connection. It is bound to a member from its registration until the member is gone."""

    connection_id: int
    host: str
    principal: Principal = ANONYMOUS
    group_id: str | None = None
    member_id: str | None = None
    is_registering: bool = False
    is_closing: bool = False
    listed: Shown | None = None
    """Claims and hints that came before the registration they belong to."""
    listed_bytes: int = 0
    may_wait_for: frozenset[int] = frozenset()
    """Shards that may owe it the answer to a request which is answered in a later step."""
    session: "MemberSession | None" = None
    """The session of the member it is bound to: every message from it is noted there."""
    told_successors: tuple[NodeAddress, ...] | None = None
    """The nodes that would lead its group next, as it was told last."""
    reads_since: int | None = None
    """The number of the rules by which its principal may read the group of that member; None where it was not asked."""

    @property
    def owner(self) -> str:
        """The principal to which what comes of it is charged, or its address where nobody logs in."""
        return owner_of("" if self.principal == ANONYMOUS else str(self.principal), self.host)

    def bind(self, group_id: str, member_id: str, session: "MemberSession") -> None:
        """Make it a member's connection."""
        self.group_id, self.member_id, self.session = group_id, member_id, session
        self.reads_since = None

    def unbind(self) -> None:
        """Make it nobody's connection."""
        self.group_id = self.member_id = self.session = self.reads_since = self.told_successors = None


def owner_of(principal: str, host: str) -> str:
    """Return to whom something is charged: a principal, or an address where there is none."""
    return principal or f"Address:{address_of(host)}"


class Registration(msgspec.Struct, frozen=True):
    """A registration that could not be answered at once; `topics` are those that it names.

    The claims and the starts that count are those in `shown`: some came before the request, which came `at_ms`.
    """

    connection_id: int
    correlation_id: int
    request: RegisterConsumer
    fresh_id: str
    topics: tuple[str, ...]
    shown: Shown
    at_ms: int


class Owned(msgspec.Struct, frozen=True, gc=False):
    """Partitions that a member was found to own and to have no claim on, while the group's grants do not change."""

    grants_changes: int
    topic: str
    topic_id: str
    partitions: tuple[int, ...]
    owner_epochs: tuple[int | None, ...]


class MemberSession(msgspec.Struct, gc=False):
    """The session of a member on its connection; `newcomer` waits while the connection is probed."""

    connection_id: int | None
    last_heard_ms: int
    timeout_ms: int
    """The member's session time-out, as its facts have it."""
    disconnected_ms: int | None = None
    why_disconnected: str = ""
    is_told_complete: bool = False
    stop_deadlines: dict[TopicPartition, int] = msgspec.field(default_factory=dict)
    overstaying_since_ms: dict[TopicPartition, int] = msgspec.field(default_factory=dict)
    """Since when a partition has been wanted back whose owner is waited for beyond the stop's deadline."""
    untold: PartitionSet = NOTHING
    """Partitions that the member had when it registered and has not been told since: it is told them in turns."""
    joined_ms: int | None = None
    """The time at which the member joined, None for before this node led the shard."""
    newcomer: Registration | None = None
    owned: Owned | None = None
    """The offsets that the member committed last, whose partitions are most often those it commits next."""
    unpolled_ms: int | None = None
    """For how long its program had not polled it as of its last ping, where it said so."""

    @property
    def is_awaited(self) -> bool:
        """True when the log knows the member and it has not come back since the node started."""
        return self.connection_id is None and self.disconnected_ms is None

    @property
    def ends_ms(self) -> int:
        """The time at which the session is over unless the member says something."""
        return self.last_heard_ms + self.timeout_ms
