import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

from coordinator.config import KafkaSettings
from coordinator.core.effects import OffsetToResolve
from coordinator.core.events import (
    EndOffsetsRead,
    Event,
    KafkaFailed,
    OffsetsResolved,
    ResolvedOffset,
    TopicMetadata,
    TopicsRead,
)
from coordinator.protocol.ids import EARLIEST, LATEST
from coordinator.runtime.kafka.client import ClusterView, EndsAnswer, KafkaAwayError
from coordinator.runtime.kafka.port import ENDS_AT_ONCE, KafkaPort
from coordinator.runtime.kafka.questions import ask_apart
from tests.helpers.loopback import RememberedLog
from tests.helpers.waiting import wait_until

PATIENCE_S = 60.0


class ScriptedKafka:
    """A cluster whose leaders move and which can be away; remembers what it was asked."""

    def __init__(self) -> None:
        self.leaders: dict[tuple[str, int], int] = {("t", 0): 1}
        self.known_leaders = dict(self.leaders)
        self.topic_ids: dict[str, str] = {}
        self.is_away = False
        self.asked: list[tuple[str, object]] = []
        self.interrupted = threading.Event()
        self.blocks = False

    def read_topics(self, names: frozenset[str]) -> ClusterView:
        self.asked.append(("topics", names))
        if self.blocks:
            assert self.interrupted.wait(PATIENCE_S)
            raise KafkaAwayError("interrupted")
        if self.is_away:
            raise KafkaAwayError("Kafka at x cannot be reached: gone")
        self.known_leaders = dict(self.leaders)
        topics = {
            name: TopicMetadata(name, self.topic_ids.get(name, "id"), (self.leaders.get((name, 0)),)) for name in names
        }
        return ClusterView(topics, frozenset(), {}, {1: ("h", 1)}, "c")

    def read_all_topics(self, names: frozenset[str]) -> ClusterView:
        return self.read_topics(names | {"other"})

    def list_offsets(
        self, offsets: Sequence[OffsetToResolve], leaders: Mapping[tuple[str, int], int]
    ) -> list[ResolvedOffset]:
        self.asked.append(("offsets", tuple(offsets)))
        if self.is_away:
            raise KafkaAwayError("Kafka at x cannot be reached: gone")
        return [
            ResolvedOffset(asked.topic, asked.partition, 5)
            if leaders.get((asked.topic, asked.partition)) == self.leaders[asked.topic, asked.partition]
            else ResolvedOffset(asked.topic, asked.partition, None, why="NotLeaderForPartitionError")
            for asked in offsets
        ]

    def list_ends(self, offsets: Sequence[OffsetToResolve], leaders: Mapping[tuple[str, int], int]) -> EndsAnswer:
        return EndsAnswer(self.list_offsets(offsets, leaders), 0.0)

    def interrupt(self) -> None:
        self.interrupted.set()

    def close(self) -> None:
        self.asked.append(("close", None))


class Inbox:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.came = threading.Condition()

    def post(self, event: Event) -> None:
        with self.came:
            self.events.append(event)
            self.came.notify_all()

    def wait_for(self, kind: type[Event], count: int = 1) -> list[Any]:
        def found() -> list[Event]:
            return [event for event in self.events if isinstance(event, kind)]

        with self.came:
            assert self.came.wait_for(lambda: len(found()) >= count, PATIENCE_S)
        return found()

    def wait_for_topic(self, name: str) -> TopicsRead:
        """Return what told of a topic: the first look may be before it is watched or after."""

        def telling() -> TopicsRead | None:
            read = (event for event in self.events if isinstance(event, TopicsRead))
            return next((event for event in read if name in event.topics or name in event.refused), None)

        with self.came:
            told = self.came.wait_for(telling, PATIENCE_S)
        assert told is not None, f"nobody told of {name}"
        return told


