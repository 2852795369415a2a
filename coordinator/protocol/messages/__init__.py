"""Every message of protocol version 1, and its form on the wire.

A message is a msgpack array that begins with its number. Members and tools send *requests*; each gets exactly one
*response* with its correlation id. The coordinator sends *pushes* (correlation id 0), which get no response: what a
member did about them it says in requests of its own, so that saying it again after a lost connection is harmless.

The format only grows: a new field comes last and has a default; a number is never used again. Absent is None, never 0:
an offset of 0 always means offset 0.
"""

from typing import Final, TypeAlias

from coordinator.protocol.messages import operators as operator
from coordinator.protocol.messages.claims import (
    Advance,
    AdvanceResponse,
    BeginClaims,
    BeginClaimsResponse,
    ConfirmClaims,
    ConfirmClaimsResponse,
    FinishClaims,
    FinishClaimsResponse,
)
from coordinator.protocol.messages.cluster import (
    DescribeCluster,
    DescribeClusterResponse,
    DrainNode,
    DrainNodeResponse,
    ElectLeaders,
    ElectLeadersResponse,
    ReassignShards,
    ReassignShardsResponse,
)
from coordinator.protocol.messages.groups import (
    DescribeGroup,
    DescribeGroupResponse,
    ListGroupEvents,
    ListGroupEventsResponse,
    ListGroups,
    ListGroupsResponse,
)
from coordinator.protocol.messages.membership import (
    FetcherStarted,
    FetcherStartedResponse,
    FetcherStopped,
    FetcherStoppedResponse,
    FindCoordinator,
    FindCoordinatorResponse,
    LeaveGroup,
    LeaveGroupResponse,
    ListClaims,
    ListClaimsResponse,
    Ping,
    PingResponse,
    RegisterConsumer,
    RegisterConsumerResponse,
    ReportOutOfRange,
    ReportOutOfRangeResponse,
)
from coordinator.protocol.messages.message import ErrorResponse
from coordinator.protocol.messages.offsets import (
    CommitOffsets,
    CommitOffsetsResponse,
    FetchOffsets,
    FetchOffsetsResponse,
)
from coordinator.protocol.messages.operators import OperatorRequest, OperatorResponse
from coordinator.protocol.messages.pushes import (
    ClaimsFinished,
    Fenced,
    FetcherTaken,
    Probe,
    StartFetcher,
    StopFetcher,
)

__all__ = [
    "Advance",
    "AdvanceResponse",
    "BeginClaims",
    "BeginClaimsResponse",
    "ClaimsFinished",
    "CommitOffsets",
    "CommitOffsetsResponse",
    "ConfirmClaims",
    "ConfirmClaimsResponse",
    "DescribeCluster",
    "DescribeClusterResponse",
    "DescribeGroup",
    "DescribeGroupResponse",
    "DrainNode",
    "DrainNodeResponse",
    "ElectLeaders",
    "ElectLeadersResponse",
    "ErrorResponse",
    "Fenced",
    "FetchOffsets",
    "FetchOffsetsResponse",
    "FetcherStarted",
    "FetcherStartedResponse",
    "FetcherStopped",
    "FetcherStoppedResponse",
    "FetcherTaken",
    "FindCoordinator",
    "FindCoordinatorResponse",
    "FinishClaims",
    "FinishClaimsResponse",
    "LeaveGroup",
    "LeaveGroupResponse",
    "ListClaims",
    "ListClaimsResponse",
    "ListGroupEvents",
    "ListGroupEventsResponse",
    "ListGroups",
    "ListGroupsResponse",
    "Message",
    "Ping",
    "PingResponse",
    "Probe",
    "Push",
    "RESPONSE_OF",
    "ReassignShards",
    "ReassignShardsResponse",
    "RegisterConsumer",
    "RegisterConsumerResponse",
    "ReportOutOfRange",
    "ReportOutOfRangeResponse",
    "Request",
    "Response",
    "StartFetcher",
    "StopFetcher",
]

Request: TypeAlias = (
    FindCoordinator
    | RegisterConsumer
    | Ping
    | FetcherStarted
    | FetcherStopped
    | CommitOffsets
    | FetchOffsets
    | Advance
    | ConfirmClaims
    | LeaveGroup
    | ListGroups
    | DescribeGroup
    | ListGroupEvents
    | ReportOutOfRange
    | ListClaims
    | FinishClaims
    | BeginClaims
    | DescribeCluster
    | ReassignShards
    | ElectLeaders
    | DrainNode
    | OperatorRequest
)
Response: TypeAlias = (
    ErrorResponse
    | FindCoordinatorResponse
    | RegisterConsumerResponse
    | PingResponse
    | FetcherStartedResponse
    | FetcherStoppedResponse
    | CommitOffsetsResponse
    | FetchOffsetsResponse
    | AdvanceResponse
    | ConfirmClaimsResponse
    | LeaveGroupResponse
    | ListGroupsResponse
    | DescribeGroupResponse
    | ListGroupEventsResponse
    | ReportOutOfRangeResponse
    | ListClaimsResponse
    | FinishClaimsResponse
    | BeginClaimsResponse
    | DescribeClusterResponse
    | ReassignShardsResponse
    | ElectLeadersResponse
    | DrainNodeResponse
    | OperatorResponse
)
Push: TypeAlias = StartFetcher | StopFetcher | Probe | Fenced | ClaimsFinished | FetcherTaken
Message: TypeAlias = Request | Response | Push

RESPONSE_OF: Final[dict[type[Request], type[Response]]] = {
    FindCoordinator: FindCoordinatorResponse,
    RegisterConsumer: RegisterConsumerResponse,
    Ping: PingResponse,
    FetcherStarted: FetcherStartedResponse,
    FetcherStopped: FetcherStoppedResponse,
    CommitOffsets: CommitOffsetsResponse,
    FetchOffsets: FetchOffsetsResponse,
    Advance: AdvanceResponse,
    ConfirmClaims: ConfirmClaimsResponse,
    LeaveGroup: LeaveGroupResponse,
    ListGroups: ListGroupsResponse,
    DescribeGroup: DescribeGroupResponse,
    ListGroupEvents: ListGroupEventsResponse,
    ReportOutOfRange: ReportOutOfRangeResponse,
    ListClaims: ListClaimsResponse,
    FinishClaims: FinishClaimsResponse,
    BeginClaims: BeginClaimsResponse,
    DescribeCluster: DescribeClusterResponse,
    ReassignShards: ReassignShardsResponse,
    ElectLeaders: ElectLeadersResponse,
    DrainNode: DrainNodeResponse,
    operator.ChangePause: operator.ChangePauseResponse,
    operator.ChangeDrain: operator.ChangeDrainResponse,
    operator.ResetOffsets: operator.ResetOffsetsResponse,
    operator.CancelResets: operator.CancelResetsResponse,
    operator.DeleteOffsets: operator.DeleteOffsetsResponse,
    operator.DeleteGroup: operator.DeleteGroupResponse,
    operator.ReleaseClaims: operator.ReleaseClaimsResponse,
    operator.DescribeControls: operator.DescribeControlsResponse,
}
"""The response that answers each request; any request may be answered by ErrorResponse instead."""
