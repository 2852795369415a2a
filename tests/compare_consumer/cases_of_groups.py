"""Cases of groups: subscriptions, commits, and what the next consumer goes on with."""

from typing import Any

from kafka import OffsetAndMetadata, TopicPartition

from tests.compare_consumer.case import Cases
from tests.compare_consumer.side import Side

CASES = Cases()
case = CASES.case


# ---- groups ---------------------------------------------------------------------------------------------------------


@case("a group reads its topics")
def case_48(side: Side) -> Any:
    with side.made(side.corpus.two, group=True) as consumer:
        return side.offsets(consumer, 20), consumer.assignment(), consumer.subscription()


@case("a group whose policy is latest reads what comes then")
def case_49(side: Side) -> Any:
    topic = side.topic(records=5)
    with side.made(topic, group=True, auto_offset_reset="latest") as consumer:
        side.assigned(consumer, count=1)
        consumer.position(TopicPartition(topic, 0))
        side.produce(topic, 0, 0)
        return side.offsets(consumer, 2)


@case("a group without an offset whose policy is none")
def case_50(side: Side) -> Any:
    with side.made(side.corpus.one, group=True, auto_offset_reset="none") as consumer:
        return side.raised(lambda: side.polled(consumer, 1))


@case("commit and committed")
def case_51(side: Side) -> Any:
    with side.made(group=True, enable_auto_commit=False) as consumer:
        # Before it subscribes: a kcoord member joins beside its program, and the start becomes the group's offset.
        before = consumer.committed(side.corpus.first)
        consumer.subscribe([side.corpus.one])
        side.polled(consumer, 4, max_records=4)
        consumer.commit()
        return before, consumer.committed(side.corpus.first)


@case("offsets with metadata")
def case_52(side: Side) -> Any:
    with side.made(side.corpus.one, group=True, enable_auto_commit=False) as consumer:
        side.polled(consumer, 10)
        consumer.commit({side.corpus.first: OffsetAndMetadata(6, "six", -1)})
        found = consumer.committed(side.corpus.first, metadata=True)
        return found.offset, found.metadata


@case("the next consumer goes on after what was committed")
def case_53(side: Side) -> Any:
    with side.made(side.corpus.one, group=True, enable_auto_commit=False) as consumer:
        side.polled(consumer, 4, max_records=4)
        consumer.commit()
        side.polled(consumer, 2, max_records=2)
    with side.made(side.corpus.one, group=True) as consumer:
        return side.offsets(consumer, 6)


@case("without auto commit nothing is committed at the end", "start of a partition without an offset")
def case_54(side: Side) -> Any:
    with side.made(side.corpus.one, group=True, enable_auto_commit=False) as consumer:
        side.polled(consumer, 10)
    with side.made(side.corpus.one, group=True) as consumer:
        return consumer.committed(side.corpus.first)


@case("rows of the last poll at the end", "the last poll's rows at `close`")
def case_55(side: Side) -> Any:
    with side.made(side.corpus.one, group=True) as consumer:
        side.polled(consumer, 10)
    with side.made(side.corpus.one, group=True) as consumer:
        return consumer.committed(side.corpus.first)


@case("close with autocommit commits all that was returned")
def case_56(side: Side) -> Any:
    consumer = side.make(side.corpus.one, group=True)
    side.polled(consumer, 10)
    consumer.close(autocommit=True)
    with side.made(side.corpus.one, group=True) as other:
        return other.committed(side.corpus.first)


@case("close without autocommit commits nothing more", "start of a partition without an offset")
def case_57(side: Side) -> Any:
    consumer = side.make(side.corpus.one, group=True, auto_commit_interval_ms=60_000)
    side.polled(consumer, 10)
    consumer.close(autocommit=False)
    with side.made(side.corpus.one, group=True) as other:
        return other.committed(side.corpus.first)


