"""The settings that a node of a cluster has besides those of every node; a standalone one does not look at them."""

from dataclasses import fields
from typing import Any, Final, Literal, Self

from pydantic import field_validator, model_validator

from coordinator.config.section import LONGEST_MS, Addresses, ListenAddress, Section, ToldAddress, is_loopback, setting
from coordinator.core.cluster.office.settings import ControllerSettings
from coordinator.core.cluster_node.settings import ClusterSettings
from coordinator.protocol.text.addresses import parse_address

_CORE: Final = ClusterSettings()
_CONTROLLER: Final = ControllerSettings()


def _time(default: int, lowest: int, why: str, highest: int = LONGEST_MS) -> Any:
    return setting(default, "ms", why, ge=lowest, le=highest)


class ClusterSection(Section):
    """The cluster that this node is of. The first three make a cluster where ZooKeeper has none, and then stay."""

    shards: int = setting(50, "shards", "Logs that groups are spread over.", ge=1, le=1000)
    replication_factor: int = setting(3, "nodes", "Nodes that have a copy of each log.", ge=1, le=15)
    min_insync_replicas: int = setting(
        2,
        "nodes",
        "Copies that everything acknowledged is on; with fewer nodes there a shard waits, and loses nothing.",
        ge=1,
        le=15,
    )
    elect_wait_ms: int = _time(
        _CONTROLLER.elect_wait_ms, 0, "How long a cluster that starts waits for nodes that may have more than others."
    )
    tell_timeout_ms: int = _time(
        _CONTROLLER.tell_timeout_ms, 100, "Time a leader has to acknowledge that it leads until another one is elected."
    )
    balance_ms: int = _time(
        _CONTROLLER.balance_ms, 100, "How often it is looked whether shards are led by the nodes that are to lead them."
    )
    balance_delay_ms: int = _time(
        _CONTROLLER.balance_delay_ms, 0, "How long a node must have been in sync until it gets its shards back."
    )
    moves_at_once: int = setting(
        _CONTROLLER.moves_at_once,
        "shards",
        "Shards that change their leader at once when nothing presses; their members connect anew.",
        ge=1,
        le=1000,
    )
    stand_wait_ms: int = _time(
        _CONTROLLER.stand_wait_ms, 0, "How long a controller that has left its office lets others stand first."
    )
    find_hold_ms: int = _time(
        1_000,
        0,
        "How long the question for a group's node may wait for its answer while another node takes over.",
        60_000,
    )
    drain_timeout_ms: int = _time(
        10_000,
        0,
        "How long a node that is told to stop may take to hand its shards on; 0: it just stops.",
        10 * 60 * 1000,
    )
    deleted_keep_ms: int = _time(
        60 * 60 * 1000, 0, "How long logs are kept that do not belong on this node any more, in `aside-…`."
    )

    @model_validator(mode="after")
    def _can_be_in_sync(self) -> Self:
        if self.min_insync_replicas > self.replication_factor:
            raise ValueError(
                f"cluster.min_insync_replicas is {self.min_insync_replicas}, more than cluster.replication_factor, "
                f"which is {self.replication_factor}: nothing could ever be acknowledged"
            )
        return self


class ZooKeeperSection(Section):
    """ZooKeeper, which a cluster needs: it says who lives and who leads."""

    hosts: Addresses = setting(
        ("127.0.0.1:2181",), "HOST:PORT, ...", "Servers of one ensemble.", min_length=1, max_length=100
    )
    path: str = setting(
        "/kcoord", "", "Everything of this cluster is below this node; each cluster in one ZooKeeper has its own."
    )
    session_timeout_ms: int = _time(
        _CORE.zookeeper_session_timeout_ms,
        500,
        "How long a node counts as there that is not heard. Servers allow 2 to 20 of their ticks.",
        10 * 60 * 1000,
    )

    @field_validator("path")
    @classmethod
    def _is_path(cls, value: str) -> str:
        parts = value.split("/")[1:]
        if not value.startswith("/") or not all(parts) or any(part in (".", "..") for part in parts):
            raise ValueError(f"{value!r} is not the path of a node in ZooKeeper, such as /kcoord")
        return value