@contextmanager
def running(
    kafka: ScriptedKafka,
    connect: Callable[[], object] | None = None,
    ends_poll_ms: int = 60_000,
    log: RememberedLog | None = None,
) -> Iterator[tuple[KafkaPort, Inbox]]:
    inbox = Inbox()
    settings = KafkaSettings(topics_poll_ms=60_000, ends_poll_ms=ends_poll_ms)
    port = KafkaPort(settings, inbox.post, (log or RememberedLog()).logger, cast(Any, connect or (lambda: kafka)))
    port.start()
    try:
        yield port, inbox
    finally:
        port.close()


def test_a_lookup_follows_a_leader_that_moved() -> None:
    kafka = ScriptedKafka()
    with running(kafka) as (port, inbox):
        port.watch_topics(frozenset({"t"}))
        inbox.wait_for_topic("t")
        kafka.leaders["t", 0] = 2
        port.resolve_offsets(4, [OffsetToResolve("t", 0, LATEST)])
        (resolved,) = inbox.wait_for(OffsetsResolved)
    topics = {"t": TopicMetadata("t", "id", (2,))}
    assert resolved == OffsetsResolved(4, (ResolvedOffset("t", 0, 5),), topics)


def test_a_lookup_tells_of_a_topic_that_nobody_polls_as_it_is_then() -> None:
    kafka = ScriptedKafka()
    kafka.leaders["u", 0] = 1
    with running(kafka) as (port, inbox):
        port.watch_topics(frozenset({"t"}))
        inbox.wait_for_topic("t")
        for count, topic_id in enumerate(("before", "again"), 1):
            kafka.topic_ids["u"] = topic_id
            port.resolve_offsets(count, [OffsetToResolve("u", 0, LATEST)])
            resolved = inbox.wait_for(OffsetsResolved, count)[-1]
            assert resolved.topics == {"u": TopicMetadata("u", topic_id, (1,))}


def test_a_lookup_that_asks_for_topics_tells_first_of_one_that_was_made_again_since_the_last_poll() -> None:
    kafka = ScriptedKafka()
    with running(kafka) as (port, inbox):
        port.watch_topics(frozenset({"t"}))
        inbox.wait_for_topic("t")
        kafka.topic_ids["t"] = "again"
        port.resolve_offsets(4, [OffsetToResolve("t", 0, LATEST)], asks_topics=True)
        (resolved,) = inbox.wait_for(OffsetsResolved)
        read = inbox.events[inbox.events.index(resolved) - 1]
    now = {"t": TopicMetadata("t", "again", (1,))}
    assert resolved == OffsetsResolved(4, (ResolvedOffset("t", 0, 5),), now)
    assert isinstance(read, TopicsRead)
    assert read.topics == now


def test_a_polled_topic_that_one_broker_is_late_with_is_asked_about_once_more() -> None:
    kafka = ScriptedKafka()
    with running(kafka) as (port, inbox):
        port.watch_topics(frozenset({"t"}))
        inbox.wait_for_topic("t")
        read_topics, late = kafka.read_topics, [True]

        def lacks_it_once(names: frozenset[str]) -> ClusterView:
            view = read_topics(names)
            return replace(view, topics={}, absent=names) if late and late.pop() else view

        kafka.read_topics = lacks_it_once  # type: ignore[method-assign]
        port.resolve_offsets(4, [OffsetToResolve("t", 0, LATEST)], asks_topics=True)
        (resolved,) = inbox.wait_for(OffsetsResolved)
    assert resolved.offsets == (ResolvedOffset("t", 0, 5),)


def test_lookups_do_not_count_as_polls_that_found_a_topic_absent() -> None:
    kafka = ScriptedKafka()
    with running(kafka) as (port, inbox):
        port.watch_topics(frozenset({"t"}))
        inbox.wait_for_topic("t")
        read_topics = kafka.read_topics
        kafka.read_topics = lambda names: replace(  # type: ignore[method-assign]
            read_topics(names), topics={}, absent=names
        )
        for count in (1, 2):  # as often as the core takes for a sign that it was deleted
            port.resolve_offsets(count, [OffsetToResolve("t", 0, LATEST)], asks_topics=True)
            assert inbox.wait_for(OffsetsResolved, count)[-1].offsets[0].is_absent
        assert not any(event.absent for event in inbox.wait_for(TopicsRead))


