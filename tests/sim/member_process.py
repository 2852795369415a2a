"""A process with the real member machine in it, and the network and the clock that drive it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, assert_never

from spark_kcoord.errors import KcoordError
from spark_kcoord.member.core import effects, events
from spark_kcoord.member.core.effects import NoticeKind
from spark_kcoord.member.core.held.holdings import Assignment
from spark_kcoord.member.core.machine import Member
from spark_kcoord.member.core.session.states import State
from tests.sim.process import Process, TopicPartition

if TYPE_CHECKING:
    from tests.sim.world import World

Then = Callable[[Any], object]
OrElse = Callable[[KcoordError], object]


class MemberProcess(Process):
    """A process that is a member, once it has made one."""

    def __init__(self, world: "World", host: str, name: str) -> None:
        super().__init__(world, host, name)
        self.member: Member | None = None
        self.has_been_told = False
        """It was let into its group once, and knows since how far the log had come."""
        self.connects = 0
        """The connections that it has asked for."""
        self.sessions_lost = 0
        """How often it heard nothing for a whole session time-out."""
        self._calls = 0
        self._answers: dict[int, tuple[Then, OrElse]] = {}
        self._wake_ms: int | None = None

    @property
    def member_id(self) -> str:
        return self.member.member_id if self.member is not None else ""

    @property
    def has_joined(self) -> bool:
        return self.member is not None and self.member.state is State.JOINED

    @property
    def assignment(self) -> Assignment:
        """What the member owns, nothing while there is none."""
        if self.member is None:
            return Assignment()
        return self.member.assignment.at(self.now_ms(), self.member.lease.ends_ms)

    @property
    def is_settled(self) -> bool:
        return self.assignment.is_complete

    @property
    def owned(self) -> list[TopicPartition]:
        return [(part.topic, part.partition) for part in self.assignment.partitions]

    # ---- what it asks of the member ---------------------------------------------------------------------------------

    def call(self, call: events.AnyCall, then: Then, or_else: OrElse) -> None:
        """Make a call to the member; it is answered with its result or its error, in a step of its own."""
        self._calls += 1
        self._answers[self._calls] = (then, or_else)
        self.step(events.CallMade(self._calls, call))

    def step(self, event: events.Event) -> None:
        """Let the member take an event, and do what it wants done."""
        member, network = self.member, self.world.network
        if member is None or not self.is_alive:
            return
        answers: list[effects.Completed | effects.Failed] = []
        done = member.step(event, self.now_ms())
        self.has_been_told = self.has_been_told or self.has_joined
        self.world.checker.epochs.heard(self.name, member.assignment)
        for effect in done:
            match effect:
                case effects.Send(connection_id, data):
                    network.send(self, connection_id, data)
                case effects.Connect(connection_id):
                    self.connects += 1
                    network.connect(self, connection_id)
                case effects.Disconnect(connection_id):
                    network.disconnect(self, connection_id)
                case effects.WakeAt(wake_ms):
                    self._wake_ms = wake_ms
                    if wake_ms is not None:
                        self.world.schedule.at(wake_ms - self._base_ms, self._tick, wake_ms)
                case effects.Completed() | effects.Failed():
                    answers.append(effect)
                case effects.Notice():
                    self.sessions_lost += effect.kind is NoticeKind.SESSION_LOST
                    self.world.schedule.tell(self.name, effect)
                case _:
                    assert_never(effect)
        for answer in answers:
            then, or_else = self._answers.pop(answer.call_id, (None, None))
            if then is not None and isinstance(answer, effects.Completed):
                self.world.schedule.after(0, then, answer.result)
            elif or_else is not None and isinstance(answer, effects.Failed):
                self.world.schedule.after(0, or_else, answer.error)
        self.stepped()

    def stepped(self) -> None:
        """Look at what the member has become; called after every step."""

    def _tick(self, wake_ms: int) -> None:
        if self._wake_ms == wake_ms:
            self.do(lambda: self.step(events.Ticked()))

    # ---- its connections --------------------------------------------------------------------------------------------

    def on_connected(self, connection_id: int) -> None:
        self.do(lambda: self.step(events.Connected(connection_id)))

    def on_bytes(self, connection_id: int, data: bytes) -> None:
        self.do(lambda: self.step(events.BytesReceived(connection_id, data)))

    def on_lost(self, connection_id: int, why: str) -> None:
        self.do(lambda: self.step(events.ConnectionLost(connection_id, why)))
