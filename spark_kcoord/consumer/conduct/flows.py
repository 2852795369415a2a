"""The calls of a consumer as flows: what each does in which order, and where it waits; blocking and asyncio alike.

A flow yields what it waits for and its shell performs that. Partitions change hands only in `poll` and in what ends a
subscription. Nothing here knows a thread, a socket or a loop. Ctrl-C may end a flow at any line: what it has not done
yet the next call does.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.ids import TopicPartition as Key
from coordinator.protocol.parts import CommittedOffset
from spark_kcoord.consumer.conduct import asking
from spark_kcoord.consumer.conduct.committing import Committer
from spark_kcoord.consumer.conduct.group import Group, MakeMember, make_member
from spark_kcoord.consumer.conduct.growth import Growth
from spark_kcoord.consumer.conduct.kafka import Fetcher, Lookup, MakeFetcher, make_fetcher
from spark_kcoord.consumer.conduct.troubles import Troubles
from spark_kcoord.consumer.conduct.wishes import Answer, Do, Flow, Tell, Wait
from spark_kcoord.consumer.core import telling
from spark_kcoord.consumer.core.chunk_rows import Piece
from spark_kcoord.consumer.core.held import NO_START, Grant, Held
from spark_kcoord.consumer.core.machine import ConsumerMachine, Owed
from spark_kcoord.consumer.core.memory import Memory
from spark_kcoord.consumer.errors import (
    ConsumerClosedError,
    CoordinatorUnavailableError,
    InterruptedPollError,
    KafkaUnavailableError,
    PartitionNotAssignedError,
    SubscriptionEmptyError,
    SubscriptionNotValidError,
)
from spark_kcoord.consumer.settings import Settings
from spark_kcoord.consumer.subscription import NOTHING, Subscription
from spark_kcoord.consumer.values import ConsumerRebalanceListener
from spark_kcoord.errors import KcoordError
from spark_kcoord.fetch.tailing.counts import FetchCounts
from spark_kcoord.fetch.tailing.fetched import AT_BEGINNING, AT_END
from spark_kcoord.options.kafka_settings import KafkaSettings

__all__ = ["Flows"]

_log = logging.getLogger(__name__)

LEAVE_MS = 5_000
"""For how long a close without a time-out waits for the coordinator."""


class Flows:
    """One consumer. `ring` is called from other threads when there is news; `clock` returns monotonic seconds."""

    def __init__(
        self,
        settings: Settings,
        ring: Callable[[], None],
        clock: Callable[[], float],
        *,
        member: MakeMember = make_member,
        fetcher: MakeFetcher = make_fetcher,
    ) -> None:
        self.settings = settings
        self.machine = ConsumerMachine(
            auto_commit=settings.auto_commits, starts_over=settings["auto_offset_reset"] != "none"
        )
        self.group = Group(settings, ring, member)
        self.lookup = Lookup(self.kafka_settings)
        self.committer = Committer(settings, self.machine, self.group, lambda: self._is_member, clock)
        self.subscription = NOTHING
        self.listener: ConsumerRebalanceListener | None = None
        self.is_closed = False
        self.is_closing = False
        """True from when it is to be closed: listeners can still commit, and whoever waits for records is told."""
        self.is_interrupted = False
        self._is_told_away = False
        self._ring = ring
        self._clock = clock
        self._make_fetcher = fetcher
        self._fetcher: Fetcher | None = None
        self._memory = Memory(settings["max_buffered_bytes"], settings["max_partition_fetch_bytes"])
        self._troubles = Troubles(settings, self.machine, self.group, clock)
        self._growth = Growth(settings, self.kafka_settings, ring, clock)

    # ---- reading ----------------------------------------------------------------------------------------------------

    def poll(
        self, timeout_s: float, max_records: int, max_bytes: int | None = None, keys: Collection[Key] = ()
    ) -> Flow[tuple[Piece, ...]]:
        """Return the next rows, or those of some partitions, none when there are none in time.

        What earlier calls returned is done.
        """
        self.must_be_open()
        self._must_be_subscribed()
        deadline = self._clock() + timeout_s
        self._memory.ask_for(keys)
        self.note_done()
        yield from self.committer.run_callbacks()
        while True:
            try:
                yield from self.attend()
            except CoordinatorUnavailableError:
                # Told at once the first time; a program that polls on is not to go round as fast as it can.
                left_s = deadline - self._clock()
                if not self._is_told_away or left_s <= 0:
                    self._is_told_away = True
                    raise
                self.check_interrupt()
                yield Wait(left_s)
                continue
            self._is_told_away = False
            self._must_be_subscribed()
            pieces = self.machine.take(max_records, max_bytes, keys)
            self._troubles.raise_next(is_beside_rows=bool(pieces))
            if pieces:
                return pieces
            self.check_interrupt()
            left_s = deadline - self._clock()
            if left_s <= 0:
                return ()
            yield Wait(min(left_s, self._longest_wait_s()))

    def pass_over(self, stuck: Mapping[Key, int]) -> None:
        """Have partitions wait behind all others, and hold no memory from them: records at these offsets are bad."""
        self.machine.pass_over(stuck)
        if stuck:
            self._memory.note_stuck()

    def note_done(self) -> None:
        """Count as done what was returned before, and have auto commit know."""
        to_note = self.machine.begin_call()
        if to_note and self._is_member:
            self.group.note(to_note)
            self.machine.noted(to_note)

    def attend(self) -> Flow[None]:
        """Take what changed: partitions that came and go, what was fetched, what is to be fetched now."""
        self._must_not_be_closed()
        if self._is_member:
            assignment = self.group.look()
            if assignment is None:
                self.machine.lose_all()
                yield Do(self.group.drop)
                yield from self.tell_owed()
                self._must_not_be_closed()
                self.group.look()
            else:
                self.machine.adopt(assignment)
                yield from self.tell_owed()
                self._let_go()
        elif self._is_growing:
            self._grow()
        self.committer.send()
        self.fetch()
        if self._is_member:
            self._troubles.report()

    def _let_go(self) -> None:
        finals = self.machine.releases()
        self.group.release(finals)
        self.machine.let_go(finals)

    def fetch(self) -> None:
        """Have the fetcher know what is wanted and what is free, and take what was fetched."""
        machine = self.machine
        self._want()
        if self._fetcher is None:
            return
        news = self._fetcher.news()
        machine.receive(news)
        self._fetcher.taken(news)
        self._troubles.start_over()
        self._memory.set_aside(machine)
        self._want()
        self._memory.tell(machine, self._fetcher.free)

    def _want(self) -> None:
        wanted = None if self.is_closed else self.machine.wanted()
        if wanted is None or (self._fetcher is None and not wanted):
            return
        if self._fetcher is None:
            size = self.settings["max_buffered_bytes"]
            self._fetcher = self._make_fetcher(self.kafka_settings(), size, self._ring)
        self._fetcher.want(wanted)
        self.machine.is_wanted(wanted)

    def kafka_settings(self) -> KafkaSettings:
        """Return how to reach Kafka; raises SettingError when nobody has said where it is."""
        return self.settings.kafka_at(self.group.kafka_bootstrap)

    def find_kafka(self, timeout_s: float) -> Flow[float]:
        """Ask the coordinators where Kafka is, if nobody has said so yet; return what is left of the time."""
        settings, deadline = self.settings, self._clock() + timeout_s
        if settings.is_member and not settings.kafka.servers and not self.group.kafka_bootstrap:
            self.group.kafka_bootstrap = yield from asking.asked(
                lambda: partial(asking.find_kafka, settings), timeout_s, self._clock
            )
        return max(0.0, deadline - self._clock())

    def ask_kafka(self, work: Callable[[Lookup, float], Any], timeout_s: float) -> Flow[Any]:
        """Return what Kafka answers a question, wherever it is, in the time that is left; raises ConsumerError.

        The look-up that it is given is that of the moment in which the question's turn has come: a thread that begins
        late, when its question was given up, does not use the next one's.
        """
        self.must_be_open()
        left_s = yield from self.find_kafka(timeout_s)
        found = yield from asking.asked(lambda: partial(work, self.lookup), left_s, self._clock, KafkaUnavailableError)
        return found

    @property
    def _is_member(self) -> bool:
        return self.settings.is_member and not self.subscription.is_empty and not self.subscription.by_hand

    @property
    def _is_growing(self) -> bool:
        is_of_topics = bool(self.subscription.topics) or self.subscription.pattern is not None
        return is_of_topics and not self.settings.is_member

    def _longest_wait_s(self) -> float:
        limits = [60.0]
        if self.settings["max_poll_interval_ms"] is not None:
            limits.append(self.settings["max_poll_interval_ms"] / 3000)
        now = self._clock()
        limits += [held.waits_until_s - now for held in self.machine if held.waits_until_s > now]
        if self._is_growing:
            limits.append(max(0.05, self._growth.next_at - now))
        return min(limits)

    def check_interrupt(self) -> None:
        """Raise InterruptedPollError once after `interrupt`."""
        if self.is_interrupted:
            self.is_interrupted = False
            raise InterruptedPollError("The call was ended by interrupt(); nothing is lost.")

    def must_be_open(self) -> None:
        """Raise ConsumerClosedError after `close`, InterruptedPollError after `interrupt`."""
        if self.is_closed:
            raise ConsumerClosedError("The consumer is closed.")
        self.check_interrupt()

    def _must_be_subscribed(self) -> None:
        self._must_not_be_closed()
        if self.is_closing:
            raise ConsumerClosedError("The consumer is being closed.")
        if self.subscription.is_empty:
            raise SubscriptionEmptyError("Nothing is subscribed to: call subscribe() or assign() first.")

    def _must_not_be_closed(self) -> None:
        if self.is_closed:
            raise ConsumerClosedError("The consumer was closed meanwhile.")

    def leave_lookup(self) -> None:
        """Look things up on other connections from now on: somebody who was given up still uses those."""
        self.lookup.leave()
        self.lookup = Lookup(self.kafka_settings)

    # ---- partitions that come and go --------------------------------------------------------------------------------

    def tell_owed(self) -> Flow[None]:
        """Tell the listener all that it is owed; what it raises is raised when all is done that follows."""
        try:
            yield from telling.tell_all(self.machine, self._tell)
        except GeneratorExit:
            raise
        except BaseException:
            # What is asked back is let go all the same.
            if self._is_member and not self.is_closing:
                self._let_go()
            raise

    def _tell(self, owed: Owed) -> Flow[None]:
        if self.listener is not None and owed.partitions:
            yield Tell(owed)

    def subscribe(self, subscription: Subscription, listener: ConsumerRebalanceListener | None) -> None:
        """Read something else from now on."""
        self.must_be_open()
        if self.is_closing:
            raise ConsumerClosedError("The consumer is being closed.")
        if self.subscription.is_empty:
            self._growth.forget()
        self.subscription, self.listener = subscription, listener
        if self.settings.is_member:
            self.group.subscribe(subscription)
        else:
            self._growth.look_soon()

    def assign(self, subscription: Subscription, timeout_s: float) -> Flow[None]:
        """Read these partitions by hand; those without a start begin where the group is, or by the policy."""
        self.must_be_open()
        before = self.subscription
        left_s = yield from self.find_kafka(timeout_s)
        new = {key: start for key, start in subscription.by_hand.items() if self.machine.held(key) is None}
        unknown = [key for key, start in new.items() if start is None]
        committed: Mapping[Key, CommittedOffset] = {}
        if unknown and self.settings.is_member:
            committed = yield from self.committer.committed(unknown, left_s)
        self.must_be_open()
        if self.subscription is not before:
            raise SubscriptionNotValidError(
                "This consumer has subscribed while assign() waited, and nothing is assigned: call unsubscribe() first."
            )
        by_policy = self._start_by_policy
        grants = []
        for key in subscription.by_hand:
            known, start = committed.get(key), new.get(key)
            if known is not None:
                grants.append(Grant(*key, None, None, known.offset, known.offset, named_id=known.topic_id or None))
            else:
                grants.append(Grant(*key, None, None, by_policy if start is None else start))
        self.subscription = subscription
        self.machine.assign(grants)
        for key, start in subscription.by_hand.items():
            if start is not None and key not in new:
                self.machine.seek(key, start)
        self.fetch()

    @property
    def _start_by_policy(self) -> int:
        return {"earliest": AT_BEGINNING, "latest": AT_END, "none": NO_START}[self.settings.reset_policy]

    def _grow(self) -> None:
        """Read all partitions of the topics that there are by now, without a group."""
        found = self._growth.look(self.subscription)
        if found is None:
            return
        grants = []
        for key in found.partitions:
            held = self.machine.held(key)
            start = AT_BEGINNING if key[0] in found.read_before else self._start_by_policy
            grants.append(held.grant if held is not None else Grant(*key, None, None, start))
        missing = self._growth.missing(found, self.machine)
        self.machine.assign([*grants, *(self.held(key).grant for key in missing)])
        self._growth.taken(missing)

    # ---- the end ----------------------------------------------------------------------------------------------------

    def unsubscribe(self, timeout_s: float = LEAVE_MS / 1000) -> Flow[None]:
        """Give everything back and leave the group; the consumer can subscribe again, also while this waits."""
        before = self.subscription
        self.machine.give_up_all()
        error: BaseException | None = None
        for step in (self.tell_owed, lambda: self._part(timeout_s), self._drop_group):
            try:
                yield from step()
            except GeneratorExit:
                raise
            except BaseException as raised:  # noqa: BLE001 - the rest is done all the same
                error = error or raised
        if self.subscription is before:
            self.subscription, self.listener = NOTHING, None
        self._growth.forget()
        self.machine.assign(())
        if error is not None:
            raise error
        self.fetch()

    def _part(self, timeout_s: float) -> Flow[None]:
        """End what was begun and leave, in this time together; what a callback raises keeps nobody from leaving."""
        if not self._is_member:
            return
        deadline = self._clock() + timeout_s

        def left_s() -> float:
            return max(0.001, deadline - self._clock())

        error = yield from self.committer.finish(left_s)
        yield from self._give_back(self.machine.releases(), left_s)
        if error is not None:
            raise error

    def _give_back(self, finals: Sequence[Any], left_s: Callable[[], float]) -> Flow[None]:
        if self.settings["group_instance_id"] is not None:
            yield from self._commit_finals(finals, left_s)
            return
        leaving = self.group.leave(finals, int(left_s() * 1000))
        if leaving is not None:
            try:
                yield Answer(leaving, left_s())
            except (KcoordError, TimeoutError) as error:
                _log.warning("group %s: the leave was not answered: %s", self.settings.group_id, error)

    def _drop_group(self) -> Flow[None]:
        yield Do(self.group.drop)

    def _commit_finals(self, finals: Sequence[Any], left_s: Callable[[], float]) -> Flow[None]:
        """Commit what is done of a static member, which does not leave: its place may be kept for who comes back."""
        done = [
            OffsetToCommit(final.topic, final.partition, final.offset, final.owner_epoch, final.leader_epoch)
            for final in finals
            if final.offset is not None
        ]
        if not done:
            return
        try:
            for future in self.group.commit(done, int(left_s() * 1000)):
                yield Answer(future, left_s())
        except (KcoordError, TimeoutError) as error:
            _log.warning("group %s: what was done is not committed: %s", self.settings.group_id, error)

    def close(self, autocommit: bool | None, timeout_s: float) -> Flow[None]:  # noqa: FBT001 - kafka-python's
        """Give everything back, leave and close: with `autocommit` all returned is done, without it nothing more."""
        if self.is_closed:
            return
        if autocommit:
            self.note_done()
        elif autocommit is False:
            self.machine.commit_no_more()
        self.is_closing = True
        self.is_interrupted = False
        error: BaseException | None = None
        try:
            yield from self.unsubscribe(timeout_s)
        except GeneratorExit:
            self.end_at_once()
            raise
        except BaseException as raised:  # noqa: BLE001 - the connections are closed all the same
            error = raised
        try:
            self.is_closed = True
            self._ring()
            yield Do(self.end)
        except BaseException:
            # Nobody closes it again.
            self.end_at_once()
            raise
        if error is not None:
            raise error

    def end(self) -> None:
        """Close all connections, and wait for the threads that have them."""
        self.group.drop()
        if self._fetcher is not None:
            self._fetcher.close()
        self.lookup.close()
        self._growth.close()

    def end_at_once(self) -> None:
        """Have all connections closed without waiting for it."""
        self.is_closed = True
        if self._fetcher is not None:
            self._fetcher.abandon()
        self.group.abandon()

    def abandon(self) -> None:
        """End what runs in the background without waiting: the program has forgotten the consumer."""
        self.is_closed = True
        if sys.is_finalizing():
            return  # the threads have stopped where they were, with the locks that they held
        if self._fetcher is not None:
            self._fetcher.abandon()
        finals = [final for held in self.machine if (final := self.machine.final_of(held)) is not None]
        self.group.leave(finals, LEAVE_MS)

    # ---- positions --------------------------------------------------------------------------------------------------

    def fetch_counts(self) -> FetchCounts:
        """Return how much was asked of Kafka and came of it."""
        return FetchCounts() if self._fetcher is None else self._fetcher.counts()

    def held(self, key: Key) -> Held:
        """Return a partition that is read; raises PartitionNotAssignedError for another."""
        held = self.machine.held(key)
        if held is None:
            raise PartitionNotAssignedError(f"{key[0]}-{key[1]} is not assigned to this consumer now.", [key])
        return held

    def position(self, key: Key, timeout_s: float) -> Flow[int | None]:
        """Return the offset of the next record, None when Kafka did not say in time where the partition starts."""
        deadline = self._clock() + timeout_s
        while self.held(key).position is None:
            self.fetch()
            self._troubles.raise_without_start(key)
            left_s = deadline - self._clock()
            if self.held(key).position is not None or left_s <= 0:
                break
            self.check_interrupt()
            yield Wait(left_s)
        return self.held(key).position

    def wait_for_assignment(self, timeout_s: float) -> Flow[None]:
        """Attend until something is assigned, or the whole of it may be empty."""
        self.must_be_open()
        self._must_be_subscribed()
        deadline = self._clock() + timeout_s
        while True:
            yield from self.attend()
            self._must_be_subscribed()
            self.check_interrupt()
            left_s = deadline - self._clock()
            if self.machine.keys or self.machine.is_complete or left_s <= 0:
                return
            yield Wait(min(left_s, self._longest_wait_s()))
