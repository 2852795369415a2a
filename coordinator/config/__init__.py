"""Every setting of a node: declared in sections, loaded from where it may be set, and rendered as a file.

Knows nothing of what the settings do.
"""

from coordinator.config.load import load_settings
from coordinator.config.render import config_file, default_file
from coordinator.config.sections import (
    ENVIRONMENT_PREFIX,
    ConfigError,
    DiskSettings,
    GroupSettings,
    KafkaSettings,
    LogSettings,
    LoopKind,
    NodeSettings,
    ServerSettings,
    Settings,
    every_setting,
)

__all__ = [
    "ENVIRONMENT_PREFIX",
    "ConfigError",
    "DiskSettings",
    "GroupSettings",
    "KafkaSettings",
    "LogSettings",
    "LoopKind",
    "NodeSettings",
    "ServerSettings",
    "Settings",
    "config_file",
    "default_file",
    "every_setting",
    "load_settings",
]
