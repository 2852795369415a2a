"""One simulated world: coordinator, applications, Kafka, network and an operator, under one seed.

A run has two parts. First everything that the mix allows goes wrong while the promises are checked after every event.
Then the faults end, everything that died is started again, and the world has to come to rest: every record that Kafka
has is committed, by one owner a partition, in bounded time.
"""

from collections.abc import Iterable
from random import Random

from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.protocol.claim_columns import claims_in_columns
from coordinator.protocol.messages import FinishClaims
from coordinator.protocol.parts import Claim, LostPosition
from coordinator.protocol.vocabulary import IsolationLevel
from spark_kcoord.errors import DataLossError, KcoordError, UnreadBatchError
from tests.sim.by_hand.hands import Hands
from tests.sim.checker import Checker
from tests.sim.coordinator import GROUP, Coordinator
from tests.sim.crowd import EXPECTED_ENDS as EXPECTED_ENDS_OF_FULL
from tests.sim.crowd import Crowd
from tests.sim.directed_faults import DIRECTED_FAULT_OF
from tests.sim.faults import FAULT_OF
from tests.sim.fleet import Fleet
from tests.sim.forgotten import must_be_forgotten
from tests.sim.group_batch import EXPECTED_ENDS as EXPECTED_ENDS_OF_BLOCKS
from tests.sim.group_operator import Operator
from tests.sim.kafka import Kafka
from tests.sim.log.state import GroupModel, ViolationError
from tests.sim.lost_disk import DiskCopy
from tests.sim.mix import Mix
from tests.sim.network import Network
from tests.sim.process import Process
from tests.sim.progress_watch import ProgressWatch
from tests.sim.query import Checkpoint, Query
from tests.sim.reading import EXPECTED_ENDS as EXPECTED_ENDS_OF_READS
from tests.sim.reading import Brokers
from tests.sim.schedule import Schedule
from tests.sim.sink import EXPECTED_ENDS as EXPECTED_ENDS_OF_SINKS
from tests.sim.slow import BATCHES_MS, OTHER_SOURCE_MS, REST_MS

FEWEST_ACKED, FEWEST_FAULTS, FEWEST_HANDOVERS = 20, 5, 1
"""A run that exercised less than this says nothing: it is void."""
CATCHING_UP_MS = 10
"""How long reading a record may take in the end: a consumer takes 40 a poll, and asks three times a second."""
WRITES_LONG = 0.3
"""Chance that the time of a micro-batch goes by after its ranges are read: what happens then, its tasks do not see."""
LONGEST = 15
"""A run that has exercised too little goes on, at most this many times as long: with faults that come less often, for
something to happen between them, or more often where there were too few."""

EXPECTED_ENDS = (
    "could not be joined",
    "has not answered",
    "MEMBER_ID_IN_USE",
    "SECOND_MEMBER_OF_APPLICATION",
    "could not be asked",
    "is closed",
    "it was not polled for",
    "does not exist; create it",
    "Kafka has no topic",
    "PARTITION_OWNED",
    "and no partition",
    "FENCED_INSTANCE_ID",
    "was deleted and made again",
    "the group's policy is none",
    *EXPECTED_ENDS_OF_READS,
    "cannot read all that there was when it began",
    *EXPECTED_ENDS_OF_SINKS,
    *EXPECTED_ENDS_OF_BLOCKS,
)
"""Words of the errors that a process may end with in a world full of faults."""
DATA_LOST = "data is lost"


