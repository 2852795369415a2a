"""The HTTP of one node, put together: its pages, its thread, and how the node tells it of itself."""

import asyncio
import ipaddress
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from coordinator.admin.http import AdminListenError, HttpLimits, HttpServer
from coordinator.admin.metrics import Metrics
from coordinator.admin.probes import Condition, Heart
from coordinator.admin.surveying import Surveyor
from coordinator.config.admin import AdminSettings
from coordinator.core.requests.survey import Seen
from coordinator.protocol.text.addresses import format_address, parse_address
from coordinator.runtime.figures.family import Family
from coordinator.runtime.figures.node import NodeFigures
from coordinator.runtime.figures.process import process_families

__all__ = ["Admin", "AdminListenError"]


class Admin:
    """The pages of one node; its methods belong to the node's thread."""

    def __init__(self, settings: AdminSettings, data_dir: Path, log: FilteringBoundLogger) -> None:
        self._log = log
        self._data_dir = data_dir
        self._listen = settings.listen
        self._condition = Condition()
        self._metrics = Metrics(
            metadata.version("kcoord"),
            max_groups=settings.max_groups,
            max_partitions=settings.max_partitions,
            cluster=settings.cluster_name if settings.lag_exporter else "",
        )
        self._survey_s = settings.survey_ms / 1000
        pages = {
            "/livez": self._condition.livez,
            "/readyz": self._condition.readyz,
            "/startupz": self._condition.startupz,
            "/metrics": self._metrics.page,
        }
        if settings.lag_exporter:
            pages["/metrics/lag-exporter"] = self._metrics.lag_exporter
        self._server = HttpServer(pages, HttpLimits(connections=settings.max_connections))
        self._heart: Heart | None = None
        self._surveyor: Surveyor | None = None

    def open(self) -> None:
        """Answer from now on, before anything is loaded; raises AdminListenError."""
        address = self._server.start(*parse_address(self._listen, lowest_port=0))
        self._log.info("admin-listening", address=format_address(address))
        if not _is_loopback(address[0]):
            self._log.warning(
                "admin-is-open",
                why=f"whoever reaches {format_address(address)} reads the names of groups and topics, without log-in: "
                "have admin.listen be an address of loopback, or keep others from it",
            )

    def is_not_ready(self, why: str) -> None:
        """Say why members are not let in; of a node that runs it is the last word."""
        if self._heart is not None:
            self._heart.why_not_ready = lambda: why
        self._condition.why_not_ready = why

    def begin(
        self,
        loop: asyncio.AbstractEventLoop,
        why_not_ready: Callable[[], str],
        look: Callable[[], Iterator[Seen]],
        figures: Callable[[], Mapping[str, float]],
        what_lacks: Callable[[], str],
        counted: NodeFigures,
    ) -> None:
        """Look at a node that runs from now on: whether its loop turns, whether it is ready, and at its groups.

        `what_lacks` says what it has to do without though it is ready, empty for nothing; it is called on the thread of
        the pages.
        """

        def hand_over(seen: tuple[Seen, ...]) -> None:
            self._server.call(self._begin_to_take, seen, figures(), counted.families())

        self._condition.what_lacks = what_lacks
        self._heart = Heart(loop, self._condition, why_not_ready, counted.loop_lag.observe)
        self._surveyor = Surveyor(loop, look, hand_over, self._survey_s)

    def close(self) -> None:
        """Answer no more."""
        if self._heart is not None:
            self._heart.stop()
        if self._surveyor is not None:
            self._surveyor.stop()
        self._server.close()

    def _begin_to_take(
        self, seen: tuple[Seen, ...], figures: Mapping[str, float], families: tuple[Family, ...]
    ) -> None:
        """Begin to take in a survey, with what the system tells; on the thread of the pages."""
        everything = (*families, *process_families(self._data_dir))
        self._take(self._metrics.take(seen, figures, round(time.time() * 1000), everything))

    def _take(self, work: Iterator[None]) -> None:
        """Do some of the work on a survey, and the rest in turns of its own; on the thread of the pages."""
        for _ in work:
            self._server.call(self._take, work)
            return


def _is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host).is_loopback
