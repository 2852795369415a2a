"""A plain consumer: the product's own, over the real member machine, polling records that have no content.

What polls before returned has been worked on when the next one begins, or before a commit that is asked for; what the
latest poll returned may still be worked on when the process dies. Calls that wait for the coordinator end the poll they
are made in, and their answers come in a step of their own.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import FinalOffset, LostPosition, PartitionResult
from coordinator.protocol.vocabulary import IsolationLevel
from spark_kcoord.consumer import consumer as product
from spark_kcoord.errors import DataLossError, KafkaAwayError, KcoordError
from spark_kcoord.fetch.decoding.columns import arrow_schema
from spark_kcoord.fetch.topic_range import TopicRange
from spark_kcoord.member.core import effects, events
from spark_kcoord.member.core.held.holdings import Assignment
from spark_kcoord.member.core.machine import Member
from spark_kcoord.member.settings import MemberSettings
from tests.sim.facts import OwnedLog
from tests.sim.log.state import ViolationError
from tests.sim.member_process import MemberProcess
from tests.sim.process import TopicPartition
from tests.sim.reading import NothingCameError

if TYPE_CHECKING:
    from tests.sim.world import World

COLUMNS = ("topic", "partition", "offset")
SCHEMA = arrow_schema(COLUMNS)


class _AskedMeanwhileError(Exception):
    """A call that waits was made: it ends what it was made in."""

    def __init__(self, call: events.AnyCall) -> None:
        super().__init__("the coordinator is asked")
        self.call = call


class Consumer(MemberProcess):
    """One process of a consumer."""

    def __init__(self, world: "World", host: str, name: str, settings: MemberSettings) -> None:
        super().__init__(world, host, name)
        self.settings = settings
        self.joined: effects.Joined | None = None
        self.seen = Assignment()
        """What the consumer saw last of what it owns, which it may not own any more when its poll returns."""
        self._returned: tuple[OwnedLog, int, int] | None = None
        self.consumer = product.Consumer(
            product.ConsumerSettings(
                coordinators=(),
                group_id=settings.group_id,
                instance_id=settings.instance_id,
                auto_commit=settings.auto_commit,
                max_poll_records=world.dice.choice((40, 1_000)),
                columns=COLUMNS,
            ),
            member=_Port(self),
            records=_Records(world, name, settings.isolation_level),
            clock=lambda: self.now_ms() / 1000,
        )

    # ---- its loop ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.member = Member(
            self.settings, incarnation=self.name, pid=self.world.fleet.processes, jitter=self.world.dice.random
        )
        self.call(events.JoinCall(), self._on_joined, self._fail)

    def _on_joined(self, joined: effects.Joined) -> None:
        self.joined = joined
        self._poll_later()

    def _poll_later(self) -> None:
        self.later(self.world.poll_ms(), self._go_round)

    def _go_round(self) -> None:
        """Do what was returned, commit it where that is the application's business, and poll again."""
        if not self.is_running:
            return
        if not self.settings.auto_commit and self._returned is not None:
            self._work_on_what_was_returned()
            self._try(self.consumer.commit)
        else:
            self._try(self._poll)

    def _poll(self) -> None:
        self._work_on_what_was_returned()
        rows = self.consumer.poll(0)
        if rows.num_rows:
            topic, number = rows.column("topic")[0].as_py(), rows.column("partition")[0].as_py()
            part = next(p for p in self.seen.partitions if (p.topic, p.partition) == (topic, number))
            log = (part.topic_id, number, self.member_id, part.owner_epoch)
            self._returned = (log, rows.column("offset")[0].as_py(), rows.column("offset")[-1].as_py() + 1)

    def _work_on_what_was_returned(self) -> None:
        returned, self._returned = self._returned, None
        if returned is not None:
            self.world.schedule.tell(self.name, ("has worked on", *returned))
            self.world.checker.facts.process(*returned)

    def _try(self, work: Callable[[], object]) -> None:
        try:
            work()
        except _AskedMeanwhileError as asked:
            self.call(asked.call, self._on_answer, self._fail)
        except NothingCameError:
            self._poll_later()
        except KcoordError as error:
            if "were refused" in str(error):
                self._poll_later()
            else:
                self._fail(error)
        else:
            self._poll_later()

    def _on_answer(self, results: Sequence[PartitionResult]) -> None:
        lost = [result for result in results if result.error is ErrorCode.OFFSET_OUT_OF_RANGE]
        if lost:
            self.world.process_failed(self, lost[0].message)
        else:
            self._poll_later()

    def _fail(self, error: KcoordError) -> None:
        if self.is_running:
            self.world.process_gave_up(self, error)

    # ---- ends -------------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        self.is_paused = False
        self.end()

    def stop(self) -> None:
        self.is_running = False
        self.step(events.CloseAsked())
        self.end()

    def leave(self) -> None:
        self.is_running = False
        try:
            self.consumer.close()
        except _AskedMeanwhileError as asked:
            self.call(asked.call, lambda _: self.end(), lambda _: self.end())
        self.world.schedule.after(1_500, self.end)