class World:
    """Everything, and what goes wrong with it."""

    def __init__(self, seed: int, mix: Mix, dice: Random) -> None:
        self.seed = seed
        self.mix = mix
        self.dice = dice
        self.schedule = Schedule()
        self.kafka = Kafka(dice, mix.topics, mix.transactional)
        self.checker = Checker(self.kafka, mix.shards, mix.limits)
        self.brokers = Brokers(self)
        self.coordinator = Coordinator(dice, self.schedule, mix, self.kafka, self.checker)
        self.network = Network(dice, self.schedule, mix.network_delays_ms, self.coordinator)
        self.coordinator.sender = self.network
        self.fleet = Fleet(self)
        self.operator = Operator(self)
        self.network.answer_others = self.operator.answered
        self.network.close_others = self.operator.closed
        self.checker.facts.outputs.is_judged = mix.handover == "hold" and mix.claim_timeout_ms is None
        self.faults = 0
        self._fault_every_ms = mix.fault_every_ms
        self.is_healing = False
        self.disk_copies: list[DiskCopy] = []
        """The newest copy of the coordinator's disk that fits to what is on it."""

    @property
    def group(self) -> GroupModel:
        """The group of this world, as its log says."""
        return self.checker.group(GROUP, self.coordinator.node.shard_of(GROUP))

    # ---- a run ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Live through the whole run; raises ViolationError for a broken promise."""
        schedule, mix = self.schedule, self.mix
        self.coordinator.start()
        for _ in range(mix.applications):
            schedule.after(self.dice.choice((0, 10, 300)), self.fleet.add)
        schedule.after(mix.append_every_ms, self._append)
        schedule.after(mix.fault_every_ms, self._disturb)
        self.checker.coverage["world losing"] += mix.is_losing
        if mix.is_slow:
            schedule.after(0, ProgressWatch(self).look)
            self.checker.coverage["world slow"] += 1
            # Who can let go of one or two partitions a request is late on a slow network, and not by its own doing.
            self.checker.facts.is_calm = mix.portion_items > 2
        schedule.after(0, self.operator.look)
        schedule.after(0, self.operator.tidy_once)
        Crowd(self).begin()
        Hands(self).begin()
        for _ in range(LONGEST):
            schedule.run_until(schedule.now_ms + mix.safety_ms)
            if not self.is_void:
                break
            self._go_on_otherwise()
        self._heal()
        bound_ms = 2 * mix.session_timeout_ms + 10_000 + mix.rebalance_timeout_ms + (mix.claim_timeout_ms or 0)
        bound_ms += CATCHING_UP_MS * self.kafka.longest + (REST_MS if mix.is_slow else 0)
        bound_ms += mix.session_timeout_ms // 3 * self._pings_beyond_one()
        healed_ms = schedule.now_ms
        while (unrest := self._unrest()) is not None:
            if (rests_ms := schedule.now_ms - healed_ms) >= bound_ms + self._passing_over_ms():
                raise ViolationError("stuck", f"not at rest {rests_ms} ms after the last fault: {unrest}")
            schedule.run_until(schedule.now_ms + 100)
        self.checker.look_back()
        self.checker.look_for_unanswered(self.coordinator.now_ms())
        policy = self.checker.group(GROUP, self.coordinator.node.shard_of(GROUP)).reset_policy
        if policy not in {None, mix.policy}:
            raise ViolationError("reader-decided", f"no member that commits has named the policy {policy}")
        must_be_forgotten(self)

    def _passing_over_ms(self) -> int:
        """Return for how long a task may wait before it passes over a topic that is gone."""
        is_tolerated = not self.fails_on_data_loss or any(one.tolerates_loss for one in self.fleet.applications)
        return int(self.mix.reading.timeout_s * 1000) if is_tolerated else 0

    def _pings_beyond_one(self) -> int:
        """Return how many pings more than one a consumer needs that commits all partitions by pings."""
        partitions = sum(len(topic.ends) for topic in self.kafka.topics.values())
        return max(partitions - 1, 0) // self.mix.portion_items

    @property
    def is_void(self) -> bool:
        """True when too little happened for the run to count."""
        counts = self.checker.counts
        # A group that holds hands little on; its claims have to be taken up again instead.
        moved = counts.handovers + (counts.resumed if self.mix.handover == "hold" else 0)
        return counts.acked < FEWEST_ACKED or self.faults < FEWEST_FAULTS or moved < FEWEST_HANDOVERS

    def _go_on_otherwise(self) -> None:
        self._fault_every_ms = (
            max(100, self._fault_every_ms // 3) if self.faults < FEWEST_FAULTS else self._fault_every_ms * 3
        )
        self.coordinator.extra_sync_ms = 0
        self.kafka.end_transactions()
        self.operator.tidy_once(gives_up=True)
        owners = [a for a in self.fleet.running() if a.process is not None and a.process.has_joined and a.process.owned]
        self.fleet.add()
        if owners:
            owner = self.dice.choice(owners)
            owner.is_wanted = False
            assert owner.process is not None
            self.schedule.after(2_000, owner.process.leave)

    def _append(self) -> None:
        if not self.is_healing:
            self.kafka.append()
            self.schedule.after(self.dice.randint(1, 2 * self.mix.append_every_ms), self._append)

    def _disturb(self) -> None:
        if self.is_healing:
            return
        names = list(self.mix.weights)
        name = self.dice.choices(names, list(self.mix.weights.values()))[0]
        if (FAULT_OF.get(name) or DIRECTED_FAULT_OF[name])(self):
            self.faults += 1
            self.checker.coverage[f"fault {name}"] += 1
            self.checker.facts.outputs.fault(name)
            self.schedule.tell("fault", name)
        self.schedule.after(self.dice.randint(1, 2 * self._fault_every_ms), self._disturb)

    # ---- healing ----------------------------------------------------------------------------------------------------

    def _heal(self) -> None:
        self.is_healing = True
        self.schedule.tell("world", "the faults end")
        self.kafka.is_away = False
        self.kafka.end_transactions()
        for topic, partitions in self.mix.topics.items():
            if topic not in self.kafka.topics:
                self.kafka.create(topic, partitions)
            while len(self.kafka.topics[topic].ends) < partitions:
                self.kafka.grow(topic)  # an application may name a partition that the topic made again has not
        # A network on which a round trip takes most of a session goes on ending sessions: that is a fault too.
        self.network.heal(slowest_ms=self.mix.session_timeout_ms // 10)
        self.coordinator.heal_disk()
        self.coordinator.resume()
        self.coordinator.power_on()
        self.coordinator.leading.lead_all()
        self.fleet.heal()
        self.operator.choose_what_stays_paused()
        self.operator.tidy()

    def _unrest(self) -> str | None:
        """Say what is not as it ought to be when nothing fails any more."""
        if not self.coordinator.is_up:
            return "the coordinator is down"
        owners: dict[TopicPartition, list[str]] = {}
        for application in self.fleet.wanted():
            process = application.process
            if process is None or not process.has_joined:
                return f"{application.host} is no member"
            if not process.is_settled:
                return f"{application.host} does not have all that it is due: {process.owned}"
            for partition in process.owned:
                owners.setdefault(partition, []).append(application.host)
        group = self.group
        for name, topic in self.kafka.topics.items():
            for number in range(len(topic.ends)):
                why = self._unrest_of(group, (name, number), owners.pop((name, number), []))
                if why is not None:
                    return why
        return f"{owners} are owned and do not exist" if owners else self._unrest_without_id()

    def _unrest_without_id(self) -> str | None:
        """Say which offset would count for a topic that is made again, since it has no topic's id."""
        for log in self.checker.logs:
            for group_id, group in log.groups.items():
                for (name, number), commits in group.commits.items():
                    last = commits[-1] if commits else None
                    if last is None or last.offset is None:
                        continue  # it was deleted
                    if not last.topic_id and name in self.kafka.topics:
                        return f"the offset of {name}-{number} in group {group_id} is of any topic of that name"
        return None

    def _unrest_of(self, group: GroupModel, partition: TopicPartition, owners: list[str]) -> str | None:
        name, number = partition
        topic = self.kafka.topics[name]
        readers = [application for application in self.fleet.wanted() if application.reads(name, number)]
        if not readers or group.is_paused_now(partition):
            return f"{name}-{number} is {owners}'s, and nobody is to have it" if owners else None
        if len(owners) != 1:
            return f"{name}-{number} is owned by {owners}"
        if partition in group.resets:
            return f"{name}-{number} is still to be reset: {group.resets[partition]}"
        committed, end = group.committed(partition, topic.topic_id), topic.ends[number]
        if committed is None or committed < end:
            return f"{name}-{number} is committed up to {committed} and ends at {end}"
        return None

    # ---- asked by applications --------------------------------------------------------------------------------------

    @property
    def limit(self) -> int | None:
        """The most offsets of a micro-batch; whatever piled up may be read at once in the end."""
        return None if self.is_healing else self.mix.limit

    @property
    def fails_on_data_loss(self) -> bool:
        return self.mix.fails_on_data_loss

    def poll_ms(self) -> int:
        """Draw how long a consumer works on what one poll returned."""
        if self.is_healing:
            return 10
        return self.batch_ms() + self.dice.choice((0, 10, 100))

    def batch_ms(self) -> int:
        """Draw how long the tasks of a micro-batch read."""
        if self.mix.is_slow:
            return self.dice.choice(BATCHES_MS)
        if not self.is_healing and self.dice.random() < self.mix.slow_batch:
            return self.dice.choice((1_000, self.mix.rebalance_timeout_ms, 2 * self.mix.rebalance_timeout_ms))
        return self.dice.choice((5, 20, 60, 200))

    def task_ms(self) -> tuple[int, int]:
        """Draw how long the tasks of a micro-batch read, and how long they write when all is read."""
        ms = self.batch_ms()
        return (0, ms) if self.dice.random() < WRITES_LONG else (ms, 0)

    def other_source_ms(self) -> int:
        """Draw how long a query waits between `latestOffset` and `partitions`."""
        return self.dice.choice(OTHER_SOURCE_MS) if self.mix.is_slow else 0

    def deliver(self, query: Query, member_id: str, claims: Iterable[Claim]) -> None:
        """Take what a micro-batch wrote to its sink."""
        claims = tuple(claims)
        self.schedule.tell(query.name, ("delivers", claims))
        for claim in claims:
            if self.kafka.ends_before(claim.topic, claim.topic_id, claim.partition, claim.until_offset):
                raise ViolationError(
                    "lost-record", f"{query.name} takes for read what Kafka does not have yet: {claim}"
                )
        if query.settings.commits:
            self.checker.facts.deliver(member_id, claims)

    def must_be_stable(self, process: Process, level: str, claims: Iterable[Claim]) -> None:
        """Check that who reads committed records only is to read nothing behind an open transaction."""
        for claim in claims if level == IsolationLevel.READ_COMMITTED else ():
            topic = self.kafka.topics.get(claim.topic)
            if topic is None or topic.topic_id != claim.topic_id:
                continue
            stable = self.kafka.stable_end(claim.topic, claim.partition)
            if claim.until_offset > stable:
                why = f"{process.name} reads {claim}, though all is decided up to {stable} only"
                raise ViolationError("unstable-read", why)
            self.checker.coverage["transaction read up to an open one"] += (
                claim.until_offset == stable < topic.ends[claim.partition]
            )

    def must_be_lost(self, process: Process, reported: Iterable[LostPosition]) -> None:
        """Check that no query says of a position that it is lost which Kafka has, unless topics are made again."""
        if self.mix.weights.keys() & {"topic-recreated", "topic-vanished"}:
            self.checker.coverage["excuse a loss is reported where topics are made again"] += len(tuple(reported))
            return
        for one in reported:
            if one.position is not None and self.kafka.has_surely(one.topic, one.partition, one.position):
                raise ViolationError("false-report", f"{process.name} reports {one}, which Kafka has")

    def tell_finished(self, member_id: str, claims: Iterable[Claim]) -> None:
        """Say that a micro-batch is done, as Spark's listeners can, on a connection of their own."""
        self.operator.ask(FinishClaims(GROUP, member_id, claims_in_columns(claims)))

    def note_batch(self, claims: Iterable[Claim]) -> None:
        """Note where a micro-batch ends that goes on, also where it leaves out what others have read or will read.

        A checkpoint shows no more than that end; a group that has lost its offset begins there.
        """
        for claim in claims:
            self.checker.facts.reach(claim.topic_id, claim.partition, claim.until_offset)

    def dies_at_step(self, query: Query) -> bool:
        """Kill a query between two steps of Spark, now and then."""
        if self.is_healing or self.dice.random() >= self.mix.crash_at_step:
            return False
        self.faults += 1
        self.schedule.tell(query.name, "dies here")
        query.kill()
        self.fleet.restart_later(self.fleet.application_of(query))
        return True

    def query_finished(self, query: Query) -> None:
        """Take note of an AvailableNow run that is done."""
        query.watch.run_ended()
        self.fleet.process_ended(query, "is done", is_failure=False)

    def process_failed(self, process: Process, why: str) -> None:
        """Take note of a process that ends with an error."""
        self.fleet.process_ended(process, why, is_failure=True)

    def process_gave_up(self, process: Process, error: KcoordError) -> None:
        """Take note of a process that an error of the product ends; raises ViolationError for one no fault explains."""
        is_loss = isinstance(error, DataLossError) and self.mix.loses_data
        expected = EXPECTED_ENDS + EXPECTED_ENDS_OF_FULL if self.mix.is_full else EXPECTED_ENDS
        words = DATA_LOST if is_loss else next((words for words in expected if words in str(error)), None)
        if words is None:
            raise ViolationError("query-refused", f"{process.name} ended with an error that no fault explains: {error}")
        self.checker.coverage[f"end {words}"] += 1
        if isinstance(error, UnreadBatchError):
            # A person does what the error says.
            application = self.fleet.application_of(process)
            application.checkpoint, application.sink = Checkpoint(), application.sink.another()
            self.checker.facts.outputs.fault("checkpoint-lost")
        if isinstance(error, DataLossError):
            self.fleet.application_of(process).tolerates_loss = True
            self.checker.coverage["run lost data"] += 1
        if "has not answered for" in str(error):
            self.checker.coverage["run missed its coordinator"] += 1
        self.process_failed(process, str(error))
