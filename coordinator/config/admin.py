"""The settings of a node's HTTP: probes and metrics."""

from coordinator.config.section import OwnAddress, Section, setting


class AdminSettings(Section):
    """Probes and metrics of this node by HTTP."""

    listen: OwnAddress = setting(
        "",
        "HOST:PORT",
        "Where /livez, /readyz and /metrics are served; port 0 takes a free one, which is logged. Empty: nowhere.",
    )
    max_connections: int = setting(
        64, "connections", "Open at once; for another one that which asks nothing for longest is closed.", ge=4, le=1000
    )