def test_many_lookups_keep_no_new_topic_waiting() -> None:
    kafka = ScriptedKafka()
    kafka.leaders["u", 0] = 1
    list_offsets = kafka.list_offsets
    with running(kafka) as (port, inbox):
        port.watch_topics(frozenset({"t"}))
        inbox.wait_for_topic("t")

        def list_and_watch(
            offsets: Sequence[OffsetToResolve], leaders: Mapping[tuple[str, int], int]
        ) -> list[ResolvedOffset]:
            if offsets[0].timestamp_ms == EARLIEST:
                for count in range(2, 5):
                    port.resolve_offsets(count, [OffsetToResolve("t", 0, LATEST)])
                port.watch_topics(frozenset({"t", "u"}))
            return list_offsets(offsets, leaders)

        kafka.list_offsets = list_and_watch  # type: ignore[method-assign]
        port.resolve_offsets(1, [OffsetToResolve("t", 0, EARLIEST)])
        inbox.wait_for(OffsetsResolved, 4)
        told = inbox.wait_for_topic("u")
        answered = [event for event in inbox.events[: inbox.events.index(told)] if isinstance(event, OffsetsResolved)]
    assert [event.lookup_id for event in answered] == [1]


def test_a_lookup_that_stays_unanswered_says_why() -> None:
    kafka = ScriptedKafka()
    kafka.leaders["t", 0] = 7
    kafka.list_offsets = lambda offsets, _: [  # type: ignore[method-assign]
        ResolvedOffset(asked.topic, asked.partition, None, why="NotLeaderForPartitionError") for asked in offsets
    ]
    with running(kafka) as (port, inbox):
        port.resolve_offsets(4, [OffsetToResolve("t", 0, LATEST)])
        (resolved,) = inbox.wait_for(OffsetsResolved)
    assert resolved.offsets == (ResolvedOffset("t", 0, None, why="NotLeaderForPartitionError"),)


def test_only_new_topics_are_asked_about_between_two_polls() -> None:
    kafka = ScriptedKafka()
    with running(kafka) as (port, inbox):
        inbox.wait_for(TopicsRead, 1)
        port.watch_topics(frozenset({"t"}))
        inbox.wait_for(TopicsRead, 2)
        port.watch_topics(frozenset({"t", "u"}))
        inbox.wait_for(TopicsRead, 3)
    assert [names for what, names in kafka.asked if what == "topics"] == [
        frozenset(),
        frozenset({"t"}),
        frozenset({"u"}),
    ]


def test_all_topics_are_listed_at_once_when_they_are_wanted_and_no_longer_than_that() -> None:
    kafka = ScriptedKafka()
    with running(kafka) as (port, inbox):
        port.watch_topics(frozenset({"t"}), lists_all=False)
        inbox.wait_for_topic("t")
        before = len(inbox.wait_for(TopicsRead))
        port.watch_topics(frozenset({"t"}), lists_all=True)
        read = inbox.wait_for(TopicsRead, before + 1)[-1]
        assert (set(read.topics), read.is_whole) == ({"t", "other"}, True)
        port.watch_topics(frozenset({"t", "u"}), lists_all=False)
        read = inbox.wait_for(TopicsRead, before + 2)[-1]
    assert (set(read.topics), read.is_whole) == ({"u"}, False)


def test_after_a_failure_everything_watched_is_asked_again_over_a_new_client() -> None:
    kafka = ScriptedKafka()
    made = []

    def connect() -> ScriptedKafka:
        made.append(1)
        return kafka

    with running(kafka, connect) as (port, inbox):
        port.watch_topics(frozenset({"t"}))
        inbox.wait_for_topic("t")
        kafka.is_away = True
        port.resolve_offsets(4, [OffsetToResolve("t", 0, LATEST)])
        (resolved,) = inbox.wait_for(OffsetsResolved)
        assert resolved.offsets[0].why == "Kafka at x cannot be reached: gone"
        inbox.wait_for(KafkaFailed, 2)
        kafka.asked.clear()
        reads = len(inbox.wait_for(TopicsRead))
        kafka.is_away = False
        last = inbox.wait_for(TopicsRead, reads + 1)[-1]
    assert "t" in last.topics
    assert len(made) >= 3
    assert ("close", None) in kafka.asked


