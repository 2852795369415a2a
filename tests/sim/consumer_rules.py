"""Rules about what a consumer's program notices: of a reconnect nothing, of a member that it forgot its end, and of
each partition that has records some of them, whatever others are paused or not named.

A partition that was told lost does not come again under the same owner epoch, but after a session time-out without an
answer, when its member could not know better, and after a second loss of the connection while it was told again what it
has.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.protocol.vocabulary import IsolationLevel
from spark_kcoord.consumer.core.chunk_rows import Piece
from spark_kcoord.consumer.core.held import Held
from spark_kcoord.consumer.core.machine import ConsumerMachine, Told
from spark_kcoord.member.core.session.states import State
from tests.sim.log.state import ViolationError

if TYPE_CHECKING:
    from tests.sim.consumer import Consumer

ENDED = (State.CLOSED, State.FAILED)
SLACK_MS = 1_000
STARVED_POLLS, STARVED_MS = 10, 3_000
"""The polls, beside two for each partition, and the time within which each that has records returns some."""


class ConsumerRules:
    """The rules of one consumer's process."""

    def __init__(self, consumer: "Consumer") -> None:
        self._consumer = consumer
        self._lost: dict[TopicPartition, int] = {}
        self._losses = 0
        self._connects_when_whole = 0
        self._waiting: dict[tuple[TopicPartition, int], tuple[int, int]] = {}
        """Partitions under their tokens that wait for their turn: for how many polls, and for how long."""
        self._polled_ms = 0

    # ---- nobody hears of a reconnect --------------------------------------------------------------------------------

    def attend(self, machine: ConsumerMachine) -> None:
        """Note what listeners are about to be told; called when the machine has adopted an assignment."""
        consumer = self._consumer
        owed = machine.next_owed()
        is_excused = consumer.sessions_lost > self._losses or consumer.connects > self._connects_when_whole + 1
        # After it stood still its program may come to see that before its member does.
        is_over = consumer.member is not None and consumer.now_ms() >= consumer.member.lease.ends_ms
        if owed is not None and owed.news is Told.LOST and not is_excused and not is_over:
            for key in owed.partitions:
                held = machine.held(key)
                if held is not None and held.grant.owner_epoch is not None:
                    self._lost[key] = held.grant.owner_epoch
        # On its way in it shows what it had as if it were whole, until it is told it anew.
        if consumer.is_settled and (consumer.member is None or consumer.member.state is State.JOINED):
            self._losses, self._connects_when_whole = consumer.sessions_lost, consumer.connects

    def told(self, news: Told, partitions: Iterable[TopicPartition], machine: ConsumerMachine) -> None:
        """Take that a listener is told: raises ViolationError for a partition that was never gone."""
        if news is not Told.ASSIGNED:
            return
        for key in partitions:
            held, epoch = machine.held(key), self._lost.pop(key, None)
            if held is not None and epoch is not None and held.grant.owner_epoch == epoch:
                log = (held.grant.topic_id or "", key[1], self._consumer.member_id, epoch)
                if not self._consumer.world.checker.facts.is_ambiguous(log):
                    raise ViolationError(
                        "lost-and-not-gone",
                        f"{self._consumer.name} was told that {key} is lost, and it has {held.grant}",
                    )

    # ---- nothing is read past a session -----------------------------------------------------------------------------

    def took(self, pieces: Sequence[Piece]) -> None:
        """Take what a poll returns: raises ViolationError for anything once the session is over by its own clock."""
        member, now_ms = self._consumer.member, self._consumer.now_ms()
        assert member is not None
        if pieces and now_ms >= member.lease.ends_ms:
            raise ViolationError(
                "read-past-its-session",
                f"{self._consumer.name} got {[piece.key for piece in pieces]} {now_ms - member.lease.ends_ms} ms after "
                "its session",
            )

    # ---- each partition has its turn ---------------------------------------------------------------------------------

    def polled(
        self,
        machine: ConsumerMachine,
        returned: Collection[TopicPartition],
        in_vain: Collection[TopicPartition],
        named: Collection[TopicPartition] = (),
    ) -> None:
        """Take of which partitions a poll returns something: raises ViolationError for one that is due for long.

        One that was asked for in vain, because a broker failed or had little, begins to wait anew. A poll that names
        partitions owes nothing of the others, which go on waiting in those that name them.
        """
        now_ms, waiting = self._consumer.now_ms(), {}
        since_ms, self._polled_ms = now_ms - self._polled_ms, now_ms
        for held in machine:
            if held.key in returned or held.key in in_vain or not self._is_due(held):
                continue
            polls, waited_ms = self._waiting.get((held.key, held.token), (0, 0))
            if not named or held.key in named:
                polls, waited_ms = polls + 1, waited_ms + (since_ms if polls else 0)
            waiting[held.key, held.token] = (polls, waited_ms)
            if polls > STARVED_POLLS + 2 * len(machine.keys) and waited_ms >= STARVED_MS:
                raise ViolationError(
                    "starved",
                    f"{self._consumer.name} got nothing of {held.key} in {polls} polls and {waited_ms} ms; "
                    f"paused are {[one.key for one in machine if one.is_paused]}, named {sorted(named)}",
                )
        self._waiting = waiting

    def _is_due(self, held: Held) -> bool:
        """Say whether Kafka surely has records of a partition at its position, and the program wants them."""
        kafka, (name, number) = self._consumer.world.kafka, held.key
        is_wanted = held.is_told and held.stopped_by is None and not held.is_paused
        if not is_wanted or held.position is None or kafka.is_away:
            return False
        topic = kafka.topics.get(name)
        if topic is None or topic.topic_id != held.grant.topic_id or not kafka.has_surely(name, number, held.position):
            return False
        is_careful = self._consumer.settings.isolation_level == IsolationLevel.READ_COMMITTED
        return held.position < (kafka.stable_end(name, number) if is_careful else topic.ends[number])

    # ---- a forgotten member leaves ----------------------------------------------------------------------------------

    def forget(self, interval_ms: int) -> None:
        """Look whether the member is gone when its user has asked for nothing for so long and a session time-out."""
        consumer = self._consumer
        member, pauses, polls = consumer.member, consumer.pauses, consumer.polls

        def look() -> None:
            if not consumer.is_alive or consumer.is_paused or consumer.pauses != pauses or consumer.polls != polls:
                return
            assert member is not None
            consumer.world.checker.coverage["consumer was forgotten"] += 1
            if member.state not in ENDED:
                raise ViolationError(
                    "forgotten-owner", f"{consumer.name} was not polled for {interval_ms} ms, and is {member.state}"
                )

        wait_ms = interval_ms + consumer.settings.session_timeout_ms + SLACK_MS
        consumer.world.schedule.after(wait_ms, look)
