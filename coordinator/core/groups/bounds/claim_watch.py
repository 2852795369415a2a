"""The time that claims run and that their owners are waited for: said when it is long, over at the time-out.

Since when a claim runs or is waited for is soft: after a restart both count anew, so nothing is given up early.
Which claims wait for an identity that is gone follows from hard state (`held_claims`).
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Final, NamedTuple

from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.held_claims import held_for, is_held, say_awaited
from coordinator.core.groups.hard.records import ClaimsGivenUp
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.partitions.in_topics import TopicNumbers
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.groups.soft.group_soft import RunningSince
from coordinator.core.groups.soft.timeline import EventKind
from coordinator.core.groups.soft.timers import Timer, TimerKind

_LOOKED_AT_FOR_ONE_MOVED: Final = 2
"""So many claims are looked at in the time in which one partition changes hands."""


class Began(NamedTuple):
    """The time at which a claim began to run, or the log was read in which it did: then nobody saw it begin."""

    at_ms: int
    was_seen: bool


class ClaimWatch:
    """Watches the age of running claims, and for how long their owners are waited for, in the groups of one shard."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def start(self, group: GroupState) -> None:
        """Begin to count after a load."""
        desk = self._desk
        for owner, partitions in group.owned.items():
            if any(group.claims.any_running(topic, numbers) for topic, numbers in partitions.columns()):
                # They are not noted one by one: there may be very many, and nearly all are over soon.
                soft = desk.soft_of(group.group_id)
                soft.running_from_ms, soft.is_start_said = desk.now_ms, False
                desk.timers.set(
                    Timer(TimerKind.CLAIM_AGE, group.group_id), desk.now_ms + desk.limits.claim_age_notice_ms
                )
            if owner not in group.members:
                self.note_abandoned(group, owner, is_said=False)

    def note_running(self, group: GroupState, topics: Iterable[TopicNumbers]) -> None:
        """Remember since when claims run."""
        desk, soft = self._desk, self._desk.soft_of(group.group_id)
        is_timed = soft.running_from_ms is not None and not soft.is_start_said
        is_first = not soft.running_since.topics() and not is_timed and soft.ages is None
        for each in topics:
            of_topic, running = group.claims.rows(each.topic), soft.running_since.rows_to_fill(each.topic)
            first, known = of_topic[each.partitions[0]], running.get(each.partitions[0])
            if known is not None and known.place is first and first.is_of(each.partitions):
                known.claims, known.at_ms = first.claims, desk.now_ms  # shared by all, as the place is
                continue
            by_place: dict[int, RunningSince] = {}
            for number in each.partitions:
                place = of_topic[number]
                since = by_place.get(id(place))
                if since is None:
                    since = by_place[id(place)] = RunningSince(place, place.claims, desk.now_ms)
                running[number] = since
        if is_first and soft.running_since.topics():
            timer = Timer(TimerKind.CLAIM_AGE, group.group_id)
            desk.timers.set(timer, desk.now_ms + desk.limits.claim_age_notice_ms)

    def began_together(self, group: GroupState, claimed: TopicNumbers) -> Iterator[tuple[Began, Sequence[int]]]:
        """Yield when running claims began, or were loaded if that was later, and which of those that are asked about.

        What is claimed and is not running is left out. What began together is looked at together: it may be very much.
        """
        soft, numbers = self._desk.soft_of(group.group_id), claimed.partitions
        places = list(map(group.claims.rows(claimed.topic).__getitem__, numbers))
        noted = list(map(soft.running_since.rows(claimed.topic).get, numbers))
        long = soft.running_long.rows(claimed.topic)
        if long:
            noted = [since or long.get(number) for number, since in zip(numbers, noted, strict=True)]
        at = 0
        for (place, since), alike in groupby(zip(places, noted, strict=True)):
            begin, at = at, at + len(list(alike))
            if not place.is_running:
                continue
            if since is not None and since.claims is place.claims:
                yield Began(since.at_ms, was_seen=True), numbers[begin:at]
            elif soft.running_from_ms is not None:
                yield Began(soft.running_from_ms, was_seen=False), numbers[begin:at]

    def ages_are_due(self, group: GroupState) -> None:
        """Say which claims have run for long, each once; as many are looked at as one step is for."""
        desk, soft = self._desk, self._desk.soft_of(group.group_id)
        limit_ms = desk.limits.claim_age_notice_ms
        if soft.ages is None:
            soft.ages = self._ages(group)
        old: dict[str, list[TopicPartition]] = {}
        some = list(islice(soft.ages, _LOOKED_AT_FOR_ONE_MOVED * desk.limits.slice_partitions))
        for partition, runs_from_start in some:
            place, since = group.claims.rows(partition[0]).get(partition[1]), soft.running_since.get(partition)
            is_of_this = since is not None and place is not None and since.claims is place.claims
            is_old = is_of_this and since is not None and desk.now_ms - since.at_ms >= limit_ms
            if since is not None and (is_old or not is_of_this):
                del soft.running_since[partition]
            if since is not None and is_old:
                soft.running_long[partition] = since
            elif (said := soft.running_long.get(partition)) and (place is None or said.claims is not place.claims):
                del soft.running_long[partition]
            if is_old or (runs_from_start and not is_of_this and place is not None and place.is_running):
                old.setdefault(group.grants[partition].member_id, []).append(partition)
        for member_id, partitions in sorted(old.items()):
            why = f"a claim has been running for {limit_ms // 1000} s; look whether its micro-batch hangs"
            desk.note(
                group.group_id,
                EventKind.CLAIM_OLD,
                why,
                member_id=member_id,
                partitions=partitions,
                duration_ms=limit_ms,
            )
        timer = Timer(TimerKind.CLAIM_AGE, group.group_id)
        if some:
            desk.timers.set(timer, desk.now_ms)
            return
        soft.ages = None
        begins = {since.at_ms for _, since in soft.running_since.items()}
        if soft.running_from_ms is not None and not soft.is_start_said:
            begins.add(soft.running_from_ms)
        if begins:
            desk.timers.set(timer, min(begins) + limit_ms)

    def _ages(self, group: GroupState) -> Iterator[tuple[TopicPartition, bool]]:
        """Return the partitions to be looked at now, each with whether a claim on it that is not noted is old too."""
        desk, soft = self._desk, self._desk.soft_of(group.group_id)
        limit_ms, from_ms = desk.limits.claim_age_notice_ms, soft.running_from_ms
        columns = [
            (topic, list(table.rows(topic)), False)
            for table in (soft.running_since, soft.running_long)
            for topic in table.topics()
        ]
        if from_ms is not None and not soft.is_start_said and desk.now_ms - from_ms >= limit_ms:
            soft.is_start_said = True
            # Before the others: one that is noted and old is said there, and not noted any more after that.
            columns = [(topic, list(group.claims.rows(topic)), True) for topic in group.claims.topics()] + columns
        return (((topic, number), from_start) for topic, numbers, from_start in columns for number in numbers)

    def note_abandoned(self, group: GroupState, member_id: str, *, is_said: bool = True) -> None:
        """Begin to wait for a member that is gone and left running claims, if the group holds them."""
        held = held_for(group, member_id)
        if not held:
            return
        desk = self._desk
        desk.soft_of(group.group_id).awaited_since[member_id] = desk.now_ms
        if is_said:
            limit = "" if group.claim_timeout_ms is None else f", for {group.claim_timeout_ms} ms at most"
            why = f"running claims wait for {say_awaited(group, member_id)} or an operator{limit}"
            desk.note(group.group_id, EventKind.CLAIM_HELD, why, member_id=member_id, partitions=held)
        self._set_timeout(group)

    def count_anew(self, group: GroupState) -> None:
        """Begin to wait for all who are gone and left running claims, now that the group waits otherwise than before.

        Who was waited for already has the whole of a claim time-out that was named only now.
        """
        for owner in group.owned:
            self.note_abandoned(group, owner)

    def _set_timeout(self, group: GroupState) -> None:
        soft = self._desk.soft_of(group.group_id)
        timer = Timer(TimerKind.CLAIM_TIMEOUT, group.group_id)
        awaited = soft.awaited_since
        if group.claim_timeout_ms is None or not awaited:
            self._desk.timers.cancel(timer)
        else:
            self._desk.timers.set(timer, min(awaited.values()) + group.claim_timeout_ms)

    def timeout_is_due(self, group: GroupState) -> tuple[TopicPartition, ...]:
        """Give up claims that were waited for long enough, as many as one step is for, and return their partitions."""
        desk, soft = self._desk, self._desk.soft_of(group.group_id)
        timeout_ms = group.claim_timeout_ms
        if timeout_ms is None:
            return ()
        begun_ms = desk.now_ms - timeout_ms
        late: dict[str, list[TopicPartition]] = {}
        left = desk.limits.slice_partitions
        for member_id in sorted(owner for owner, since_ms in soft.awaited_since.items() if since_ms <= begun_ms):
            held = (partition for partition in group.owned_by(member_id) if is_held(group, partition))
            given_up = list(islice(held, left))
            left -= len(given_up)
            if given_up:
                late[member_id] = sorted(given_up)
            if not left:
                break  # there may be more of its, which the next turn is about
            del soft.awaited_since[member_id]
        for member_id, partitions in late.items():
            why = f"{say_awaited(group, member_id)} has not come back within the claim time-out of {timeout_ms} ms"
            desk.journal.decide(ClaimsGivenUp(group.group_id, tuple(partitions), why))
            desk.note(
                group.group_id,
                EventKind.CLAIM_GIVEN_UP,
                why,
                member_id=member_id,
                partitions=partitions,
                duration_ms=timeout_ms,
            )
        self._set_timeout(group)
        return tuple(partition for partitions in late.values() for partition in partitions)
