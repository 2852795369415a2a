"""Every limit that the core keeps, with its default and unit.

The numbers are settings: whoever builds a node reads them from its configuration. Nothing here knows what happens when
a limit is reached; that is said where it is checked, always with the limit in the message.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of what a node accepts and of how long it waits; times in milliseconds."""

    session_timeout_min_ms: int = 1_000
    """Shortest session time-out a member may ask for."""
    session_timeout_max_ms: int = 1_800_000
    """Longest session time-out a member may ask for."""
    rebalance_timeout_min_ms: int = 1_000
    """Shortest time a member may be given to let go of partitions."""
    rebalance_timeout_max_ms: int = 86_400_000
    """Longest time a member may be given to let go of partitions."""
    ping_interval_min_ms: int = 100
    """Shortest ping interval a member may wish for."""
    closed_connection_grace_ms: int = 1_000
    """The time that a member with a running claim may be without a connection."""
    closed_connection_idle_grace_ms: int = 0
    """The time that a member without a running claim may be without a connection."""
    probe_timeout_ms: int = 2_000
    """The time that the connection of a member has to answer when another process shows its identity."""
    rebalance_window_ms: int = 50
    """The time in which changes are gathered into one rebalance, from the first on; none for a member that goes."""
    rebalance_window_max_ms: int = 5_000
    """The most that this time grows to while ever more members join a group of many partitions."""
    slice_partitions: int = 500
    """Partitions that are stopped or granted in one step; a rebalance of more takes several."""
    registration_timeout_ms: int = 4_000
    """The time that a registration waits for Kafka to say whether its topics exist."""
    lookup_retry_ms: int = 1_000
    """The pause before offsets that Kafka could not resolve are asked for again."""
    page_items: int = 2_000
    """Members or partitions in one answer, or half as many groups; the rest is told on further pages."""
    slice_members: int = 100
    """Members that are taken in or removed in one step, where an event is about more."""
    claim_timeout_min_ms: int = 1_000
    """Shortest claim time-out a member may ask for."""
    claim_timeout_max_ms: int = 2_592_000_000
    """Longest claim time-out a member may ask for."""
    claim_age_notice_ms: int = 900_000
    """The age at which a running claim is told of: a micro-batch that hangs still pings."""
    offsets_retention_ms: int = 604_800_000
    """The retention of the offsets of a group without members, in time in which a node ran."""
    empty_group_retention_ms: int = 600_000
    """The retention of a group that has neither members nor offsets, in time in which a node ran."""
    lived_interval_ms: int = 60_000
    """The time between two records of how long nodes ran: so much of it a crash can lose."""
    group_max_bytes: int = 128 * 1024 * 1024
    """Bytes that the state of one group may take; see `groups.account`."""
    principal_max_bytes: int = 512 * 1024 * 1024
    """Bytes that the state of all groups of one principal may take."""
    node_max_bytes: int = 512 * 1024 * 1024
    """Bytes that the state of all groups may take."""
    principal_max_groups: int = 10_000
    """Groups of one principal, or of one address where nobody logs in."""
    short_stay_ms: int = 60_000
    """A member that is gone within this time of joining was a short stay; see `node_wide`."""
    short_stays_burst: int = 1_000
    """Short stays that one principal may have at once."""
    short_stays_per_s: int = 10
    """Short stays that it may have besides in each second."""
    commit_ahead_max: int = 1_000_000_000
    """Records that a commit may be beyond the end of its partition as Kafka said it last."""
    ends_known_for_ms: int = 30_000
    """The time for which the ends count that Kafka said last."""
    unknown_topics_max: int = 10_000
    """Topics of a node's groups of which Kafka has not told, from where no more are taken with commits of no member."""
    group_max_members: int = 10_000
    """Members of one group."""
    groups_max: int = 100_000
    """Groups of one shard."""
    registrations_max: int = 20_000
    """Registrations of one shard that wait for Kafka at the same time."""
    reset_lookups_max: int = 1_000
    """Questions to Kafka of one shard that resets of offsets wait for at the same time."""
    subscription_max_topics: int = 1_000
    """Topics one member may subscribe to."""
    pattern_max_topics: int = 10_000
    """Topics that the pattern of one member may match."""
    listed_max: int = 200_000
    """Claims, and hints, that one registration may come with, listed before it."""
    listed_total_bytes: int = 128 * 1024 * 1024
    """Names in what all connections have listed and not registered with, and 64 bytes for each claim and hint."""
    streams_max: int = 10_000
    """Capacity one member may claim."""
    timeline_length: int = 10_000
    """Events kept of one group's timeline."""
    timeline_max_bytes: int = 4 * 1024 * 1024
    """Memory for the events of one group's timeline."""
    timeline_total_bytes: int = 64 * 1024 * 1024
    """Memory for the events of all timelines, each shard's part of it; the oldest of a shard are dropped first."""
    timeline_bytes_per_s: int = 4 * 1024
    """Bytes of the log that events of one group take a second, on average; of what is more, it is told how much."""
    push_max_partitions: int = 2_000
    """Partitions in one push; more are sent as several."""
    snapshot_interval_records: int = 200_000
    """Records of a shard's log between two snapshots."""
    snapshot_interval_bytes: int = 4_194_304
    """Least weight of a shard's log between two snapshots: its bytes, and some more for each record."""
    snapshot_piece_bytes: int = 1_048_576
    """Bytes of a snapshot that are handed to the disk together."""
    slice_bytes: int = 65_536
    """Bytes of a snapshot that are encoded in one step."""
    tick_ms: int = 100
    """Longest time between two ticks; deadlines nearer than that are asked for with WakeAt."""
