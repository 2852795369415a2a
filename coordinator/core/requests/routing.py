"""The way of each request to its answer: the shard of its group, the member's own shard, or the node itself.

What members say is answered in the step in which it comes. What people ask for grows with a group: as much of it is
answered in one step as the step is for, and the rest waits, in order, for steps of its own.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from coordinator.core.effects import CloseConnection, Effect, Respond
from coordinator.core.events import RequestArrived
from coordinator.core.groups.assignment.subscriptions import named_topics
from coordinator.core.groups.describe import summaries
from coordinator.core.groups.desk import Clock
from coordinator.core.groups.membership.places.identities import registers_again
from coordinator.core.groups.soft.sessions import Connection, Registration
from coordinator.core.groups.soft.shown import Shown
from coordinator.core.kafka_metadata import Catalog
from coordinator.core.limits import Limits
from coordinator.core.meter import Meter
from coordinator.core.requests.cluster_of_one import ChangeOfCluster, cluster_of_one, refused_alone
from coordinator.core.requests.finding import Finder
from coordinator.core.requests.listing import Listings, take_listed
from coordinator.core.requests.reads import answer_read
from coordinator.core.requests.waiting import WaitingRequests
from coordinator.core.shards.gates import Gates, Wait
from coordinator.core.shards.shard_rack import NotServedError, ShardRack
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import MAX_NAMED
from coordinator.protocol.messages import (
    Advance,
    BeginClaims,
    CommitOffsets,
    ConfirmClaims,
    DescribeCluster,
    DescribeClusterResponse,
    DescribeGroup,
    DrainNode,
    ElectLeaders,
    ErrorResponse,
    FetcherStarted,
    FetcherStopped,
    FetchOffsets,
    FindCoordinator,
    FindCoordinatorResponse,
    FinishClaims,
    LeaveGroup,
    ListClaims,
    ListClaimsResponse,
    ListGroupEvents,
    ListGroups,
    ListGroupsResponse,
    Ping,
    ReassignShards,
    RegisterConsumer,
    RegisterConsumerResponse,
    ReportOutOfRange,
    Request,
)
from coordinator.protocol.messages.operators import OperatorRequest
from coordinator.protocol.parts import GroupSummary, ListedUpTo, NodeAddress

AskedByPeople: TypeAlias = (
    ListGroups
    | FetchOffsets
    | DescribeGroup
    | ListGroupEvents
    | DescribeCluster
    | ReassignShards
    | ElectLeaders
    | DrainNode
    | OperatorRequest
)
"""Requests of tools and operators, which can wait."""
_GROUP_IS_THINGS: Final = 2
"""To list a group takes as long as to tell so many partitions."""
_MOST_OF_A_TURN: Final = 500
"""So many requests are answered in one turn at most, also where they are told nothing: each is looked for."""


class Router:
    """The requests of one node; whatever goes wrong with one is the rack's to contain."""

    def __init__(
        self,
        limits: Limits,
        address: NodeAddress,
        catalog: Catalog,
        meter: Meter,
        connections: dict[int, Connection],
        gates: Gates[Effect],
        rack: ShardRack,
        clock: Clock,
    ) -> None:
        self._limits = limits
        self._address = address
        self._catalog = catalog
        self._meter = meter
        self._clock = clock
        self._connections = connections
        self._gates = gates
        self._rack = rack
        self.waiting: WaitingRequests[tuple[RequestArrived, AskedByPeople]] = WaitingRequests()
        """Requests that wait for a turn."""
        self._turn_left = limits.page_items
        self._listings = Listings(connections, limits.listed_total_bytes)
        self.finder = Finder(address, catalog, rack)

    def handle(self, event: RequestArrived) -> None:
        """Answer a request, or have it wait; raises NotServedError."""
        connection = self._connections.get(event.connection_id)
        if connection is None or connection.is_closing:
            return
        own_shard = self._rack.at_work(connection.group_id) if connection.group_id is not None else None
        if own_shard is not None:
            own_shard.heard(connection)
        request, correlation_id = event.request, event.correlation_id
        if request.named() > MAX_NAMED:
            self._respond_now(event, ErrorResponse(error=ErrorCode.INVALID_REQUEST, message=_why_too_many(request)))
            return
        match request:  # what comes most often first
            case CommitOffsets():
                if own_shard is None or request.group_id != connection.group_id:
                    own_shard = self._rack.at_work(request.group_id)
                own_shard.handle_commit(connection, correlation_id, request)
            case (
                Ping()
                | FetcherStarted()
                | FetcherStopped()
                | Advance()
                | ConfirmClaims()
                | LeaveGroup()
                | ReportOutOfRange()
            ):
                if own_shard is not None:
                    own_shard.handle_member(connection, correlation_id, request)
                    return
                why = f"no member is registered on this connection; register before {type(request).__name__}"
                self._respond_now(event, ErrorResponse(error=ErrorCode.UNKNOWN_MEMBER_ID, message=why))
            case RegisterConsumer():
                self._register(connection, event, request)
            case ListClaims():
                self._list_claims(connection, event, request)
            case FinishClaims():
                self._rack.at_work(request.group_id).handle_finish(connection, correlation_id, request)
            case BeginClaims():
                self._rack.at_work(request.group_id).handle_begin(connection, correlation_id, request)
            case FindCoordinator():
                found = self.finder.find(event, request, self._clock.now_ms)
                if found is not None:
                    self._respond_now(event, found)
            case _:  # a request that is none of AskedByPeople has its own case above
                if self.waiting or self._turn_left <= 0:
                    self.waiting.add(event.connection_id, (event, request))
                else:
                    self._answer(event, request)

    def refuse_for_now(self, event: RequestArrived, error: NotServedError) -> None:
        """Refuse a request for a shard that is not in service here: nothing of it was decided."""
        self._respond_now(event, ErrorResponse(error=error.code, message=str(error)))

    def may(self, event: RequestArrived) -> bool:
        """Return whether the principal of a connection may make a request that is answered elsewhere: here it may."""
        del event
        return True

    def answer_held(self, heard: int | None = None) -> None:
        """Answer those questions for a coordinator that need not be held any longer, now that a node was heard."""
        for event, found in self.finder.release(self._connections, self._clock.now_ms, heard):
            self._respond_now(event, found)

    def _respond_now(
        self,
        event: RequestArrived,
        response: FindCoordinatorResponse
        | ListClaimsResponse
        | ListGroupsResponse
        | DescribeClusterResponse
        | ChangeOfCluster
        | ErrorResponse,
    ) -> None:
        self._rack.direct.append(Respond(event.connection_id, event.correlation_id, response))

    # ---- turns ------------------------------------------------------------------------------------------------------

    def take_turn(self) -> None:
        """Answer requests that wait, as many as one step is for."""
        self._turn_left = self._limits.page_items
        while self.waiting and self._turn_left > 0:
            event, request = self.waiting.take()
            connection = self._connections.get(event.connection_id)
            if connection is not None and not connection.is_closing:
                self._answer_contained(event, request)

    def _answer_contained(self, event: RequestArrived, request: AskedByPeople) -> None:
        """Answer a request in a step that is about others too: what goes wrong is its own."""
        try:
            self._answer(event, request)
        except NotServedError as error:
            self.refuse_for_now(event, error)
        except Exception as error:  # noqa: BLE001 - a bug of ours costs one request, whatever it is
            self._rack.contain(error, event)

    def _answer(self, event: RequestArrived, request: AskedByPeople) -> None:
        """Answer a request of a tool or an operator, and note what that took of the turn."""
        before = self._meter.work
        match request:
            case ListGroups():
                self._list_groups(event, request)
            case FetchOffsets() | DescribeGroup() | ListGroupEvents():
                self._read(event, request)
            case DescribeCluster():
                told = cluster_of_one(self._address, self._gates, self._rack, self._catalog, self._clock.wall_ms)
                self._respond_now(event, told)
            case ReassignShards() | ElectLeaders() | DrainNode():
                self._respond_now(event, refused_alone(request))
            case _:
                connection = self._connections[event.connection_id]
                connection.may_wait_for |= {self._rack.shard_of(request.group_id)}
                self._rack.at_work(request.group_id).handle_operator(connection, event.correlation_id, request)
        least = max(1, self._limits.page_items // _MOST_OF_A_TURN)
        self._turn_left -= max(least, 1 + self._meter.work - before)

    def _list_groups(self, event: RequestArrived, request: ListGroups) -> None:
        if not request.of_served:
            self._rack.require_all()
        self._rack.working = None  # it is of no shard, and a bug in it is no shard's
        is_shown = self._shown_to(self._connections[event.connection_id])
        shards, most = self._rack.shards, max(1, self._limits.page_items // _GROUP_IS_THINGS)
        begin, after = (request.after.shard, request.after.group_id) if request.after is not None else (0, "")
        lines: list[GroupSummary] = []
        up_to = None
        served = tuple(index for index in range(len(shards)) if self._rack.is_served(index))
        for index in (index for index in served if index >= begin):
            left = most - len(lines)
            self._meter.pass_over(len(shards[index].desk.journal.state.groups))
            found = summaries(shards[index].desk, after if index == begin else "", left + 1, is_shown)
            lines += found[:left]
            if len(found) > left:
                up_to = ListedUpTo(index, found[left - 1].group_id if left else "")
                break
        self._meter.note(_GROUP_IS_THINGS * len(lines))
        named = served if request.of_served else ()
        response = ListGroupsResponse(tuple(sorted(lines, key=lambda line: line.group_id)), up_to, named)
        waits = tuple(
            Wait(index, shards[index].desk.journal.log_end_offset, self._gates.needed_round(index)) for index in served
        )
        if waits:
            self._gates.park_for_all(Respond(event.connection_id, event.correlation_id, response), waits)
        else:
            self._respond_now(event, response)

    def _shown_to(self, connection: Connection) -> Callable[[str], bool] | None:
        """Return which groups are listed for the principal of a connection, None for all of them."""
        del connection
        return None

    def _read(self, event: RequestArrived, request: FetchOffsets | DescribeGroup | ListGroupEvents) -> None:
        desk = self._rack.at_work(request.group_id).desk
        desk.respond(event.connection_id, event.correlation_id, answer_read(desk, request, self._limits.page_items))

    # ---- the way in -------------------------------------------------------------------------------------------------

    def _list_claims(self, connection: Connection, event: RequestArrived, request: ListClaims) -> None:
        if connection.group_id is not None or connection.is_registering:
            why = "this connection is a member's already, or waits to be one; list claims before the registration"
            self._respond_now(event, ListClaimsResponse(ErrorCode.INVALID_REQUEST, why))
            return
        self._respond_now(event, take_listed(connection, request, self._limits))
        for other in self._listings.note(connection):
            other.is_closing, other.listed = True, None
            why = "it has listed claims and not registered with them, and others need the room; connect again"
            self._rack.direct.append(CloseConnection(other.connection_id, why))

    def _register(self, connection: Connection, event: RequestArrived, request: RegisterConsumer) -> None:
        self.finder.expected.discard(event.connection_id)
        shard = self._rack.at_work(request.group_id)
        group = shard.desk.group(request.group_id)
        is_free = connection.group_id is None or registers_again(group, connection, request)
        if not is_free or connection.is_registering:
            why = "this connection is another member's, or waits to be one's; register on a new connection"
            response = RegisterConsumerResponse(error=ErrorCode.INVALID_REQUEST, message=why)
            shard.desk.respond(event.connection_id, event.correlation_id, response)
            return
        shown, connection.listed = connection.listed or Shown(), None
        shown.add(request.claims, request.hints)
        topics = named_topics(request.subscription)
        connection.may_wait_for |= {self._rack.shard_of(request.group_id)}
        asked = (event.connection_id, event.correlation_id, request, event.fresh_id)
        shard.register(Registration(*asked, topics, shown, shard.desk.now_ms))


def _why_too_many(request: Request) -> str:
    return (
        f"{type(request).__name__} names {request.named()} partitions in one list and at most {MAX_NAMED} may be named"
        "; nothing of it was done, so name them in several requests"
    )
