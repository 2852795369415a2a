"""Every setting of a node: declared in sections, loaded from where it may be set, and rendered as a file.

Knows nothing of what the settings do.
"""

from coordinator.config.audit import AuditSettings
from coordinator.config.authorization import AuthorizationSettings
from coordinator.config.cluster import ClusterSection, PeersSettings, ReplicaSettings, ZooKeeperSection
from coordinator.config.kafka import KafkaSettings
from coordinator.config.load import load_settings
from coordinator.config.mirror import MirrorSection
from coordinator.config.render import config_file, default_file
from coordinator.config.section import ConfigError
from coordinator.config.sections import (
    ENVIRONMENT_PREFIX,
    DiskSettings,
    GroupSettings,
    LogSettings,
    LoopKind,
    NodeSettings,
    Settings,
    every_setting,
)
from coordinator.config.security import AuthenticationSettings, TlsSettings
from coordinator.config.server import ServerSettings

__all__ = [
    "AuthenticationSettings",
    "ENVIRONMENT_PREFIX",
    "AuditSettings",
    "AuthorizationSettings",
    "ClusterSection",
    "ConfigError",
    "DiskSettings",
    "GroupSettings",
    "KafkaSettings",
    "LogSettings",
    "LoopKind",
    "MirrorSection",
    "NodeSettings",
    "PeersSettings",
    "ReplicaSettings",
    "ServerSettings",
    "Settings",
    "TlsSettings",
    "ZooKeeperSection",
    "config_file",
    "default_file",
    "every_setting",
    "load_settings",
]
