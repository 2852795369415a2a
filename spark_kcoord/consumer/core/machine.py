"""The consumer without any input or output: what it holds, what is returned and done, and what its listeners are owed.

A shell feeds it assignments and what was fetched, asks what a poll may return, and says when it was returned. Nothing
here waits, reads a clock or knows a thread, so that a simulator runs it unchanged. It keeps these promises: a row is
returned once under one grant, in order, and not before the listener has heard of its partition; what counts as done was
returned by an earlier call; a partition that is asked back is let go however the listener ends. Ctrl-C may end any call
at any line, so that each step can be done again: what it has done already it finds done.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import assert_never

from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.parts import FinalOffset, LostPosition, PartitionResult
from spark_kcoord.consumer.core.chunk_rows import Piece, last_offset, rows_before, within
from spark_kcoord.consumer.core.held import Grant, Held
from spark_kcoord.fetch.tailing.fetched import Chunk, Fetched, OutOfRange, Resolved, Trouble, Truncated, Wanted
from spark_kcoord.member.core.held.holdings import AssignedPartition, Assignment, partition_of, starts_anew

__all__ = ["ConsumerMachine", "Owed", "Told"]

REPORT_PAUSE_S = 1.0
"""The time that a partition is left alone when a report that its position is gone has changed nothing."""


class Told(Enum):
    """The news that a listener is told."""

    LOST = "lost"
    REVOKED = "revoked"
    ASSIGNED = "assigned"


@dataclass(frozen=True, slots=True)
class Owed:
    """News that a listener is to be told next, and of which partitions."""

    news: Told
    partitions: tuple[TopicPartition, ...]


class ConsumerMachine:
    """The partitions of one consumer. With `auto_commit` what is done is noted for the next ping."""

    def __init__(self, *, auto_commit: bool, starts_over: bool) -> None:
        self._auto_commit = auto_commit
        self._starts_over = starts_over
        self._held: dict[TopicPartition, Held] = {}
        self._seen: Assignment | None = None
        self._owed: list[Owed] = []
        self._coming: dict[TopicPartition, Grant] = {}
        self._given_back: dict[tuple[str, int, int], FinalOffset] = {}
        self._last_final: dict[tuple[str, int, int], FinalOffset] = {}
        self._committed_away: dict[tuple[TopicPartition, int], int] = {}
        """Offsets that were committed of partitions that were lost; one may come back under the same owner epoch."""
        self._order: OrderedDict[TopicPartition, None] = OrderedDict()
        self._tokens = 0
        self._returning: tuple[Piece, ...] = ()
        self._returned: tuple[Piece, ...] = ()
        self._passed_over: tuple[TopicPartition, ...] = ()
        self._wanted: Mapping[TopicPartition, int] = {}
        self._stops = self._looked_through = 0
        """The number of times that news has ended a fetch, and that number when none was left ended."""
        self.freed_bytes = 0
        """The bytes of chunks that are not held any more since this was set to 0."""
        self.returned_records = 0
        """The records that earlier calls returned."""
        self.changes = 0
        """Grows whenever rows that were taken and not returned may not be returned any more."""

    # ---- what is held -----------------------------------------------------------------------------------------------

    @property
    def keys(self) -> tuple[TopicPartition, ...]:
        """The partitions that are held, in order."""
        return tuple(sorted(self._held))

    @property
    def is_complete(self) -> bool:
        """True when what is held is the whole target of the member, which may be empty."""
        return self._seen is not None and self._seen.is_complete

    @property
    def withheld(self) -> tuple[PartitionResult, ...]:
        """The partitions that do not come because the group has no offset of them and its policy is none."""
        withheld = self._seen.withheld if self._seen is not None else ()
        return tuple(one for one in withheld if one.error is ErrorCode.OFFSET_OUT_OF_RANGE)

    def held(self, key: TopicPartition) -> Held | None:
        """Return a partition that is held."""
        return self._held.get(key)

    def every(self) -> Collection[Held]:
        """Return what is held, in no order."""
        return self._held.values()

    def __iter__(self) -> Iterator[Held]:
        """Yield what is held, in order."""
        return (self._held[key] for key in sorted(self._held))

    # ---- partitions that come and go --------------------------------------------------------------------------------

    def adopt(self, assignment: Assignment) -> None:
        """Take what the member owns now; what follows from it for listeners is owed."""
        if assignment is self._seen:
            return
        now = {(part.topic, part.partition): part for part in assignment.partitions}
        lost = []
        for key, held in sorted(self._held.items()):
            part = now.get(key)
            if part is not None and part.owner_epoch == held.grant.owner_epoch:
                held.know_committed(part.position)
            else:
                lost.append(key)
        revoked = [key for key, part in now.items() if part.is_stopping and key in self._held and key not in lost]
        new = [Grant.of(part) for key, part in now.items() if not part.is_stopping and self._is_new(key, part, lost)]
        owed = [Owed(Told.LOST, tuple(lost))] if lost else []
        stopping = {(*key, part.owner_epoch) for key, part in now.items() if part.is_stopping}
        # One that is asked back once more lost its release with a connection; one that came stopping is not read.
        self._given_back = {
            grant: self._last_final.get(grant, FinalOffset(*grant))
            for grant in stopping
            if (grant[0], grant[1]) not in revoked
        }
        self._last_final = {grant: final for grant, final in self._last_final.items() if grant in stopping}
        if revoked:
            owed.append(Owed(Told.REVOKED, tuple(revoked)))
        if new:
            self._coming = {grant.key: grant for grant in new}
            owed.append(Owed(Told.ASSIGNED, tuple(self._coming)))
        self.changes += bool(lost or revoked)
        self._owed = owed
        self._seen = assignment

    def _is_new(self, key: TopicPartition, part: AssignedPartition, lost: Collection[TopicPartition]) -> bool:
        held = self._held.get(key)
        # One that is held and not told is of a telling that Ctrl-C ended between two lines.
        return held is None or not held.is_told or key in lost or held.grant.owner_epoch != part.owner_epoch

    def assign(self, grants: Iterable[Grant]) -> None:
        """Read exactly these partitions, assigned by hand; those that are read already go on."""
        given = {grant.key: grant for grant in grants}
        for key in [key for key in self._held if key not in given]:
            self._forget(key)
        for key, grant in given.items():
            if key not in self._held:
                self._hold(grant)
            self._held[key].is_told = True

    def give_up_all(self) -> None:
        """Owe listeners what an end means: all that is held is about to be given back."""
        self._end_with(Told.REVOKED)

    def lose_all(self) -> None:
        """Owe listeners that all is somebody else's already."""
        self._end_with(Told.LOST)

    def _end_with(self, news: Told) -> None:
        self._seen, self._given_back, self._coming = None, {}, {}
        self._owed = [Owed(news, self.keys)] if self._held else []

    def next_owed(self) -> Owed | None:
        """Return what a listener is to be told next; `begin_telling` and `end_telling` go around it."""
        return self._owed[0] if self._owed else None

    def begin_telling(self, owed: Owed) -> None:
        """Do what is to be so when the listener hears of it: what is lost is gone, what came can be sought."""
        if owed.news is Told.LOST:
            for key in owed.partitions:
                self._forget(key)
        elif owed.news is Told.ASSIGNED:
            for key in owed.partitions:
                self._hold(self._since_committed(self._coming[key]))

    def _since_committed(self, grant: Grant) -> Grant:
        """Return a grant that starts at what this consumer has committed, if that is said only behind the grant."""
        if grant.owner_epoch is None:
            return grant
        committed = self._committed_away.get((grant.key, grant.owner_epoch), grant.start)
        return replace(grant, start=committed, committed=committed) if committed > grant.start else grant

    def end_telling(self, owed: Owed) -> None:
        """Do what follows, whatever the listener came to: what is asked back is let go, what came is fetched."""
        if owed.news is Told.REVOKED:
            for key in owed.partitions:
                held = self._held.get(key)
                if held is not None:
                    final = self.final_of(held)
                    if final is not None:
                        grant = (final.topic, final.partition, final.owner_epoch)
                        self._given_back[grant] = self._last_final[grant] = final
                    self._forget(key)
        elif owed.news is Told.ASSIGNED:
            for key in owed.partitions:
                if key in self._held:
                    self._held[key].is_told = True
            self._committed_away.clear()
        if self._owed and self._owed[0] is owed:
            self._owed.pop(0)

    def releases(self) -> tuple[FinalOffset, ...]:
        """Return what is to be let go of now; `let_go` says that it was."""
        return tuple(self._given_back[grant] for grant in sorted(self._given_back))

    def let_go(self, finals: Iterable[FinalOffset]) -> None:
        """Note that the coordinator was told to take these back."""
        for final in finals:
            self._given_back.pop((final.topic, final.partition, final.owner_epoch), None)

    def final_of(self, held: Held) -> FinalOffset | None:
        """Return how a partition is given back: with what is done of it, under auto commit and where that is news."""
        if held.grant.owner_epoch is None:
            return None
        is_news = self._auto_commit and held.is_there and (held.done or 0) > (held.committed or 0)
        epoch = held.last_epoch if is_news and held.done == held.position and held.last_epoch >= 0 else None
        return FinalOffset(*held.key, held.grant.owner_epoch, held.done if is_news else None, epoch)

    def _hold(self, grant: Grant) -> None:
        self._tokens += 1
        held = Held(grant, self._tokens, grant.start, committed=grant.committed, found_id=grant.named_id)
        held.begin_at(grant.start, self._tokens, grant.named_id)
        held.noted = held.done
        self._order.setdefault(grant.key)
        self._held[grant.key] = held

    def _forget(self, key: TopicPartition) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            self.freed_bytes += held.drop()
            self._order.pop(key, None)
            self.changes += 1

    # ---- what is to be fetched, and what was ------------------------------------------------------------------------

    def wanted(self) -> Mapping[TopicPartition, Wanted] | None:
        """Return what is to be fetched when that has changed, None when it is as `is_wanted` was told last."""
        wanted = {key: held.token for key, held in self._held.items() if held.may_be_fetched}
        return {key: self._held[key].wanted() for key in wanted} if wanted != self._wanted else None

    def is_wanted(self, wanted: Mapping[TopicPartition, Wanted]) -> None:
        """Note that the fetcher knows what is wanted."""
        self._wanted = {key: one.token for key, one in wanted.items()}

    def receive(self, fetched: Iterable[Fetched]) -> None:
        """Take what was fetched; what comes under an old token is dropped, and what is here already comes in vain."""
        for one in fetched:
            held = self._held.get(one.key)
            if held is None or held.token != one.token:
                self.freed_bytes += one.size if isinstance(one, Chunk) else 0
            elif isinstance(one, Chunk):
                self._take_chunk(held, one)
            elif isinstance(one, Resolved):
                if held.position is None:
                    held.position = held.done = one.position
                    held.be_of(one.topic_id)
            elif isinstance(one, OutOfRange | Truncated | Trouble):
                held.stopped_by = one
                self._stops += 1
            else:
                assert_never(one)

    def _take_chunk(self, held: Held, chunk: Chunk) -> None:
        if chunk.start != held.fetch_at or held.position is None:
            return
        held.is_sought = False
        held.be_of(chunk.topic_id)
        held.end = held.end if chunk.end is None else chunk.end
        held.high_watermark = held.high_watermark if chunk.high_watermark is None else chunk.high_watermark
        if chunk.next_offset > chunk.start:
            held.buffer.append(chunk)
            self.freed_bytes += held.skip_gaps()
        else:
            self.freed_bytes += chunk.size

    # ---- what a call returns ----------------------------------------------------------------------------------------

    def begin_call(self) -> tuple[OffsetToCommit, ...]:
        """Begin a poll: all that was returned before is done; return what of it auto commit is to note.

        `noted` says that it was.
        """
        self.settle()
        to_note = []
        for held in self._held.values():
            if held.buffer:
                self.freed_bytes += held.skip_gaps()
            held.done = held.position
            if self._auto_commit and held.done is not None and held.done != held.noted and held.is_there:
                to_note.append(held.to_commit(held.done))
        return tuple(to_note)

    def noted(self, offsets: Iterable[OffsetToCommit]) -> None:
        """Take that the member knows these offsets as done."""
        for one in offsets:
            held = self._held.get((one.topic, one.partition))
            if held is not None and held.grant.owner_epoch == one.owner_epoch:
                held.noted = one.offset

    def take(
        self, max_records: int, max_bytes: int | None = None, keys: Collection[TopicPartition] = ()
    ) -> tuple[Piece, ...]:
        """Return the next rows, partitions in turn, or those of some; `mark_returned` counts them as returned."""
        pieces: list[Piece] = []
        room, bytes_left = max_records, max_bytes
        for key in self._order:
            held = self._held.get(key)
            if held is None or not held.may_be_returned or held.position is None or (keys and key not in keys):
                continue
            position = held.position
            for chunk in held.buffer:
                if room <= 0 or (bytes_left is not None and bytes_left <= 0):
                    return tuple(pieces)
                if chunk.rows is None:
                    position = chunk.next_offset
                    continue
                skipped = rows_before(chunk, position)
                rows = chunk.rows.slice(skipped, min(room, chunk.rows.num_rows - skipped))
                if bytes_left is not None:
                    rows = within(rows, bytes_left, is_first=not pieces)
                    bytes_left -= rows.nbytes
                if not rows.num_rows:
                    return tuple(pieces)
                is_whole = skipped + rows.num_rows == chunk.rows.num_rows
                position = chunk.next_offset if is_whole else last_offset(rows) + 1
                pieces.append(Piece(key, rows, position, chunk))
                room -= rows.num_rows
                if not is_whole:
                    break
        return tuple(pieces)

    def mark_returned(self, pieces: Sequence[Piece]) -> None:
        """Have pieces that `take` gave count as returned from the next call on, unless `take_back` comes before."""
        self._returning = tuple(pieces)

    def take_back(self) -> None:
        """Note that the call has failed that marked rows as returned: they come with the next one."""
        self._returning = ()

    def pass_over(self, stuck: Mapping[TopicPartition, int]) -> None:
        """Have partitions come after all others from the next call on: the records at these offsets cannot be given."""
        for key in stuck:
            self._held[key].stuck_at = stuck[key]
        self._passed_over = tuple(stuck)

    def settle(self) -> None:
        """Begin a call of any kind: what the one before returned is returned for good."""
        # An end between the two finds them in both, and what is settled twice is settled.
        self._returned += self._returning
        self._returning = ()
        for piece in self._returned:
            held = self._held.get(piece.key)
            if held is None or piece.chunk not in held.buffer:
                continue
            if held.position is not None and held.position < piece.next_offset:
                before, after = rows_before(piece.chunk, held.position), rows_before(piece.chunk, piece.next_offset)
                self.returned_records += after - before
            held.last_epoch = piece.chunk.epoch_at(piece.next_offset - 1)
            held.position = piece.next_offset
            self._order.move_to_end(piece.key)
            self.freed_bytes += held.skip_gaps()
        for key in filter(self._order.__contains__, self._passed_over):
            self._order.move_to_end(key)
        self._returned = self._passed_over = ()

    def troubled(self) -> Iterator[tuple[Held, Trouble]]:
        """Yield what the program has to know before it gets anything more of a partition."""
        for held in self._stopped():
            if isinstance(held.stopped_by, Trouble) and not held.buffer and not held.is_paused:
                yield held, held.stopped_by

    def _stopped(self) -> list[Held]:
        """Return, in order, what news has ended the fetching of; where none came no partition is looked at."""
        stops = self._stops
        if stops == self._looked_through:
            return []
        found = [held for held in self if held.stopped_by is not None]
        if not found:
            self._looked_through = stops
        return found

    def without_start(self) -> list[Held]:
        """Return, in order, the partitions of which nobody has said where they start."""
        return sorted((held for held in self._held.values() if held.is_without_start), key=lambda held: held.key)

    # ---- positions that Kafka does not have -------------------------------------------------------------------------

    def lost_positions(self, now_s: float) -> tuple[LostPosition, ...]:
        """Return what the coordinator is to be told: positions of a member that Kafka does not have."""
        return tuple(
            LostPosition(*held.key, held.grant.owner_epoch, held.fetch_at)
            for held in self._out_of_range()
            if held.grant.owner_epoch is not None and held.waits_until_s <= now_s
        )

    def start_over(self) -> dict[TopicPartition, bool]:
        """Return the partitions assigned by hand whose position Kafka does not have, and whether it has a new topic."""
        return {held.key: held.is_of_old_topic for held in self._out_of_range() if held.grant.owner_epoch is None}

    def _out_of_range(self) -> Iterator[Held]:
        for held in self._stopped():
            if isinstance(held.stopped_by, OutOfRange) and not held.buffer:
                yield held

    def take_report(
        self, asked: Sequence[LostPosition], results: Sequence[PartitionResult], now_s: float
    ) -> tuple[tuple[PartitionResult, int], ...]:
        """Take the answer to a report; return what is out of range for good, with the position.

        A partition that goes on elsewhere by now, as the program sought it, is left alone.
        """
        refused = []
        for part, result in zip(asked, results, strict=True):
            held = self._held.get(partition_of(part))
            if held is None or held.grant.owner_epoch != part.owner_epoch:
                continue
            if not isinstance(held.stopped_by, OutOfRange) or held.fetch_at != part.position:
                continue
            if result.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                refused.append((result, held.fetch_at))
            elif result.error is not ErrorCode.NONE:
                held.waits_until_s = now_s + REPORT_PAUSE_S
                self.retry(held.key)
            elif not starts_anew(result):
                assert result.committed is not None, "what neither starts anew nor is refused names the group's offset"
                self.seek(held.key, result.committed)
        return tuple(refused)

    def take_truncations(self) -> tuple[tuple[TopicPartition, int], ...]:
        """Go on where logs were cut back to, unless the policy is none; return where that was."""
        cut = []
        for held in self._stopped():
            if isinstance(held.stopped_by, Truncated) and not held.buffer:
                cut.append((held.key, held.stopped_by.position))
                if self._starts_over:
                    self.seek(held.key, held.stopped_by.position)
        return tuple(cut)

    # ---- what the program says --------------------------------------------------------------------------------------

    def seek(self, key: TopicPartition, position: int, named_id: str | None = None) -> None:
        """Go on at an offset, AT_BEGINNING or AT_END, of the topic with an id or of any; all before it is done."""
        self._tokens += 1
        self.freed_bytes += self._held[key].begin_at(position, self._tokens, named_id)
        self.changes += 1

    def pause(self, keys: Iterable[TopicPartition]) -> None:
        """Return nothing of partitions; what is buffered stays."""
        for key in keys:
            self._held[key].is_paused = True
        self.changes += 1

    def resume(self, keys: Iterable[TopicPartition]) -> None:
        """Return rows of partitions again, and fetch what follows them: what is on its way yet overlaps with that."""
        for key in keys:
            held = self._held[key]
            if held.is_paused and held.can_go_on:
                self.retry(key)
            held.is_paused = False

    def retry(self, key: TopicPartition) -> None:
        """Go on where a partition was when something ended that, which the program has been told."""
        held = self._held[key]
        self._tokens += 1
        held.token, held.stopped_by = self._tokens, None

    # ---- commits ----------------------------------------------------------------------------------------------------

    def returned(self) -> tuple[OffsetToCommit, ...]:
        """Return what a commit without offsets says: after all that was returned, where the group is not that far."""
        return tuple(
            held.to_commit(held.position)
            for held in self
            if held.position is not None
            and not held.is_not_there
            and (held.committed is None or held.position > held.committed)
        )

    def commit_no_more(self) -> None:
        """Give partitions back without offsets from now on."""
        self._auto_commit = False

    def note_committed(self, asked: Iterable[OffsetToCommit], results: Iterable[PartitionResult]) -> None:
        """Take the results of a commit."""
        for one, result in zip(asked, results, strict=True):
            key = (one.topic, one.partition)
            held = self._held.get(key)
            if result.error is not ErrorCode.NONE:
                continue
            if held is not None and held.grant.owner_epoch == one.owner_epoch:
                held.take_commit(one.offset, one.topic_id)
            elif one.owner_epoch is not None:
                away = (key, one.owner_epoch)
                self._committed_away[away] = max(self._committed_away.get(away, 0), one.offset)
