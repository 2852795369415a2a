"""The applications of a run: queries and consumers that somebody wants, each started again whenever it ends."""

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from coordinator.protocol.parts import StartHint, Subscription
from coordinator.protocol.vocabulary import IsolationLevel
from spark_kcoord.member.settings import MemberSettings
from tests.sim.consumer import Consumer
from tests.sim.coordinator import ADDRESS, GROUP
from tests.sim.group_batch import GroupBatch
from tests.sim.lost_disk import draw_start_hints
from tests.sim.policies import POLICIES
from tests.sim.process import Process
from tests.sim.query import Checkpoint, Query
from tests.sim.sink import Sink, draw_sink

if TYPE_CHECKING:
    from tests.sim.world import World

PATTERN = "[tp][0-9]"
GROUP_BATCHES = 0.15
"""How often an application that would be a query reads in blocks of ``spark_kcoord.batch`` instead."""


@dataclass(slots=True)
class Application:
    """A query or a consumer that somebody wants to run."""

    host: str
    subscription: Subscription
    assignors: tuple[str, ...]
    streams: int
    instance_id: str | None
    checkpoint: Checkpoint | None
    """What survives a query; a consumer has nothing."""
    sink: Sink
    """Where a query writes to; it outlives the checkpoint."""
    older: Checkpoint | None = None
    """A copy of the checkpoint as it was some time ago."""
    start_hints: tuple[StartHint, ...] = ()
    """Where its options say that partitions start."""
    auto_commit: bool = False
    wants_streams: bool = False
    prefers_available_now: bool = False
    tolerates_loss: bool = False
    """A person has set failOnDataLoss to false after the query had failed."""
    jvm: str = ""
    """Its Spark application; the same for both of two sources."""
    shares_jvm: bool = False
    commits: bool = True
    other: "Application | None" = None
    """The other source of the same query, without which it reads nothing."""
    isolation_level: str = IsolationLevel.READ_UNCOMMITTED
    process: Process | None = None
    is_wanted: bool = True
    is_rival: bool = False
    """It shares an identity or a partition with another one, and goes when the faults end."""
    is_group_batch: bool = False
    """It runs one block of ``spark_kcoord.batch`` after another, and goes when the faults end."""
    lives: int = 0

    def reads(self, topic: str, number: int) -> bool:
        """Say whether a partition is among those it subscribes to."""
        wish = self.subscription
        if wish.partitions:
            return (topic, number) in wish.partitions
        is_named = topic in wish.topics if wish.pattern is None else re.fullmatch(PATTERN, topic) is not None
        return is_named and topic not in wish.exclusions


