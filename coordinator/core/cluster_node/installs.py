"""Snapshots that are fetched from leaders, piece by piece: the next is asked for when one has come.

The log stays as it is until the last piece is on disk. What is installed comes from one leader over one connection, and
of one snapshot; if that ends before the last piece has come, the install has failed and the replica asks anew. Of one
leader only so many are fetched at once: their pieces wait for one connection and one disk.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Final, TypeAlias

from coordinator.core.cluster_node.effects import GiveUpInstall, InstallPiece
from coordinator.core.peers import words
from coordinator.core.peers.effects import SayToPeer
from coordinator.core.replica.effects import InstallSnapshot
from coordinator.core.replica.events import SnapshotFailed
from coordinator.protocol import peer_messages as wire

MOST_OF_A_LEADER: Final = 4
"""So many installs are fetched of one leader at once; others wait for one of them to be done."""


@dataclass(slots=True)
class _Install:
    """`pieces` have come, of the snapshot that ends at `end`; the next is at `position`."""

    asked: InstallSnapshot
    is_begun: bool = False
    end: int | None = None
    pieces: int = 0
    position: int = 0
    has_all: bool = False


Failed: TypeAlias = tuple[GiveUpInstall, SnapshotFailed]


class Installs:
    """The installs of a node, at most one a shard."""

    def __init__(self) -> None:
        self._installs: dict[int, _Install] = {}

    def begin(self, asked: InstallSnapshot) -> None:
        """Have a snapshot fetched."""
        self._installs[asked.shard] = _Install(asked)

    def due(self) -> list[SayToPeer]:
        """Ask for the first piece of each install that may begin."""
        if all(install.is_begun for install in self._installs.values()):
            return []
        begun = Counter(install.asked.leader for install in self._installs.values() if install.is_begun)
        said: list[SayToPeer] = []
        for install in self._installs.values():
            if not install.is_begun and begun[install.asked.leader] < MOST_OF_A_LEADER:
                begun[install.asked.leader] += 1
                install.is_begun = True
                said.append(_next(install))
        return said

    def came(self, peer: int, message: wire.SnapshotPiece) -> list[InstallPiece | SayToPeer]:
        """Take a piece if it is the one that is awaited, and ask for the next; raises PeerError."""
        install = self._awaited(peer, message.shard, message.log_number)
        if install is None or install.pieces != message.index or install.end not in (None, message.end):
            return []
        install.end, install.position = message.end, message.next_position
        install.pieces += 1
        install.has_all = message.is_last
        taken = InstallPiece(message.shard, message.log_number, words.piece_in(message))
        return [taken] if message.is_last else [taken, _next(install)]

    def refused(self, peer: int, message: wire.SnapshotRefused, now_ms: int) -> Failed | None:
        """Give up what the leader does not have, or not any more."""
        install = self._awaited(peer, message.shard, message.log_number)
        return None if install is None else self._failed(install, now_ms)

    def end_peer(self, peer: int, now_ms: int) -> list[Failed]:
        """Give up what would have come from a peer whose connection has ended."""
        over = [install for install in self._installs.values() if install.asked.leader == peer and not install.has_all]
        return [self._failed(install, now_ms) for install in over]

    def ended(self, shard: int) -> None:
        """Forget an install: it is done, or its shard is here no longer."""
        self._installs.pop(shard, None)

    def _awaited(self, peer: int, shard: int, log_number: int) -> _Install | None:
        install = self._installs.get(shard)
        if install is None or install.has_all or not install.is_begun:
            return None
        asked = install.asked
        return install if (asked.leader, asked.log_number) == (peer, log_number) else None

    def _failed(self, install: _Install, now_ms: int) -> Failed:
        asked = install.asked
        del self._installs[asked.shard]
        return GiveUpInstall(asked.shard), SnapshotFailed(now_ms, asked.shard, asked.log_number)


def _next(install: _Install) -> SayToPeer:
    asked = install.asked
    message = wire.FetchSnapshot(asked.shard, asked.leader_epoch, asked.log_number, install.end, install.position)
    return SayToPeer(asked.leader, message)
