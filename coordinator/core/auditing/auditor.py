"""A node that keeps an audit log: the node as it is, and a line beside each answer to what changes something.

The line is decided where the answer is, so that it says what was done: an answer is given once the change is committed.
Besides verbs that change something there is a line for every request that the rules refuse. While lines cannot be
written, changes are refused before the node sees them. A request that another node or a later moment has to answer is
no attempt yet. The node itself knows nothing of this, and without an audit log nothing is looked at.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from coordinator.core.auditing.changes import State, Verb, change_of, state_before, verb_of
from coordinator.core.effects import Audited, Respond
from coordinator.core.events import (
    AuditLogFailed,
    AuditLogWorks,
    ConnectionClosed,
    ConnectionOpened,
    RequestArrived,
    Ticked,
)
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.node import Node
from coordinator.core.security.rights import group_named
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CommitOffsets,
    CommitOffsetsResponse,
    ErrorResponse,
    PingResponse,
    RegisterConsumer,
    RegisterConsumerResponse,
    Request,
    Response,
)

if TYPE_CHECKING:
    from coordinator.core.cluster_node.node import ClusterNode  # which a node alone never loads

_FORBIDDEN: Final = frozenset(
    {
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
_ASKED_ELSEWHERE: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})


@dataclass(frozen=True, slots=True)
class _Peer:
    principal: str
    address: str


@dataclass(frozen=True, slots=True)
class _Asked:
    """A verb that is not answered yet, and how that stood which its answer will not tell."""

    request: Verb
    before: State


class Auditor:
    """A node and its audit log, as one machine: `start`, then `step`, as the node's."""

    def __init__(self, node: "Node | ClusterNode") -> None:
        self._node = node
        self._peers: dict[int, _Peer] = {}
        self._asked: dict[tuple[int, int], _Asked] = {}
        self._registering: dict[int, dict[int, RegisterConsumer]] = {}
        """Registrations that are not answered yet, by connection: Kafka may be asked before one is refused."""
        self._wall_offset_ms = 0
        self._why_not = ""
        """Why nothing may be changed now."""

    def start(self, now_ms: int, wall_ms: int, *more: Any) -> Any:
        """Start the node."""
        self._wall_offset_ms = wall_ms - now_ms
        return self._node.start(now_ms, wall_ms, *more)

    def step(self, event: Any, now_ms: int) -> list[Any]:
        """Take in one event; returns the node's effects, with a line before each answer that is to have one."""
        match event:
            case RequestArrived():
                return self._take(event, now_ms)
            case AuditLogFailed(why):
                self._why_not = why
                return []
            case AuditLogWorks():
                self._why_not = ""
                return []
            case Ticked(wall_ms):
                self._wall_offset_ms = wall_ms - now_ms
            case ConnectionOpened(connection_id, host, principal):
                self._peers[connection_id] = _Peer(str(principal), host)
            case ConnectionClosed(connection_id):
                effects = self._with_lines(self._node.step(event, now_ms), now_ms)
                return [*effects, *self._unanswered(connection_id, now_ms)]
        return self._with_lines(self._node.step(event, now_ms), now_ms)

    def _take(self, event: RequestArrived, now_ms: int) -> list[Any]:
        request, key = event.request, (event.connection_id, event.correlation_id)
        if event.connection_id not in self._peers:
            return self._with_lines(self._node.step(event, now_ms), now_ms)
        verb = verb_of(request)
        if verb is None:
            if isinstance(request, RegisterConsumer):
                self._registering.setdefault(event.connection_id, {})[event.correlation_id] = request
            effects = self._node.step(event, now_ms)
            return self._with_lines(effects, now_ms, event)
        if self._why_not:
            response = ErrorResponse(ErrorCode.COORDINATOR_NOT_AVAILABLE, self._why_not)
            return [*self._line(key, verb, response, {}, now_ms), Respond(*key, response)]
        self._asked[key] = _Asked(verb, state_before(verb, self._group(verb)))
        return self._with_lines(self._node.step(event, now_ms), now_ms)

    def _group(self, verb: Verb) -> GroupState | None:
        """Return the group that a verb names, as it is here."""
        group_id = group_named(verb)
        node = self._node
        if isinstance(node, Node):
            coordinator: Node | None = node
        else:
            coordinator = node.replication.coordinator if node.replication is not None else None
        if group_id is None or coordinator is None:
            return None
        return coordinator.hard_state(coordinator.shard_of(group_id)).groups.get(group_id)

    def _with_lines(self, effects: list[Any], now_ms: int, arrived: RequestArrived | None = None) -> list[Any]:
        """Put lines before the answers among effects; `arrived` is a request that has one only if it is forbidden."""
        lined: list[Any] = []
        for effect in effects:
            if isinstance(effect, Respond):
                key = (effect.connection_id, effect.correlation_id)
                asked = self._asked.pop(key, None)
                registration = self._take_registration(key) if self._registering else None
                if asked is not None:
                    lined += self._line(key, asked.request, effect.response, asked.before, now_ms)
                elif registration is not None:
                    lined += self._forbidden(key, registration, effect.response, now_ms)
                elif isinstance(effect.response, CommitOffsetsResponse | PingResponse):
                    lined += self._forbidden_parts(key, effect.response, now_ms)
                elif arrived is not None and key == (arrived.connection_id, arrived.correlation_id):
                    lined += self._forbidden(key, arrived.request, effect.response, now_ms)
            lined.append(effect)
        return lined

    def _take_registration(self, key: tuple[int, int]) -> RegisterConsumer | None:
        """Return the registration that is answered now, if it is one."""
        connection_id, correlation_id = key
        registrations = self._registering.get(connection_id, {})
        registration = registrations.pop(correlation_id, None)
        if registration is not None and not registrations:
            del self._registering[connection_id]
        return registration

    def _unanswered(self, connection_id: int, now_ms: int) -> Iterator[Audited]:
        """Yield the lines of what a connection asked for and was not told: it may have been done."""
        for key in [key for key in self._asked if key[0] == connection_id]:
            asked = self._asked.pop(key)
            yield self._made(key, asked.request, "unanswered", now_ms, before=asked.before)
        self._peers.pop(connection_id, None)
        self._registering.pop(connection_id, None)

    def _forbidden(self, key: tuple[int, int], request: Request, response: Response, now_ms: int) -> Iterator[Audited]:
        """Yield the line of a request that the rules refuse, which would have changed nothing by somebody's word."""
        if isinstance(response, ErrorResponse | RegisterConsumerResponse) and response.error in _FORBIDDEN:
            yield self._made(key, request, "refused", now_ms, error=response.error.name, message=response.message)

    def _forbidden_parts(
        self, key: tuple[int, int], response: CommitOffsetsResponse | PingResponse, now_ms: int
    ) -> Iterator[Audited]:
        """Yield the line of a member's commit, also by a ping, of which the rules refuse a topic."""
        refused = {f"{part.topic}:{part.partition}": part.error.name for part in response.refused}
        refused = {place: code for place, code in refused.items() if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED.name}
        if refused and key[0] in self._peers:
            yield self._made(key, CommitOffsets("", ()), "refused", now_ms, refused=refused)

    def _line(
        self, key: tuple[int, int], request: Verb, response: Response, before: State, now_ms: int
    ) -> Iterator[Audited]:
        error: ErrorCode = getattr(response, "error", ErrorCode.NONE)
        if error in _ASKED_ELSEWHERE:
            return
        stood, stands, refused = change_of(request, response, before)
        is_refused = error is not ErrorCode.NONE or (bool(refused) and not stands)
        is_tried = getattr(request, "is_dry_run", False)
        yield self._made(
            key,
            request,
            "refused" if is_refused else "dry-run" if is_tried else "done",
            now_ms,
            error="" if error is ErrorCode.NONE else error.name,
            message=getattr(response, "message", ""),
            before={} if is_refused else stood,
            after={} if is_refused else stands,
            refused=refused,
        )

    def _made(self, key: tuple[int, int], request: Request, outcome: str, now_ms: int, **more: Any) -> Audited:
        peer = self._peers[key[0]]
        return Audited(
            wall_ms=now_ms + self._wall_offset_ms,
            principal=peer.principal,
            address=peer.address,
            verb=type(request).__name__,
            outcome=outcome,
            request_id=f"{key[0]}-{key[1]}",
            group_id=group_named(request),
            who=getattr(request, "who", ""),
            why=getattr(request, "why", ""),
            **more,
        )
