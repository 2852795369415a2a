"""The settings of a node's HTTP: probes and metrics."""

from coordinator.config.section import OwnAddress, Section, setting


class AdminSettings(Section):
    """Probes and metrics of this node by HTTP."""

    listen: OwnAddress = setting(
        "",
        "HOST:PORT",
        "Where probes and /metrics are served; port 0 takes a free one, which is logged. Empty: nowhere.",
    )
    survey_ms: int = setting(
        5_000, "ms", "Pause between two looks at all groups: how old metrics may be.", ge=100, le=3_600_000
    )
    max_groups: int = setting(10_000, "groups", "So many have lines in metrics; the rest is counted.", ge=0, le=100_000)
    max_partitions: int = setting(
        50_000, "partitions", "Of all groups, so many have lines in metrics; the rest is counted.", ge=0, le=1_000_000
    )
    lag_exporter: bool = setting(
        False,
        "",
        "Whether /metrics/lag-exporter has lag under kafka-lag-exporter's names, for boards made for that.",
    )
    cluster_name: str = setting("kafka", "", "Its label cluster_name there.", min_length=1, max_length=200)
    max_connections: int = setting(
        64,
        "connections",
        "Open at once; for another one the one that has been idle for longest is closed.",
        ge=4,
        le=1000,
    )