@case("a committed offset that is moved back", "a committed offset")
def case_58(side: Side) -> Any:
    with side.made(side.corpus.one, group=True, enable_auto_commit=False) as consumer:
        side.polled(consumer, 10)
        consumer.commit()
        side.raised(lambda: consumer.commit({side.corpus.first: OffsetAndMetadata(3, "", -1)}))
        return consumer.committed(side.corpus.first)


@case("a commit of a plain number", "`commit` of a plain number")
def case_59(side: Side) -> Any:
    with side.made(side.corpus.one, group=True, enable_auto_commit=False) as consumer:
        side.polled(consumer, 10)
        return side.raised(lambda: consumer.commit({side.corpus.first: 3}))


@case("a commit of somebody else's partition", "a commit of partitions that are not its own")
def case_60(side: Side) -> Any:
    with side.made(side.corpus.one, group=True, enable_auto_commit=False) as consumer:
        side.polled(consumer, 10)
        return side.raised(lambda: consumer.commit({side.corpus.both[0]: OffsetAndMetadata(3, "", -1)}))


@case("a commit without a group")
def case_61(side: Side) -> Any:
    return side.raised(lambda: side.by_hand().commit())


@case("commit_async tells its callback in a later call")
def case_62(side: Side) -> Any:
    with side.made(side.corpus.one, group=True, enable_auto_commit=False) as consumer:
        heard: list[Any] = []
        side.polled(consumer, 10)
        consumer.commit_async(
            {side.corpus.first: OffsetAndMetadata(5, "five", -1)}, callback=lambda *told: heard.append(told)
        )
        for _ in range(50):
            consumer.poll(timeout_ms=100)
            if heard:
                break
        ((offsets, error),) = heard
        return list(offsets), error, consumer.committed(side.corpus.first)


@case("a seek counts as done")
def case_63(side: Side) -> Any:
    with side.made(side.corpus.one, group=True, enable_auto_commit=False) as consumer:
        # kafka-python forgets a seek that comes while it still looks for the position that a group begins at.
        side.polled(consumer, 1, max_records=1)
        consumer.seek(side.corpus.first, 7)
        consumer.commit()
        return consumer.committed(side.corpus.first)


@case("partitions by hand with a group's offsets")
def case_64(side: Side) -> Any:
    with side.made(group=True, enable_auto_commit=False) as consumer:
        consumer.assign([side.corpus.first])
        side.polled(consumer, 4, max_records=4)
        consumer.commit()
    with side.made(group=True, enable_auto_commit=False) as consumer:
        consumer.assign([side.corpus.first])
        return consumer.position(side.corpus.first), side.offsets(consumer, 6)


@case("two consumers share the partitions")
def case_65(side: Side) -> Any:
    with side.made(side.corpus.two, group=True) as one, side.made(side.corpus.two, group=True) as other:
        return side.assigned(one, other, count=2)


@case("what one of two leaves the other gets")
def case_66(side: Side) -> Any:
    with side.made(side.corpus.two, group=True) as one:
        with side.made(side.corpus.two, group=True) as other:
            side.assigned(one, other, count=2)
        return side.assigned(one, count=2)


@case("a topic by its pattern in a group")
def case_67(side: Side) -> Any:
    with side.made(group=True) as consumer:
        consumer.subscribe(pattern=f"^{side.corpus.two}$")
        return side.offsets(consumer, 20), consumer.subscription()


@case("a subscription that changes")
def case_68(side: Side) -> Any:
    with side.made(side.corpus.one, group=True) as consumer:
        side.polled(consumer, 10)
        consumer.subscribe([side.corpus.two])
        return side.offsets(consumer, 20), consumer.assignment(), consumer.subscription()


@case("unsubscribe leaves the group")
def case_69(side: Side) -> Any:
    with side.made(side.corpus.one, group=True) as consumer:
        side.polled(consumer, 10)
        consumer.unsubscribe()
        return consumer.assignment(), consumer.subscription()
