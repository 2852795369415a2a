"""The demo's acts, one after the other: each begins with something done and ends when the group shows its effect.

Every wait is bounded, watches that nobody who should live has died, and shows how things stand meanwhile. Whatever
was started is ended when the story ends, in whichever way. What is true is read from the coordinator and from the
sinks, never assumed from what was done.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar

from coordinator.demo.applications import ApplicationSettings, SparkApplication, find_conf, find_job
from coordinator.demo.data.checker import Verdict, check_delivery, explain_repeats
from coordinator.demo.data.flights import FIRST_LINE, find_archive, read_flights
from coordinator.demo.data.producer import FlightProducer, Pace
from coordinator.demo.data.sink import read_delivered
from coordinator.demo.errors import DemoError
from coordinator.demo.nodes import CoordinatorNodes
from coordinator.demo.outcome import Outcome
from coordinator.demo.screen.dashboard import Dashboard, Picture
from coordinator.demo.screen.timeline import Handover, describe_event, find_handover, granted_to, name_partitions
from coordinator.demo.screen.view import View
from coordinator.demo.settings import (
    FIRST,
    JOIN_TIMEOUT_S,
    PARTITIONS,
    SECOND,
    STEP_TIMEOUT_S,
    TOPIC,
    DemoSettings,
)
from coordinator.demo.watch import GroupWatch, member_named, owned_by, running_claims
from coordinator.protocol.messages import DescribeGroupResponse

_POLL_S: Final = 0.2
_QUICK_POLL_S: Final = 0.01
_ALL: Final = frozenset(range(PARTITIONS))

T = TypeVar("T")


class Service(Protocol):
    """The calls that the story needs of the broker."""

    @property
    def is_running(self) -> bool:
        """Say whether its process lives."""
        ...

    def log_tail(self) -> str:
        """Return the last lines of its log."""
        ...


@dataclass(frozen=True, slots=True)
class Stage:
    """The stage of the story: a topic on a running broker, a running coordinator, and a directory for the rest."""

    kafka: Service
    kafka_address: str
    coordinator: CoordinatorNodes
    applications: ApplicationSettings
    watch: GroupWatch


@dataclass(frozen=True, slots=True)
class Kill:
    """The second application's death, and what it held."""

    survivor: str
    killed: str
    lost: frozenset[int]
    reading: frozenset[int]
    committed: dict[int, int]
    """Committed offsets when it was decided, a partition."""
    events_before: int
    at_ms: int
    """Wall-clock time of SIGKILL."""
    at_s: float
    """The same on the clock that waits are measured with."""


@dataclass(frozen=True, slots=True)
class Failover:
    """The death of the node that coordinated the group."""

    killed: str
    successor: str
    took_ms: int
    """From SIGKILL until a micro-batch was committed at the successor, as the demo saw it."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of the story: the figures, the sentences that explain them, and the last picture of the group."""

    outcome: Outcome
    sentences: tuple[str, ...]
    picture: Picture