class PeersSettings(Section):
    """Connections between the nodes of a cluster, who show each other certificates, or are on one machine."""

    listen: ListenAddress = setting(
        "127.0.0.1:9293", "HOST:PORT", "Where other nodes connect; port 0 takes a free one. No member ever does."
    )
    advertised: ToldAddress = setting(
        "", "HOST:PORT", "What other nodes are told to connect to, where that differs from `listen`; empty: the same."
    )
    security_protocol: Literal["auto", "SSL", "PLAINTEXT"] = setting(
        "auto",
        "",
        "How nodes speak to each other: with TLS, each showing its certificate, or plainly. auto is SSL where a "
        "certificate and trusted ones are given; without them it is PLAINTEXT, for addresses of loopback alone.",
    )
    certificate: str = setting(
        "", "file", "The certificate shown to other nodes, for the host that they connect to. Empty: tls.certificate."
    )
    key: str = setting("", "file", "Its private key, as PEM. Empty: it is in the certificate's file.")
    key_password_file: str = setting("", "file", "Holds the password of that key, where it has one.")
    trusted_certificates: str = setting(
        "", "file", "Certificates by one of which other nodes' have to be signed. Empty: tls.trusted_certificates."
    )
    ping_ms: int = _time(300, 10, "A node that has said nothing for so long says that it lives.", 60_000)
    silence_ms: int = _time(
        1_500, 100, "A connection on which nothing came for so long is closed; so long it may take to connect.", 600_000
    )
    hello_timeout_ms: int = _time(3_000, 100, "Time a new connection has to say its hello.", 600_000)
    frame_timeout_ms: int = _time(30_000, 100, "Time the rest of a begun frame has to come.", 600_000)
    close_timeout_ms: int = _time(1_000, 100, "Time a connection that is closed has to take its last bytes.", 60_000)
    confirm_linger_ms: int = _time(
        _CORE.confirm_linger_ms, 0, "Pause between two questions to a node whether it still follows.", 1_000
    )
    output_buffer_bytes: int = setting(
        64 * 1024 * 1024,
        "bytes",
        "A node that lets more than this wait for it does not read and is disconnected.",
        ge=32 * 1024 * 1024,
        le=1024**3,
    )
    held_bytes: int = setting(
        32 * 1024 * 1024,
        "bytes",
        "Most that a node may say before both connections to it are there.",
        ge=16 * 1024 * 1024,
        le=1024**3,
    )
    strangers_max: int = setting(
        64, "connections", "Connections that may be there without an acceptable hello.", ge=1, le=10_000
    )

    @model_validator(mode="after")
    def _key_is_of_a_certificate(self) -> Self:
        for name in ("key", "key_password_file"):
            if getattr(self, name) and not self.certificate:
                raise ValueError(f"peers.{name} is given and peers.certificate is not")
        return self

    @property
    def is_on_loopback(self) -> bool:
        """Say whether no other machine reaches this listener."""
        return is_loopback(parse_address(self.listen, lowest_port=0)[0])

    @model_validator(mode="after")
    def _pings_come_in_time(self) -> Self:
        if self.silence_ms < 2 * self.ping_ms:
            raise ValueError(
                f"peers.silence_ms is {self.silence_ms}, less than two of peers.ping_ms, which is {self.ping_ms}: not "
                "enough, a node that is well would count as silent"
            )
        return self


class ReplicaSettings(Section):
    """Copies of the shards' logs: how they follow their leaders."""

    lag_ms: int = _time(_CORE.lag_ms, 100, "How long a follower may be behind until it is not in sync any more.")
    closed_grace_ms: int = _time(
        _CORE.closed_grace_ms, 0, "How long it may be without a connection until it is not in sync any more."
    )
    fetch_retry_ms: int = _time(
        _CORE.fetch_retry_ms,
        1,
        "Pause before a follower asks a leader again that has not heard that it leads; doubles up to 1 s.",
        10_000,
    )
    stall_ms: int = _time(
        _CORE.stall_ms, 100, "How long answers may wait until a leader decides nothing more and refuses requests."
    )
    step_down_ms: int = _time(_CORE.step_down_ms, 100, "How long they may wait until it asks for another leader.")
    doubt_ms: int = _time(
        _CORE.doubt_ms,
        0,
        "How long a leader that was just started waits for others that may have more, until it goes on without them.",
    )
    window_bytes: int = setting(
        _CORE.window_bytes,
        "bytes",
        "Records of one shard on their way to a follower's disk.",
        ge=64 * 1024,
        le=64 * 1024**2,
    )
    peer_window_bytes: int = setting(
        _CORE.peer_window_bytes,
        "bytes",
        "Records of all shards on their way to one follower's disk.",
        ge=64 * 1024,
        le=256 * 1024**2,
    )
    tail_bytes: int = setting(
        _CORE.tail_bytes,
        "bytes",
        "Records of one shard that its leader keeps in memory for followers; older ones are read from disk.",
        ge=0,
        le=1024**3,
    )

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> Self:
        if self.step_down_ms < self.stall_ms:
            raise ValueError(
                f"replica.step_down_ms is {self.step_down_ms}, less than replica.stall_ms, which is {self.stall_ms}: "
                "a leader does not give up before it refuses requests"
            )
        if self.peer_window_bytes < self.window_bytes:
            raise ValueError(
                f"replica.peer_window_bytes is {self.peer_window_bytes}, less than replica.window_bytes, which is "
                f"{self.window_bytes}: that could not be filled"
            )
        return self


def cluster_settings(
    cluster: ClusterSection, zookeeper: ZooKeeperSection, peers: PeersSettings, replica: ReplicaSettings
) -> ClusterSettings:
    """Return what the core of a node of a cluster takes of these sections: most of it under the same name."""
    said = {**cluster.model_dump(), **peers.model_dump(), **replica.model_dump()}
    controller = {name: said[name] for name in _names(ControllerSettings) & said.keys()}
    return ClusterSettings(
        zookeeper_session_timeout_ms=zookeeper.session_timeout_ms,
        controller=ControllerSettings(reach_wait_ms=2 * zookeeper.session_timeout_ms, **controller),
        **{name: said[name] for name in _names(ClusterSettings) & said.keys()},
    )


def _names(kind: type[ClusterSettings | ControllerSettings]) -> frozenset[str]:
    return frozenset(each.name for each in fields(kind))
