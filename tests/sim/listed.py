"""Registrations in several requests: members that list what they show in small portions, and what that is in all."""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from coordinator.protocol.messages import ListClaims, RegisterConsumer, Request
from coordinator.protocol.parts import Claim
from spark_kcoord.member.core.held.portions import portions


class Listed:
    """The claims that connections have listed for the registration that follows on each."""

    def __init__(self) -> None:
        self._claims: dict[int, tuple[Claim, ...]] = {}

    def whole(self, connection_id: int, request: Request) -> Request:
        """Return a request; a registration as if it had named by itself what was listed for it."""
        if isinstance(request, ListClaims):
            self._claims[connection_id] = (*self._claims.get(connection_id, ()), *request.claims)
        elif isinstance(request, RegisterConsumer) and connection_id in self._claims:
            return replace(request, claims=(*self._claims.pop(connection_id), *request.claims))
        return request


@contextmanager
def portions_of(items: int) -> Iterator[None]:
    """Have members name so few things in one request, as if a frame held no more."""
    before = portions.__defaults__
    portions.__defaults__ = (items,)
    try:
        yield
    finally:
        portions.__defaults__ = before
