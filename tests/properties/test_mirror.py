"""Kafka is told nothing that was not committed, of each group at most once an interval, and in the end all of it.

Commits, resets, deletions, restarts, a disk that is slow and a Kafka that answers, fails, or takes a write later than
it has answered, in any order.
"""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.core.effects import MirrorOffsets
from coordinator.core.mirror.events import Outcome
from coordinator.core.mirror.settings import MirrorSettings
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import CommitOffsets
from coordinator.protocol.messages.operators import DeleteOffsets, ResetOffsets
from coordinator.protocol.parts import ResetTarget
from coordinator.protocol.vocabulary import ResetKind
from tests.helpers.mirrored_kafka import MirroredKafka
from tests.helpers.node_world import NodeWorld

SETTINGS = MirrorSettings(settle_ms=3_000)
GROUPS = ("a", "b", "unwanted")
NUMBERS = (0, 1, 2)

partitions = st.tuples(st.sampled_from(GROUPS), st.sampled_from(NUMBERS))
failures = st.sampled_from([Outcome.LATER, Outcome.AWAY, Outcome.HAS_MEMBERS, Outcome.REFUSED])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), partitions, st.integers(10, 100)),
        st.tuples(st.just("reset"), partitions, st.integers(10, 100)),
        st.tuples(st.just("delete"), partitions),
        st.tuples(st.just("wait"), st.sampled_from([100, 400, 1_000, 6_000]), st.booleans()),
        st.just(("sync",)),
        st.just(("answer",)),
        st.tuples(st.just("fail"), failures, st.booleans()),
        st.just(("take late",)),
        st.just(("restart",)),
    ),
    max_size=40,
)


def is_wanted(group_id: str) -> bool:
    return group_id != "unwanted"


@dataclass
class Played:
    """A node, a Kafka, and all that may be expected of them."""

    is_durable_at_once: bool
    world: NodeWorld = field(init=False)
    kafka: MirroredKafka = field(init=False)
    asked: list[MirrorOffsets] = field(default_factory=list)
    late: list[MirrorOffsets] = field(default_factory=list)
    """Writes that Kafka takes though it has failed them."""
    durable: set[tuple[str, int, int]] = field(default_factory=set)
    """Group, partition and offset of all that was committed and durable at some time."""
    deleted: set[tuple[str, int]] = field(default_factory=set)
    whole_ms: dict[str, int] = field(default_factory=dict)
    """When each group was asked for last by a look that nothing has disturbed."""

    def __post_init__(self) -> None:
        self.world = NodeWorld(
            {"t": 3}, mirror=SETTINGS, mirrors=is_wanted, is_durable_at_once=self.is_durable_at_once, shards=1
        )
        self.kafka = MirroredKafka(self.world)

    def state(self) -> dict[str, dict[tuple[str, int], int]]:
        groups = self.world.node.hard_state(0).groups
        return {
            name: {key: part.offset for key, part in group.offsets.items()}
            for name, group in groups.items()
            if len(group.offsets) and is_wanted(name)
        }

    def is_at_rest(self) -> bool:
        assert self.world.around is not None
        figures = self.world.around.mirror.figures
        return not (figures["kcoord_mirror_groups_behind"] or figures["kcoord_mirror_groups_stopped"])

    def look(self) -> None:
        """Take note of what is durable, then hold what Kafka was asked to against it."""
        if self.world.synced[0] == len(self.world.written[0]):
            for name, offsets in self.state().items():
                self.durable |= {(name, number, offset) for (_, number), offset in offsets.items()}
        for write in self.kafka.asked():
            for each in write.topics:
                for number, offset in zip(each.partitions, each.offsets, strict=True):
                    assert (write.group_id, number, offset) in self.durable, f"{write} is ahead"
            began_ms = self.whole_ms.get(write.group_id)
            if self.is_durable_at_once and began_ms is not None:
                assert self.world.now_ms - began_ms >= SETTINGS.interval_ms, f"{write} comes too soon"
            self.whole_ms[write.group_id] = self.world.now_ms
            assert write.group_id not in {other.group_id for other in self.asked}, "one at a time"
            self.asked.append(write)

    def play(self, step: tuple) -> None:
        match step:
            case ("commit", (group_id, number), offset):
                asked = in_columns((OffsetToCommit("t", number, offset),))
                self.world.connect().send(CommitOffsets(group_id, asked))
            case ("reset", (group_id, number), offset):
                target = ResetTarget("t", number, ResetKind.OFFSET, offset)
                self.world.connect().send(ResetOffsets(group_id, (target,), "ann", "why", is_dry_run=False))
            case ("delete", (group_id, number)):
                self.world.connect().send(DeleteOffsets(group_id, (("t", number),), "ann", "why", is_dry_run=False))
                self.deleted.add((group_id, number))
            case ("wait", ms, is_answered):
                for _ in range(ms // 100):
                    self.world.advance(100)
                    self.look()
                    while is_answered and self.asked:
                        self.kafka.answer(self.asked.pop(0))
            case ("sync",):
                self.world.sync()
            case ("answer",) if self.asked:
                self.kafka.answer(self.asked.pop(0))
            case ("fail", outcome, is_taken_late) if self.asked:
                write = self.asked.pop(0)
                self.whole_ms.pop(write.group_id)
                if is_taken_late and outcome in {Outcome.LATER, Outcome.AWAY}:
                    self.late.append(write)
                self.kafka.answer(write, outcome, "not now")
            case ("take late",) if self.late:
                self.kafka.take(self.late.pop(0))
            case ("restart",):
                self.world.sync()
                self.world.restart()
                self.late += self.asked
                self.asked.clear()
                self.whole_ms.clear()
        self.look()


@settings(max_examples=60)
@given(st.booleans(), steps)
def test_kafka_has_in_the_end_what_is_committed_and_never_more(is_durable_at_once, played) -> None:
    one = Played(is_durable_at_once)
    for step in played:
        one.play(step)
    one.world.is_durable_at_once = True
    one.world.sync()
    one.look()
    for write in one.late:
        one.kafka.take(write)
    for tick in range(700):
        for write in one.asked:
            one.kafka.answer(write)
        one.asked.clear()
        one.whole_ms.clear()
        one.world.advance(100)
        one.look()
        if tick * 100 > 2 * SETTINGS.settle_ms and one.is_at_rest():
            break
    else:
        raise AssertionError("Kafka is not caught up with")
    for name, offsets in one.state().items():
        there = one.kafka.offsets[name]
        assert offsets == {key: offset for key, offset in there.items() if key in offsets}
        extra = {(name, number) for _, number in there.keys() - offsets.keys()}
        assert extra <= one.deleted if ("restart",) in played or one.late else not extra
