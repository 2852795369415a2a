"""A mirrored group does not wait for the many that are not, and one that waits is seen to wait."""

from collections.abc import Callable, Sequence

from coordinator.core.effects import MirrorOffsets, Notice
from coordinator.core.groups.hard.journal import MarkingJournal
from coordinator.core.groups.hard.operator_records import GroupDeleted
from coordinator.core.groups.hard.records import CommittedPart, OffsetsCommitted
from coordinator.core.mirror.events import MirrorAnswered, Outcome
from coordinator.core.mirror.mirror import Mirror
from coordinator.core.mirror.settings import MirrorSettings

TICK_MS = 100
SETTINGS = MirrorSettings(late_ms=2_000)


def is_orders(group_id: str) -> bool:
    return group_id == "orders"


class Mirrored:
    """The mirror of one shard, in which groups commit, before a Kafka that takes everything at once."""

    def __init__(self, wants: Callable[[str], bool] = is_orders) -> None:
        self.asked: list[str] = []
        self.journal = MarkingJournal(0)
        self.mirror = Mirror(SETTINGS, lambda name: self.asked.append(name) or wants(name), lambda topic: "id")
        self.now_ms = 0
        self.told: list[tuple[str, int]] = []
        self.notices: list[str] = []

    def commit(self, offset: int, *group_ids: str) -> None:
        for group_id in group_ids:
            part = CommittedPart("t", "id", 0, offset, None, "", 0, None)
            self.journal.decide(OffsetsCommitted(group_id, (part,)))

    def tick(self) -> None:
        self.now_ms += TICK_MS
        for effect in self.mirror.look({0: self.journal}, self.now_ms):
            if isinstance(effect, MirrorOffsets):
                self.told += [(effect.group_id, offset) for each in effect.topics for offset in each.offsets]
                done = MirrorAnswered(effect.shard, effect.group_id, effect.attempt, Outcome.DONE)
                self.mirror.answered(done, self.now_ms)
            elif isinstance(effect, Notice):
                self.notices.append(effect.kind)

    def ticks(self, ms: int) -> None:
        for _ in range(ms // TICK_MS):
            self.tick()

    @property
    def delay_s(self) -> float:
        return self.mirror.figures["kcoord_mirror_delay_seconds"]


def names(count: int) -> Sequence[str]:
    return [f"web-{number}" for number in range(count)]


def test_groups_that_are_not_mirrored_keep_none_waiting_however_often_they_commit() -> None:
    mirrored = Mirrored()
    others = names(2_000)
    mirrored.tick()
    for offset in range(100):
        mirrored.commit(offset, *others)
        mirrored.tick()
        assert mirrored.mirror.figures["kcoord_mirror_groups_behind"] <= len(others)
    mirrored.commit(7, "orders")
    mirrored.ticks(1_000)
    assert mirrored.told == [("orders", 7)]
    assert (mirrored.delay_s, mirrored.notices) == (0, [])
    assert len(mirrored.asked) == len(others) + 1, "it is known of each that it is not mirrored"


def test_what_is_mirrored_does_not_wait_for_names_that_are_new() -> None:
    mirrored = Mirrored()
    mirrored.commit(1, "orders")
    mirrored.ticks(20_000)
    mirrored.told.clear()
    mirrored.commit(0, *names(50_000))
    mirrored.commit(2, "orders")
    mirrored.tick()
    assert mirrored.told == [("orders", 2)]


def test_a_group_that_waits_to_be_looked_at_counts_as_behind() -> None:
    mirrored = Mirrored()
    mirrored.commit(1, *names(50_000), "orders")
    mirrored.ticks(1_100)
    assert mirrored.delay_s == 1
    assert mirrored.mirror.figures["kcoord_mirror_groups_behind"] > 30_000
    mirrored.ticks(1_000)
    assert mirrored.notices == ["mirror-late"]
    assert "waits" in mirrored.mirror.lacks
    mirrored.ticks(4_000)
    assert mirrored.told == [("orders", 1)]
    assert (mirrored.delay_s, mirrored.mirror.lacks) == (0, "")
    assert mirrored.notices == ["mirror-late", "mirror-caught-up"]


def test_the_time_that_a_group_has_waited_is_of_its_delay() -> None:
    mirrored = Mirrored(lambda _: True)
    mirrored.commit(1, *names(10_000))
    mirrored.ticks(5_100)
    assert mirrored.delay_s == 5


def test_names_of_groups_that_are_gone_are_forgotten() -> None:
    mirrored = Mirrored()
    mirrored.commit(1, "web")
    mirrored.tick()
    for _ in range(3):
        mirrored.journal.decide(GroupDeleted("web", "ann", "gone", at_ms=0))
        mirrored.tick()
        mirrored.commit(1, "web")
        mirrored.tick()
    assert (mirrored.asked, mirrored.told) == (["web"] * 4, [])
