"""Settings of a node of a cluster, beside those about groups."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coordinator.core.cluster.office.settings import ControllerSettings

if TYPE_CHECKING:
    from coordinator.core.replica.replica import Settings


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Times in milliseconds; `conf/coordinator.toml` has the defaults."""

    zookeeper_session_timeout_ms: int = 6_000
    lag_ms: int = 2_000
    """The time that a follower may be behind before it leaves the in-sync set."""
    closed_grace_ms: int = 300
    """The time that a follower may be without a connection before it does."""
    fetch_retry_ms: int = 20
    """The pause before a fetch is asked again that came before its leader had heard of the epoch."""
    stall_ms: int = 2_000
    """The time that what a leader has decided may wait before it decides nothing more."""
    step_down_ms: int = 5_000
    """The time after which it asks for another leader."""
    doubt_ms: int = 30_000
    """The time that a leader whose log was read from disk waits for others that may have more before it takes them out
    of the in-sync set, or others in."""
    confirm_linger_ms: int = 2
    """The pause between two questions to a peer whether it still follows."""
    window_bytes: int = 4 * 1024 * 1024
    """Records that are under way to a follower and not on its disk yet, of one shard."""
    peer_window_bytes: int = 8 * 1024 * 1024
    """The same of all shards: all leaders together send a node less than its disk lets wait, and none has a connection
    end that is only busy."""
    tail_bytes: int = 8 * 1024 * 1024
    """Records of a shard that its leader keeps in memory for its followers."""
    tails_bytes: int = 64 * 1024 * 1024
    """The same of all shards that a node leads."""
    find_hold_ms: int = 1_000
    """The longest that a question for a coordinator waits for one that is known and heard."""

    controller: ControllerSettings = field(default_factory=ControllerSettings)

    def of_replicas(self, min_insync_replicas: int) -> "Settings":
        """Return the settings of this node's replicas, in a cluster that wants so many in sync."""
        from coordinator.core.replica.replica import Settings  # a standalone node has these settings and no replica

        return Settings(
            min_insync_replicas=min_insync_replicas,
            lag_ms=self.lag_ms,
            closed_grace_ms=self.closed_grace_ms,
            fetch_retry_ms=self.fetch_retry_ms,
            stall_ms=self.stall_ms,
            step_down_ms=self.step_down_ms,
            doubt_ms=self.doubt_ms,
        )
