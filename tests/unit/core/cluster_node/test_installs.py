"""A leader's snapshot is fetched piece by piece, from one leader over one connection, or the install has failed."""

from msgspec.structs import replace

from coordinator.core.cluster_node.effects import GiveUpInstall, InstallPiece
from coordinator.core.cluster_node.installs import MOST_OF_A_LEADER, Installs
from coordinator.core.log.snapshot import SnapshotPiece
from coordinator.core.peers.effects import SayToPeer
from coordinator.core.replica.effects import InstallSnapshot
from coordinator.core.replica.events import SnapshotFailed
from coordinator.protocol import peer_messages as wire

ASKED = InstallSnapshot(shard=0, leader=1, leader_epoch=4, log_number=3)


def piece(index: int, *, is_last: bool = False, end: int = 50, number: int = 3) -> wire.SnapshotPiece:
    return wire.SnapshotPiece(0, 4, number, end, 3, index, is_last, (index + 1) * 100, (b"r",))


def fetch(end: int | None, position: int) -> SayToPeer:
    return SayToPeer(1, wire.FetchSnapshot(0, 4, 3, end, position))


def taken(index: int, *, is_last: bool = False) -> InstallPiece:
    return InstallPiece(0, 3, SnapshotPiece(50, 3, (b"r",), index, is_last))


FAILED = (GiveUpInstall(0), SnapshotFailed(9, 0, 3))


def test_pieces_are_asked_for_one_after_the_other_and_of_one_snapshot() -> None:
    installs = Installs()
    installs.begin(ASKED)
    assert installs.due() == [fetch(None, 0)]
    assert installs.due() == []
    assert installs.came(1, piece(0)) == [taken(0), fetch(50, 100)]
    assert installs.came(1, piece(1, is_last=True)) == [taken(1, is_last=True)]


def test_a_piece_that_is_not_awaited_is_dropped() -> None:
    installs = Installs()
    assert installs.came(1, piece(0)) == []
    installs.begin(ASKED)
    installs.due()
    installs.came(1, piece(0))
    for peer, odd in ((1, piece(0)), (1, piece(2)), (1, piece(1, end=60)), (2, piece(1)), (1, piece(1, number=2))):
        assert installs.came(peer, odd) == []


def test_a_refusal_or_a_lost_connection_ends_it() -> None:
    refused = wire.SnapshotRefused(0, 4, 3, "not leading")
    installs = Installs()
    installs.begin(ASKED)
    installs.due()
    assert installs.refused(2, refused, 9) is None
    assert installs.refused(1, refused, 9) == FAILED
    assert installs.refused(1, refused, 9) is None
    installs.begin(ASKED)
    installs.due()
    assert installs.end_peer(2, 9) == []
    assert installs.end_peer(1, 9) == [FAILED]


def test_an_install_that_has_everything_does_not_fail_any_more() -> None:
    installs = Installs()
    installs.begin(ASKED)
    installs.due()
    installs.came(1, piece(0, is_last=True))
    assert installs.end_peer(1, 9) == []
    assert installs.refused(1, wire.SnapshotRefused(0, 4, 3, "not leading"), 9) is None


def test_a_shard_that_is_dropped_awaits_nothing() -> None:
    installs = Installs()
    installs.begin(ASKED)
    installs.due()
    installs.ended(0)
    assert installs.came(1, piece(0)) == []


def test_of_one_leader_only_so_many_are_fetched_at_once() -> None:
    installs = Installs()
    for shard in range(MOST_OF_A_LEADER + 2):
        installs.begin(replace(ASKED, shard=shard))
    installs.begin(replace(ASKED, shard=90, leader=2))
    assert [said.peer for said in installs.due()] == [1] * MOST_OF_A_LEADER + [2]
    installs.came(1, piece(0, is_last=True))
    assert installs.due() == [], "its last piece is not on disk yet"
    installs.ended(0)
    assert len(installs.due()) == 1
    assert len(installs.end_peer(1, 9)) == MOST_OF_A_LEADER + 1, "also who was not begun"
