"""The machine that a driver drives: the node, with an audit log and a mirror around it where the settings want them."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from structlog.typing import FilteringBoundLogger

from coordinator.config import Settings
from coordinator.core.auditing.auditor import Auditor
from coordinator.core.effects import Audited, Effect, MirrorEnded, MirrorOffsets
from coordinator.core.mirror.mirrored import Machine, Mirrored
from coordinator.core.node import Node
from coordinator.runtime.figures.node import NodeFigures
from coordinator.runtime.kafka.access import KafkaAccess
from coordinator.runtime.kafka.mirror_port import MirrorPort
from coordinator.runtime.security.reread import Reread
from coordinator.service.lifecycle import audit_log_of

if TYPE_CHECKING:
    from coordinator.core.cluster_node.node import ClusterNode  # which a node alone never loads


def mirrored_of(settings: Settings, coordinator: Callable[[], Node | None], figures: NodeFigures) -> Mirrored | None:
    """Return the mirror of a node of which nothing is loaded yet, with its figures; None where none is wanted."""
    if not settings.mirror.enabled:
        return None
    mirror = settings.mirror
    mirrored = Mirrored(coordinator, mirror.for_core(settings.kafka.request_timeout_ms), mirror.wants)
    figures.mirror = lambda: mirrored.mirror.figures
    return mirrored


@contextlib.contextmanager
def machine_of(
    settings: Settings,
    node: "Node | ClusterNode",
    mirrored: Mirrored | None,
    post: Callable[[Any], None],
    log: FilteringBoundLogger,
    access: Reread[KafkaAccess] | None,
) -> Iterator[tuple[Machine, Mapping[type[Effect], Callable[[Any], None]]]]:
    """Yield the machine, and who performs what only it wants; raises StorageError."""
    machine: Machine = node
    more: dict[type[Effect], Callable[[Any], None]] = {}
    with audit_log_of(settings, post, log) as audit:
        if audit is not None:
            machine = Auditor(node)
            more[Audited] = audit.add
        if mirrored is None:
            yield machine, more
            return
        mirrored.machine = machine
        port = MirrorPort(settings.mirror.prefix, settings.kafka, post, log, access=access)
        port.start()
        try:
            yield mirrored, {**more, MirrorOffsets: port.write, MirrorEnded: port.end}
        finally:
            port.close()


def what_lacks(why_away: str, mirrored: Mirrored | None) -> str:
    """Return what a node that is ready has to do without: Kafka, or a mirror that is well; from any thread."""
    return "; ".join(filter(None, (why_away, "" if mirrored is None else mirrored.mirror.lacks)))
