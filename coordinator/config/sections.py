"""The settings of every node, and all settings together: what a node of a cluster has besides is in `cluster`.

A time is named by its milliseconds and may also be written as a duration, `15m` or `PT15M`.
"""

from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from pydantic import Field, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

from coordinator.config.admin import AdminSettings
from coordinator.config.audit import AuditSettings
from coordinator.config.authorization import AuthorizationSettings
from coordinator.config.cluster import (
    ClusterSection,
    PeersSettings,
    ReplicaSettings,
    ZooKeeperSection,
    cluster_settings,
)
from coordinator.config.kafka import KafkaSettings
from coordinator.config.mirror import MirrorSection
from coordinator.config.section import (
    LONGEST_MS,
    ListenAddress,
    Section,
    ToldAddress,
    is_loopback,
    section_of,
    setting,
)
from coordinator.config.security import AuthenticationSettings, TlsSettings
from coordinator.config.server import ServerSettings
from coordinator.core.cluster_node.settings import ClusterSettings
from coordinator.core.limits import Limits
from coordinator.protocol.text.addresses import parse_address

LoopKind: TypeAlias = Literal["auto", "uvloop", "asyncio"]

ENVIRONMENT_PREFIX = "KCOORD_"
_LIMITS = Limits()


def _limit(name: str, lowest: int, why: str, unit: str = "ms", highest: int = LONGEST_MS) -> Any:
    """Make the setting of one of core's limits, with core's default."""
    return setting(getattr(_LIMITS, name), unit, why, ge=lowest, le=highest)


class NodeSettings(Section):
    """This node."""

    mode: Literal["standalone", "cluster"] = setting(
        "standalone",
        "",
        "One node with one copy of its log, without ZooKeeper; or one of several that replicate it to each other.",
    )
    id: int = setting(
        1,
        "",
        "Names this node to members and in the log lines. Each node of a cluster has another one, and keeps it.",
        ge=0,
        le=1_000_000,
    )
    data_dir: Path = setting(
        Path("kcoord-data"),
        "directory",
        "Holds the log: groups, members, claims and committed offsets. One process at a time may use it.",
    )
    listen: ListenAddress = setting(
        "127.0.0.1:9292", "HOST:PORT", "Where members connect; port 0 takes a free one, which is printed."
    )
    advertised: ToldAddress = setting(
        "", "HOST:PORT", "What members are told to connect to, where that differs from `listen`; empty: the same."
    )
    shards: int = setting(
        8,
        "shards",
        "Logs that groups are spread over, of a standalone node. Fixed when the data directory is made.",
        ge=1,
        le=1000,
    )
    rack: str = setting(
        "",
        "",
        "What fails together with this node, such as a machine or a room: a cluster keeps the replicas of a shard on "
        "different ones. Empty: the name of this host.",
        max_length=200,
    )
    event_loop: LoopKind = setting(
        "auto", "", "What waits for members: uvloop, Python's asyncio, or the faster of those that are installed."
    )