def test_a_broker_that_has_only_begun_proves_nothing_about_topics() -> None:
    """It said of each that there is none, and twice in a row that stood for topics that were deleted."""

    class Begun(ScriptedKafka):
        has_only_begun = False

        def read_topics(self, names: frozenset[str]) -> ClusterView:
            view = super().read_topics(names)
            return ClusterView({}, names, {}, {}, None) if self.has_only_begun else view

    kafka = Begun()
    with running(kafka) as (port, inbox):
        port.watch_topics(frozenset({"t"}))
        inbox.wait_for_topic("t")
        kafka.has_only_begun = True
        port.resolve_offsets(4, [OffsetToResolve("u", 0, LATEST)])
        (resolved,) = inbox.wait_for(OffsetsResolved)
        assert (resolved.offsets[0].offset, resolved.offsets[0].is_absent) == (None, False)
        assert "the broker that answered has only begun" in resolved.offsets[0].why
        for lists_all in (False, True):
            port.watch_topics(frozenset({"t"}), lists_all=lists_all)
            inbox.wait_for(KafkaFailed, 3 if lists_all else 2)
        reads = len(inbox.wait_for(TopicsRead))
        kafka.has_only_begun = False
        inbox.wait_for(TopicsRead, reads + 1)
    assert [event for event in inbox.events if isinstance(event, TopicsRead) and event.absent] == []


def test_closing_interrupts_the_call_in_progress_and_says_nothing_more() -> None:
    kafka = ScriptedKafka()
    kafka.blocks = True
    with running(kafka) as (port, inbox):
        wait_until(lambda: kafka.asked != [], what="the call that blocks")
        port.close(timeout_s=30)
    assert kafka.interrupted.is_set()
    assert inbox.events == []


def test_a_thread_that_meets_a_bug_says_so_and_begins_anew() -> None:
    kafka, failures = ScriptedKafka(), iter([AssertionError("a bug"), AssertionError("a bug")])

    def connect() -> ScriptedKafka:
        for error in failures:
            raise error
        return kafka

    log = RememberedLog()
    with running(kafka, connect, log=log) as (port, inbox):
        port.watch_topics(frozenset({"t"}))
        port.resolve_offsets(4, [OffsetToResolve("t", 0, LATEST)])
        failed = inbox.wait_for(KafkaFailed, 2)
        assert inbox.wait_for(TopicsRead)
    why = "Kafka is not asked for now, since the thread that asks it met a bug (AssertionError)"
    assert {event.why for event in failed} == {why}
    assert [line["why"] for line in log.of("bug")] == ["the thread that asks Kafka met a bug; it begins anew"] * 2


class Stumbling(ScriptedKafka):
    """A cluster whose client stumbles over some questions, as over numbers that its protocol cannot hold."""

    def __init__(self) -> None:
        super().__init__()
        self.leaders = {("t", number): 1 for number in range(100)}
        self.bad_topics: set[str] = set()
        self.bad_numbers: set[int] = set()
        self.clients = 0

    def connect(self) -> "Stumbling":
        self.clients += 1
        return self

    def read_topics(self, names: frozenset[str]) -> ClusterView:
        if not self.bad_topics.isdisjoint(names):
            raise OverflowError("cannot be written")
        topics = {name: TopicMetadata(name, "id", (1,) * 100) for name in names}
        return ClusterView(topics, frozenset(), {}, {1: ("h", 1)}, "c")

    def list_offsets(
        self, offsets: Sequence[OffsetToResolve], leaders: Mapping[tuple[str, int], int]
    ) -> list[ResolvedOffset]:
        if not self.bad_numbers.isdisjoint(asked.partition for asked in offsets):
            raise OverflowError("cannot be written")
        return [ResolvedOffset(asked.topic, asked.partition, 5) for asked in offsets]


