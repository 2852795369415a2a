"""Kafka's side of a mirror in a `NodeWorld`: it has the offsets of writes that it took, and answers as a test says."""

from coordinator.core.effects import MirrorOffsets
from coordinator.core.mirror.events import MirrorAnswered, Outcome
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import CommitOffsets, CommitOffsetsResponse
from tests.helpers.node_world import NodeWorld


class MirroredKafka:
    """The groups of a Kafka; a test takes writes out of the world and has them answered, at once or later."""

    def __init__(self, world: NodeWorld) -> None:
        self._world = world
        self.offsets: dict[str, dict[tuple[str, int], int]] = {}
        self._seen = 0

    def asked(self) -> list[MirrorOffsets]:
        """Return the writes that the node has asked for since the last call."""
        new, self._seen = self._world.mirrored[self._seen :], len(self._world.mirrored)
        return [effect for effect in new if isinstance(effect, MirrorOffsets)]

    def take(self, write: MirrorOffsets) -> None:
        """Take a write as Kafka does, without an answer."""
        group = self.offsets.setdefault(write.group_id, {})
        for each in write.topics:
            group |= {(each.topic, number): at for number, at in zip(each.partitions, each.offsets, strict=True)}
        for topic, numbers in write.deleted:
            for number in numbers:
                group.pop((topic, number), None)

    def answer(
        self, write: MirrorOffsets, outcome: Outcome = Outcome.DONE, why: str = "", *refused: tuple[str, int, str]
    ) -> None:
        """Answer a write, which is taken where it is done."""
        if outcome is Outcome.DONE:
            self.take(write)
        self._world.happen(MirrorAnswered(write.shard, write.group_id, write.attempt, outcome, why, refused))

    def go_on(self, ms: int) -> list[MirrorOffsets]:
        """Let time pass with a Kafka that takes everything at once; returns what it was asked."""
        asked: list[MirrorOffsets] = []
        for _ in range(max(1, ms // 100)):
            self._world.advance(100)
            for write in self.asked():
                asked.append(write)
                self.answer(write)
        return asked


def commit_of(group_id: str, **offsets: int) -> CommitOffsets:
    """Return a commit as a tool makes it, of partitions that are named t0, t1, u0 ..."""
    parts = tuple(OffsetToCommit(name[0], int(name[1:]), offset) for name, offset in offsets.items())
    return CommitOffsets(group_id, in_columns(parts))


def commit(world: NodeWorld, group_id: str, **offsets: int) -> None:
    """Have offsets committed, as `commit_of` names them."""
    response = world.connect().ask(commit_of(group_id, **offsets), CommitOffsetsResponse)
    assert not response.refused, response.refused