class Fleet:
    """All applications of one run."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.applications: list[Application] = []
        self.processes = 0
        self._hosts = 0

    # ---- who there is -----------------------------------------------------------------------------------------------

    def running(self) -> list[Application]:
        """Return the applications that have a process which is not stopped."""
        return [
            a for a in self.applications if a.process is not None and a.process.is_running and not a.process.is_paused
        ]

    def wanted(self) -> list[Application]:
        return [application for application in self.applications if application.is_wanted]

    def application_of(self, process: Process) -> Application:
        return next(application for application in self.applications if application.process is process)

    # ---- coming -----------------------------------------------------------------------------------------------------

    def add(self) -> Application:
        """Have another application."""
        self._hosts += 1
        world, dice = self._world, self._world.dice
        is_consumer = dice.random() < world.mix.consumers
        subscription, is_rival = self._draw_subscription()
        can_be_a_block = bool(self.wanted()) and not is_consumer and not world.mix.is_slow
        is_group_batch = can_be_a_block and dice.random() < GROUP_BATCHES
        needs_instance = world.mix.handover == "hold"
        application = Application(
            host=f"{'c' if is_consumer else 'q'}{self._hosts}",
            subscription=subscription,
            assignors=dice.choice(world.mix.assignors),
            streams=dice.choice((1, 1, 2, 4)),
            instance_id=f"static-{self._hosts}" if needs_instance or dice.random() < 0.3 else None,
            checkpoint=None if is_consumer else Checkpoint(),
            sink=draw_sink(dice, world.checker.coverage),
            auto_commit=is_consumer and dice.random() < 0.6,
            wants_streams=dice.random() < 0.3,
            prefers_available_now=dice.random() < 0.3,
            is_rival=is_rival or is_group_batch,
            is_group_batch=is_group_batch,
            start_hints=draw_start_hints(world) if dice.random() < world.mix.start_hints else (),
            jvm=f"jvm-{self._hosts}",
            isolation_level=IsolationLevel.READ_COMMITTED
            if dice.random() < world.mix.read_committed
            else IsolationLevel.READ_UNCOMMITTED,
        )
        # In the end somebody is added who reads what nobody does.
        may_be_odd = not is_consumer and not is_group_batch and not world.is_healing
        if may_be_odd and dice.random() < world.mix.readers:
            # It takes from the others what it reads, so that nobody commits it: it is gone in the end.
            application.commits, application.is_rival = False, True
        self.applications.append(application)
        if may_be_odd and dice.random() < world.mix.two_sources:
            self._add_source(application)
        self.launch(application)
        return application

    def _add_source(self, application: Application) -> None:
        """Have an application read the same a second time: as a query that says so, or as one that does not."""
        self._hosts += 1
        # Each counts its own micro-batches, so each has a sink that knows the numbers of its own only.
        another = application.sink.another()
        second = replace(application, host=f"q{self._hosts}", checkpoint=Checkpoint(), sink=another)
        if application.instance_id is not None:
            second.instance_id = f"static-{self._hosts}"
        if self._world.dice.random() < 0.5:
            application.shares_jvm = second.shares_jvm = True
            second.is_rival = second.is_rival or bool(application.subscription.partitions)
        else:
            application.other, second.other = second, application
            application.is_rival = second.is_rival = True
            # One of the two may say that it shares.
            second.shares_jvm = self._world.dice.random() < 0.3
        self.applications.append(second)
        self._world.schedule.after(self._world.dice.choice((0, 3, 40)), self.launch, second)

    def _draw_subscription(self) -> tuple[Subscription, bool]:
        """Draw what an application reads, and whether it is somebody else's already."""
        dice, mix = self._world.dice, self._world.mix
        names = tuple(mix.topics)
        kind = dice.choice(mix.subscriptions)
        if kind == "some topics":
            return Subscription(topics=(dice.choice(names),)), False
        if kind == "pattern":
            excluded = (dice.choice((*names, *mix.passing_topics)),) if dice.random() < 0.4 else ()
            return Subscription(pattern=PATTERN, exclusions=excluded), False
        if kind == "partitions":
            taken = {partition for other in self.wanted() for partition in other.subscription.partitions}
            every = [(name, number) for name in names for number in range(mix.topics[name])]
            mine = sorted(dice.sample(every, min(len(every), dice.choice((1, 2)))))
            return Subscription(partitions=tuple(mine)), not taken.isdisjoint(mine)
        if len(names) > 1 and dice.random() < 0.2:
            return Subscription(topics=names, exclusions=(dice.choice(names),)), False
        return Subscription(topics=names), False

    def copy(self, application: Application) -> None:
        """Start another query from a copy of a checkpoint."""
        if application.checkpoint is None:
            return
        self._hosts += 1
        twin = replace(
            application,
            host=f"q{self._hosts}",
            checkpoint=application.checkpoint.copy(),
            sink=application.sink.another(),
            prefers_available_now=False,
            jvm=f"jvm-{self._hosts}",
            shares_jvm=False,
            other=None,
            is_rival=True,
            process=None,
            is_wanted=True,
            lives=0,
        )
        self.applications.append(twin)
        self.launch(twin)

    def launch(self, application: Application) -> None:
        """Start a process of an application, unless one runs."""
        process = application.process
        if not application.is_wanted or (process is not None and process.is_running):
            return
        self.processes += 1
        application.lives += 1
        name = f"{application.host}.{application.lives}"
        if application.checkpoint is not None:
            other = application.other
            is_available_now = application.prefers_available_now and not self._world.is_healing
            process_kind = GroupBatch if application.is_group_batch else Query
            query = application.process = process_kind(
                self._world,
                application.host,
                name,
                application.checkpoint,
                self._settings(application),
                is_available_now=is_available_now,
                sink=application.sink,
                fail_on_data_loss=self._world.fails_on_data_loss and not application.tolerates_loss,
            )
            if other is not None:
                query.other_has_joined = lambda: isinstance(other.process, Query) and other.process.has_ever_joined
        else:
            application.process = Consumer(self._world, application.host, name, self._settings(application))
        self._world.schedule.tell(name, "starts")
        application.process.start()

    def _settings(self, application: Application) -> MemberSettings:
        mix, wish = self._world.mix, application.subscription
        return MemberSettings(
            coordinators=((ADDRESS.host, ADDRESS.port),),
            group_id=GROUP,
            client_id=application.host,
            topics=wish.topics,
            pattern=wish.pattern,
            partitions=wish.partitions,
            exclusions=wish.exclusions,
            instance_id=application.instance_id,
            streams=application.streams,
            assignors=application.assignors,
            session_timeout_ms=mix.session_timeout_ms,
            rebalance_timeout_ms=mix.rebalance_timeout_ms,
            hints=application.start_hints,
            reset_policy=mix.policy if application.commits else self._world.dice.choice(POLICIES),
            handover=mix.handover,
            claim_timeout_ms=mix.claim_timeout_ms,
            coordinator_timeout_ms=mix.coordinator_timeout_ms,
            auto_commit=application.auto_commit,
            lets_go_itself=application.checkpoint is not None,
            plans_itself=not application.is_group_batch,
            wants_streams=application.wants_streams,
            application=application.jvm if application.checkpoint is not None else None,
            shares_application=application.shares_jvm,
            commits=application.commits,
            isolation_level=application.isolation_level,
        )

    def restart_later(self, application: Application, ms: int | None = None) -> None:
        delay_ms = self._world.dice.choice((10, 100, 600, 3_000)) if ms is None else ms
        if self._world.is_healing:
            delay_ms = min(delay_ms, 100)
        self._world.schedule.after(delay_ms, self.launch, application)

    # ---- going ------------------------------------------------------------------------------------------------------

    def process_ended(self, process: Process, why: str, *, is_failure: bool) -> None:
        """Take note that a process is done or has failed; its application starts another one."""
        self._world.schedule.tell(process.name, f"fails: {why}" if is_failure else why)
        process.stop()
        application = self.application_of(process)
        if is_failure and application.is_rival:
            application.is_wanted = False
            if application.other is not None:
                self.remove(application.other)
        self.restart_later(application)

    def remove(self, application: Application) -> None:
        """Have an application no more."""
        application.is_wanted = False
        if application.process is not None:
            application.process.end()

    def take_away(self, application: Application) -> None:
        """Have an application go for good: it leaves, or it is killed and not started again."""
        assert application.process is not None
        application.is_wanted = False
        if self._world.dice.random() < 0.5:
            application.process.leave()
        else:
            application.process.kill()

    def heal(self) -> None:
        """Have everything run that is wanted and can be had."""
        for application in self.applications:
            if application.process is not None:
                application.process.resume()
            named = application.subscription.partitions
            if application.is_rival or not all(self._world.kafka.has(*partition) for partition in named):
                self.remove(application)
        if not self.wanted():
            self.add()
        for application in self.wanted():
            self.restart_later(application, 0)