def test_a_bad_question_costs_only_itself() -> None:
    kafka, log = Stumbling(), RememberedLog()
    kafka.bad_numbers = {3, 70}
    with running(kafka, kafka.connect, log=log) as (port, inbox):
        port.watch_topics(frozenset({"t"}))
        inbox.wait_for_topic("t")
        port.resolve_offsets(4, [OffsetToResolve("t", number, LATEST) for number in range(100)])
        (resolved,) = inbox.wait_for(OffsetsResolved)
        assert not [event for event in inbox.events if isinstance(event, KafkaFailed)]
    assert [each.partition for each in resolved.offsets] == list(range(100))
    assert {each.partition for each in resolved.offsets if each.offset is None} == {3, 70}
    assert resolved.offsets[3].why == "it cannot be asked, by a bug of the coordinator's (OverflowError)"
    assert log.of("bug")


def test_a_question_that_the_thread_stumbles_over_is_answered_all_the_same() -> None:
    """Nobody asks again about what has no answer: the partition whose start it is would stay nobody's for ever."""

    class LeavingOut(Stumbling):
        def list_offsets(self, *_: object) -> list[ResolvedOffset]:
            return []

    kafka, log = LeavingOut(), RememberedLog()
    with running(kafka, kafka.connect, log=log) as (port, inbox):
        port.watch_topics(frozenset({"t"}))
        inbox.wait_for(TopicsRead)
        port.resolve_offsets(4, [OffsetToResolve("t", 0, LATEST)])
        (resolved,) = inbox.wait_for(OffsetsResolved)
    assert (resolved.lookup_id, [each.offset for each in resolved.offsets]) == (4, [None])
    assert "since the thread that asks it met a bug (KeyError)" in resolved.offsets[0].why
    assert log.of("bug")


def test_a_topic_that_cannot_be_asked_about_is_refused_and_the_others_are_told_of() -> None:
    kafka = Stumbling()
    kafka.bad_topics = {"bad"}
    with running(kafka, kafka.connect) as (port, inbox):
        port.watch_topics(frozenset({"a", "b", "bad", "c"}))
        read = inbox.wait_for_topic("bad")
    assert (sorted(read.topics), sorted(read.refused)) == (["a", "b", "c"], ["bad"])
    assert read.brokers == {1: ("h", 1)}


def test_ends_of_the_other_partitions_are_read_where_one_cannot_be_asked_about() -> None:
    kafka = Stumbling()
    kafka.bad_numbers = {7}
    with running(kafka, kafka.connect, ends_poll_ms=100) as (port, inbox):
        port.watch_topics(frozenset({"t"}))
        ends = next(event.ends for event in inbox.wait_for(EndOffsetsRead) if event.ends)
    assert {number for _, number in ends} == set(range(100)) - {7}


def test_a_question_of_bad_items_alone_is_given_up_in_time() -> None:
    tries = []

    def ask(items: Sequence[int]) -> list[int]:
        tries.append(items)
        raise OverflowError

    answers = ask_apart(range(10_000), ask, lambda items, _: list(items))
    assert [each for answer in answers for each in answer] == list(range(10_000))
    assert len(tries) < 200


