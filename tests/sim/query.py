"""A streaming query: Spark's micro-batch loop as it was measured, over the real planner and the real member machine.

Spark's calls come in Spark's order. After a restart whose last micro-batch is not in the commit log `partitions` comes
first, else `latestOffset(end of the last batch)`; `initialOffset` opens nothing. Between any two steps the process can
die, and what survives is the checkpoint: the offset log, the commit log and what reached the sink. The Python process
beside the Spark driver can outlive its JVM for five seconds, with the member's session in it.
"""

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

from coordinator.protocol.vocabulary import IsolationLevel
from spark_kcoord.errors import KafkaAwayError, KcoordError
from spark_kcoord.member.core import effects, events
from spark_kcoord.member.core.held.holdings import Assignment
from spark_kcoord.member.core.machine import Member
from spark_kcoord.member.settings import MemberSettings
from spark_kcoord.microbatch import commands
from spark_kcoord.microbatch.commands import Command, Planning
from spark_kcoord.microbatch.planner import BatchPlanner
from spark_kcoord.microbatch.stream_offset import StreamOffset
from tests.sim import portioned
from tests.sim.holders import holders
from tests.sim.member_process import MemberProcess
from tests.sim.query_watch import QueryWatch
from tests.sim.read_only import ReadOnly, must_keep_places
from tests.sim.sink import Sink

if TYPE_CHECKING:
    from tests.sim.world import World

SOON_MS = 1_500
PATIENCE_MS = 6_000
"""How long a query asks for ends, and how long when it waits for a Kafka that is away; longer in the product."""
ORPHAN_MS = 2_000
"""How long the process of a killed driver goes on at most until it notices that."""
LONG_ORPHAN_MS = 5_000
"""How long it goes on when its connection breaks meanwhile."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One line of the offset log: Spark keeps the stream offsets as JSON."""

    start: Mapping[str, Any]
    end: Mapping[str, Any]


@dataclass(slots=True)
class Checkpoint:
    """What survives a query."""

    offsets: list[Batch] = field(default_factory=list)
    commits: set[int] = field(default_factory=set)

    def copy(self) -> "Checkpoint":
        return Checkpoint(list(self.offsets), set(self.commits))


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the Spark driver is done; the next follows a little later, if nobody dies here."""

    name: str
    ms: int


@dataclass(frozen=True, slots=True)
class Call:
    """A call to the member's session; answered with its result."""

    call: events.AnyCall


@dataclass(frozen=True, slots=True)
class AwaitPartitions:
    """Wait for an assignment; answered with what there is."""

    complete: bool
    timeout_ms: int


Wait: TypeAlias = Step | Call | AwaitPartitions
Script: TypeAlias = Generator[Wait, Any, Any]


