"""Rules about consumers by hand: no topic of a name is passed over, and nothing of one is taken for another.

A topic that is deleted and made again under its name is another topic: it has another life. Where a consumer stands is
known here from what its program has said and what Kafka and the coordinator have answered, and in which life that was.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from spark_kcoord.consumer.core.held import NO_START, Held
from spark_kcoord.consumer.core.machine import ConsumerMachine
from spark_kcoord.fetch.tailing.fetched import AT_BEGINNING, AT_END, Chunk, Fetched, OutOfRange, Resolved
from tests.sim.kafka import Topic
from tests.sim.log.state import ViolationError
from tests.sim.process import TopicPartition

STARTS: Mapping[str, int] = {"earliest": AT_BEGINNING, "latest": AT_END, "none": NO_START}
KINDS = (
    "began in a group",
    "began without a group",
    "assigned",
    "subscribed",
    "began at the group's offset",
    "began at an offset of a former topic",
    "found of a topic that it reads",
    "found of a topic that is new to it",
    "returned",
    "returned from the beginning of a topic made again",
    "out of range",
    "told of a topic made again",
    "was told that its position is gone",
    "sought",
    "sought to the group's offset",
    "paused",
    "not polled",
    "interrupted",
    "question interrupted",
    "commit answered",
    "commit refused",
    "committed",
    "committed in a topic made again",
    "end known in a topic made again",
)
"""Happenings that try a rule, or without which it would be tried in vain."""
ANY = ""
"""The life of a position that nobody has said of which topic it is: of whatever has the name when it is read."""


@dataclass(frozen=True, slots=True)
class Place:
    """The next record that is to be returned: an offset in a life, or AT_BEGINNING, AT_END, NO_START."""

    topic_id: str
    offset: int

    def is_of(self, topic_id: str) -> bool:
        """Say whether it can be of a life."""
        return self.topic_id in (ANY, topic_id)


class HandRules:
    """The rules of one consumer by hand, whose policy is `policy`."""

    def __init__(self, name: str, policy: str, coverage: Counter[str]) -> None:
        self._name = name
        self._policy = STARTS[policy]
        self._coverage = coverage
        self._places: dict[TopicPartition, Place] = {}
        self._told: dict[TopicPartition, tuple[str, int | None]] = {}
        """The life that the consumer was told of last, and the end of the log in it, None where that is not known."""
        self._begins: dict[TopicPartition, tuple[str, int]] = {}
        """The life of which records came last, and where its log began when the first of them did."""
        self._gone: set[TopicPartition] = set()
        """Partitions whose position their own topic does not have: the policy says where they go on."""
        self._unsaid: set[TopicPartition] = set()
        """Partitions of which something was returned since an offset was committed."""
        self._again: set[TopicPartition] = set()
        """Partitions of which it has met more than one life."""
        self._floors: dict[TopicPartition, Place] = {}
        """The group's offsets, as far as the consumer was told."""
        self._read: frozenset[str] = frozenset()
        """Topics that were subscribed to when it was looked last for what there is."""

    def count(self, what: str) -> None:
        """Count something that has come to happen."""
        self._coverage[f"by hand {what}"] += 1

    # ---- as the program says ----------------------------------------------------------------------------------------

    def assigned(self, starts: Mapping[TopicPartition, int | None], committed: Mapping[TopicPartition, Place]) -> None:
        """Take that exactly these are assigned, and where the group was said to be."""
        self._drop_all_but(starts)
        for key, start in starts.items():
            if start is not None:
                self.sought(key, Place(ANY, start))
            elif key not in self._places and key in committed:
                self.count("began at the group's offset")
                self._begin(key, committed[key])
                self._floors[key] = committed[key]
            elif key not in self._places:
                self._begin(key, Place(ANY, self._policy))

    def sought(self, key: TopicPartition, place: Place) -> None:
        """Take that a partition is to go on elsewhere."""
        self._begin(key, place)
        self._unsaid.discard(key)

    def sought_to_group(self, key: TopicPartition, committed: Place) -> None:
        """Take that a partition is to go on where the group is."""
        self.sought(key, committed)
        self._floors[key] = committed

    def _begin(self, key: TopicPartition, place: Place) -> None:
        self._places[key] = place
        self._gone.discard(key)

    def grown(self, partitions: Collection[TopicPartition], subscribed: Collection[str]) -> None:
        """Take that a consumer without a group has found these of the topics that it subscribes to."""
        self._drop_all_but(partitions)
        for key in partitions:
            if key not in self._places:
                is_read = key[0] in self._read
                self.count("found of a topic that it reads" if is_read else "found of a topic that is new to it")
                self._begin(key, Place(ANY, AT_BEGINNING if is_read else self._policy))
        self._read = frozenset(subscribed)

    def unsubscribed(self) -> None:
        """Take that nothing is read any more."""
        self._drop_all_but(())
        self._read = frozenset()

    def _drop_all_but(self, keys: Collection[TopicPartition]) -> None:
        for key in [key for key in self._places if key not in keys]:
            for known in (self._places, self._told, self._begins, self._floors):
                known.pop(key, None)
            for keys_of in (self._gone, self._unsaid, self._again):
                keys_of.discard(key)

    # ---- as Kafka says ----------------------------------------------------------------------------------------------

    def news(self, one: Fetched, topic: Topic) -> None:
        """Take that something comes under a token that counts."""
        place, begin = self._places[one.key], topic.begins[one.key[1]]
        if isinstance(one, Resolved):
            self._places[one.key] = due = self._resolved(one, place, topic.topic_id, begin)
            if one.position > due.offset:
                raise ViolationError(
                    "passed-over", f"{self._name} begins {one.key} of {topic.topic_id} at {one.position}: {due} is due"
                )
            self._gone.discard(one.key)
            self._unsaid.discard(one.key)
            if self._told.get(one.key, (ANY, None))[0] != topic.topic_id:
                self._tell(one.key, topic.topic_id, None)
        elif isinstance(one, OutOfRange):
            if place.is_of(topic.topic_id):
                self._gone.add(one.key)
                self.count("out of range")
            else:
                is_first = one.key not in self._told
                self._tell(one.key, topic.topic_id, None)
                self._again.add(one.key)
                self.count("began at an offset of a former topic" if is_first else "told of a topic made again")
        elif isinstance(one, Chunk):
            if place.topic_id == ANY:
                self._places[one.key] = Place(topic.topic_id, place.offset)
            if self._begins.get(one.key, ("", 0))[0] != topic.topic_id:
                self._begins[one.key] = (topic.topic_id, begin)
            self._tell(one.key, topic.topic_id, one.end)

    def _tell(self, key: TopicPartition, topic_id: str, end: int | None) -> None:
        """Note the life that the consumer was told of, and where the log ends in it, if that was said."""
        if self._told.get(key, (topic_id, None))[0] != topic_id:
            self._again.add(key)
        self._told[key] = (topic_id, end)

    def _resolved(self, one: Resolved, place: Place, topic_id: str, begin: int) -> Place:
        """Return where a partition stands of which a beginning or an end was asked."""
        if not place.is_of(topic_id):
            return Place(topic_id, begin)
        wanted = self._policy if one.key in self._gone else place.offset
        if wanted == AT_BEGINNING:
            return Place(topic_id, begin)
        return Place(topic_id, one.position) if wanted == AT_END else place

    # ---- as the consumer does ---------------------------------------------------------------------------------------

    def returned(self, key: TopicPartition, topic_id: str, start: int, end: int) -> None:
        """Take records of a life that a poll returns: raises ViolationError where others are due."""
        place = self._places[key]
        if not place.is_of(topic_id):
            life, begin = self._begins[key]
            if life != topic_id or start > begin:
                raise ViolationError(
                    "former-position",
                    f"{self._name} got {key} of {topic_id} from {start} on, which begins at {begin}: it was at {place}",
                )
        elif start != place.offset:
            raise ViolationError(
                "passed-over", f"{self._name} got {key} of {topic_id} from {start} on: it was at {place}"
            )
        self._places[key] = Place(topic_id, end)
        self._unsaid.add(key)
        is_at_begin = key in self._again and self._begins[key] == (topic_id, start)
        self.count("returned from the beginning of a topic made again" if is_at_begin else "returned")

    def committing(self, offsets: Mapping[TopicPartition, int], *, is_again: bool = False) -> None:
        """Take what `commit()` is about to say: raises ViolationError for a wrong offset, or one that is left out.

        What it says `is_again` is a part of what it has said.
        """
        for key, offset in offsets.items():
            place, (told, _) = self._places[key], self._told.get(key, (ANY, None))
            if not place.is_of(told) and told != ANY:
                raise ViolationError(
                    "former-commit", f"{self._name} commits {offset} of {key}, was at {place}, and knows of {told}"
                )
            if place.offset >= 0 and offset != place.offset:
                raise ViolationError("wrong-commit", f"{self._name} commits {offset} of {key} and is at {place}")
        for key in () if is_again else self._unsaid - self._gone - offsets.keys():
            place, floor = self._places[key], self._floors.get(key)
            is_known = floor is not None and floor.is_of(place.topic_id) and place.offset <= floor.offset
            if self._told[key][0] == place.topic_id and not is_known:
                raise ViolationError(
                    "commit-left-out", f"{self._name} does not commit {key}, is at {place}, and the group at {floor}"
                )

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Take that these are committed."""
        for key, offset in offsets.items():
            if key in self._places:
                self._floors[key] = Place(self._places[key].topic_id, offset)
                self._unsaid.discard(key)
                self.count("committed in a topic made again" if key in self._again else "committed")

    def must_be_of_this_life(self, machine: ConsumerMachine) -> None:
        """Raise ViolationError where the end of a log, which lags are made of, is not of the life that it knows of."""
        for held in _at_rest(machine):
            life, end = self._told.get(held.key, (ANY, None))
            if end is not None and held.key in self._again:
                self.count("end known in a topic made again")
            if life != ANY and not {held.end, held.high_watermark} <= {None, end}:
                raise ViolationError(
                    "former-end",
                    f"{self._name} says that {held.key} ends at {held.end} and {held.high_watermark}: {life} at {end}",
                )


def _at_rest(machine: ConsumerMachine) -> Iterable[Held]:
    return (held for held in machine if not held.buffer and held.stopped_by is None)
