"""One value of every message and piece of the protocol, with no field at its default, so that each one shows."""

from coordinator.protocol import messages as m
from coordinator.protocol import parts as p
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import operators as o
from coordinator.protocol.messages.log_in import LogIn, LogInResponse
from coordinator.protocol.messages.message import WireMessage

NODE = p.NodeAddress(7, "node-7.example", 9393)
CLAIM = p.Claim("flights", "0tQ", 3, 41, 100, 250)
CLAIMS = p.TopicClaims("flights", "0tQ", (3, 5), (41, 42), (100, 7), (250, 8))
OWNED = p.OwnedPartition("flights", 3, 41)
LOG = p.LogPosition("5d1a", 97)
LOST = p.LostPosition("flights", 3, 41, 260)
FINAL = p.FinalOffset("flights", 3, 41, 250, 5, "batch 9")
TO_COMMIT = p.TopicOffsets("flights", (3,), (250,), (41,), (5,), ("batch 9",), "MEUCA")
COMMITTED = p.CommittedOffset("flights", "0tQ", 3, 250, 5, "batch 9", 1_700_000_000_000)
RESULT = p.PartitionResult("flights", 3, ErrorCode.FENCED_OWNER_EPOCH, "it is m2's now", 300)
STATUS = p.ClaimStatus("flights", 3, 41, p.ClaimState.RUNNING, "taken over", 300)
OUTCOMES = p.Outcomes(7, (RESULT,), (3,))
CLOSED = p.ClosedClaims("taken over", (5, 6), (300, None))
STATUSES = p.ClaimStatuses(7, (STATUS,), (3,), (CLOSED,))
POLICY = p.ResetPolicy("timestamp", 1_600_000_000_000)
HINT = p.StartHint("flights", "0tQ", 3, -2, True, 41)
START = p.StartPartition("flights", "0tQ", 3, 41, 100, 5, "broker-1", 9092, 6)
SUBSCRIPTION = p.Subscription(("flights",), "fl.*", (("flights", 3),), ("secret",))
SUMMARY = p.GroupSummary("team", "Stable", 12, 2, 4096)
MEMBER = p.MemberDescription(
    "m1", "static-1", "spark", "10.0.0.9", 4242, "STABLE", 12, 8, True, 5, 6, False, "read_committed", 250
)
PARTITION = p.PartitionDescription("flights", 3, 250, 900, "m1", 41, True, CLAIM, p.ClaimState.OFFERED, 5, 6)
EVENT = p.GroupEvent(17, 1_700_000_000_000, "taken-over", "m1", "its connection closed", 12, (("flights", 3),), 1200, 5)
NODE_SEEN = p.NodeDescription(7, "ready", "node-7.example", 9393, 4, "rack-a", "1.2.3", True)
SHARD = p.ShardDescription(5, "serving", 4, 7, (7, 8), (7,), 1200, 1198, (8,), (9,), 3)
REPLICAS = p.ShardReplicas(5, (7, 8))
UNCLEAN = p.UncleanLeader(5, 8, 4)
MOVED = p.ShardChange(5, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "node 8 is not there", (7, 9), (7, 8), 9, 7)
TARGET = p.ResetTarget("flights", 3, "shift", -100, "0tQ")
NEW_GROUP = p.NewGroup(POLICY, "hold", 60_000)
RESET = p.ResetResult("flights", 3, ErrorCode.PARTITION_OWNED, "a claim runs", 250, 150, True)
CONTROL = p.ControlDescription("reset-pending", "ann@ops-1", "bad deploy", 1_700_000_000_000, "flights", 3, "m1", 150)

LISTED = p.ListedUpTo(5, "team")
DECIDED = p.ControlsUpTo("partition-paused", "flights", 3)
DESCRIBED = p.DescribedUpTo("m1", "flights", 3)