class Query(MemberProcess):
    """One process of a streaming query; `is_alive` speaks of its Python process, `is_running` of its Spark driver."""

    def __init__(
        self,
        world: "World",
        host: str,
        name: str,
        checkpoint: Checkpoint,
        settings: MemberSettings,
        *,
        is_available_now: bool,
        sink: Sink,
        fail_on_data_loss: bool,
    ) -> None:
        super().__init__(world, host, name)
        self.checkpoint = checkpoint
        self.sink = sink
        self.settings = settings
        self.is_available_now = is_available_now
        self.fail_on_data_loss = fail_on_data_loss
        self.watch = QueryWatch(self)
        self.other_has_joined: Callable[[], bool] = lambda: True
        """Says of the other source of the same query, if it has one, that it has: Spark asks both before it reads."""
        self._planner: BatchPlanner | None = None
        self._read_only: ReadOnly | None = None
        self._joined: effects.Joined | None = None
        self._frozen: Mapping[tuple[str, int], int] | None = None
        self._has_listener = world.dice.random() < 0.3
        self._script = self._run()
        self._awaited: AwaitPartitions | None = None

    @property
    def has_been_member(self) -> bool:
        return self._joined is not None

    @property
    def has_ever_joined(self) -> bool:
        return self._joined is not None and self.is_running

    # ---- Spark's loop -----------------------------------------------------------------------------------------------

    def _run(self) -> Script:
        checkpoint = self.checkpoint
        yield self._step("started")
        if self.is_available_now:
            ends = yield from self._ends([(name, n) for name in self._topics() for n in self._numbers(name)], SOON_MS)
            self._frozen = ends
            self.watch.frozen(ends)
        number = len(checkpoint.offsets) - 1
        if number < 0:
            start: Mapping[str, Any] = StreamOffset(cluster="", group=self.settings.group_id, member="").to_json()
        else:
            batch = checkpoint.offsets[number]
            start = batch.end
            if number not in checkpoint.commits:
                yield from self._run_batch(number, batch)
        while True:
            yield self._step("about to call latestOffset")
            latest = yield from self._latest_offset(start)
            yield self._step("latestOffset returned")
            if latest == start and number >= 0:
                if self.is_available_now:
                    return
                yield Step("idle", self.world.dice.choice((11, 60, 250)))
                continue
            if (waits_ms := self.world.other_source_ms()) > 0:
                yield Step("waits for its other source", waits_ms)
            while not self.other_has_joined():
                yield Step("the other source has not joined", 50)
            number += 1
            batch = Batch(start, latest)
            checkpoint.offsets.append(batch)
            yield self._step("offset log written")
            yield from self._run_batch(number, batch)
            start = latest

    def _run_batch(self, number: int, batch: Batch) -> Script:
        offset = StreamOffset.from_json(batch.end)
        if self.settings.commits:
            self.world.note_batch(offset.claims)
        if self.sink.passes_over(number, offset.claims):
            yield self._step("the sink passes over it")
        else:
            yield from self._read_batch(number, batch)
        self.checkpoint.commits.add(number)
        if self._has_listener and self._joined is not None:
            self.world.tell_finished(self._joined.member_id, offset.claims)
        yield self._step("commit log written")

    def _read_batch(self, number: int, batch: Batch) -> Script:
        claims = yield from self._partitions(batch)
        self.world.must_be_stable(self, self.settings.isolation_level, claims)
        yield self._step("partitions returned")
        reading_ms, writing_ms = self.world.task_ms()
        yield Step("tasks are reading", reading_ms)
        for wait_ms in self.world.brokers.read(self.name, claims, fail_on_data_loss=self.fail_on_data_loss):
            yield Step("Kafka sends nothing", wait_ms)
        if writing_ms:
            yield Step("tasks are writing", writing_ms)
        if self._joined is not None:
            self.world.deliver(self, self._joined.member_id, claims)
        if self.settings.commits:  # what is read without a commit, somebody else reads
            self.world.checker.facts.outputs.write(self.sink, number, claims)
        self.sink.write(number, claims)
        yield self._step("sink written")

    def _step(self, name: str) -> Step:
        return Step(name, self.world.dice.choice((0, 1, 2, 10)))

    def between(self, what: str) -> Step:
        """A moment between two calls, in which the process can die."""
        return self._step(f"between {what}")

    @staticmethod
    def calling(call: events.AnyCall) -> Call:
        """A call to the member's session."""
        return Call(call)

    def _topics(self) -> list[str]:
        settings = self.settings
        names = {*settings.topics, *(topic for topic, _ in settings.partitions)}
        if settings.pattern is not None:
            names = {name for name in self.world.kafka.topics if re.fullmatch(settings.pattern, name)}
        return sorted(names.difference(settings.exclusions))

    def _numbers(self, topic: str) -> range:
        known = self.world.kafka.topics.get(topic)
        return range(len(known.ends)) if known is not None else range(0)

    # ---- the stream reader ------------------------------------------------------------------------------------------

    def _latest_offset(self, start: Mapping[str, Any]) -> Script:
        offset = StreamOffset.from_json(start)
        planner = yield from self._join(offset, is_finished=True)
        self.watch.call_begins()
        planning = planner.next_offset(offset, self.world.limit, is_single_run=self.is_available_now)
        latest = yield from self._carry_out(planning)
        self.watch.call_returned()
        if not self.settings.commits:
            must_keep_places(self, offset, latest)
        return start if latest == offset else latest.to_json()

    def _partitions(self, batch: Batch) -> Script:
        if batch.start == batch.end:
            return ()
        offset = StreamOffset.from_json(batch.end)
        planner = yield from self._join(offset, is_finished=False)
        return (yield from self._carry_out(planner.readable(offset)))

    def _join(self, first: StreamOffset, *, is_finished: bool) -> Script:
        if self._planner is not None:
            return self._planner
        first.must_belong_to(cluster=None, group=self.settings.group_id)
        self.member = Member(
            self.settings,
            incarnation=self.name,
            pid=self.world.fleet.processes,
            jitter=self.world.dice.random,
            member_id=first.member,
            claims=first.claims if self.settings.commits else (),
            checkpoint_hints=first.hints(is_finished=is_finished),
            nodes=first.nodes,
            log=first.log,
        )
        self._read_only = None if self.settings.commits else ReadOnly(self, first)
        joined = yield Call(events.JoinCall())
        first.must_belong_to(cluster=joined.kafka_cluster_id, group=self.settings.group_id)
        self._joined = joined
        self._planner = BatchPlanner(
            joined,
            group_id=self.settings.group_id,
            fail_on_data_loss=self.fail_on_data_loss,
            rebalance_timeout_s=self.settings.rebalance_timeout_ms / 1000,
            kafka_timeout_s=PATIENCE_MS / 1000,
            clock=lambda: self.now_ms() / 1000,
            is_committing=self.settings.commits,
        )
        if self._frozen is not None:
            self._planner.freeze_ends(self._frozen)
        return self._planner

    def _carry_out(self, planning: Planning[Any]) -> Script:
        try:
            command = next(planning)
            while True:
                try:
                    answer = yield from self._answer(command)
                except KcoordError as error:
                    command = planning.throw(error)
                else:
                    command = planning.send(answer)
        except StopIteration as planned:
            return planned.value

    def _answer(self, command: Command) -> Script:
        assert self.member is not None
        answer = None if self._read_only is None else self._read_only.answer(command)
        if answer is not None:
            return answer
        match command:
            case commands.ReadAssignment():
                if self.member.failure is not None:
                    raise self.member.failure
                self.watch.shown(assignment := self.shown())
                return assignment
            case commands.AwaitAssignment(complete, timeout_s):
                yield AwaitPartitions(complete, int(timeout_s * 1000))
                assignment = self.shown()
                self.watch.assigned(assignment)
                self.watch.shown(assignment)
                return assignment
            case commands.ReadEnds(partitions, timeout_s):
                return (yield from self._ends(partitions, SOON_MS if timeout_s is None else int(timeout_s * 1000)))
            case commands.AskAdvance(finished, claims):
                return (yield from portioned.advance(self, finished, claims))
            case commands.AskConfirm(claims):
                return (yield from portioned.confirm(self, claims))
            case commands.ReadStarts(partitions):
                yield Step("asks Kafka for starts", self.world.dice.choice((1, 3)))
                starts = self.world.kafka.begins(partitions)
                if starts is None:
                    raise KafkaAwayError("Kafka could not be asked where partitions begin.")
                return starts
            case commands.ReadHighWatermarks(partitions):
                return (yield from self._ends(partitions, SOON_MS, is_read_committed=False))
            case commands.ReadTopicIds(topics):
                yield Step("asks Kafka for topics", self.world.dice.choice((1, 3)))
                if self.world.kafka.is_away:
                    raise KafkaAwayError("Kafka could not be asked for topics.")
                known = self.world.kafka.topics
                self.watch.told_topics()
                return {name: known[name].topic_id for name in topics if name in known}
            case commands.AskHolders():
                return (yield from self._holders())
            case commands.AwaitChange(known_before, timeout_s):
                deadline_ms = self.world.schedule.now_ms + int(timeout_s * 1000)
                while self.member.assignment is known_before and self.world.schedule.now_ms < deadline_ms:
                    yield Step("waits for a change", self.world.dice.choice((1, 20, 100)))
                if self.member.failure is not None:
                    raise self.member.failure
                return self.member.assignment
            case commands.ReadSizes(positions):
                return dict.fromkeys(positions, 100.0)
            case commands.AskReport(partitions):
                self.world.must_be_lost(self, partitions)
                told = yield Call(events.ReportCall(partitions))
                if self._read_only is not None:
                    self._read_only.take_report(told)
                return told
            case _:
                assert_never(command)

    @property
    def given_up(self) -> set[tuple[str, int]]:
        """The partitions that a query that commits nothing has given up."""
        return set() if self._read_only is None else self._read_only.given_up

    @property
    def reached(self) -> Mapping[tuple[str, int], int]:
        """The positions of a query that commits nothing."""
        return {} if self._read_only is None else self._read_only.reached

    def shown(self) -> Assignment:
        """Return what there is now: a thread that waited may see more than what woke it."""
        return self.assignment if self._read_only is None else self._read_only.shown()

    def _holders(self) -> Script:
        deadline_ms = self.world.schedule.now_ms + self.settings.coordinator_timeout_ms
        while True:
            yield Step("asks the coordinator who has what", self.world.dice.choice((1, 3, 20)))
            found = holders(self.world)
            if found is not None:
                self.watch.told_holders(found)
                return found
            if self.world.schedule.now_ms >= deadline_ms:
                raise KcoordError("The coordinator could not be asked who has what.")
            yield Step("the coordinator does not answer", 300)

    def _ends(
        self, partitions: Sequence[tuple[str, int]], timeout_ms: int, *, is_read_committed: bool | None = None
    ) -> Script:
        if is_read_committed is None:
            is_read_committed = self.settings.isolation_level == IsolationLevel.READ_COMMITTED
        deadline_ms = self.world.schedule.now_ms + timeout_ms
        while True:
            yield Step("asks Kafka for ends", self.world.dice.choice((1, 3, 20)))
            ends = self.world.kafka.ends(partitions, is_read_committed=is_read_committed)
            if ends is not None:
                return ends
            if self.world.schedule.now_ms >= deadline_ms:
                raise KafkaAwayError("Kafka could not be asked where partitions end.")
            yield Step("Kafka does not answer", 300)

    # ---- running the script -----------------------------------------------------------------------------------------

    def start(self) -> None:
        self._go_on(None)

    def _go_on(self, value: Any) -> None:
        self._resume(self._script.send, value)

    def _give_up(self, error: KcoordError) -> None:
        self._resume(self._script.throw, error)

    def _resume(self, resume: Callable[[Any], Wait], value: Any) -> None:
        if not self.is_running:
            return
        if self.is_paused:
            self._waiting.append((self._resume, (resume, value)))
            return
        try:
            wait = resume(value)
        except StopIteration:
            self.world.query_finished(self)
        except KcoordError as error:
            self.world.process_gave_up(self, error)
        else:
            self._wait(wait)

    def _wait(self, wait: Wait) -> None:
        match wait:
            case Step(name, ms):
                self.world.schedule.tell(self.name, name)
                if self.world.dies_at_step(self):
                    return
                self.world.schedule.after(ms, self._go_on, None)
            case Call(call):
                self.call(call, self._go_on, self._give_up)
            case AwaitPartitions():
                self._awaited = wait
                self.world.schedule.after(wait.timeout_ms, self._waited_long_enough, wait)
                self._look_at_assignment()
            case _:
                assert_never(wait)

    def _look_at_assignment(self) -> None:
        awaited = self._awaited
        if awaited is None or self.member is None:
            return
        if self.member.failure is not None:
            self._awaited = None
            self._give_up(self.member.failure)
        elif self.member.assignment.is_awaited(complete=awaited.complete):
            self._awaited = None
            self.world.schedule.after(self.world.dice.choice((0, 1)), self._go_on_with_assignment)

    def _go_on_with_assignment(self) -> None:
        if self.member is not None:
            self._go_on(None)

    def _waited_long_enough(self, wait: AwaitPartitions) -> None:
        if self._awaited is wait and self.member is not None:
            self._awaited = None
            self._go_on_with_assignment()

    def stepped(self) -> None:
        self.watch.stepped()
        self._look_at_assignment()

    # ---- ends -------------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """Kill the Spark driver; the Python process notices some time later and ends."""
        self.is_running = False
        self.is_paused = False
        self.drain()
        schedule, dice = self.world.schedule, self.world.dice
        lives_ms = dice.choice(self.world.mix.orphans_ms)
        if lives_ms == LONG_ORPHAN_MS:
            schedule.after(dice.randint(0, ORPHAN_MS), self._break_connections)
        schedule.after(lives_ms, self.end)

    def _break_connections(self) -> None:
        """Have a process that is a member already find its way in again, beside the one that comes after it."""
        network = self.world.network
        for link in network.live_links():
            if link.peer is self:
                network.reset(link)

    def stop(self) -> None:
        """Stop the query in order: the reader closes its connections, without leave or commit."""
        self.is_running = False
        if self.member is not None:
            self.step(events.CloseAsked())
        self.end()

    def leave(self) -> None:
        """Leave the group for good; the process ends when that is answered, or soon."""
        self.is_running = False
        for batch in self.checkpoint.offsets[-1:]:
            for claim in StreamOffset.from_json(batch.end).claims:
                self.world.checker.facts.outputs.released(
                    claim.topic_id, claim.partition, claim.from_offset, claim.until_offset
                )
        if self.member is not None:
            self.call(events.LeaveCall(), lambda _: None, lambda _: None)
        self.world.schedule.after(1_500, self.end)
