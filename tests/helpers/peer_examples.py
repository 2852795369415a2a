"""One example of each message and piece that nodes say to each other, with no field at its default."""

from coordinator.protocol import peer_messages as wire

PARTS = (
    wire.ShardProgress(3, 4, 5, 600),
    wire.ShardRecords(3, 4, 5, 590, (wire.RecordBatch(600, 4, (b"one", b"two")),)),
    wire.RecordBatch(600, 4, (b"one", b"two")),
    wire.Streaming(),
    wire.Diverged(3, 580),
    wire.BelowLogStart(550),
    wire.Fenced(),
    wire.UnknownEpoch(),
    wire.ShardState(3, 2, 4, (2, 1), (1, 2, 3), 7, 12, 4),
    wire.ShardLeader(4, 1, 9),
    wire.ShardStop(5, 2),
    wire.NodeAddress("peers", "n1:9293"),
    wire.NodeInfo(1, 11, (wire.NodeAddress("peers", "n1:9293"),), 2, True),
)

HELLO = wire.PeerHello("the cluster", 2, 12, "1.0", 17, 16)

MESSAGES: tuple[wire.PeerMessage, ...] = (
    wire.ReplicaFetch(3, 4, 5, 600, 3),
    wire.ReplicaProgress(77, (wire.ShardProgress(3, 4, 5, 600),)),
    wire.ReplicaStop(3, 4),
    wire.CutRefused(3, 4, 590),
    wire.FetchSnapshot(3, 4, 6, 550, 4096),
    wire.ReplicaFetchAnswer(3, 4, 5, wire.Diverged(3, 580)),
    wire.ReplicaRecords(78, (wire.ShardRecords(3, 4, 5, 590, (wire.RecordBatch(600, 4, (b"one", b"two")),)),)),
    wire.Confirm(79),
    wire.SnapshotPiece(3, 4, 6, 550, 3, 1, True, 8192, (b"one", b"two")),
    wire.SnapshotRefused(3, 4, 6, "it leads no longer"),
    wire.TellNode(
        controller_id=1,
        controller_epoch=8,
        node_epoch=12,
        number=2,
        is_init=True,
        states=(wire.ShardState(3, 2, 4, (2, 1), (1, 2, 3), 7, 12, 4),),
        leaders=(wire.ShardLeader(4, 1, 9),),
        stops=(wire.ShardStop(5, 2),),
        unreadable=(6,),
        nodes=(wire.NodeInfo(1, 11, (wire.NodeAddress("peers", "n1:9293"),), 2, True),),
    ),
    wire.NodeAnswered(8, 2),
    wire.StepDown(3, 4, wire.StepDownReason.CANNOT_LOAD, "its log is damaged", 2),
)

ABOUT_THE_CONNECTION = (wire.PeerPing(), wire.PeerClosing("it is stopped"))
