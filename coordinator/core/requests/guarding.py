"""The router of a node that asks for rights: each request is allowed or refused before anything is done about it.

A refusal is given before it is looked whether there is such a group, and whether it is led here, so that it tells
nothing of that. Where nobody asks for rights the plain router stands, and nothing is asked.
"""

from collections.abc import Callable
from typing import Any

from coordinator.core.events import RequestArrived
from coordinator.core.groups.membership.places.identities import why_of_another_principal
from coordinator.core.groups.soft.sessions import Connection
from coordinator.core.requests.routing import Router
from coordinator.core.security.acl import Operation, ResourceKind
from coordinator.core.security.authorizer import Authorizer
from coordinator.core.security.rights import OF_READERS
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import BeginClaims, ErrorResponse, FinishClaims


class GuardedRouter(Router):
    """A router that asks an authorizer first; what else it takes is what a router takes."""

    def __init__(self, authorizer: Authorizer, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.authorizer = authorizer

    def handle(self, event: RequestArrived) -> None:
        """Answer a request that its principal may make, or have it wait; raises NotServedError."""
        connection = self._connections.get(event.connection_id)
        if connection is None or connection.is_closing:
            return
        authorizer, request = self.authorizer, event.request
        if type(request) in OF_READERS and connection.group_id is not None:  # nearly all that is said
            if connection.reads_since != authorizer.changes:
                refused = authorizer.why_refused(connection.principal, request, connection.group_id)
                if refused is not None:
                    self._respond_now(event, refused)
                    return
                connection.reads_since = authorizer.changes
            super().handle(event)
            return
        refused = authorizer.why_refused(connection.principal, request, connection.group_id)
        if refused is None and isinstance(event.request, FinishClaims | BeginClaims):
            refused = self._why_not_its_own(connection, event.request)
        if refused is None:
            super().handle(event)
        else:
            self._respond_now(event, refused)

    def _why_not_its_own(self, connection: Connection, request: FinishClaims | BeginClaims) -> ErrorResponse | None:
        """Return the refusal of what is said for a member that another principal has registered."""
        group = self._rack.at_work(request.group_id).desk.group(request.group_id)
        why = None if group is None else why_of_another_principal(group, request.member_id, connection.principal)
        return None if why is None else ErrorResponse(ErrorCode.GROUP_AUTHORIZATION_FAILED, why)

    def may(self, event: RequestArrived) -> bool:
        """Return whether the principal of a connection may make a request that is answered elsewhere."""
        connection = self._connections.get(event.connection_id)
        if connection is None:
            return False
        return self.authorizer.why_refused(connection.principal, event.request, connection.group_id) is None

    def _shown_to(self, connection: Connection) -> Callable[[str], bool] | None:
        return self.authorizer.matcher(connection.principal, Operation.DESCRIBE, ResourceKind.GROUP).allows
