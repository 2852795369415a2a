"""A model that reads the log of one group: two dicts, who owns and what is committed, and what must hold of them."""

from collections.abc import Iterable

from coordinator.core.groups.hard.life_records import LogWentBack
from coordinator.core.groups.hard.operator_records import ClaimsReleased, GroupDeleted, OffsetsDeleted, ResetApplied
from coordinator.core.groups.hard.records import (
    Advanced,
    ClaimsClosed,
    ClaimsGivenUp,
    ClaimsRunning,
    CommittedPart,
    Granted,
    GroupExpired,
    GroupSettings,
    MemberJoined,
    MemberRemoved,
    OffsetsCommitted,
    Record,
    Released,
    Taken,
    WentOutOfRange,
    decode_record,
)
from coordinator.core.groups.partitions.partition_table import TopicPartition
from tests.helpers.committed_parts import each_offered_step, each_step, parts_of


class LogReader:
    """Reads a log from its beginning and asserts what must hold at every point of it."""

    def __init__(self) -> None:
        self.read = 0
        self.owners: dict[TopicPartition, tuple[str, int]] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.claims: dict[TopicPartition, tuple[int, int]] = {}
        self.running: set[TopicPartition] = set()
        self.granted: set[tuple[str, TopicPartition, int]] = set()
        self.offered: set[tuple[TopicPartition, int, int, int]] = set()
        self.members: set[str] = set()
        self.handover = ""
        self.highest: dict[TopicPartition, int] = {}
        self.owner_commits: set[tuple[TopicPartition, int, int]] = set()
        self.readers: set[str] = set()
        self.read_only: set[TopicPartition] = set()
        """Partitions of members that commit nothing."""
        self.epochs_ahead = 0

    def read_on(self, log: list[bytes]) -> None:
        for data in log[self.read :]:
            self._look_at(decode_record(data), self.read)
            self.read += 1

    def _look_at(self, record: Record, at: int) -> None:
        offset = at + self.epochs_ahead
        match record:
            case LogWentBack():
                assert record.epochs_from == at + 1 + record.epochs_ahead > offset
                self.epochs_ahead = record.epochs_ahead
                self._release(self.owners)
            case GroupSettings():
                self.handover = record.handover
            case MemberJoined():
                member_id = record.facts.member_id
                self.members.add(member_id)
                if record.facts.commits:
                    self.readers.discard(member_id)
                else:
                    self.readers.add(member_id)
                owned = {partition for partition, owner in self.owners.items() if owner[0] == member_id}
                assert owned <= self.read_only or member_id not in self.readers, "a reader keeps what it could commit"
                assert owned.isdisjoint(self.read_only) or member_id in self.readers, "a start of a reader is kept"
            case Granted():
                assert record.member_id in self.members
                assert record.owner_epoch == offset
                assert record.partitions == tuple(sorted(set(record.partitions)))
                assert record.starts is None or record.starts.partitions == record.partitions
                assert record.is_read_only == (record.member_id in self.readers)
                for number in record.partitions:
                    self._grant(record, number, offset)
            case ResetApplied():
                self._reset(record, offset)
            case OffsetsDeleted():
                for partition in record.partitions:
                    assert partition not in self.owners, "the offset of an owned partition is deleted"
                    del self.committed[partition]
            case ClaimsReleased():
                for partition in record.partitions:
                    assert self.owners[partition][0] not in self.members, "the claim of a living owner is released"
                self._release(record.partitions)
            case OffsetsCommitted():
                self._commit(parts_of(record), ())
            case Released():
                self._commit(record.committed, ())
                self._release((part.topic, part.partition) for part in record.partitions)
            case Advanced():
                for topic, _, number, step in each_step(record.finished):
                    self._finish((topic, number), record.member_id, step)
                self._commit(record.finals, ())
                self._release((part.topic, part.partition) for part in record.released)
                for partition, owner in self.owners.items():
                    if owner[0] == record.member_id and partition not in self.running and not record.keeps_offered:
                        self._close_claim(partition)
                for topic, _, number, step in each_offered_step(record):
                    partition = (topic, number)
                    member_id, owner_epoch = self.owners[partition]
                    assert member_id == record.member_id
                    assert step > 0, "a claim holds no offset"
                    assert partition not in self.running, "a claim replaces one that runs"
                    begin = self.committed[partition]
                    self.claims[partition] = (begin, begin + step)
                    self.offered.add((partition, owner_epoch, begin, begin + step))
            case ClaimsRunning():
                self.running.update((each.topic, number) for each in record.topics for number in each.partitions)
            case ClaimsClosed():
                for each in record.topics:
                    for number in each.partitions:
                        self._close_claim((each.topic, number))
            case ClaimsGivenUp():
                self._release(record.partitions)
            case Taken():
                for partition in record.partitions:
                    assert self.owners[partition][0] == record.member_id in self.members
                self._release(record.partitions)
            case WentOutOfRange():
                for partition in record.partitions:
                    assert partition not in self.read_only, "a reader's report takes the group's offset"
                    del self.committed[partition]
                self._release(record.partitions)
            case GroupDeleted() | GroupExpired():
                assert not self.members, "a group with members is forgotten"
                self._release(self.owners)
                self.committed.clear()
            case MemberRemoved():
                self.members.discard(record.member_id)
                self.readers.discard(record.member_id)
                had = [partition for partition, owner in self.owners.items() if owner[0] == record.member_id]
                if not record.keeps_running_claims:
                    self._release(had)
                else:
                    self._release(partition for partition in had if partition not in self.running)

    def _grant(self, record: Granted, number: int, offset: int) -> None:
        partition = (record.topic, number)
        owner = self.owners.get(partition)
        assert owner is None or owner[0] not in self.members, f"{partition} is granted while {owner} owns it"
        is_held = self.handover == "hold" and partition in self.running
        assert not is_held, f"{partition} is granted while {owner} has a running claim on it"
        self._close_claim(partition)
        self.owners[partition] = (record.member_id, offset)
        self.granted.add((record.member_id, partition, offset))
        self._note_kind(record.member_id, partition)
        if record.starts is not None and not record.is_read_only:
            assert partition not in self.committed, "a start is written once"
            self._write(partition, dict(zip(record.starts.partitions, record.starts.offsets, strict=True))[number])

    def _finish(self, partition: TopicPartition, member_id: str, step: int) -> None:
        """Take a finished claim: the owner's, and all of what is claimed."""
        assert self.owners[partition][0] == member_id, "somebody else's claim is finished"
        assert partition not in self.read_only, "a member that commits nothing commits"
        assert partition in self.running, "a claim that does not run is finished"
        begin, end = self.claims[partition]
        assert (begin, end) == (self.committed[partition], begin + step), "a commit is not of the finished claim"
        self._write(partition, end)
        self._close_claim(partition)

    def _commit(self, parts: Iterable[CommittedPart], finished: Iterable[TopicPartition]) -> None:
        finished = set(finished)
        for part in parts:
            partition = (part.topic, part.partition)
            owner = self.owners.get(partition)
            if part.owner_epoch is None:
                assert owner is None, "an operator committed what is owned"
            else:
                assert owner is not None
                assert partition not in self.read_only, "a member that commits nothing commits"
                assert part.owner_epoch == owner[1], f"{partition} was committed under another owner epoch than {owner}"
                if partition not in finished:
                    self.owner_commits.add((partition, part.owner_epoch, part.offset))
            assert part.offset >= self.committed.get(partition, 0), f"{partition} was committed backwards"
            if partition in finished:
                assert part.offset == self.claims[partition][1], "a commit went past the finished claim"
            self._write(partition, part.offset)

    def _write(self, partition: TopicPartition, offset: int) -> None:
        self.committed[partition] = offset
        self.highest[partition] = max(self.highest.get(partition, 0), offset)

    def _reset(self, record: ResetApplied, offset: int) -> None:
        """The one record that may move a committed offset back; never while a member owns the partition."""
        partition = (record.topic, record.partition)
        owner = self.owners.pop(partition, None)
        assert owner is None or owner[0] not in self.members, f"{partition} is reset while {owner} owns it"
        self._close_claim(partition)
        self._write(partition, record.offset)
        if record.member_id is not None:
            assert record.member_id in self.members
            assert record.owner_epoch == offset
            self.owners[partition] = (record.member_id, offset)
            self.granted.add((record.member_id, partition, offset))
            self._note_kind(record.member_id, partition)

    def _release(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in list(partitions):
            del self.owners[partition]
            self.read_only.discard(partition)
            self._close_claim(partition)

    def _note_kind(self, member_id: str, partition: TopicPartition) -> None:
        """Note whether who owns a partition now may commit it."""
        if member_id in self.readers:
            self.read_only.add(partition)
        else:
            self.read_only.discard(partition)

    def _close_claim(self, partition: TopicPartition) -> None:
        self.claims.pop(partition, None)
        self.running.discard(partition)
