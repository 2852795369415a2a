"""The settings of a member: where its coordinators are, what it reads and how long it waits.

Plain frozen values without any behaviour but their own checks. Every time here is in milliseconds. The option names
that error messages mention are the Spark source's; `speech` says what they are called elsewhere.
"""

from dataclasses import dataclass
from typing import Final

from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.parts import ResetPolicy, StartHint
from coordinator.protocol.text.addresses import Address
from coordinator.protocol.vocabulary import AssignorName, Handover, IsolationLevel
from spark_kcoord.member.speech import SPARK, Speech

BOOTSTRAP_OPTION: Final = "kcoord.bootstrap.servers"
TIMEOUT_OPTION: Final = "kcoord.coordinator.timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """Everything a member is told before it joins.

    Exactly one of `topics`, `pattern` (RE2, matched against whole names) and `partitions` (topic and number, the
    member's alone) is given; `exclusions` are topics left out. A member that `lets_go_itself` gives a partition back as
    soon as no claim of it is running; another one does when its user says so. Unless a member `plans_itself`, others
    may have begun to read a claim that is offered to it, so it keeps that. Without a ping interval it pings each third
    of the session time-out. With `wants_streams` the coordinator says which stream reads each partition.

    `application` names the program that the member belongs to; unless it `shares_application`, no other member of the
    program may read the same in the group. One that does not `commits` writes no offset of the group, and its starts
    are its own.

    `join_timeout_ms` bounds the first join when no coordinator can be reached or none lets it in; once joined, a call
    waits `coordinator_timeout_ms` for a coordinator that is away. By `isolation_level` the coordinator knows where the
    partitions end for this member. `hints` are those of options; a checkpoint's are
    given to the client. One that `keeps_trying` goes on to look for a coordinator when its first join is overdue, and
    one whose user asks for nothing for `max_poll_interval_ms` leaves. Errors are told in the words of `speech`.
    """

    coordinators: tuple[Address, ...]
    group_id: str
    client_id: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()
    exclusions: tuple[str, ...] = ()
    instance_id: str | None = None
    streams: int = 1
    assignors: tuple[str, ...] = (AssignorName.STICKY,)
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 300_000
    reset_policy: ResetPolicy | None = None
    hints: tuple[StartHint, ...] = ()
    wait_for_topics: bool = False
    coordinator_timeout_ms: int = 120_000
    join_timeout_ms: int = 9_000
    handover: Handover | None = Handover.TAKEOVER
    claim_timeout_ms: int | None = None
    ping_interval_ms: int | None = None
    auto_commit: bool = False
    lets_go_itself: bool = True
    plans_itself: bool = True
    wants_streams: bool = False
    application: str | None = None
    shares_application: bool = False
    commits: bool = True
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    keeps_trying: bool = False
    max_poll_interval_ms: int | None = None
    speech: Speech = SPARK

    def __post_init__(self) -> None:
        """Refuse settings no coordinator could be asked with."""
        if not self.coordinators:
            raise ValueError("at least one coordinator address is needed")
        if [bool(self.topics), self.pattern is not None, bool(self.partitions)].count(True) != 1:
            raise ValueError("exactly one of topics, pattern and partitions is needed")
        for name in ("session_timeout_ms", "rebalance_timeout_ms", "coordinator_timeout_ms", "join_timeout_ms"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive")
