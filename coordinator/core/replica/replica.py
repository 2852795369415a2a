"""The replica of one shard on one node, as a frozen value: its log, the greatest epoch it has taken, and its role.

| role | leads to |
|---|---|
| Absent | Opening, by LeaderAndIsr |
| Opening | Follower, Doubting, Leader or Offline, when the log's end and epochs are known |
| Follower: matching, cutting, installing, following | Leader, Offline or another Follower, by LeaderAndIsr |
| Doubting | Leader, when enough others were heard; Declined, when one of them has more; others, by LeaderAndIsr |
| Leader: loading | serving, when the load has reached the record that began its epoch |
| Leader: serving | stalled, when the oldest send has waited too long |
| Leader: stalled | serving, when it has left |
| Offline | Follower or Leader, by LeaderAndIsr |
| Declined | Follower, Leader or Offline, by LeaderAndIsr |

Each leads to Absent by StopReplica. Only `step` makes one value of another.
"""

from enum import Enum
from typing import Final, TypeAlias

import msgspec

from coordinator.core.replica.epochs import EMPTY_LOG, ReplicaLog
from coordinator.core.replica.events import FetchAsked, LeaderAndIsr
from coordinator.core.replica.isr import Isr

NOT_MATCHED: Final = -1
"""The durable end of a follower that has reported none in this epoch."""
NO_ROUND: Final = 0
"""The round that a decision waits for which needs none."""


class Settings(msgspec.Struct, frozen=True):
    """The choices of an operator about replicas; `conf/coordinator.toml` has the defaults."""

    min_insync_replicas: int
    lag_ms: int
    closed_grace_ms: int
    fetch_retry_ms: int
    stall_ms: int
    step_down_ms: int
    doubt_ms: int


class Goal(msgspec.Struct, frozen=True):
    """An end that a log is to reach: the leader's at `since_ms`. One that has reached it was caught up then."""

    end: int
    since_ms: int


class StandingFetch(msgspec.Struct, frozen=True):
    """All that a leader knows of another replica in its epoch; `durable_end` is NOT_MATCHED until it has reported one.

    `is_open` says that pushes go to it. `closed_since_ms` is set while there is no connection. A follower that
    `has_lost` something it had acknowledged leaves the ISR whatever is left of it. `refused_ms` is when it was refused
    to join since it was not registered as ready.
    """

    node: int
    goal: Goal
    node_epoch: int = -1
    fetch: int = 0
    is_open: bool = False
    has_lost: bool = False
    is_draining: bool = False
    sent_end: int = 0
    durable_end: int = NOT_MATCHED
    round: int = 0
    closed_since_ms: int | None = None
    refused_ms: int | None = None


class LeaderPhase(Enum):
    """The phases of a leader; requests are answered while it is serving."""

    LOADING = "loading"
    SERVING = "serving"
    STALLED = "stalled"


class Leader(msgspec.Struct, frozen=True):
    """The replica leads in its epoch, which begins in the log at `epoch_start`.

    `has_to_ask` is what the gate was told last: whether anybody else is in the maximal ISR, so that rounds are needed.
    """

    phase: LeaderPhase
    epoch_start: int
    isr: Isr
    fetches: tuple[StandingFetch, ...]
    own_goal: Goal
    confirmed_round: int = 0
    has_to_ask: bool = True
    asked_to_step_down_ms: int | None = None


class Doubting(msgspec.Struct, frozen=True):
    """The replica is to lead with a log that may be an older copy, so it appends nothing before others were heard.

    `asked` are the fetches of others that wait until it leads, the last one of each.
    """

    command: LeaderAndIsr
    asked: tuple[FetchAsked, ...] = ()


class FollowerPhase(Enum):
    """The phases of a follower on its way to being the begin of its leader's log."""

    MATCHING = "matching"
    """Its fetch has been asked, or will be, and not been answered with a stream."""
    CUTTING = "cutting"
    INSTALLING = "installing"
    FOLLOWING = "following"
    """Its log is the begin of the leader's, so what is pushed at its end belongs there."""
    REFUSING = "refusing"
    """Its leader lacks records that were committed: nothing is taken from it."""


class Follower(msgspec.Struct, frozen=True):
    """The replica follows a leader in its epoch; `fetch` is the number of the last fetch it asked in it.

    `pause_ms` is how long it waits before it asks again, or has waited before that fetch; 0 for one asked at once.
    """

    leader: int
    phase: FollowerPhase
    fetch: int = 0
    ask_again_ms: int | None = None
    pause_ms: int = 0


class Offline(msgspec.Struct, frozen=True):
    """The replica has a log and no leader, for there is none."""


class Declined(msgspec.Struct, frozen=True):
    """The replica was made leader of its epoch and does not lead: it asks to be replaced until a command comes."""

    why: str
    lacks_committed: bool
    asked_ms: int
    wants_epoch: bool = False
    successor: int | None = None


class Opening(msgspec.Struct, frozen=True):
    """The log is being opened, and this command is to be obeyed then."""

    command: LeaderAndIsr


class Absent(msgspec.Struct, frozen=True):
    """There is no replica here, as far as this node knows."""


Role: TypeAlias = Absent | Opening | Follower | Doubting | Leader | Offline | Declined


class Replica(msgspec.Struct, frozen=True):
    """One replica of `shard` on `node`; `high_watermark` never goes back while the node lives.

    `is_replaced` says that a snapshot is taking the place of the log, which is no log to follow or lead with meanwhile.
    `is_in_doubt` says that the log is as it was read from disk, which may be a copy from before; see `doubt`.
    """

    shard: int
    node: int
    settings: Settings
    log: ReplicaLog = EMPTY_LOG
    leader_epoch: int = -1
    high_watermark: int = 0
    role: Role = Absent()
    is_replaced: bool = False
    is_in_doubt: bool = False

    def confirms(self, leader: int, leader_epoch: int) -> bool:
        """Return whether a round of this leader may be confirmed: it is followed in exactly this epoch."""
        return isinstance(self.role, Follower) and self.role.leader == leader and self.leader_epoch == leader_epoch
