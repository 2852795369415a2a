"""One partition that a consumer reads: where it stands, what of it is buffered, and up to where it is done."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.ids import TopicPartition
from spark_kcoord.fetch.tailing.fetched import NO_EPOCH, Chunk, OutOfRange, Trouble, Truncated, Wanted
from spark_kcoord.member.core.held.holdings import AssignedPartition

__all__ = ["NO_START", "Grant", "Held"]

NO_START: Final = -3
"""The start of a partition of which nobody says where it starts: the program has to seek."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A partition as it came: `start` is an offset, AT_BEGINNING, AT_END or NO_START.

    `owner_epoch` is None for one that was assigned by hand. `committed` is the group's offset, None where it is not
    known. Without a `topic_id` the start is of the topic with the `named_id`, where that is known.
    """

    topic: str
    partition: int
    topic_id: str | None
    owner_epoch: int | None
    start: int
    committed: int | None = None
    stream: int | None = None
    named_id: str | None = None

    @classmethod
    def of(cls, part: AssignedPartition) -> Grant:
        """Return the grant of a partition that a coordinator has assigned."""
        topic_id = part.topic_id or None
        return cls(part.topic, part.partition, topic_id, part.owner_epoch, part.position, part.position, part.stream)

    @property
    def key(self) -> TopicPartition:
        """Return its topic and number."""
        return (self.topic, self.partition)


@dataclass(slots=True)
class Held:
    """A partition that is read.

    `position` is the next offset to return and `done` the one up to which auto commit may go; both are None until a
    `start` at the beginning or the end is known.
    """

    grant: Grant
    token: int
    start: int
    position: int | None = None
    done: int | None = None
    noted: int | None = None
    committed: int | None = None
    is_sought: bool = False
    """True from when it is to go on at an offset until Kafka has answered for that."""
    last_epoch: int = NO_EPOCH
    named_id: str | None = None
    """The id of the topic that the position is of, where that is known; it may be made again under the same name."""
    found_id: str | None = None
    """The id of the topic that the group's offset and the end of the log are of, where that is known."""
    end: int | None = None
    high_watermark: int | None = None
    is_told: bool = False
    """True once a listener has heard of it: nothing is fetched before."""
    is_paused: bool = False
    is_set_aside: bool = False
    """True while nobody takes what is buffered of it, others need the memory, and so nothing more is fetched."""
    stuck_at: int | None = None
    """The offset of the last record that could not be given."""
    waits_until_s: float = float("-inf")
    """Before this time a position that Kafka does not have is not reported again."""
    buffer: deque[Chunk] = field(default_factory=deque)
    stopped_by: OutOfRange | Truncated | Trouble | None = None
    """The news that ended fetching, after the rows that are buffered."""

    @property
    def key(self) -> TopicPartition:
        """Return its topic and number."""
        return self.grant.key

    @property
    def fetch_at(self) -> int:
        """The offset at which the buffered rows end, or what Kafka is to be asked for."""
        if self.buffer:
            return self.buffer[-1].next_offset
        return self.start if self.position is None else self.position

    @property
    def fetch_epoch(self) -> int:
        """The leader epoch of the record before `fetch_at`, by which a broker tells another history."""
        return self.buffer[-1].epoch_at(self.fetch_at - 1) if self.buffer else self.last_epoch

    def wanted(self) -> Wanted:
        """Return from where on it is to be fetched."""
        return Wanted(self.grant.topic_id, self.token, self.fetch_at, self.fetch_epoch, self.named_id)

    @property
    def may_be_fetched(self) -> bool:
        """True if records of it are wanted, or at least its position."""
        if not self.is_told or self.stopped_by is not None:
            return False
        return self.start != NO_START if self.position is None else not (self.is_paused or self.is_set_aside)

    @property
    def is_parked(self) -> bool:
        """True if what is buffered of it is held for later."""
        return self.is_paused or self.is_set_aside

    @property
    def can_go_on(self) -> bool:
        """True if what follows what is buffered of it may be fetched, once it is not parked."""
        return self.position is not None and self.stopped_by is None

    @property
    def is_stuck(self) -> bool:
        """True if its next record could not be given."""
        return self.stuck_at is not None and self.position is not None and self.position <= self.stuck_at

    @property
    def buffered_bytes(self) -> int:
        """The bytes of what is buffered of it."""
        return sum(chunk.size for chunk in self.buffer)

    @property
    def is_without_start(self) -> bool:
        """True if nobody has said where it starts."""
        return self.position is None and self.start == NO_START

    @property
    def is_there(self) -> bool:
        """True if Kafka is known to have the position: auto commit goes no further.

        A group's offset that Kafka does not have would lose its records for everybody.
        """
        if not self.is_sought:
            return True
        return self.position is not None and self.high_watermark is not None and self.position <= self.high_watermark

    @property
    def is_not_there(self) -> bool:
        """True if it stands where Kafka has nothing, as far as that is known: `commit()` leaves it out."""
        is_sought_in_vain = self.high_watermark is not None or isinstance(self.stopped_by, OutOfRange)
        return self.is_of_old_topic or (not self.is_there and is_sought_in_vain)

    @property
    def is_of_old_topic(self) -> bool:
        """True if its position is of a topic that was deleted and made again since."""
        return isinstance(self.stopped_by, OutOfRange) and self.stopped_by.is_new_topic

    @property
    def may_be_returned(self) -> bool:
        """True if buffered rows of it may be given to the program."""
        return self.is_told and not self.is_paused

    def begin_at(self, position: int, token: int, named_id: str | None = None) -> int:
        """Go on somewhere else, with all before it done; return how many bytes of the buffer are free now."""
        is_of_new_topic = self.is_of_old_topic
        self.token, self.stopped_by = token, None
        self.is_set_aside, self.stuck_at = False, None
        freed = self.drop()
        self.start, self.last_epoch, self.named_id = position, NO_EPOCH, named_id
        self.position = self.done = position if position >= 0 else None
        self.is_sought = position >= 0
        if is_of_new_topic:
            self._forget_topic()
        if named_id is not None:
            self.be_of(named_id)
            self.committed = position  # it is sought where the group is
        return freed

    def know_committed(self, offset: int) -> None:
        """Note that the group is that far, unless what was known of it is of another topic and forgotten."""
        if self.committed is not None:
            self.committed = max(self.committed, offset)

    def take_commit(self, offset: int, topic_id: str) -> None:
        """Note that an offset was committed, unless that is of another topic of its name than what is read now."""
        if not topic_id or self.found_id in (None, topic_id):
            self.committed = max(self.committed or 0, offset)

    def be_of(self, topic_id: str | None) -> None:
        """Note of which topic the position is; what was known of another topic of its name is forgotten."""
        self.named_id = topic_id
        if topic_id is not None and self.found_id not in (None, topic_id):
            self._forget_topic()
        self.found_id = topic_id

    def _forget_topic(self) -> None:
        self.committed = self.end = self.high_watermark = None

    def drop(self) -> int:
        """Drop what is buffered; return how many bytes are free now."""
        freed = self.buffered_bytes
        self.buffer.clear()
        return freed

    def skip_gaps(self) -> int:
        """Drop chunks before the position, and pass over offsets without rows; return how many bytes are free now."""
        freed = 0
        while self.buffer and self.position is not None:
            head = self.buffer[0]
            if head.rows is None and head.start <= self.position < head.next_offset:
                self.position, self.last_epoch = head.next_offset, head.epoch_at(head.next_offset - 1)
            if self.position < head.next_offset:
                break
            freed += self.buffer.popleft().size
        return freed

    def to_commit(self, offset: int, metadata: str = "", leader_epoch: int | None = None) -> OffsetToCommit:
        """Return an offset of this partition as it is committed."""
        if leader_epoch is None and offset == self.position and self.last_epoch != NO_EPOCH:
            leader_epoch = self.last_epoch
        owner_epoch = self.grant.owner_epoch
        topic_id = (self.named_id or "") if owner_epoch is None else ""
        return OffsetToCommit(*self.key, offset, owner_epoch, leader_epoch, metadata, topic_id)