PARTS = (
    NODE, SUBSCRIPTION, CLAIM, HINT, POLICY, OWNED, START, FINAL, TO_COMMIT, COMMITTED, RESULT, STATUS, SUMMARY, MEMBER,
    PARTITION, EVENT, LOST, LOG, TARGET, RESET, CONTROL, LISTED, DESCRIBED, DECIDED, CLAIMS, OUTCOMES, CLOSED,
    STATUSES, NODE_SEEN, SHARD, REPLICAS, UNCLEAN, MOVED, NEW_GROUP,
)  # fmt: skip

_REFUSED = {"error": ErrorCode.INVALID_REQUEST, "message": "no"}
_BY = {"who": "ann@ops-1", "why": "bad deploy", "is_dry_run": False}

REQUESTS: tuple[m.Request, ...] = (
    m.FindCoordinator("team", 4),
    m.RegisterConsumer(
        group_id="team",
        member_id="m1",
        incarnation="9f3c",
        subscription=SUBSCRIPTION,
        client_id="spark",
        pid=4242,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=300_000,
        instance_id="static-1",
        streams=8,
        assignors=("sticky", "range"),
        ping_interval_ms=1_000,
        auto_commit=True,
        reset_policy=POLICY,
        claims=(CLAIM,),
        hints=(HINT,),
        owned=(OWNED,),
        handover="hold",
        wait_for_topics=True,
        claim_timeout_ms=86_400_000,
        wants_streams=True,
        application="boot.4026531836.4000.51",
        shares_application=True,
        commits=False,
        is_returning=True,
        isolation_level="read_committed",
        log=LOG,
        is_rejoining=True,
        age_ms=1_500,
        is_leaving=True,
    ),
    m.Ping(12, (TO_COMMIT,), 250),
    m.FetcherStarted((OWNED,)),
    m.FetcherStopped((FINAL,)),
    m.CommitOffsets("team", (TO_COMMIT,)),
    m.FetchOffsets("team", (("flights", 3),), ("flights", 2)),
    m.Advance((CLAIMS,), (p.TopicClaims("flights", "0tQ", (3,), (41,), (250,), (400,)),), (FINAL,), True),
    m.ConfirmClaims((CLAIMS,)),
    m.LeaveGroup((FINAL,)),
    m.ListGroups(LISTED, True),
    m.DescribeGroup("team", DESCRIBED),
    m.ListGroupEvents("team", 16, 1_700_000_000_000, ("taken-over",)),
    m.ReportOutOfRange((LOST,)),
    m.ListClaims((CLAIM,), (HINT,)),
    m.FinishClaims("team", "m1", (CLAIMS,)),
    m.BeginClaims("team", "m1", (CLAIMS,), True),
    m.DescribeCluster(),
    m.ReassignShards((REPLICAS,), **_BY),
    m.ElectLeaders((5,), **_BY, unclean=(UNCLEAN,)),
    m.DrainNode(7, True, **_BY),
    o.ChangePause("team", (("flights", 3),), True, **_BY),
    o.ChangeDrain("team", "m1", True, **_BY),
    o.ResetOffsets("team", (TARGET,), release_claims=True, **_BY, new_group=NEW_GROUP),
    o.CancelResets("team", (("flights", 3),), **_BY, after=("flights", 2)),
    o.DeleteOffsets("team", (("flights", 3),), **_BY),
    o.DeleteGroup("team", **_BY),
    o.ReleaseClaims("team", (("flights", 3),), **_BY),
    o.DescribeControls("team", DECIDED),
)

