"""A program that says itself which partitions it reads, in a group or without one, or which topics without a group.

Its calls are the product's own, down to the fetcher and the coordinator, which are simulated. Now and then it seeks,
pauses, commits, interrupts a call, reads something else, does not poll for a while, or ends and begins anew.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final

from coordinator.protocol.columns import one_by_one
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CommitOffsets,
    CommitOffsetsResponse,
    FetchOffsetsResponse,
    Request,
    Response,
)
from spark_kcoord.consumer.calls import Calls
from spark_kcoord.consumer.conduct.flows import Flows
from spark_kcoord.consumer.conduct.wishes import Flow
from spark_kcoord.consumer.core.chunk_rows import Piece
from spark_kcoord.consumer.errors import (
    CommitRefusedError,
    InterruptedPollError,
    OffsetOutOfRangeError,
    StartNotKnownError,
)
from spark_kcoord.consumer.settings import parse_settings
from spark_kcoord.consumer.values import TopicPartition
from spark_kcoord.errors import KcoordError
from spark_kcoord.fetch.tailing.fetched import AT_BEGINNING, AT_END, Fetched
from tests.sim.by_hand.fetcher import HandFetcher
from tests.sim.by_hand.growth import HandGrowth
from tests.sim.by_hand.rules import STARTS, HandRules, Place
from tests.sim.by_hand.shell import Shell
from tests.sim.kafka import Topic

if TYPE_CHECKING:
    from tests.sim.world import World

BETWEEN_MS = (20, 60, 200, 500)
"""Times between two polls."""
NOT_POLLED_MS = (1_500, 4_000)
MOST_RECORDS = (3, 40)
INTERRUPTED_AFTER_MS = (1, 30)
FAR = 1_000_000
HABITS: Final = {
    "polls": 55,
    "commits": 12,
    "seeks": 5,
    "seeks to the group's offset": 3,
    "pauses": 8,
    "resumes": 6,
    "reads something else": 6,
    "reads nothing": 2,
    "is not polled": 3,
    "is interrupted": 3,
    "begins anew": 2,
}
"""The habits of a program, and how often each is followed before a poll."""
SUBSCRIBER: Final = {"reads something else": 25}
"""The habits of one that subscribes, which finds partitions that come with each subscription."""


class Program:
    """One program, which begins anew whenever it ends; `topics` are those that it reads partitions of."""

    def __init__(self, world: "World", name: str, group_id: str | None, topics: Sequence[str], dice: Random) -> None:
        self._world = world
        self._name = name
        self._group_id = group_id
        self._topics = topics
        self._dice = dice
        self._subscribes = group_id is None and dice.random() < 0.6
        self._habits = HABITS | SUBSCRIBER if self._subscribes else HABITS
        self._settings = parse_settings(
            {
                "coordinators": None if group_id is None else "node:1",
                "group_id": group_id,
                "bootstrap_servers": "kafka:1",
                "auto_offset_reset": dice.choice(sorted(STARTS)),
                "wait_for_topics": dice.random() < 0.5,
            }
        )
        self._most = dice.choice(MOST_RECORDS)

    def begin(self) -> None:
        """Begin, with nothing that is read."""
        self._rules = HandRules(self._name, self._settings.reset_policy, self._world.checker.coverage)
        self._fetcher = HandFetcher(self._world.kafka, self._on_news)
        self._flows = _Flows(self._settings, self._world, self._fetcher, self._rules)
        self._calls = Calls(self._settings, self._flows)
        self._shell = Shell(self._world, self._on_asked, self._on_answered)
        self._committed: dict[tuple[str, int], Place] = {}
        self._commits: dict[tuple[str, int], int] = {}
        self._count(f"began {'without a group' if self._group_id is None else 'in a group'}")
        self._world.schedule.tell(self._name, "begins")
        self._later()

    def _later(self) -> None:
        self._world.schedule.after(self._dice.choice(BETWEEN_MS), self._go_round)

    def _count(self, what: str) -> None:
        self._world.checker.coverage[f"by hand {what}"] += 1

    # ---- its rounds -------------------------------------------------------------------------------------------------

    def _go_round(self) -> None:
        """Do something, and poll."""
        if self._world.is_healing:
            return
        self._flows.machine.settle()
        if self._flows.subscription.is_empty:
            self._read_something()
            return
        habit = self._dice.choices(list(self._habits), list(self._habits.values()))[0]
        act = {
            "commits": self._commit,
            "seeks": self._seek,
            "seeks to the group's offset": self._seek_to_committed,
            "pauses": self._pause,
            "resumes": self._resume,
            "reads something else": self._read_something,
            "reads nothing": self._read_nothing,
            "is not polled": self._do_not_poll,
            "is interrupted": self._be_interrupted,
            "begins anew": self.begin,
        }.get(habit, self._poll)
        act()

    def _poll(self) -> None:
        self._flows.machine.settle()
        self._shell.make(self._flows.poll(0, self._most), self._on_polled)

    def _on_polled(self, pieces: Sequence[Piece] | None, error: KcoordError | None) -> None:
        for piece in pieces or ():
            start = piece.rows.column("offset")[0].as_py()
            self._world.schedule.tell(self._name, ("got", piece.key, piece.chunk.topic_id, start, piece.next_offset))
            self._rules.returned(piece.key, piece.chunk.topic_id or "", start, piece.next_offset)
        self._flows.machine.mark_returned(pieces or ())
        self._rules.must_be_of_this_life(self._flows.machine)
        if isinstance(error, OffsetOutOfRangeError | StartNotKnownError):
            self._count("was told that its position is gone")
            for key in error.partitions:
                self._seek_in((key[0], key[1]))
        self._later()

    def _on_news(self, one: Fetched, topic: Topic) -> None:
        held = self._flows.machine.held(one.key)
        if held is not None and held.token == one.token:
            self._rules.news(one, topic)

    # ---- what it reads ----------------------------------------------------------------------------------------------

    def _read_something(self) -> None:
        if self._subscribes:
            topics = [name for name in self._topics if self._dice.random() < 0.7] or [self._topics[0]]
            self._world.schedule.tell(self._name, ("subscribes to", topics))
            self._calls.subscribe(topics, None, None, (), (), add=False)
            self._count("subscribed")
            self._poll()
            return
        starts = self._draw_partitions()
        is_added = self._dice.random() < 0.4
        self._committed.clear()

        def then(_: Any, error: KcoordError | None) -> None:
            if error is None:
                before = {one.key: None for one in self._flows.machine} if is_added else {}
                self._rules.assigned({**before, **starts}, self._committed)
                self._count("assigned")
            self._poll()

        given = {TopicPartition(*key): start for key, start in starts.items()}
        named: Any = given if None not in given.values() else list(given)
        if not isinstance(named, Mapping):
            starts = dict.fromkeys(starts)
        self._world.schedule.tell(self._name, ("assigns", starts, is_added))
        self._make(self._calls.assign(named, add=is_added), then)

    def _draw_partitions(self) -> dict[tuple[str, int], int | None]:
        """Draw some partitions, with or without a start."""
        kafka = self._world.kafka
        every = [(name, number) for name in self._topics for number in range(2)]
        there = [key for key in every if kafka.has(*key)] or every[:1]
        names_offsets = self._dice.random() < 0.2
        mine = sorted(self._dice.sample(there, min(len(there), self._dice.choice((1, 2, 3)))))
        return {key: self._some_offset(key) if names_offsets else None for key in mine}

    def _some_offset(self, key: tuple[str, int]) -> int:
        topic = self._world.kafka.topics.get(key[0])
        return self._dice.randint(0, topic.ends[key[1]]) if topic is not None and key[1] < len(topic.ends) else 0

    def _read_nothing(self) -> None:
        def then(_: Any, error: KcoordError | None) -> None:
            assert error is None
            self._rules.unsubscribed()
            self._later()

        self._world.schedule.tell(self._name, "unsubscribes")
        self._make(self._flows.unsubscribe(), then)

    # ---- where it reads ---------------------------------------------------------------------------------------------

    def _some_key(self) -> tuple[str, int] | None:
        keys = self._flows.machine.keys
        return self._dice.choice(keys) if keys else None

    def _seek(self) -> None:
        key = self._some_key()
        if key is not None:
            self._seek_in(key)
        self._poll()

    def _seek_in(self, key: tuple[str, int]) -> None:
        """Seek: into the log, to an end of it, or where nothing is."""
        position = self._dice.choice((AT_BEGINNING, AT_END, FAR, self._some_offset(key), self._some_offset(key)))
        self._world.schedule.tell(self._name, ("seeks", key, position))
        self._count("sought")
        self._rules.sought(key, Place("", position))
        if position < 0:
            self._calls.seek_all([TopicPartition(*key)], position)
        else:
            self._calls.seek(TopicPartition(*key), position)

    def _seek_to_committed(self) -> None:
        key = self._some_key()
        if key is None or self._group_id is None:
            self._poll()
            return
        self._committed.clear()

        def then(_: Any, error: KcoordError | None) -> None:
            if error is None:
                self._count("sought to the group's offset")
                self._rules.sought_to_group(key, self._committed[key])
            self._poll()

        self._world.schedule.tell(self._name, ("seeks to the group's offset", key))
        self._make(self._calls.seek_to_committed([TopicPartition(*key)], None), then)

    def _pause(self) -> None:
        keys = [key for key in self._flows.machine.keys if self._dice.random() < 0.6]
        self._world.schedule.tell(self._name, ("pauses", keys))
        self._count("paused")
        self._calls.pause([TopicPartition(*key) for key in keys])
        self._poll()

    def _resume(self) -> None:
        self._world.schedule.tell(self._name, "resumes")
        self._calls.resume([TopicPartition(*key) for key in self._flows.machine.keys])
        self._poll()

    # ---- its commits ------------------------------------------------------------------------------------------------

    def _commit(self) -> None:
        if self._group_id is None:
            self._poll()
            return
        self._commits = {}

        def then(_: Any, error: KcoordError | None) -> None:
            if error is None and not self._commits:
                self._rules.committing({})
            self._count("commit refused" if isinstance(error, CommitRefusedError) else "commit answered")
            self._poll()

        self._world.schedule.tell(self._name, "commits")
        self._make(self._calls.commit(None, None), then)

    def _on_asked(self, request: Request) -> None:
        if isinstance(request, CommitOffsets):
            is_again = bool(self._commits)  # of what was refused since the coordinator may be told late
            self._commits = {(one.topic, one.partition): one.offset for one in one_by_one(request.offsets)}
            self._world.schedule.tell(self._name, ("says", self._commits))
            self._rules.committing(self._commits, is_again=is_again)

    def _on_answered(self, response: Response) -> None:
        if isinstance(response, FetchOffsetsResponse):
            for one in response.offsets:
                self._committed[one.topic, one.partition] = Place(one.topic_id, one.offset)
        elif isinstance(response, CommitOffsetsResponse) and response.error is ErrorCode.NONE:
            refused = {(one.topic, one.partition) for one in response.refused}
            self._rules.committed({key: at for key, at in self._commits.items() if key not in refused})

    def _make(self, flow: Flow[Any], then: Any) -> None:
        """Make a call, which is interrupted now and then."""
        self._shell.make(flow, then)
        if self._dice.random() < 0.1:
            self._world.schedule.after(self._dice.choice(INTERRUPTED_AFTER_MS), self._interrupt)

    def _interrupt(self) -> None:
        if self._shell.interrupt():
            self._count("question interrupted")

    def _be_interrupted(self) -> None:
        self._flows.is_interrupted = True
        self._shell.make(self._flows.poll(0, self._most), self._on_interrupted)

    def _on_interrupted(self, _: Any, error: KcoordError | None) -> None:
        assert isinstance(error, InterruptedPollError)
        self._count("interrupted")
        self._later()

    def _do_not_poll(self) -> None:
        self._count("not polled")
        self._world.schedule.after(self._dice.choice(NOT_POLLED_MS), self._go_round)


class _Flows(Flows):
    """The product's flows over what is simulated."""

    def __init__(self, settings: Any, world: "World", fetcher: HandFetcher, rules: HandRules) -> None:
        def clock() -> float:
            return world.schedule.now_ms / 1000

        super().__init__(settings, lambda: None, clock, fetcher=lambda *_: fetcher)
        self._growth = HandGrowth(
            settings, world.kafka, clock, lambda found, subscription: rules.grown(found, subscription.names())
        )
