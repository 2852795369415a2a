"""One simulated world: coordinator, queries, Kafka, network and an operator, under one seed.

A run has two parts. First everything that the mix allows goes wrong while the promises are checked after every event.
Then the faults end, everything that died is started again, and the world has to come to rest: every record that Kafka
has is committed, by one owner a partition, in bounded time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from random import Random

from coordinator.core.limits import Limits
from coordinator.protocol.messages import (
    CommitOffsets,
    DescribeGroup,
    FetchOffsets,
    ListGroups,
    Request,
)
from coordinator.protocol.operator_messages import ResetOffsets
from coordinator.protocol.parts import Claim, OffsetToCommit, ResetTarget
from spark_kcoord.errors import KcoordError
from spark_kcoord.member.settings import MemberSettings
from spark_kcoord.member.states import State
from tests.sim.checker import Checker
from tests.sim.coordinator import ADDRESS, GROUP, Coordinator
from tests.sim.faults import FAULT_OF
from tests.sim.kafka import Kafka
from tests.sim.log_model import ViolationError
from tests.sim.mix import Mix
from tests.sim.network import Network
from tests.sim.query import Checkpoint, Query
from tests.sim.schedule import Schedule

OPERATOR = 1
OTHER_GROUP = "other"
LOOK_EVERY_MS = 400
FEWEST_ACKED, FEWEST_FAULTS, FEWEST_HANDOVERS = 20, 5, 1
"""A run that exercised less than this says nothing: it is void."""
LONGEST = 5
"""A run that has exercised too little goes on, with faults that come less often, at most this many times as long."""


@dataclass(slots=True)
class Application:
    """A query that somebody wants to run: it is started again whenever it ends."""

    host: str
    checkpoint: Checkpoint
    assignors: tuple[str, ...]
    streams: int
    instance_id: str | None
    prefers_available_now: bool
    query: Query | None = None
    is_wanted: bool = True
    is_copy: bool = False
    lives: int = 0


class World:
    """Everything, and what goes wrong with it."""

    def __init__(self, seed: int, mix: Mix, dice: Random) -> None:
        self.seed = seed
        self.mix = mix
        self.dice = dice
        self.schedule = Schedule()
        self.kafka = Kafka(dice, mix.topics)
        limits = Limits(snapshot_interval_records=mix.snapshot_interval_records, slice_partitions=mix.slice_partitions)
        self.checker = Checker(self.kafka, mix.shards, limits)
        self.coordinator = Coordinator(dice, self.schedule, mix, self.kafka, self.checker, limits)
        self.network = Network(dice, self.schedule, mix.network_delays_ms, self.coordinator)
        self.coordinator.sender = self.network
        self.applications: list[Application] = []
        self.processes = 0
        self.faults = 0
        self._fault_every_ms = mix.fault_every_ms
        self.is_healing = False
        self.fails_on_data_loss = "topic-recreated" not in mix.weights
        self._hosts = 0
        self._operator_asks = 0
        self._operator_life = -1

    # ---- a run ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Live through the whole run; raises ViolationError for a broken promise."""
        schedule, mix = self.schedule, self.mix
        self.coordinator.start()
        for _ in range(mix.queries):
            schedule.after(self.dice.choice((0, 10, 300)), self.add_application)
        schedule.after(mix.append_every_ms, self._append)
        schedule.after(mix.fault_every_ms, self._disturb)
        schedule.after(LOOK_EVERY_MS, self._look)
        for _ in range(LONGEST):
            schedule.run_until(schedule.now_ms + mix.safety_ms)
            if not self.is_void:
                break
            self._go_on_more_quietly()
        self._heal()
        bound_ms = 2 * mix.session_timeout_ms + 10_000 + mix.rebalance_timeout_ms
        healed_ms = schedule.now_ms
        while (unrest := self._unrest()) is not None:
            if schedule.now_ms >= healed_ms + bound_ms:
                raise ViolationError("stuck", f"not at rest {bound_ms} ms after the last fault: {unrest}")
            schedule.run_until(schedule.now_ms + 100)

    @property
    def is_void(self) -> bool:
        """True when too little happened for the run to count."""
        counts = self.checker.counts
        # A group that holds hands little on; its claims have to be taken up again instead.
        moved = counts.resumed if self.mix.handover == "hold" else counts.handovers
        return counts.acked < FEWEST_ACKED or self.faults < FEWEST_FAULTS or moved < FEWEST_HANDOVERS

    def _go_on_more_quietly(self) -> None:
        self._fault_every_ms *= 3
        self.coordinator.extra_sync_ms = 0
        owners = [
            application
            for application in self.running()
            if (query := application.query) is not None
            and query.member is not None
            and query.member.assignment.partitions
        ]
        self.add_application()
        if owners and self.mix.handover != "hold":
            owner = self.dice.choice(owners)
            owner.is_wanted = False
            assert owner.query is not None
            self.schedule.after(2_000, owner.query.leave)

    def _append(self) -> None:
        if not self.is_healing:
            self.kafka.append()
            self.schedule.after(self.dice.randint(1, 2 * self.mix.append_every_ms), self._append)

    def _disturb(self) -> None:
        if self.is_healing:
            return
        names = list(self.mix.weights)
        name = self.dice.choices(names, list(self.mix.weights.values()))[0]
        if FAULT_OF[name](self):
            self.faults += 1
            self.schedule.tell("fault", name)
        self.schedule.after(self.dice.randint(1, 2 * self._fault_every_ms), self._disturb)

    # ---- healing ----------------------------------------------------------------------------------------------------

    def _heal(self) -> None:
        self.is_healing = True
        self.schedule.tell("world", "the faults end")
        self.kafka.is_away = False
        for topic, partitions in self.mix.topics.items():
            if topic not in self.kafka.topics:
                self.kafka.create(topic, partitions)
        self.network.heal()
        self.coordinator.heal_disk()
        self.coordinator.resume()
        self.coordinator.power_on()
        for application in self.applications:
            if application.query is not None:
                application.query.resume()
            if application.is_copy:
                self.remove(application)
        if not any(application.is_wanted for application in self.applications):
            self.add_application()
        for application in self.applications:
            if application.is_wanted:
                self.restart_later(application, 0)

    def _unrest(self) -> str | None:
        """Say what is not as it ought to be when nothing fails any more."""
        if not self.coordinator.is_up:
            return "the coordinator is down"
        wanted = [application for application in self.applications if application.is_wanted]
        owners: dict[tuple[str, int], list[str]] = {}
        for application in wanted:
            query = application.query
            if query is None or query.member is None or query.member.state is not State.JOINED:
                return f"{application.host} is no member: {query and query.member and query.member.state}"
            assignment = query.member.assignment
            if not assignment.is_complete:
                return f"the assignment of {application.host} is not complete: {assignment}"
            for part in assignment.partitions:
                owners.setdefault((part.topic, part.partition), []).append(application.host)
        shard = self.coordinator.node.shard_of(GROUP)
        group = self.checker.group(GROUP, shard)
        for name, topic in self.kafka.topics.items():
            for number, end in enumerate(topic.ends):
                names = owners.pop((name, number), [])
                if len(names) != 1:
                    return f"{name}-{number} is owned by {names}"
                committed = group.committed((name, number), topic.topic_id)
                if committed is None or committed < end:
                    return f"{name}-{number} is committed up to {committed} and ends at {end}"
        return f"{owners} are owned and do not exist" if owners else None

    # ---- applications -----------------------------------------------------------------------------------------------

    def add_application(self) -> Application:
        self._hosts += 1
        dice = self.dice
        application = Application(
            host=f"q{self._hosts}",
            checkpoint=Checkpoint(),
            assignors=dice.choice(self.mix.assignors),
            streams=dice.choice((1, 1, 2, 4)),
            instance_id=f"static-{self._hosts}" if self.mix.handover == "hold" or dice.random() < 0.3 else None,
            prefers_available_now=dice.random() < 0.15,
        )
        self.applications.append(application)
        self.launch(application)
        return application

    def copy(self, application: Application) -> None:
        """Start another query from a copy of a checkpoint."""
        self._hosts += 1
        twin = Application(
            host=f"q{self._hosts}",
            checkpoint=application.checkpoint.copy(),
            assignors=application.assignors,
            streams=application.streams,
            instance_id=application.instance_id,
            prefers_available_now=False,
            is_copy=True,
        )
        self.applications.append(twin)
        self.launch(twin)

    def launch(self, application: Application) -> None:
        """Start a process of an application, unless one runs."""
        query = application.query
        if not application.is_wanted or (query is not None and query.is_jvm_alive):
            return
        self.processes += 1
        application.lives += 1
        application.query = Query(
            self,
            application.host,
            f"{application.host}.{application.lives}",
            application.checkpoint,
            self._settings(application),
            is_available_now=application.prefers_available_now and not self.is_healing,
        )
        self.schedule.tell(application.query.name, "starts")
        application.query.start()

    def _settings(self, application: Application) -> MemberSettings:
        return MemberSettings(
            coordinators=((ADDRESS.host, ADDRESS.port),),
            group_id=GROUP,
            topics=tuple(self.mix.topics),
            client_id=application.host,
            instance_id=application.instance_id,
            streams=application.streams,
            assignors=application.assignors,
            session_timeout_ms=self.mix.session_timeout_ms,
            rebalance_timeout_ms=self.mix.rebalance_timeout_ms,
            reset_policy=self.mix.policy,
            handover=self.mix.handover,
            coordinator_timeout_ms=30_000,
        )

    def restart_later(self, application: Application, ms: int | None = None) -> None:
        delay_ms = self.dice.choice((10, 100, 600, 3_000)) if ms is None else ms
        if self.is_healing:
            delay_ms = min(delay_ms, 100)
        self.schedule.after(delay_ms, self.launch, application)

    def application_of(self, query: Query) -> Application:
        return next(application for application in self.applications if application.query is query)

    def remove(self, application: Application) -> None:
        """Have an application no more."""
        application.is_wanted = False
        if application.query is not None:
            application.query.end()

    def running(self) -> list[Application]:
        """Return the applications that have a process which is not stopped."""
        return [a for a in self.applications if a.query is not None and a.query.is_jvm_alive and not a.query.is_paused]

    # ---- asked by queries -------------------------------------------------------------------------------------------

    @property
    def limit(self) -> int | None:
        """The most offsets of a micro-batch; whatever piled up may be read at once in the end."""
        return None if self.is_healing else self.mix.limit

    def batch_ms(self) -> int:
        """Draw how long the tasks of a micro-batch read."""
        if not self.is_healing and self.dice.random() < self.mix.slow_batch:
            return self.dice.choice((1_000, self.mix.rebalance_timeout_ms, 2 * self.mix.rebalance_timeout_ms))
        return self.dice.choice((5, 20, 60, 200))

    def deliver(self, query: Query, member_id: str, claims: Iterable[Claim]) -> None:
        """Take what a micro-batch wrote to its sink."""
        claims = tuple(claims)
        self.schedule.tell(query.name, ("delivers", claims))
        self.checker.deliver(member_id, claims)

    def dies_at_step(self, query: Query) -> bool:
        """Kill a query between two steps of Spark, now and then."""
        if self.is_healing or self.dice.random() >= self.mix.crash_at_step:
            return False
        self.faults += 1
        self.schedule.tell(query.name, "dies here")
        query.kill_jvm()
        self.restart_later(self.application_of(query))
        return True

    def query_finished(self, query: Query) -> None:
        """Take note of an AvailableNow run that is done."""
        self.schedule.tell(query.name, "is done")
        query.stop()
        self.restart_later(self.application_of(query))

    def query_failed(self, query: Query, why: str) -> None:
        self.schedule.tell(query.name, f"fails: {why}")
        query.stop()
        application = self.application_of(query)
        if application.is_copy:
            application.is_wanted = False
        self.restart_later(application)

    def unexpected_end(self, query: Query, error: KcoordError) -> None:
        raise ViolationError("query-refused", f"{query.name} ended with an error that no fault explains: {error}")

    # ---- the operator, who looks on ---------------------------------------------------------------------------------

    def _look(self) -> None:
        if self.coordinator.is_up and not self.coordinator.is_paused:
            request = self.dice.choice((FetchOffsets(GROUP), FetchOffsets(GROUP), DescribeGroup(GROUP), ListGroups()))
            self.ask_as_operator(request)
        self.schedule.after(self.dice.randint(1, 2 * LOOK_EVERY_MS), self._look)

    def ask_as_operator(self, request: Request) -> None:
        """Send a request on the operator's connection; the checker looks at its answer."""
        coordinator = self.coordinator
        shard = coordinator.node.shard_of(getattr(request, "group_id", GROUP))
        known_end = self.checker.durable_end(shard)
        self.schedule.after(
            self.dice.choice(self.mix.network_delays_ms), self._operator_arrives, coordinator.life, request, known_end
        )

    def _operator_arrives(self, life: int, request: Request, known_end: int) -> None:
        if life == self.coordinator.life:
            self.coordinator.do(partial(self._operator_asks_now, request, known_end))

    def _operator_asks_now(self, request: Request, known_end: int) -> None:
        if self._operator_life != self.coordinator.life:
            self._operator_life = self.coordinator.life
            self.coordinator.opened(OPERATOR, "operator")
        self._operator_asks += 1
        self.coordinator.arrived(OPERATOR, self._operator_asks, request, known_end)

    def commit_as_operator(self) -> bool:
        """Commit forward for partitions that nobody owns, or in a group without members."""
        group_id = self.dice.choice((GROUP, OTHER_GROUP))
        name = self.dice.choice(sorted(self.mix.topics))
        topic = self.kafka.topics.get(name)
        if topic is None or not self.coordinator.is_up:
            return False
        number = self.dice.randrange(len(topic.ends))
        offset = self.dice.randint(topic.begins[number], topic.ends[number])
        self.ask_as_operator(CommitOffsets(group_id, (OffsetToCommit(name, number, offset),)))
        return True

    def reset_as_operator(self) -> bool:
        """Set the offset of a partition, whoever owns it."""
        dice = self.dice
        name = dice.choice(sorted(self.mix.topics))
        topic = self.kafka.topics.get(name)
        if topic is None or not self.coordinator.is_up:
            return False
        number = dice.randrange(len(topic.ends))
        kind = dice.choice(("earliest", "latest", "offset", "shift"))
        value = {"offset": dice.randint(topic.begins[number], topic.ends[number]), "shift": dice.choice((-7, 3))}
        target = ResetTarget(name, number, kind, value.get(kind))
        releases = dice.random() < 0.3
        request = ResetOffsets(GROUP, (target,), "sim", "to try it", release_claims=releases, is_dry_run=False)
        self.ask_as_operator(request)
        return True
