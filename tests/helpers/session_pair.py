"""Two session ends joined by a link that cuts the bytes where a test wants it."""

from collections.abc import Callable, Iterable

from coordinator.protocol.framing import VersionRange
from coordinator.protocol.session import SUPPORTED_VERSIONS, Role, Session, SessionEvent, SessionLimits

Cut = Callable[[bytes], Iterable[bytes]]


def whole(data: bytes) -> Iterable[bytes]:
    """Deliver everything at once."""
    return [data]


def every_byte(data: bytes) -> Iterable[bytes]:
    """Deliver one byte after the other."""
    return [data[index : index + 1] for index in range(len(data))]


def cut_at(position: int) -> Cut:
    """Deliver in two pieces."""
    return lambda data: [data[:position], data[position:]]


class SessionPair:
    """A member's and a coordinator's session; `to_member` and `to_coordinator` deliver bytes and return the events."""

    def __init__(
        self,
        cut: Cut = whole,
        limits: SessionLimits | None = None,
        member_versions: VersionRange = SUPPORTED_VERSIONS,
        coordinator_versions: VersionRange = SUPPORTED_VERSIONS,
    ) -> None:
        self.member = Session(Role.MEMBER, limits, member_versions)
        self.coordinator = Session(Role.COORDINATOR, limits, coordinator_versions)
        self._cut = cut

    def to_member(self, data: bytes) -> list[SessionEvent]:
        """Deliver bytes to the member's end."""
        return [event for piece in self._cut(data) for event in self.member.receive_bytes(piece)]

    def to_coordinator(self, data: bytes) -> list[SessionEvent]:
        """Deliver bytes to the coordinator's end."""
        return [event for piece in self._cut(data) for event in self.coordinator.receive_bytes(piece)]

    def greet(self) -> "SessionPair":
        """Exchange hellos, so that both ends are open."""
        hello_of_member, hello_of_coordinator = self.member.send_hello(), self.coordinator.send_hello()
        self.to_coordinator(hello_of_member)
        self.to_member(hello_of_coordinator)
        return self