class _Port:
    """The member as the product's consumer knows it."""

    def __init__(self, process: Consumer) -> None:
        self._process = process

    def join(self) -> effects.Joined:
        assert self._process.joined is not None, "it polls once it has joined"
        return self._process.joined

    def assignment(self) -> Assignment:
        member = self._process.member
        if member is not None and member.failure is not None:
            raise member.failure
        self._process.seen = self._process.assignment
        return self._process.seen

    def wait_for_change(self, known: Assignment, *, timeout_s: float) -> Assignment:
        raise AssertionError("a poll that may not wait waits")

    def note_positions(self, offsets: Sequence[OffsetToCommit]) -> None:
        self._process.step(events.PositionsNoted(tuple(offsets)))

    def release(self, finals: Sequence[FinalOffset]) -> None:
        self._process.step(events.ReleaseAsked(tuple(finals)))

    def commit(self, offsets: Sequence[OffsetToCommit]) -> tuple[PartitionResult, ...]:
        asked = tuple(offsets)
        if not asked:
            return ()
        raise _AskedMeanwhileError(events.CommitCall(asked))

    def report_out_of_range(self, partitions: Sequence[LostPosition]) -> tuple[PartitionResult, ...]:
        raise _AskedMeanwhileError(events.ReportCall(tuple(partitions)))

    def leave(self, finals: Sequence[FinalOffset] = ()) -> None:
        end = self._process.end
        self._process.call(events.LeaveCall(tuple(finals)), lambda _: end(), lambda _: end())

    def close(self) -> None:
        self._process.step(events.CloseAsked())


class _Records:
    """Kafka as the product's consumer knows it."""

    def __init__(self, world: "World", name: str, level: str) -> None:
        self._kafka = world.kafka
        self._brokers = world.brokers
        self._name = name
        self._level = level

    def end_offsets(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        is_read_committed = self._level == IsolationLevel.READ_COMMITTED
        return self._known(self._kafka.ends(sorted(partitions), is_read_committed=is_read_committed))

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._known(self._kafka.ends(sorted(partitions)))

    def earliest_offsets(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._known(self._kafka.begins(sorted(partitions)))

    def _known(self, found: Mapping[TopicPartition, int] | None) -> Mapping[TopicPartition, int]:
        if found is None:
            raise KafkaAwayError("Kafka could not be asked about offsets.")
        return found

    def read(self, wanted: TopicRange) -> Iterator[pa.RecordBatch]:
        topic = self._kafka.topics.get(wanted.topic)
        if topic is None or topic.topic_id != wanted.topic_id or wanted.partition >= len(topic.ends):
            raise DataLossError(f"Topic {wanted.topic} was deleted and made again.")
        if self._kafka.is_away:
            raise KafkaAwayError("Kafka could not be asked for records.")
        if not topic.begins[wanted.partition] <= wanted.start <= wanted.end <= topic.ends[wanted.partition]:
            raise DataLossError(f"{wanted} is not there: {topic}")
        stable = self._kafka.stable_end(wanted.topic, wanted.partition)
        if self._level == IsolationLevel.READ_COMMITTED and wanted.end > stable:
            raise ViolationError(
                "unstable-read", f"{self._name} reads {wanted}, and all is decided up to {stable} only"
            )
        for start, end in self._brokers.read_at_once(self._name, wanted):
            columns: dict[str, Any] = {
                "topic": [wanted.topic] * (end - start),
                "partition": [wanted.partition] * (end - start),
                "offset": range(start, end),
            }
            yield pa.RecordBatch.from_arrays([pa.array(columns[f.name], f.type) for f in SCHEMA], schema=SCHEMA)

    def close(self) -> None:
        """Close nothing."""
