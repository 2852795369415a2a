"""A plain consumer: the product's own machine, over the real member machine, polling records that have no content.

What polls before returned has been worked on when the next one begins, or before a commit that is asked for; what the
latest poll returned may still be worked on when the process dies. Now and then its user pauses, seeks, subscribes to
something else, interrupts a poll, has one end by an exception after it took its rows, gives up an iteration in the
middle, commits without waiting, or forgets to poll. Some listeners raise whenever they hear what is revoked, some when
they hear what is assigned.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from random import Random
from typing import TYPE_CHECKING

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.parts import LostPosition, PartitionResult
from spark_kcoord.consumer.core import telling
from spark_kcoord.consumer.core.chunk_rows import Piece
from spark_kcoord.consumer.core.held import Held
from spark_kcoord.consumer.core.machine import ConsumerMachine, Owed, Told
from spark_kcoord.consumer.iteration import Iteration
from spark_kcoord.errors import KcoordError
from spark_kcoord.fetch.tailing.fetched import AT_BEGINNING, AT_END, Resolved
from spark_kcoord.member.core import events
from spark_kcoord.member.core.machine import Member
from spark_kcoord.member.settings import MemberSettings
from tests.sim.consumer_commits import Commits
from tests.sim.consumer_rules import ConsumerRules
from tests.sim.facts import OwnedLog
from tests.sim.fetcher import Fetcher
from tests.sim.member_process import MemberProcess

if TYPE_CHECKING:
    from tests.sim.world import World

ODD = 0.02
"""The chance that the user of a consumer does something else than to poll."""
ITERATES = 0.2
"""The chance that records are taken one at a time, and not all of them."""
LISTENERS_RAISE = 0.2
"""The share of listeners that raise whenever they hear what is revoked; as many do when they hear what is assigned."""
PAUSES = 0.04
"""The chance that it pauses all that something is held of, where its fetcher has little memory."""
SEEKS = 0.03
"""The chance that before a poll its user seeks."""
FAR = 1_000_000
"""So far behind its end no log comes."""
CHANGES = 0.01
"""The chance that its user subscribes to something else, or to all again."""
NAMES = 0.5
"""The chance that for a while its user names the partitions that it polls."""
UNNAMED_POLLS, NAMED_POLLS = 40, 120
"""The most polls in a row that name none, and that name some."""
DOES_NOT_WAIT = 0.5
"""The chance that a commit that is asked for is not waited for."""
CAN_BE_FORGOTTEN = 0.4
"""The share of consumers that leave when they are not polled for a while."""
FORGETS = 0.01
LONGEST_POLLS_MS = (2_000, 5_000)


RAISES_AT = (Told.REVOKED, Told.ASSIGNED)


class Names(Enum):
    """The partitions that the polls of a user name."""

    NOTHING = "nothing"
    ONE = "one"
    EACH_IN_TURN = "each in turn"


class ListenerError(Exception):
    """The error of a listener that is wrong."""


class Consumer(MemberProcess):
    """One process of a consumer."""

    def __init__(self, world: "World", host: str, name: str, settings: MemberSettings) -> None:
        super().__init__(world, host, name)
        self.machine = ConsumerMachine(auto_commit=settings.auto_commit, starts_over=True)
        self._max_records = world.dice.choice((40, 1_000))
        self._has_arrived = False
        """True when a seek found its place: that is committed though nothing was returned."""
        self._returned: list[tuple[OwnedLog, int, int]] = []
        self._is_reporting = False
        # Of its own, so that what users do leaves the dice of everything else as they are.
        self._habits = Random(f"{world.seed}-{name}")
        self._listener_raises = {news for news in RAISES_AT if self._habits.random() < LISTENERS_RAISE}
        if self._habits.random() < CAN_BE_FORGOTTEN:
            settings = replace(settings, max_poll_interval_ms=self._habits.choice(LONGEST_POLLS_MS))
        self.settings = self._subscribed = settings
        self.pauses = self.polls = self._named_until = 0
        self._naming = Random(f"{world.seed}-{name}-names")
        self._names, self._favourite = Names.NOTHING, ("", 0)
        self._is_to_poll = False
        self._rules = ConsumerRules(self)
        self._commits = Commits(self, self._fail)
        self._fetcher = Fetcher(world, name, settings.isolation_level)

    # ---- its loop ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.member = Member(
            self.settings, incarnation=self.name, pid=self.world.fleet.processes, jitter=self.world.dice.random
        )
        self.call(events.JoinCall(), lambda _: self._poll_later(), self._fail)

    def _poll_later(self) -> None:
        self._is_to_poll = True
        self.later(self.world.poll_ms(), self._go_round)

    def _go_round(self) -> None:
        """Do what was returned, commit it where that is the application's business, and poll again."""
        if not self.is_running or self.member is None:
            return
        self._is_to_poll = False
        if self.member.failure is not None:
            self._fail(self.member.failure)
            return
        if self._has_to_commit:
            self._has_arrived = False
            self._work_on_what_was_returned()
            self.machine.settle()
            if self._does(DOES_NOT_WAIT):
                self._commits.send_off()
            else:
                self._commits.wait_for(self._poll_later)
                return
        interval_ms = self.settings.max_poll_interval_ms
        if interval_ms is not None and self.has_joined and self._does(FORGETS):
            self._rules.forget(interval_ms)
            self._remember_later(self.now_ms() + 4 * interval_ms + 2 * self.settings.session_timeout_ms)
            return
        try:
            self._poll()
        except ListenerError:
            self._let_go()
        self._poll_later()

    def _remember_later(self, at_ms: int) -> None:
        """Poll again at a time, or when all is to end well."""
        if self.world.is_healing or self.now_ms() >= at_ms:
            self._go_round()
        else:
            self.later(500, self._remember_later, at_ms)

    def _does(self, chance: float) -> bool:
        return not self.world.is_healing and self._habits.random() < chance

    @property
    def _is_about_to_poll(self) -> bool:
        """True between two rounds, if the next one has nothing to commit first."""
        is_member = self.is_running and self.member is not None and self.member.failure is None
        return self._is_to_poll and is_member and not self._has_to_commit

    @property
    def _has_to_commit(self) -> bool:
        return not self.settings.auto_commit and bool(self._returned or self._has_arrived)

    def _poll(self, *, is_member_late: bool = False) -> None:
        """Poll as the product's flow does: what was returned is done, then what changed, then rows.

        The member has a thread of its own, which may come to run after all that.
        """
        self._work_on_what_was_returned()
        self.polls += 1
        if not is_member_late:
            self.step(events.Polled())
        noted = self.machine.begin_call()
        if noted:
            self.step(events.PositionsNoted(noted))
            self.machine.noted(noted)
        self._commits.run_callbacks()
        named = self._named()
        self._fetcher.ask_for(named)
        self._attend()
        self._be_odd()
        if self._does(ODD):
            # Interrupted before there was anything to return.
            return
        pieces = self.machine.take(self._max_records, keys=named)
        self._rules.took(pieces)
        self._rules.polled(self.machine, {piece.key for piece in pieces}, self._fetcher.in_vain, named)
        given = [(piece, piece.rows.column("offset")[0].as_py(), piece.next_offset) for piece in pieces]
        if pieces and self._does(ITERATES):
            pieces, given = self._iterate(pieces)
        self.machine.mark_returned(pieces)
        if pieces and not self.world.is_healing and self.world.dice.random() < ODD:
            self.machine.take_back()
            return
        self._returned += [(self._log_of(piece), start, end) for piece, start, end in given]

    def _named(self) -> frozenset[TopicPartition]:
        """Return the partitions that a poll names, none for all: the same for many polls, or another one each time."""
        keys = self.machine.keys
        if self.world.is_healing or not keys:
            return frozenset()
        if self._named_until <= self.polls:
            self._names = self._naming.choice(list(Names)) if self._naming.random() < NAMES else Names.NOTHING
            longest = UNNAMED_POLLS if self._names is Names.NOTHING else NAMED_POLLS
            self._named_until = self.polls + self._naming.randint(1, longest)
            self._favourite = self._naming.choice(keys)
        match self._names:
            case Names.NOTHING:
                return frozenset()
            case Names.ONE:
                return frozenset({self._favourite} & set(keys))
            case Names.EACH_IN_TURN:
                return frozenset({keys[self.polls % len(keys)]})

    def _iterate(self, pieces: Sequence[Piece]) -> tuple[Sequence[Piece], list[tuple[Piece, int, int]]]:
        """Leave an iteration in the middle: return what it says was returned, and what its user was given."""
        offsets = [piece.rows.column("offset").to_pylist() for piece in pieces]
        records = [_Record(at) for of_piece in offsets for at in of_piece]
        iteration = Iteration(pieces, records, self.machine.changes, ())
        iteration.at = self._habits.randrange(len(records))
        left, given = iteration.at + 1, []
        for piece, of_piece in zip(pieces, offsets, strict=True):
            if left > 0:
                is_whole = left >= len(of_piece)
                given.append((piece, of_piece[0], piece.next_offset if is_whole else of_piece[left - 1] + 1))
            left -= len(of_piece)
        return iteration.given(), given

    def _log_of(self, piece: Piece) -> OwnedLog:
        held = self.machine.held(piece.key)
        assert held is not None
        return held.grant.topic_id or "", piece.key[1], self.member_id, held.grant.owner_epoch or 0

    def _attend(self) -> None:
        self.machine.adopt(self.assignment)
        self._rules.attend(self.machine)
        self._tell_all()
        self._let_go()
        self._report()
        fetched = self._fetcher.fetch(self.machine)
        for one in fetched:
            held = self.machine.held(one.key)
            if isinstance(one, Resolved) and held is not None and held.token == one.token:
                self._note_seek(held, one.position)
                self._has_arrived = True
        self.machine.receive(fetched)
        self._fetcher.taken(self.machine)

    def _let_go(self) -> None:
        finals = self.machine.releases()
        if finals:
            self.step(events.ReleaseAsked(finals))
            self.machine.let_go(finals)

    def _tell_all(self) -> None:
        for _ in telling.tell_all(self.machine, self._on_told):
            raise AssertionError("a listener here waits for nothing")

    def _on_told(self, owed: Owed) -> Iterator[None]:
        self.world.schedule.tell(self.name, ("is told", owed.news.value, owed.partitions))
        self._rules.told(owed.news, owed.partitions, self.machine)
        if owed.news in self._listener_raises and self.is_running:
            raise ListenerError
        yield from ()

    def _be_odd(self) -> None:
        """Seek, subscribe to something else, pause or resume something, as a program may at any time."""
        world = self.world
        if self._does(SEEKS):
            self._seek()
        if self._subscribed != self.settings if world.is_healing else self._does(CHANGES):
            self._subscribe()
        if world.mix.fetched_records is not None and self._does(PAUSES):
            self._pause_what_is_held()
        keys = self.machine.keys
        if not keys or (not world.is_healing and world.dice.random() >= ODD):
            return
        if world.is_healing:
            self.machine.resume(keys)
        elif world.dice.random() < 0.5:
            self.machine.pause([world.dice.choice(keys)])
        else:
            self.machine.resume(keys)

    def _pause_what_is_held(self) -> None:
        if all(held.is_paused for held in self.machine):
            self.machine.resume(self.machine.keys)
        else:
            self.machine.pause([held.key for held in self.machine if held.buffer])

    def _seek(self) -> None:
        """Seek in a partition: into its log, to an end of it, or where nothing is."""
        held = self.machine.held(self._habits.choice(self.machine.keys)) if self.machine.keys else None
        topic = self.world.kafka.topics.get(held.key[0]) if held is not None else None
        if held is None or topic is None or topic.topic_id != held.grant.topic_id:
            return
        end = topic.ends[held.key[1]]
        far = end + FAR if held.high_watermark is not None else end
        position = self._habits.choice((AT_BEGINNING, AT_END, end, far, self._habits.randint(0, end)))
        self.world.schedule.tell(self.name, ("seeks", held.key, position))
        self.world.checker.coverage["consumer sought"] += 1
        if 0 <= position <= end:
            self._note_seek(held, position)
        self._commits.sought.add(held.key)
        self.machine.seek(held.key, position)

    def _note_seek(self, held: Held, position: int) -> None:
        log = (held.grant.topic_id or "", held.key[1], self.member_id, held.grant.owner_epoch or 0)
        self.world.checker.facts.seek(log, position)

    def _subscribe(self) -> None:
        """Subscribe to a part of the topics, or to all of them again."""
        names = [name for name in self.settings.topics if name not in self.settings.exclusions]
        subscribed = self.settings
        if self._subscribed == self.settings and len(names) > 1:
            subscribed = replace(self.settings, topics=(self._habits.choice(names),))
        if subscribed != self._subscribed and self.member is not None:
            self._subscribed = subscribed
            self.world.checker.coverage["consumer subscribed anew"] += 1
            self.world.schedule.tell(self.name, ("subscribes to", subscribed.topics))
            self.step(events.Resubscribed(subscribed))

    def _work_on_what_was_returned(self) -> None:
        returned, self._returned = self._returned, []
        for log, start, end in returned:
            self.world.schedule.tell(self.name, ("has worked on", log, start, end))
            self.world.checker.facts.process(log, start, end)

    # ---- positions that are gone ------------------------------------------------------------------------------------

    def _report(self) -> None:
        lost = self.machine.lost_positions(self.now_ms() / 1000)
        if lost and not self._is_reporting:
            self._is_reporting = True
            self.call(events.ReportCall(lost), lambda results: self._on_answer(lost, results), self._on_unanswered)

    def _on_answer(self, asked: Sequence[LostPosition], results: Sequence[PartitionResult]) -> None:
        self._is_reporting = False
        if self.machine.take_report(asked, results, self.now_ms() / 1000):
            why = next(result.message for result in results if result.error is ErrorCode.OFFSET_OUT_OF_RANGE)
            self.world.process_failed(self, why)

    def _on_unanswered(self, _: KcoordError) -> None:
        self._is_reporting = False

    def _fail(self, error: KcoordError) -> None:
        if self.is_running:
            self.world.process_gave_up(self, error)

    # ---- ends -------------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        self.pauses += 1
        super().pause()

    def resume(self) -> None:
        """Run on, with the program's thread before that of its member, where it was about to poll."""
        was_paused, self.is_paused = self.is_paused, False
        if was_paused and self._is_about_to_poll:
            try:
                self._poll(is_member_late=True)
            except ListenerError:
                self._let_go()
        super().resume()

    def kill(self) -> None:
        self.is_paused = False
        self.end()

    def stop(self) -> None:
        self.is_running = False
        self.step(events.CloseAsked())
        self.end()

    def leave(self) -> None:
        self.is_running = False
        self.machine.settle()
        self.machine.give_up_all()
        self._tell_all()
        finals = self.machine.releases()
        self.world.schedule.after(1_500, self.end)
        if self.settings.instance_id is None:
            self.call(events.LeaveCall(finals), lambda _: self.end(), lambda _: self.end())
            return
        self.step(events.CloseAsked())


@dataclass(frozen=True, slots=True)
class _Record:
    """A record of which only the place is known."""

    offset: int