class GroupSettings(Section):
    """Groups and their members."""

    session_timeout_min_ms: int = _limit(
        "session_timeout_min_ms", 100, "Shortest session time-out a member may ask for."
    )
    session_timeout_max_ms: int = _limit(
        "session_timeout_max_ms", 1000, "Longest session time-out a member may ask for: how long a dead one may count."
    )
    rebalance_timeout_min_ms: int = _limit(
        "rebalance_timeout_min_ms", 100, "Shortest time a member may ask for to let go of partitions."
    )
    rebalance_timeout_max_ms: int = _limit(
        "rebalance_timeout_max_ms", 1000, "Longest time a member may ask for to let go of partitions."
    )
    ping_interval_min_ms: int = _limit("ping_interval_min_ms", 10, "Shortest ping interval a member may wish for.")
    closed_connection_grace_ms: int = _limit(
        "closed_connection_grace_ms",
        0,
        "How long a member whose batch runs may be without a connection; a static one has its session.",
    )
    closed_connection_idle_grace_ms: int = _limit(
        "closed_connection_idle_grace_ms",
        0,
        "How long a member whose batch does not run may be without a connection; a static one has its session.",
    )
    probe_timeout_ms: int = _limit(
        "probe_timeout_ms", 10, "How long a member has to prove it lives when another process shows its identity."
    )
    rebalance_window_ms: int = _limit(
        "rebalance_window_ms", 0, "How long changes are gathered into one rebalance; a member that goes opens none."
    )
    rebalance_window_max_ms: int = _limit(
        "rebalance_window_max_ms", 0, "How long that is at most while members keep joining a group of many partitions."
    )
    slice_partitions: int = _limit(
        "slice_partitions",
        1,
        "Partitions that change hands in one step; a larger rebalance takes several.",
        "partitions",
        100_000,
    )
    page_items: int = _limit(
        "page_items",
        1,
        "Members or partitions in one answer, or half as many groups; tools ask for further pages by themselves.",
        "items",
        100_000,
    )
    slice_members: int = _limit(
        "slice_members", 1, "Members taken in or removed in one step; more take several.", "members", 100_000
    )
    registration_timeout_ms: int = _limit(
        "registration_timeout_ms", 100, "How long a registration waits for Kafka to say whether its topics exist."
    )
    lookup_retry_ms: int = _limit(
        "lookup_retry_ms", 10, "How long to wait before offsets that Kafka could not resolve are asked for again."
    )
    claim_timeout_min_ms: int = _limit("claim_timeout_min_ms", 100, "Shortest claim time-out a member may ask for.")
    claim_timeout_max_ms: int = _limit(
        "claim_timeout_max_ms",
        1000,
        "Longest claim time-out a member may ask for: how long a batch waits for its query under hold.",
        "ms",
        31_536_000_000,
    )
    claim_age_notice_ms: int = _limit(
        "claim_age_notice_ms", 1000, "How long a batch runs before that is said: one that hangs still pings."
    )
    offsets_retention_ms: int = _limit(
        "offsets_retention_ms",
        1000,
        "How long the offsets of a group without members are kept, in time in which a node ran.",
        "ms",
        315_360_000_000,
    )
    empty_group_retention_ms: int = _limit(
        "empty_group_retention_ms",
        1000,
        "How long a group with neither members nor offsets is kept, in time in which a node ran.",
    )
    lived_interval_ms: int = _limit(
        "lived_interval_ms",
        100,
        "How often a shard writes down how long nodes ran; what a crash loses of it prolongs the retentions.",
    )
    group_max_bytes: int = _limit(
        "group_max_bytes",
        1024,
        "Bytes of state of one group: offsets with metadata, members, topics, what operators decided.",
        "bytes",
        1024**4,
    )
    principal_max_bytes: int = _limit(
        "principal_max_bytes",
        1024,
        "Bytes of state of all groups of one principal, or of one address where nobody logs in: of whoever made them.",
        "bytes",
        1024**4,
    )
    node_max_bytes: int = _limit("node_max_bytes", 1024, "Bytes of state of all groups.", "bytes", 1024**4)
    principal_max_groups: int = _limit(
        "principal_max_groups",
        1,
        "Groups of one principal on this node, or of one address where nobody logs in: of whoever made them.",
        "groups",
        10_000_000,
    )
    short_stay_ms: int = _limit("short_stay_ms", 0, "A member that is gone sooner after it joined was a short stay.")
    short_stays_burst: int = _limit(
        "short_stays_burst",
        1,
        "Short stays of one principal, or of one address where nobody logs in, before new members have to wait.",
        "members",
        10_000_000,
    )
    short_stays_per_s: int = _limit(
        "short_stays_per_s", 1, "As many more it may have each second.", "members", 1_000_000
    )
    commit_ahead_max: int = _limit(
        "commit_ahead_max",
        0,
        "How far a commit or a claim may be beyond the end of its partition as Kafka said it last, which is a little "
        "old: more than what is written meanwhile.",
        "records",
        2**62,
    )
    ends_known_for_ms: int = _limit("ends_known_for_ms", 0, "How long the ends count for that which Kafka said last.")
    unknown_topics_max: int = _limit(
        "unknown_topics_max",
        0,
        "Topics of this node's groups of which Kafka has not told: with so many, whoever is no member commits for no "
        "more of them. Kafka is asked about each again and again.",
        "topics",
        1_000_000,
    )
    group_max_members: int = _limit("group_max_members", 1, "Members of one group.", "members", 1_000_000)
    groups_max: int = _limit("groups_max", 1, "Groups of one shard.", "groups", 10_000_000)
    registrations_max: int = _limit(
        "registrations_max", 1, "Registrations of one shard that may wait for Kafka.", "registrations", 1_000_000
    )
    listed_max: int = _limit(
        "listed_max", 1, "Claims, and hints, listed before one registration.", "claims", 10_000_000
    )
    listed_total_bytes: int = _limit(
        "listed_total_bytes",
        1024,
        "What all connections list before they register: names, and 64 bytes a claim or hint; it takes thrice that.",
        "bytes",
        1024**4,
    )
    reset_lookups_max: int = _limit(
        "reset_lookups_max",
        1,
        "Questions to Kafka of one shard that resets of offsets may wait for.",
        "questions",
        100_000,
    )
    subscription_max_topics: int = _limit(
        "subscription_max_topics", 1, "Topics one member may subscribe to.", "topics", 100_000
    )
    pattern_max_topics: int = _limit(
        "pattern_max_topics", 1, "Topics that one member's pattern may match.", "topics", 12_000
    )
    streams_max: int = _limit("streams_max", 1, "Capacity one member may claim.", "streams", 1_000_000)
    timeline_length: int = _limit("timeline_length", 0, "Events kept of one group's timeline.", "events", 1_000_000)
    timeline_max_bytes: int = _limit(
        "timeline_max_bytes", 1024, "Memory for the events of one group's timeline.", "bytes", 1024**3
    )
    timeline_total_bytes: int = _limit(
        "timeline_total_bytes",
        1024,
        "Memory for the events of all timelines, each shard's part of it; the oldest of a shard make room.",
        "bytes",
        1024**4,
    )
    timeline_bytes_per_s: int = _limit(
        "timeline_bytes_per_s",
        64,
        "Bytes that one group's events may take of the log a second; what is more is told as one event a kind.",
        "bytes",
        256 * 1024,
    )
    push_max_partitions: int = _limit(
        "push_max_partitions", 1, "Partitions in one message to a member; more come in several.", "partitions", 10_000
    )
    slice_bytes: int = _limit(
        "slice_bytes",
        1,
        "Bytes of a snapshot that are encoded in one step; a larger one takes several.",
        "bytes",
        1024**3,
    )
    snapshot_interval_records: int = _limit(
        "snapshot_interval_records",
        1000,
        "Most records of a shard's log between two snapshots, which bound the time a restart takes.",
        "records",
        100_000_000,
    )
    snapshot_interval_bytes: int = _limit(
        "snapshot_interval_bytes",
        65536,
        "Bytes of a shard's log, and 256 for each record, between two snapshots; of a large shard half its snapshot.",
        "bytes",
        1024**4,
    )
    snapshot_piece_bytes: int = _limit(
        "snapshot_piece_bytes",
        1,
        "Bytes of a snapshot that are written at once; so much of it is held in memory.",
        "bytes",
        8 * 1024**2,
    )


