"""The commits of each partition in records, read without the product's own reading of columns."""

from collections.abc import Iterable, Iterator

from coordinator.core.groups.hard.records import Advanced, CommittedPart, OffsetsCommitted, TopicCommit, TopicSteps


def parts_of(record: OffsetsCommitted) -> Iterator[CommittedPart]:
    """Yield the parts of a record, in order."""
    yield from record.committed
    for commit in record.together:
        yield from in_parts(commit)


def in_parts(commit: TopicCommit) -> Iterator[CommittedPart]:
    """Yield what columns say of each partition."""
    count = len(commit.partitions)
    for number, offset, owner_epoch, leader_epoch, metadata in zip(
        commit.partitions,
        commit.offsets,
        commit.owner_epochs or (None,) * count,
        commit.leader_epochs or (None,) * count,
        commit.metadata or ("",) * count,
        strict=True,
    ):
        yield CommittedPart(
            commit.topic, commit.topic_id, number, offset, leader_epoch, metadata, commit.commit_ms, owner_epoch
        )


def each_step(columns: Iterable[TopicSteps]) -> Iterator[tuple[str, str, int, int]]:
    """Yield topic, topic id, partition and step of each partition."""
    for each in columns:
        for number, step in zip(each.partitions, each.steps, strict=True):
            yield each.topic, each.topic_id, number, step


def each_offered_step(record: Advanced) -> Iterator[tuple[str, str, int, int]]:
    """Yield the same of what is offered, which leaves partitions out where they are those that are finished."""
    finished = {each.topic: each.partitions for each in record.finished}
    for each in record.offered:
        for number, step in zip(each.partitions or finished[each.topic], each.steps, strict=True):
            yield each.topic, each.topic_id, number, step
