"""The mirror decides which groups Kafka is told about next: what is due, how much at once, and when to try again.

A group whose offsets may have changed is written at most once an interval, and only what Kafka does not have of it. One
write of a group is under way at a time, and so many groups of a shard; the rest waits, and what is committed meanwhile
goes with it, so that an outage of Kafka is caught up with by one write a group. Kafka itself refuses what is written to
a group that has members: such a group is left alone, said once, and tried again later and later.

What may have been written by a former leader of the shard is not known. So a group is written whole when its shard
begins to be led, once more when nothing of the former leader can be under way any more, and then now and then, before
Kafka forgets it. It knows neither nodes nor Kafka: what a shard has is read through its journal.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import google_crc32c

from coordinator.core.effects import Effect, MirrorEnded, MirrorOffsets, Notice
from coordinator.core.groups.hard.journal import MarkingJournal
from coordinator.core.groups.hard.tables.committed_table import CommittedTable
from coordinator.core.mirror.comparison import Comparison, Former, Told
from coordinator.core.mirror.events import MirrorAnswered, Outcome
from coordinator.core.mirror.settings import MirrorSettings
from coordinator.core.timers import Timers

MOST_LOOKED_AT: Final = 2_500
"""Partitions that one step looks at, and about the most of one write: some milliseconds."""
_A_GROUP: Final = 20
"""So many partitions are looked at in the time in which a look at a group is begun and ended."""
_MOST_MARKED: Final = 1_000
"""New names that one step takes note of at most, those of groups that are mirrored as three."""
_A_NEW_GROUP: Final = 3
_LOOK_MS: Final = 1_000
_AWAY_MS: Final = (250, 1_000)
_LATER_MS: Final = (100, 2_000)
_STOPPED_MS: Final = (5_000, 60_000)
"""The shortest and the longest pause before another try: of everything, of a group that has moved, of one that Kafka
does not take."""


@dataclass(slots=True)
class _Group:
    """A group as the mirror sees it."""

    group_id: str
    whole_ms: int
    """The time at which all of it is written again."""
    told: Told = field(default_factory=Told)
    changed_ms: int | None = None
    """Since when something may have changed that no look has seen."""
    looked_ms: int | None = None
    """The same of what the look under way is to see."""
    began_ms: int | None = None
    """The time at which the last look began."""
    is_whole: bool = True
    """All of it is to be written, whatever Kafka was told."""
    comparison: Comparison | None = None
    write: MirrorOffsets | None = None
    failures: int = 0
    why_stopped: str = ""
    """The reason for which Kafka takes nothing of it, empty if it does."""
    refused: str = ""
    """The first partition that Kafka does not take though it takes others, with the reason."""
    is_refused_now: bool = False
    """The look under way has met one."""

    @property
    def since_ms(self) -> int | None:
        """Since when Kafka lacks something; None if it does not, as far as is known."""
        return self.changed_ms if self.looked_ms is None else self.looked_ms


@dataclass(slots=True)
class _Shard:
    """A shard that is led and loaded."""

    journal: MarkingJournal
    led_ms: int
    waiting: dict[str, int]
    """The groups of the shard that were not taken note of yet, the first ones first: since when they may have changed.

    Only a name that is new waits, and it waits once, so that there are never more of them than groups.
    """
    unwanted: set[str] = field(default_factory=set)
    """Those that are not mirrored; a group that is made again under such a name is not mirrored either."""
    groups: dict[str, _Group] = field(default_factory=dict)
    due: Timers[str] = field(default_factory=Timers)
    former: Former = field(default_factory=Former)
    """The offsets that Kafka has of groups that are gone, for when one is made again."""
    busy: dict[str, None] = field(default_factory=dict)
    """The groups that are looked at or written, those that had no turn for the longest first."""


class Mirror:
    """The mirror of one node: `look` at each tick, `answered` for each answer.

    `wants` says of which groups there is a mirror; `id_of` returns the id of a topic as Kafka has it now, if known.
    """

    def __init__(
        self,
        settings: MirrorSettings,
        wants: Callable[[str], bool],
        id_of: Callable[[str], str | None],
        last_attempt: int = 0,
    ) -> None:
        self._settings = settings
        self._wants = wants
        self._id_of = id_of
        self._shards: dict[int, _Shard] = {}
        self.last_attempt = last_attempt
        """The number of the last write; that of the next one is greater."""
        self._first_shard = 0
        self._look_due_ms = 0
        self._not_before_ms = 0
        self._failures = 0
        self._why_away = ""
        self._why_later = ""
        self._is_late = False
        self._writes = self._failed_writes = 0
        self.figures: Mapping[str, float] = {}
        """Metrics by their names, as of the last look at all; read on any thread."""
        self.lacks = ""
        """Words for people about what is not as it should be, empty for nothing; read on any thread."""

    # ---- what happens -----------------------------------------------------------------------------------------------

    def look(self, served: Mapping[int, MarkingJournal], now_ms: int) -> list[Effect]:
        """Take in which shards are served, with their journals, and return what is to be written and said."""
        effects: list[Effect] = []
        for index in [index for index, shard in self._shards.items() if served.get(index) is not shard.journal]:
            del self._shards[index]
            effects.append(MirrorEnded(index))
        for index, journal in served.items():
            shard = self._shards.get(index)
            if shard is None:
                journal.take_changed()
                shard = self._shards[index] = _Shard(journal, now_ms, dict.fromkeys(journal.state.groups, now_ms))
            self._take_note(shard, journal.take_changed(), now_ms)
        self._mark_some(now_ms)
        effects += self._go_on(now_ms)
        if now_ms >= self._look_due_ms:
            self._look_due_ms = now_ms + _LOOK_MS
            effects += self._look_at_all(now_ms)
        return effects

    def answered(self, event: MirrorAnswered, now_ms: int) -> list[Effect]:
        """Take in Kafka's answer; that of an attempt which was given up is void."""
        shard = self._shards.get(event.shard)
        group = shard.groups.get(event.group_id) if shard is not None else None
        if shard is None or group is None or group.write is None or group.write.attempt != event.attempt:
            return []
        write, group.write = group.write, None
        self._writes += 1
        if event.outcome is not Outcome.AWAY:
            self._failures, self._not_before_ms, self._why_away = 0, 0, ""
        if event.outcome is Outcome.DONE:
            self._why_later = ""
            return self._done(shard, group, write, event, now_ms)
        self._failed_writes += 1
        group.failures += 1
        effects: list[Effect] = []
        pause_ms = _pause_ms(_LATER_MS, group.failures)
        if event.outcome is Outcome.AWAY:
            self._failures += 1
            self._why_away = event.why
            pause_ms = _pause_ms(_AWAY_MS, self._failures)
            self._not_before_ms = now_ms + pause_ms
            group.failures = 0
            pause_ms = 0  # it is the first one again once anything is tried
        elif event.outcome is Outcome.LATER:
            self._why_later = event.why
        else:
            pause_ms = _pause_ms(_STOPPED_MS, group.failures)
            if group.why_stopped != event.why:
                group.why_stopped = event.why
                effects.append(_notice(group, event))
        self._give_up(shard, group, write, now_ms, pause_ms)
        return effects

    # ---- what is due ------------------------------------------------------------------------------------------------

    def _take_note(self, shard: _Shard, changed: Iterable[str], now_ms: int) -> None:
        """Note that these groups may have changed; what is mirrored waits for no name that is new."""
        groups = shard.journal.state.groups
        for group_id in changed:
            group = shard.groups.get(group_id)
            if group is not None:
                self._mark(shard, group, now_ms, now_ms)
            elif group_id not in groups:
                shard.unwanted.discard(group_id)
                shard.waiting.pop(group_id, None)
            elif group_id not in shard.unwanted:
                shard.waiting.setdefault(group_id, now_ms)

    def _mark_some(self, now_ms: int) -> None:
        """Take note of groups that are new, all but when a great many are led anew."""
        left = _MOST_MARKED
        for shard in self._in_turn():
            for group_id, since_ms in list(islice(shard.waiting.items(), max(0, left))):
                if left <= 0:
                    return
                del shard.waiting[group_id]
                if not self._wants(group_id):
                    left -= 1
                    shard.unwanted.add(group_id)
                    continue
                left -= _A_NEW_GROUP
                whole_ms = max(now_ms, shard.led_ms + self._settings.settle_ms)
                group = shard.groups[group_id] = _Group(group_id, whole_ms, shard.former.take(group_id))
                self._mark(shard, group, since_ms, now_ms)

    def _in_turn(self) -> list[_Shard]:
        """Return the shards, of which each is the first at some time."""
        shards = list(self._shards.values())
        first = self._first_shard % max(1, len(shards))
        return shards[first:] + shards[:first]

    def _mark(self, shard: _Shard, group: _Group, since_ms: int, now_ms: int) -> None:
        """Note that offsets of a group may have changed, the first of them at `since_ms`."""
        if group.changed_ms is None:
            group.changed_ms = since_ms
        if group.comparison is None and not group.failures:
            shard.due.set(group.group_id, self._due_ms(group, now_ms))

    def _due_ms(self, group: _Group, now_ms: int) -> int:
        """Return when a group that is not looked at now is due."""
        if group.changed_ms is None:
            return group.whole_ms
        return now_ms if group.began_ms is None else max(now_ms, group.began_ms + self._settings.interval_ms)

    def _go_on(self, now_ms: int) -> Iterator[Effect]:
        """Begin to look at groups that are due, and yield the writes of those that are looked at."""
        if now_ms < self._not_before_ms:
            return
        self._first_shard += 1
        allowance = MOST_LOOKED_AT
        most = 1 if self._why_away else self._settings.groups_at_once
        for shard in self._in_turn():
            if allowance <= 0:
                return
            for group_id in shard.due.pop_due(now_ms, max(0, most - len(shard.busy))):
                self._begin(shard, group_id, now_ms)
            for group_id in list(shard.busy):
                group = shard.groups[group_id]
                if group.write is not None or allowance <= 0:
                    continue
                looked, write = self._compare(shard, group, allowance, now_ms)
                allowance -= looked + _A_GROUP
                if write is not None:
                    yield write

    def _begin(self, shard: _Shard, group_id: str, now_ms: int) -> None:
        group = shard.groups.get(group_id)
        state = shard.journal.state
        if group is None:
            shard.former.take(group_id)
            return
        if group_id not in state.groups:
            # What Kafka has of it is Kafka's to forget, or to show, unless it is made again meanwhile.
            del shard.groups[group_id]
            shard.former.put(group_id, group.told)
            shard.due.set(group_id, now_ms + self._settings.refresh_ms)
            return
        if now_ms >= group.whole_ms:
            group.is_whole = True
            group.whole_ms = now_ms + _spread(group_id, self._settings.refresh_ms)
        group.looked_ms, group.changed_ms = group.changed_ms, None
        group.began_ms = now_ms

        def table() -> CommittedTable:
            known = state.groups.get(group_id)
            return CommittedTable() if known is None else known.offsets

        group.comparison = Comparison(group_id, table, self._id_of, group.told, is_whole=group.is_whole)
        shard.busy[group_id] = None

    def _compare(self, shard: _Shard, group: _Group, most: int, now_ms: int) -> tuple[int, MirrorOffsets | None]:
        """Look on at a group until Kafka lacks something, or all is seen."""
        assert group.comparison is not None, "a group that is busy is looked at"
        looked = 0
        while looked < most and not group.comparison.is_over:
            some, difference = group.comparison.go_on(most - looked)
            looked += some
            if group.group_id not in shard.journal.state.groups:
                break  # it was deleted meanwhile: its offsets stay
            if not difference.is_none:
                self.last_attempt += 1
                group.write = MirrorOffsets(
                    shard.journal.shard, group.group_id, self.last_attempt, difference.topics, difference.deleted
                )
                # Whoever has had a turn is behind those that wait for one.
                del shard.busy[group.group_id]
                shard.busy[group.group_id] = None
                return looked, group.write
        if group.comparison.is_over or group.group_id not in shard.journal.state.groups:
            self._end(shard, group, now_ms)
        return looked, None

    # ---- the end of a look ------------------------------------------------------------------------------------------

    def _done(
        self, shard: _Shard, group: _Group, write: MirrorOffsets, event: MirrorAnswered, now_ms: int
    ) -> list[Effect]:
        group.told.take(write.topics, write.deleted)
        if any(self._id_of(topic) is not None for topic, _ in event.unknown):
            # There is the topic, and the broker that was asked has not heard of it yet: Kafka has nothing of it.
            group.whole_ms = min(group.whole_ms, now_ms + self._settings.settle_ms)
        effects: list[Effect] = []
        if group.why_stopped:
            group.why_stopped = ""
            why = "Kafka takes the offsets of this group again"
            effects.append(Notice("mirror-goes-on", why, group.group_id))
        refused = f"{event.refused[0][0]}:{event.refused[0][1]}: {event.refused[0][2]}" if event.refused else ""
        if refused and group.refused != refused:
            more = f", and of {len(event.refused) - 1} more partitions" if len(event.refused) > 1 else ""
            why = f"Kafka does not take the offset of {refused}{more}; its tools show an older one, or none"
            effects.append(Notice("mirror-refused", why, group.group_id, is_warning=True))
        if refused:
            group.refused, group.is_refused_now = refused, True
        assert group.comparison is not None, "what was written was looked at"
        if group.comparison.is_over:
            self._end(shard, group, now_ms)
        return effects

    def _end(self, shard: _Shard, group: _Group, now_ms: int) -> None:
        """End a look: Kafka has all that it saw."""
        group.comparison = group.looked_ms = None
        if group.is_whole and not group.is_refused_now:
            group.refused = ""
        group.is_whole = group.is_refused_now = False
        group.failures = 0
        shard.busy.pop(group.group_id)
        shard.due.set(group.group_id, self._due_ms(group, now_ms))

    def _give_up(self, shard: _Shard, group: _Group, write: MirrorOffsets, now_ms: int, pause_ms: int) -> None:
        """End a look, to begin again after a pause; it is not known whether Kafka has taken its last write.

        It may also take it yet, after newer ones, so that all is to be written once more when that is over.
        """
        group.told.doubt(write.topics)
        group.whole_ms = min(group.whole_ms, now_ms + self._settings.settle_ms)
        group.comparison = None
        group.is_refused_now = False
        since_ms, group.looked_ms = group.looked_ms, None
        known = [each for each in (since_ms, group.changed_ms) if each is not None]
        group.changed_ms = min(known, default=now_ms)
        shard.busy.pop(group.group_id)
        shard.due.set(group.group_id, now_ms + pause_ms)

    # ---- what people see --------------------------------------------------------------------------------------------

    def _look_at_all(self, now_ms: int) -> Iterator[Effect]:
        """Count, and say it once when Kafka has been behind for long, and when it is not any more."""
        behind = stopped = refused = 0
        oldest_ms, stopped_name = now_ms, ""
        for shard in self._shards.values():
            behind += len(shard.waiting)
            oldest_ms = min(oldest_ms, next(iter(shard.waiting.values()), now_ms))
            for group in shard.groups.values():
                refused += bool(group.refused)
                if group.why_stopped:
                    stopped += 1
                    stopped_name = stopped_name or group.group_id
                elif group.since_ms is not None:
                    behind += 1
                    oldest_ms = min(oldest_ms, group.since_ms)
        delay_ms = now_ms - oldest_ms
        self.figures = {
            "kcoord_mirror_delay_seconds": delay_ms / 1000,
            "kcoord_mirror_groups": sum(len(shard.groups) for shard in self._shards.values()),
            "kcoord_mirror_groups_behind": behind,
            "kcoord_mirror_groups_stopped": stopped,
            "kcoord_mirror_groups_refused": refused,
            "kcoord_mirror_writes_total": self._writes,
            "kcoord_mirror_failures_total": self._failed_writes,
        }
        why = self._why_away or self._why_later or "what was committed here waits to be replicated, or to be written"
        is_late = delay_ms >= self._settings.late_ms
        if is_late != self._is_late:
            self._is_late = is_late
            if is_late:
                yield Notice("mirror-late", f"{_how_late(behind, delay_ms)}: {why}", is_warning=True)
            else:
                yield Notice("mirror-caught-up", "Kafka shows the offsets that are committed here again")
        said = []
        if is_late:
            said.append(f"{_how_late(behind, delay_ms)} ({why})")
        if stopped:
            more = f" and of {stopped - 1} more" if stopped > 1 else ""
            said.append(f"Kafka does not take the offsets of group {stopped_name!r}{more}")
        self.lacks = "; ".join(said)


def _how_late(groups: int, delay_ms: int) -> str:
    of = "a group that are" if groups == 1 else f"{groups} groups that are up to"
    return f"Kafka shows offsets of {of} {delay_ms // 1000} s old"


def _pause_ms(shortest_and_longest: tuple[int, int], failures: int) -> int:
    shortest_ms, longest_ms = shortest_and_longest
    return min(longest_ms, int(shortest_ms * 2 ** min(failures - 1, 16)))


def _spread(group_id: str, refresh_ms: int) -> int:
    """Return a time between three quarters of it and all of it, another one for each group."""
    share = int(google_crc32c.value(group_id.encode())) % 1_000
    return refresh_ms - refresh_ms * share // 4_000


def _notice(group: _Group, event: MirrorAnswered) -> Notice:
    if event.outcome is Outcome.HAS_MEMBERS:
        why = (
            f"Kafka's group has members of its own ({event.why}), so its offsets are left alone: Kafka's tools show "
            "those of these members. End them, or set mirror.prefix or mirror.exclude"
        )
        return Notice("mirror-stopped", why, group.group_id, is_warning=True)
    return Notice("mirror-stopped", f"Kafka does not take the offsets: {event.why}", group.group_id, is_warning=True)
