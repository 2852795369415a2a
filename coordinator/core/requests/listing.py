"""Claims and hints that a connection lists before it registers: gathered, and bounded in number and in bytes.

Those of all connections together are bounded too, until each has registered: whoever lists and goes no further makes
room for others.
"""

from collections.abc import Iterator, Mapping

from coordinator.core.groups.membership.registration_size import MAX_LISTED_BYTES, listed_bytes
from coordinator.core.groups.soft.sessions import Connection
from coordinator.core.groups.soft.shown import Shown
from coordinator.core.limits import Limits
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ListClaims, ListClaimsResponse


def take_listed(connection: Connection, request: ListClaims, limits: Limits) -> ListClaimsResponse:
    """Keep what a connection lists beside what it has listed before; drop it all when it is too much.

    Then the registration is refused too, for the same reason: open claims that it does not show are closed.
    """
    listed = connection.listed or Shown()
    if listed.why_refused:
        return ListClaimsResponse(ErrorCode.INVALID_REQUEST, listed.why_refused)
    size = listed_bytes(request) + (connection.listed_bytes if connection.listed is not None else 0)
    most = max(listed.claim_count + len(request.claims), listed.hint_count + len(request.hints))
    why = ""
    if size > MAX_LISTED_BYTES:
        why = f"the names in the listed claims and hints are more than {MAX_LISTED_BYTES} bytes; list fewer"
    elif most > limits.listed_max:
        why = (
            f"more than {limits.listed_max} claims or hints are listed for one registration; spread the partitions "
            "over more members"
        )
    if why:
        connection.listed, connection.listed_bytes = Shown(why), 0
        return ListClaimsResponse(ErrorCode.INVALID_REQUEST, why)
    listed.add(request.claims, request.hints)
    connection.listed, connection.listed_bytes = listed, size
    return ListClaimsResponse()


class Listings:
    """The lists of a node's connections that have not registered with them yet, those that listed last at the end."""

    def __init__(self, connections: Mapping[int, Connection], most_bytes: int) -> None:
        self._connections = connections
        self._most_bytes = most_bytes
        self._sizes: dict[int, int] = {}
        self._bytes = 0

    def __len__(self) -> int:
        """Return how many connections are known to have listed something."""
        return len(self._sizes)

    def note(self, connection: Connection) -> Iterator[Connection]:
        """Take note of what a connection has listed by now; yield those that are to be closed, to make room for it.

        A list of nothing takes no room and is not known here, so that those of very many connections do not grow.
        """
        self._forget(connection.connection_id)
        if connection.listed is None or not connection.listed_bytes:
            return
        self._sizes[connection.connection_id] = connection.listed_bytes
        self._bytes += connection.listed_bytes
        if self._bytes > self._most_bytes:
            for gone in [each for each in self._sizes if not self._is_held(each)]:
                self._forget(gone)
        while self._bytes > self._most_bytes and len(self._sizes) > 1:
            oldest = next(iter(self._sizes))
            self._forget(oldest)
            yield self._connections[oldest]

    def _is_held(self, connection_id: int) -> bool:
        """True while what a connection has listed is in memory: it has not registered, or waits to be let in."""
        connection = self._connections.get(connection_id)
        return connection is not None and (connection.listed is not None or connection.is_registering)

    def _forget(self, connection_id: int) -> None:
        self._bytes -= self._sizes.pop(connection_id, 0)