class DiskSettings(Section):
    """The log in the data directory."""

    segment_bytes: int = setting(
        16 * 1024 * 1024, "bytes", "Size of one file of a shard's log.", ge=1024 * 1024, le=1024**3
    )
    max_pending_bytes: int = setting(
        64 * 1024 * 1024,
        "bytes",
        "Records that may wait for the disk. From a quarter on, connections that send much have to wait, from half on "
        "all; past this the disk has failed and the node stops.",
        ge=16 * 1024 * 1024,
        le=4 * 1024**3,
    )
    close_timeout_ms: int = setting(
        30_000, "ms", "Time the last writes have when the node is stopped.", ge=100, le=600_000
    )


class LogSettings(Section):
    """The lines of the process on standard error."""

    format: Literal["auto", "console", "json"] = setting(
        "auto", "", "One line a fact: for eyes, as JSON, or whichever fits where standard error goes."
    )
    level: Literal["debug", "info", "warning", "error"] = setting("info", "", "The least important lines to show.")
    most_per_minute: int = setting(
        600, "lines", "Most lines of one kind and group in a minute; the rest is counted.", ge=1, le=1_000_000
    )


class Settings(BaseSettings):
    """All settings of a node; build it with `load_settings`."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        env_prefix=ENVIRONMENT_PREFIX,
        env_nested_delimiter="_",
        env_nested_max_split=1,
    )

    node: NodeSettings = Field(default_factory=NodeSettings)
    kafka: KafkaSettings = Field(default_factory=KafkaSettings)
    server: ServerSettings = Field(default_factory=ServerSettings)
    group: GroupSettings = Field(default_factory=GroupSettings)
    disk: DiskSettings = Field(default_factory=DiskSettings)
    log: LogSettings = Field(default_factory=LogSettings)
    admin: AdminSettings = Field(default_factory=AdminSettings)
    cluster: ClusterSection = Field(default_factory=ClusterSection)
    zookeeper: ZooKeeperSection = Field(default_factory=ZooKeeperSection)
    peers: PeersSettings = Field(default_factory=PeersSettings)
    replica: ReplicaSettings = Field(default_factory=ReplicaSettings)
    authorization: AuthorizationSettings = Field(default_factory=AuthorizationSettings)
    tls: TlsSettings = Field(default_factory=TlsSettings)
    authentication: AuthenticationSettings = Field(default_factory=AuthenticationSettings)
    audit: AuditSettings = Field(default_factory=AuditSettings)
    mirror: MirrorSection = Field(default_factory=MirrorSection)

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> Self:
        for name in ("session_timeout", "rebalance_timeout"):
            lowest = getattr(self.group, f"{name}_min_ms")
            highest = getattr(self.group, f"{name}_max_ms")
            if lowest > highest:
                raise ValueError(f"group.{name}_min_ms is {lowest}, more than group.{name}_max_ms, which is {highest}")
        if self.server.output_buffer_bytes <= self.server.answer_bytes:
            raise ValueError(
                f"server.output_buffer_bytes is {self.server.output_buffer_bytes}, too little for one answer of "
                f"server.answer_bytes, which is {self.server.answer_bytes}"
            )
        if (
            self.node.mode == "cluster"
            and self.node.listen == self.peers.listen
            and parse_address(self.node.listen, lowest_port=0)[1]
        ):
            raise ValueError(
                f"node.listen and peers.listen are both {self.node.listen}, not two addresses: one is for members, the "
                "other for the nodes of the cluster"
            )
        return self

    @model_validator(mode="after")
    def _nodes_know_each_other(self) -> Self:
        if self.node.mode != "cluster" or self.peers.security_protocol == "PLAINTEXT" or self.peer_tls is not None:
            return self
        give = (
            "give tls.certificate (or peers.certificate) and tls.trusted_certificates (or peers.trusted_certificates)"
        )
        if self.peers.security_protocol == "SSL":
            raise ValueError(f"peers.security_protocol is SSL and certificates are not given: {give}")
        if not self.peers.is_on_loopback:
            raise ValueError(
                f"peers.listen is {self.peers.listen}, which is not only for this machine, and nodes do not show each "
                f"other certificates: {give}, or set peers.security_protocol to PLAINTEXT where whoever reaches the "
                "port can be trusted"
            )
        return self

    @model_validator(mode="after")
    def _logs_nobody_in_for_others_to_hear(self) -> Self:
        refused = self.authentication.refused_without_tls()
        if refused and not self.tls.is_on and not is_loopback(parse_address(self.node.listen, lowest_port=0)[0]):
            raise ValueError(
                f"node.listen is {self.node.listen}, which is not only for this machine, and clients log in by "
                f"{', '.join(refused)} without TLS: give tls.certificate, or name in authentication.without_tls what "
                "others may listen to"
            )
        return self

    @property
    def peer_tls(self) -> TlsSettings | None:
        """The files with which nodes speak TLS to each other, None where they speak plainly."""
        own = self.peers if self.peers.certificate else self.tls
        trusted = self.peers.trusted_certificates or self.tls.trusted_certificates
        if self.peers.security_protocol == "PLAINTEXT" or not own.certificate or not trusted:
            return None
        return TlsSettings(
            certificate=own.certificate,
            key=own.key,
            key_password_file=own.key_password_file,
            trusted_certificates=trusted,
            client_auth="required",
            min_version=self.tls.min_version,
        )

    @property
    def limits(self) -> Limits:
        """The limits as the core takes them."""
        return Limits(**self.group.model_dump())

    @property
    def of_cluster_node(self) -> ClusterSettings:
        """The settings of a node of a cluster as the core takes them."""
        return cluster_settings(self.cluster, self.zookeeper, self.peers, self.replica)


def every_setting() -> dict[str, FieldInfo]:
    """Return the settings by dotted key, in the order of the file."""
    return {
        f"{section}.{key}": declared
        for section, field in Settings.model_fields.items()
        for key, declared in section_of(field).model_fields.items()
    }