class Story:
    """One run; a context manager that ends whatever it started. `started_s` is monotonic time 0 of what is shown."""

    def __init__(self, settings: DemoSettings, stage: Stage, view: View, started_s: float) -> None:
        self._settings = settings
        self._stage = stage
        self._view = view
        self._stack = ExitStack()
        self._started_s = started_s
        self._started_ms = time.time_ns() // 1_000_000 - round((time.monotonic() - started_s) * 1000)
        self._dashboard = Dashboard(settings.flights)
        self._act = ""
        self._acts = 0
        self._running: list[SparkApplication] = []
        self._producer = FlightProducer(
            stage.kafka_address,
            TOPIC,
            read_flights(find_archive(), settings.flights),
            total=settings.flights,
            pace=Pace(settings.flights, settings.seconds, settings.free),
        )
        find_job()
        find_conf()

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the producer and every application."""
        self._stack.close()

    def play(self) -> Ending:
        """Play all acts; raises DemoError with the reason when one does not end as it must."""
        first = self._first_reads_alone()
        second, moved = self._second_joins()
        kill = self._second_is_killed(second)
        handover, seen_ms = self._first_takes_over(kill)
        failover = self._leader_is_killed() if self._stage.coordinator.count > 1 else None
        last = self._first_reads_the_rest(first)
        verdict = self._compare(first, second, kill)
        handover_ms = handover.last_grant_ms - kill.at_ms
        outcome = Outcome(
            flights=verdict.flights,
            missing=verdict.missing,
            duplicates=verdict.repeats,
            lag=last.lag or 0,
            moved=len(moved),
            taken_over=len(handover.partitions),
            handover_ms=handover_ms,
            nodes=self._stage.coordinator.count,
            failover_ms=None if failover is None else failover.took_ms,
        )
        return Ending(outcome, _sentences(verdict, handover, handover_ms, seen_ms, failover), last)

    # ---- the acts ---------------------------------------------------------------------------------------------------

    def _first_reads_alone(self) -> SparkApplication:
        self._begin("the first application joins and reads alone")
        first = self._launch(FIRST)
        self._until(
            lambda group: self._member(group, FIRST, _ALL),
            JOIN_TIMEOUT_S,
            "the first application owns every partition",
        )
        self._say(f"the producer starts: {self._settings.flights:,} flights in {self._settings.seconds:g} s")
        self._stack.callback(self._producer.stop)
        self._producer.start()
        self._until(
            lambda group: _has_moved(group, dict.fromkeys(_ALL, 0)) or None,
            STEP_TIMEOUT_S,
            "the first application has committed a micro-batch",
        )
        return first

    def _second_joins(self) -> tuple[SparkApplication, frozenset[int]]:
        self._begin("the second application joins the same group: partitions move")
        second = self._launch(SECOND)
        member_id, owned = self._until(
            lambda group: self._settled(group, SECOND), JOIN_TIMEOUT_S, "the second application owns its share"
        )
        self._look()
        return second, granted_to(self._stage.watch.events, member_id) & owned

    def _second_is_killed(self, second: SparkApplication) -> Kill:
        self._begin("both read; the second is killed with SIGKILL while it reads")
        shared_until_s = time.monotonic() + self._settings.shared_s
        begun = self._until(self._started_claims, STEP_TIMEOUT_S, "the second application reads")
        self._until(
            lambda group: (time.monotonic() >= shared_until_s and _has_moved(group, begun)) or None,
            STEP_TIMEOUT_S,
            "the second application has committed what it read",
        )
        events_before = len(self._stage.watch.events)
        kill = self._quickly(lambda: self._kill_while_reading(second, events_before), "it holds a running claim")
        self._running.remove(second)
        self._say(
            f"SIGKILL to the second application's process group while it reads {name_partitions(sorted(kill.reading))}",
            style="bold red",
        )
        return kill

    def _first_takes_over(self, kill: Kill) -> tuple[Handover, int]:
        self._begin("its partitions return to the first")

        def returned() -> int | None:
            group = self._stage.watch.describe()
            return round((time.monotonic() - kill.at_s) * 1000) if owned_by(group, kill.survivor) == _ALL else None

        seen_ms = self._quickly(returned, "the first application owns every partition again")

        def told(_group: DescribeGroupResponse | None) -> Handover | None:
            return find_handover(self._stage.watch.events[kill.events_before :], kill.survivor, kill.lost)

        handover = self._until(told, STEP_TIMEOUT_S, "the group's timeline shows the hand-over")
        self._say(
            f"the first application owns every partition again, {handover.last_grant_ms - kill.at_ms} ms after SIGKILL",
            style="bold green",
        )
        return handover, seen_ms

    def _leader_is_killed(self) -> Failover:
        self._begin("the node that coordinates the group is killed with SIGKILL; another one goes on")
        watch, nodes = self._stage.watch, self._stage.coordinator
        self._producer.release()
        killed = watch.coordinated_by()
        nodes.kill(killed)
        at_s = time.monotonic()
        self._say(f"SIGKILL to the coordinator node at {killed}", style="bold red")
        begun = self._until(_committed, STEP_TIMEOUT_S, "another node describes the group")
        self._until(
            lambda group: _has_moved(group, begun) or self._all_committed(group),
            STEP_TIMEOUT_S,
            "a micro-batch is committed at another node",
        )
        took_ms = round((time.monotonic() - at_s) * 1000)
        successor = watch.coordinated_by()
        self._say(
            f"the node at {successor} coordinates the group; a micro-batch is committed there", style="bold green"
        )
        return Failover(killed, successor, took_ms)

    def _first_reads_the_rest(self, first: SparkApplication) -> Picture:
        self._begin("the first reads the rest")
        self._producer.release()
        self._until(
            lambda _group: self._producer.is_done or None,
            self._settings.seconds + STEP_TIMEOUT_S,
            "every flight is produced",
        )
        picture = self._until(self._all_committed, STEP_TIMEOUT_S, "every flight is committed")
        self._say("every flight is committed at the coordinator; the first application ends")
        self._running.remove(first)
        first.stop()
        return picture

    def _compare(self, first: SparkApplication, second: SparkApplication, kill: Kill) -> Verdict:
        verdict = check_delivery(
            expected=range(FIRST_LINE, FIRST_LINE + self._settings.flights),
            survivor=read_delivered(first.output),
            killed=read_delivered(second.output),
            committed_at_kill={partition: kill.committed.get(partition, 0) for partition in kill.lost},
        )
        if not verdict.is_good:
            missing = [f"{verdict.missing} flights are missing"] if verdict.missing else []
            raise DemoError("; ".join([*missing, *verdict.wrong]))
        return verdict

    # ---- what the group shows ---------------------------------------------------------------------------------------

    def _member(self, group: DescribeGroupResponse | None, name: str, wanted: frozenset[int]) -> str | None:
        member_id = member_named(group, name)
        return member_id if member_id is not None and owned_by(group, member_id) == wanted else None

    def _settled(self, group: DescribeGroupResponse | None, name: str) -> tuple[str, frozenset[int]] | None:
        member_id = member_named(group, name)
        if group is None or member_id is None or any(p.member_id is None or p.is_stopping for p in group.partitions):
            return None
        share = owned_by(group, member_id)
        return (member_id, share) if len(share) == PARTITIONS // 2 else None

    def _started_claims(self, group: DescribeGroupResponse | None) -> dict[int, int] | None:
        """Return where the second application's partitions begin, once one of them is read."""
        second = member_named(group, SECOND)
        if group is None or second is None or not running_claims(group, second):
            return None
        return {p.partition: p.committed for p in group.partitions if p.member_id == second and p.committed is not None}

    def _kill_while_reading(self, second: SparkApplication, events_before: int) -> Kill | None:
        group = self._stage.watch.describe()
        survivor, killed = member_named(group, FIRST), member_named(group, SECOND)
        if group is None or survivor is None or killed is None:
            raise DemoError("a member left the group before anything was done to it")
        reading = running_claims(group, killed)
        if not reading:
            return None
        second.kill()
        return Kill(
            survivor=survivor,
            killed=killed,
            lost=owned_by(group, killed),
            reading=frozenset(partition.partition for partition in reading),
            committed={p.partition: p.committed for p in group.partitions if p.committed is not None},
            events_before=events_before,
            at_ms=time.time_ns() // 1_000_000,
            at_s=time.monotonic(),
        )

    def _all_committed(self, group: DescribeGroupResponse | None) -> Picture | None:
        picture = self._picture(group)
        ends = sum(row.end or 0 for row in picture.partitions)
        return picture if picture.committed == ends == self._settings.flights and picture.lag == 0 else None

    # ---- waiting and showing ----------------------------------------------------------------------------------------

    def _until(self, what: Callable[[DescribeGroupResponse | None], T | None], timeout_s: float, hope: str) -> T:
        deadline = time.monotonic() + timeout_s
        while True:
            found = what(self._look())
            if found is not None:
                return found
            self._give_up(deadline, timeout_s, hope)
            time.sleep(_POLL_S)

    def _quickly(self, what: Callable[[], T | None], hope: str) -> T:
        """Wait for what happens within milliseconds: nothing is shown meanwhile."""
        deadline = time.monotonic() + STEP_TIMEOUT_S
        while (found := what()) is None:
            self._give_up(deadline, STEP_TIMEOUT_S, hope)
            time.sleep(_QUICK_POLL_S)
        return found

    def _give_up(self, deadline: float, timeout_s: float, hope: str) -> None:
        for name, service in (("Kafka", self._stage.kafka), ("the coordinator", self._stage.coordinator)):
            if not service.is_running:
                raise DemoError(f"{name} ended by itself", service.log_tail())
        for application in self._running:
            application.must_run()
        if time.monotonic() > deadline:
            details = "\n\n".join(application.log_tail() for application in self._running)
            raise DemoError(f"this did not happen within {timeout_s:g} s: {hope}", details)

    def _look(self) -> DescribeGroupResponse | None:
        group = self._stage.watch.describe()
        picture = self._picture(group)
        for event in self._stage.watch.new_events():
            at_s = max(0.0, (event.at_ms - self._started_ms) / 1000)
            self._view.say(at_s, describe_event(event, self._dashboard.names))
        self._view.show(picture)
        return group

    def _picture(self, group: DescribeGroupResponse | None) -> Picture:
        return self._dashboard.picture(self._elapsed_s(), self._act, self._producer.sent, group)

    def _launch(self, name: str) -> SparkApplication:
        application = SparkApplication(name, self._stage.applications)
        self._stack.callback(application.stop)
        application.start()
        self._running.append(application)
        self._say(f"the {name} application starts with spark-submit")
        return application

    def _begin(self, act: str) -> None:
        self._acts += 1
        self._act = f"{self._acts}/{5 if self._stage.coordinator.count == 1 else 6}  {act}"
        self._say(self._act, style="bold")

    def _say(self, text: str, *, style: str = "") -> None:
        self._view.say(self._elapsed_s(), text, style=style)

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._started_s