RESPONSES: tuple[m.Response, ...] = (
    m.ErrorResponse(ErrorCode.UNKNOWN_MEMBER_ID, "register first"),
    m.FindCoordinatorResponse(**_REFUSED, coordinator=NODE, shard=5, leader_epoch=2, nodes=(NODE,),
                              kafka_bootstrap=("broker-1:9092",), kafka_cluster_id="5L6g", successors=(9, 8),
                              patience_ms=25),
    m.RegisterConsumerResponse(**_REFUSED, member_id="m1", member_epoch=11, group_epoch=12, session_timeout_ms=10_000,
                               ping_interval_ms=3_333, claims=STATUSES, kafka_cluster_id="5L6g",
                               kafka_bootstrap=("broker-1:9092",), log=LOG, held=6),
    m.PingResponse(**_REFUSED, member_epoch=11, group_epoch=12, refused=(RESULT,), accepted=4, withheld=(RESULT,),
                   successors=(NODE,)),
    m.FetcherStartedResponse((RESULT,)),
    m.FetcherStoppedResponse((RESULT,)),
    m.CommitOffsetsResponse(**_REFUSED, refused=(RESULT,), accepted=4),
    m.FetchOffsetsResponse(**_REFUSED, offsets=(COMMITTED,), up_to=("flights", 3)),
    m.AdvanceResponse(**_REFUSED, finished=OUTCOMES, claims=OUTCOMES, released=OUTCOMES, log_end=98),
    m.ConfirmClaimsResponse(**_REFUSED, claims=STATUSES, log_end=98),
    m.LeaveGroupResponse(**_REFUSED),
    m.ListGroupsResponse((SUMMARY,), LISTED, (5,)),
    m.DescribeGroupResponse(**_REFUSED, group_id="team", state="Stable", group_epoch=12, assignor="sticky",
                            reset_policy=POLICY, handover="takeover", members=(MEMBER,), partitions=(PARTITION,),
                            forgotten_in_ms=86_400_000, up_to=DESCRIBED, bytes=4096,
                            kafka_failure="gone", claim_timeout_ms=60_000, topic_ids=(("flights", "id-1"),)),
    m.ListGroupEventsResponse(**_REFUSED, events=(EVENT,), up_to=16, last_sequence=18, first_sequence=3),
    m.ReportOutOfRangeResponse((RESULT,)),
    m.ListClaimsResponse(**_REFUSED),
    m.FinishClaimsResponse(**_REFUSED, results=OUTCOMES),
    m.BeginClaimsResponse(**_REFUSED, claims=STATUSES),
    m.DescribeClusterResponse(
        7, (NODE_SEEN,), (SHARD,), "c1", 8, 9, 3, 2, True, ("remove it",), 1_700_000_000_000, "k1", "away"
    ),
    m.ReassignShardsResponse(**_REFUSED, results=(MOVED,)),
    m.ElectLeadersResponse(**_REFUSED, results=(MOVED,)),
    m.DrainNodeResponse(**_REFUSED, led=(5,), kept=(5,)),
    o.ChangePauseResponse(**_REFUSED, partitions=(("flights", 3),), partition_count=5),
    o.ChangeDrainResponse(**_REFUSED, partitions=(("flights", 3),)),
    o.ResetOffsetsResponse(**_REFUSED, results=(RESET,)),
    o.CancelResetsResponse(**_REFUSED, results=(RESULT,), up_to=("flights", 3)),
    o.DeleteOffsetsResponse(**_REFUSED, results=(RESULT,)),
    o.DeleteGroupResponse(**_REFUSED),
    o.ReleaseClaimsResponse(**_REFUSED, results=(RESULT,)),
    o.DescribeControlsResponse(**_REFUSED, controls=(CONTROL,), up_to=DECIDED),
)  # fmt: skip

PUSHES: tuple[m.Push, ...] = (
    m.StartFetcher(
        (START,), True, 11, 12, ("the group has no offset of flights-3: latest, by the group's policy",), 13
    ),
    m.StopFetcher((OWNED,), 300_000, "m2 joined"),
    m.Probe(),
    m.Fenced(ErrorCode.FENCED_MEMBER_EPOCH, "it did not stop in time"),
    m.ClaimsFinished((CLAIM,)),
    m.FetcherTaken((OWNED,), "not let go within 300000 ms"),
)

MESSAGES: tuple[m.Message, ...] = REQUESTS + RESPONSES + PUSHES

LOG_IN = LogIn("SCRAM-SHA-256", b"n,,n=alice,r=x")
LOG_IN_RESPONSE = LogInResponse(**_REFUSED, data=b"r=xy", is_done=True, mechanisms=("SCRAM-SHA-512",))
BEFORE_MEMBERS: tuple[WireMessage, ...] = (LOG_IN, LOG_IN_RESPONSE)
"""Messages of the log-in, which are said before those of members."""
