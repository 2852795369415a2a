"""Claims and hints that a connection lists before it registers: gathered, and bounded in number and in bytes."""

from coordinator.core.groups.registration_size import MAX_LISTED_BYTES, listed_bytes
from coordinator.core.groups.shown import Shown
from coordinator.core.groups.soft import Connection
from coordinator.core.limits import Limits
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ListClaims, ListClaimsResponse


def take_listed(connection: Connection, request: ListClaims, limits: Limits) -> ListClaimsResponse:
    """Keep what a connection lists beside what it has listed before; drop it all when it is too much."""
    listed = connection.listed or Shown()
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
        connection.listed = None
        return ListClaimsResponse(ErrorCode.INVALID_REQUEST, why)
    listed.add(request.claims, request.hints)
    connection.listed, connection.listed_bytes = listed, size
    return ListClaimsResponse()