def _committed(group: DescribeGroupResponse | None) -> dict[int, int] | None:
    """Return the committed offset of each partition that has one."""
    found = {p.partition: p.committed for p in group.partitions if p.committed is not None} if group else {}
    return found or None


def _has_moved(group: DescribeGroupResponse | None, begun: dict[int, int]) -> bool:
    """Say whether a partition's committed offset is past where it began."""
    return group is not None and any(
        p.committed > begun.get(p.partition, p.committed) for p in group.partitions if p.committed is not None
    )


def _sentences(
    verdict: Verdict, handover: Handover, handover_ms: int, seen_ms: int, failover: Failover | None
) -> tuple[str, ...]:
    idle = handover.partitions - handover.claimed
    waited = f"{name_partitions(sorted(handover.claimed))} had a running claim and waited out the grace"
    at_once = f"{name_partitions(sorted(idle))} had none and went at once"
    how = "; ".join([*([waited] if handover.claimed else []), *([at_once] if idle else [])])
    moved = () if failover is None else (_failover_sentence(failover),)
    return (
        f"{verdict.rows:,} rows in the two sinks are {verdict.flights:,} flights, none missing.",
        explain_repeats(verdict, "the second application", "the first"),
        f"Hand-over after SIGKILL: {handover_ms} ms by the group's timeline, {seen_ms} ms as this demo saw it ({how}).",
        *moved,
    )


def _failover_sentence(failover: Failover) -> str:
    return (
        f"The group's node at {failover.killed} was killed; the one at {failover.successor} goes on, and a micro-batch "
        f"was committed there {failover.took_ms} ms after SIGKILL, as this demo saw it."
    )
