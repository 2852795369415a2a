"""The answer to each request of a principal before anything is done about it: may it, and if not, what is it told.

A refusal names the principal, the operation and the resource as they were asked for, and is the same whether there is
such a resource or not. What was worked out for a principal is kept until the rules change.
"""

from coordinator.core.security.acl import Acl, Matcher, Operation, ResourceKind
from coordinator.core.security.principal import Principal
from coordinator.core.security.rights import Asked, rights_for
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import MAX_ID_LENGTH
from coordinator.protocol.messages import ErrorResponse, Request

MOST_KEPT = 10_000
"""Matchers that are kept; more are worked out anew."""

_CODE_OF = {
    ResourceKind.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceKind.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceKind.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}


class Authorizer:
    """The rules in force, as they are asked."""

    def __init__(self, acl: Acl) -> None:
        self._acl = acl
        self.changes = 0
        """Times that the rules were changed."""
        self._kept: dict[tuple[str, Operation, ResourceKind], Matcher] = {}

    def change(self, acl: Acl) -> None:
        """Ask other rules from now on."""
        self._acl = acl
        self.changes += 1
        self._kept.clear()

    def matcher(self, principal: Principal, operation: Operation, kind: ResourceKind) -> Matcher:
        """Return the names of this kind for which a principal may do something."""
        key = (str(principal), operation, kind)
        kept = self._kept.get(key)
        if kept is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            kept = self._kept[key] = self._acl.matcher(principal, operation, kind)
        return kept

    def why_refused(self, principal: Principal, request: Request, own_group_id: str | None) -> ErrorResponse | None:
        """Return the refusal of a request, or None when all that it asks for is allowed."""
        for asked in rights_for(request, own_group_id):
            if not self.matcher(principal, asked.operation, asked.kind).allows(asked.name):
                return refusal(principal, asked)
        return None


def refusal(principal: Principal, asked: Asked) -> ErrorResponse:
    """Return what is said to a principal that may not do something."""
    what = "the cluster" if asked.kind is ResourceKind.CLUSTER else f"{asked.kind} {asked.name[:MAX_ID_LENGTH]!r}"
    why = f"{principal} may not {asked.operation} {what}; whoever keeps the rules of this coordinator can allow it"
    return ErrorResponse(_CODE_OF[asked.kind], why)