class ManyPartitions(ScriptedKafka):
    """A cluster with topics of several pieces, where something may happen while the first piece of ends is read."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.unknown: set[int] = set()
        self.during_first_piece: Callable[[], None] = lambda: None

    def read_topics(self, names: frozenset[str]) -> ClusterView:
        self.asked.append(("topics", names))
        topics = {name: TopicMetadata(name, "id", (1,) * self.count) for name in names}
        return ClusterView(topics, frozenset(), {}, {1: ("h", 1)}, "c")

    def list_offsets(
        self, offsets: Sequence[OffsetToResolve], leaders: Mapping[tuple[str, int], int]
    ) -> list[ResolvedOffset]:
        self.asked.append(("offsets", tuple(offsets)))
        if len(offsets) > 1:
            act, self.during_first_piece = self.during_first_piece, lambda: None
            act()
        return [
            ResolvedOffset(asked.topic, asked.partition, None if asked.partition in self.unknown else asked.partition)
            for asked in offsets
        ]

    @property
    def pieces(self) -> list[int]:
        """How many partitions each request asked about; 0 stands for a look at topics."""
        return [len(cast(tuple[object, ...], asked)) if kind == "offsets" else 0 for kind, asked in self.asked]


def test_ends_of_many_partitions_are_read_in_pieces_and_told_of_together() -> None:
    count = 2 * ENDS_AT_ONCE + 1
    kafka = ManyPartitions(count)
    with running(kafka, ends_poll_ms=100) as (port, inbox):
        port.watch_topics(frozenset({"t"}))
        ends = inbox.wait_for(EndOffsetsRead)[0].ends
    assert ends == {("t", number): number for number in range(count)}
    assert [piece for piece in kafka.pieces if piece][:3] == [ENDS_AT_ONCE, ENDS_AT_ONCE, 1]


def test_ends_that_take_long_to_read_are_read_less_often() -> None:
    kafka = ManyPartitions(2)
    begun_s: list[float] = []

    def take_long() -> None:
        begun_s.append(time.monotonic())
        time.sleep(0.03)
        kafka.during_first_piece = take_long

    kafka.during_first_piece = take_long
    with running(kafka, ends_poll_ms=100) as (port, inbox):
        port.watch_topics(frozenset({"t"}))
        inbox.wait_for(EndOffsetsRead, 3)
    assert begun_s[2] - begun_s[1] >= 0.5  # a tenth of the time would be 0.3 s


def test_waiting_for_a_leader_that_does_not_answer_delays_no_reading_of_ends() -> None:
    kafka = ManyPartitions(2)
    kafka.unknown = {1}
    begun_s: list[float] = []

    def wait(offsets: Sequence[OffsetToResolve], leaders: Mapping[tuple[str, int], int]) -> EndsAnswer:
        begun_s.append(time.monotonic())
        time.sleep(0.5)
        return EndsAnswer(kafka.list_offsets(offsets, leaders), time.monotonic() - begun_s[-1])

    kafka.list_ends = wait  # type: ignore[method-assign]
    with running(kafka, ends_poll_ms=100) as (port, inbox):
        port.watch_topics(frozenset({"t"}))
        ends = inbox.wait_for(EndOffsetsRead, 3)[-1].ends
    assert ends == {("t", 0): 0}
    assert begun_s[2] - begun_s[1] < 10  # as work it would be that, and here it is less than one


def test_a_lookup_does_not_wait_until_the_ends_of_all_partitions_are_read() -> None:
    kafka = ManyPartitions(3 * ENDS_AT_ONCE)
    with running(kafka, ends_poll_ms=100) as (port, inbox):
        kafka.during_first_piece = lambda: port.resolve_offsets(7, (OffsetToResolve("t", 0, EARLIEST),))
        port.watch_topics(frozenset({"t"}))
        inbox.wait_for(EndOffsetsRead)
        inbox.wait_for(OffsetsResolved)
    assert [piece for piece in kafka.pieces if piece][:4] == [ENDS_AT_ONCE, 1, ENDS_AT_ONCE, ENDS_AT_ONCE]


def test_ends_that_cannot_be_read_have_the_topics_looked_at_once_a_round() -> None:
    count = 3 * ENDS_AT_ONCE
    kafka = ManyPartitions(count)
    kafka.unknown = set(range(0, count, 2))
    with running(kafka, ends_poll_ms=100) as (port, inbox):
        port.watch_topics(frozenset({"t"}))
        ends = inbox.wait_for(EndOffsetsRead, 2)[0].ends
    assert ends == {("t", number): number for number in range(1, count, 2)}
    first = kafka.pieces.index(ENDS_AT_ONCE)
    assert kafka.pieces[first : first + 5] == [ENDS_AT_ONCE, ENDS_AT_ONCE, ENDS_AT_ONCE, 0, ENDS_AT_ONCE]


def test_ends_of_a_topic_that_is_gone_or_smaller_now_are_not_asked_for() -> None:
    """They could never be read, so that Kafka was asked about all topics with each round of the ends."""

    class Shrunk(ManyPartitions):
        gone: frozenset[str] = frozenset()

        def read_topics(self, names: frozenset[str]) -> ClusterView:
            view = super().read_topics(names)
            topics = {name: topic for name, topic in view.topics.items() if name not in self.gone}
            return replace(view, topics=topics, absent=self.gone & names)

    kafka = Shrunk(3)
    with running(kafka, ends_poll_ms=100) as (port, inbox):
        port.watch_topics(frozenset({"kept", "gone"}))
        inbox.wait_for(EndOffsetsRead)
        kafka.count, kafka.gone, kafka.unknown = 2, frozenset({"gone"}), {2}
        port.watch_topics(frozenset({"kept", "gone", "new"}))
        port.resolve_offsets(1, [OffsetToResolve("gone", 0, LATEST), OffsetToResolve("kept", 9, LATEST)])
        inbox.wait_for(OffsetsResolved)
        inbox.wait_for(EndOffsetsRead, len(inbox.wait_for(EndOffsetsRead)) + 2)
        kafka.asked.clear()
        rounds = len(inbox.wait_for(EndOffsetsRead))
        ends = inbox.wait_for(EndOffsetsRead, rounds + 3)[-1].ends
    assert set(ends) == {("kept", 0), ("kept", 1), ("new", 0), ("new", 1)}
    assert [names for what, names in kafka.asked if what == "topics"] == []


def test_a_topic_that_is_no_longer_watched_is_not_asked_about_in_the_rest_of_a_round() -> None:
    kafka = ManyPartitions(ENDS_AT_ONCE)
    with running(kafka, ends_poll_ms=100) as (port, inbox):
        kafka.during_first_piece = lambda: port.watch_topics(frozenset({"new"}))
        port.watch_topics(frozenset({"old", "older"}))
        inbox.wait_for(EndOffsetsRead, 2)
    asked = [{each.topic for each in cast(Any, of)} for kind, of in kafka.asked if kind == "offsets"]
    assert len(asked[0]) == 1
    assert asked[0] < {"old", "older"}
    assert asked[1:] == [{"new"}] * len(asked[1:])


def test_a_round_that_failed_begins_anew() -> None:
    count = 3 * ENDS_AT_ONCE
    kafka = ManyPartitions(count)

    def fail() -> None:
        raise KafkaAwayError("Kafka at x cannot be reached: gone")

    with running(kafka, ends_poll_ms=100) as (port, inbox):
        kafka.during_first_piece = fail
        port.watch_topics(frozenset({"t"}))
        inbox.wait_for(KafkaFailed)
        assert inbox.wait_for(EndOffsetsRead)[0].ends == {("t", number): number for number in range(count)}
    assert [piece for piece in kafka.pieces if piece][:4] == [ENDS_AT_ONCE] * 4


def test_what_kafka_does_not_have_is_asked_about_once() -> None:
    kafka = ScriptedKafka()
    read_topics = kafka.read_topics

    def read(names: frozenset[str]) -> ClusterView:
        view = read_topics(names - {"gone"})
        return replace(view, absent=names & {"gone"})

    kafka.read_topics = read  # type: ignore[method-assign]
    asked = [OffsetToResolve("gone", number, LATEST) for number in range(3)]
    asked += [OffsetToResolve("t", 1, LATEST), OffsetToResolve("t", 0, LATEST)]
    with running(kafka) as (port, inbox):
        port.resolve_offsets(4, asked)
        (resolved,) = inbox.wait_for(OffsetsResolved)
    absent = [
        ResolvedOffset("gone", number, None, why="Kafka has no topic gone", is_absent=True) for number in range(3)
    ]
    absent.append(ResolvedOffset("t", 1, None, why="Kafka has no partition 1 of topic t, which has 1", is_absent=True))
    assert resolved.offsets == (*absent, ResolvedOffset("t", 0, 5))
    offsets = [what for kind, what in kafka.asked if kind == "offsets"]
    assert offsets == [(OffsetToResolve("t", 0, LATEST),)]
