"""Whether a connection that is closed for not answering a probe had its time to answer: from when the probe left."""

from coordinator.protocol.messages import Probe, Push
from tests.sim.log.state import ViolationError


class ProbeWatch:
    """The probes of one run; times are the node's, of which a connection sees one process only."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._probed_ms: dict[int, int] = {}

    def pushed(self, connection_id: int, push: Push, now_ms: int) -> None:
        """Note what leaves on a connection."""
        if isinstance(push, Probe):
            self._probed_ms[connection_id] = now_ms

    def closes(self, connection_id: int, why: str, now_ms: int) -> None:
        """Raise ViolationError when a connection is closed for its silence before its time was over."""
        probed_ms = self._probed_ms.get(connection_id)
        is_in_time = probed_ms is not None and now_ms - probed_ms >= self._timeout_ms
        if "did not answer a probe" in why and not is_in_time:
            raise ViolationError(
                "put-out", f"connection {connection_id} was probed at {probed_ms} ms, and closed at {now_ms} ms: {why}"
            )
