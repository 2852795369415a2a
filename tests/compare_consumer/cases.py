"""The cases: small programs, each with what it notes; those that differ name their row of the page's tables.

A case gets a side, and what it returns is compared. Where a case is `documented`, it has to differ.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka import OffsetAndMetadata, TopicPartition
from kafka.serializer import Deserializer

from tests.compare_consumer.side import Heard, Side

__all__ = ["CASES", "Case"]

Run = Callable[[Side], Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A program by its name; `documented` is the row that says how it differs, empty where it must not."""

    name: str
    run: Run
    documented: str = ""


CASES: list[Case] = []


def case(name: str, documented: str = "") -> Callable[[Run], Run]:
    """Add a program."""

    def add(run: Run) -> Run:
        CASES.append(Case(name, run, documented))
        return run

    return add


def each(name: str, values: dict[str, Run]) -> None:
    """Add a program for each of some calls."""
    for shown, run in values.items():
        CASES.append(Case(f"{name}: {shown}", run))


# ---- records --------------------------------------------------------------------------------------------------------


@case("the fields of a record")
def case_1(side: Side) -> Any:
    return [tuple(record) for record in side.polled(side.by_hand(), 10)]


@case("the names of a record's fields")
def case_2(side: Side) -> Any:
    return side.polled(side.by_hand(), 1)[0]._fields


@case("keys, values and headers that are missing")
def case_3(side: Side) -> Any:
    topic = side.topic()
    for key, value, headers in (
        (None, None, []),
        (b"", b"", [("a", b"1"), ("a", b"2")]),
        (b"k", b"v", [("b", b"")]),
    ):
        side._producer.send(topic, value, key=key, headers=headers, timestamp_ms=1_700_000_000_000)
    side._producer.flush()
    return [tuple(record)[2:] for record in side.polled(side.by_hand(TopicPartition(topic, 0)), 3)]


@case("records of two partitions, each in order")
def case_4(side: Side) -> Any:
    return side.offsets(side.by_hand(*side.corpus.both), 20)


@case("the keys of what a poll returns")
def case_5(side: Side) -> Any:
    consumer = side.by_hand()
    found: dict[Any, Any] = {}
    while not found:
        found = consumer.poll(timeout_ms=200)
    return list(found)


@case("a poll without records")
def case_6(side: Side) -> Any:
    return side.by_hand(TopicPartition(side.corpus.none, 0)).poll(timeout_ms=200)


@case("max_records bounds a poll")
def case_7(side: Side) -> Any:
    consumer = side.by_hand()
    side.polled(consumer, 1, max_records=1)
    return [sum(map(len, consumer.poll(timeout_ms=2_000, max_records=4).values())) for _ in range(3)]


@case("max_poll_records bounds a poll")
def case_8(side: Side) -> Any:
    consumer = side.by_hand(max_poll_records=3)
    side.polled(consumer, 1)
    return [sum(map(len, consumer.poll(timeout_ms=2_000).values())) for _ in range(3)]


@case("deserializers that are functions")
def case_9(side: Side) -> Any:
    consumer = side.by_hand(value_deserializer=lambda data: int(data) * 2, key_deserializer=lambda data: data)
    return [(record.key, record.value, record.serialized_value_size) for record in side.polled(consumer, 10)]


@case("a deserializer that is an object")
def case_10(side: Side) -> Any:
    class Reads(Deserializer):
        def deserialize(self, topic: str, headers: Any, data: bytes) -> Any:
            return topic == side.corpus.one, json.loads(data)

    return [record.value for record in side.polled(side.by_hand(value_deserializer=Reads()), 10)]


@case("a deserializer that gets a value that is missing")
def case_11(side: Side) -> Any:
    topic = side.topic()
    side._producer.send(topic, None, key=b"k", partition=0)
    side._producer.flush()
    consumer = side.by_hand(TopicPartition(topic, 0), value_deserializer=lambda data: ("got", data))
    return [record.value for record in side.polled(consumer, 1)]


@case("a deserializer that raises ends the poll at its record")
def case_12(side: Side) -> Any:
    def read(data: bytes) -> int:
        if int(data) == 3:
            raise ValueError("three")
        return int(data)

    consumer = side.by_hand(value_deserializer=read)
    return side.raised(lambda: [record.value for record in side.polled(consumer, 3)])


def _codec(name: str, side: Side) -> Any:
    from kafka import KafkaProducer

    topic = side.topic()
    producer = KafkaProducer(bootstrap_servers=side.kafka.bootstrap_servers, compression_type=name, linger_ms=50)
    for number in range(50):
        producer.send(topic, b"%d" % number * 20, partition=0)
    producer.close()
    consumer = side.by_hand(TopicPartition(topic, 0))
    return [(record.offset, record.value) for record in side.polled(consumer, 50)]


each("records compressed by", {name: partial(_codec, name) for name in ("gzip", "snappy", "lz4", "zstd")})


@case("records larger than a fetch")
def case_13(side: Side) -> Any:
    topic = side.topic()
    for size in (10, 90_000, 10, 200_000, 10):
        side.produce(topic, 0, value=b"x" * size)
    consumer = side.by_hand(TopicPartition(topic, 0), max_partition_fetch_bytes=1_024, fetch_max_bytes=2_048)
    return [(record.offset, len(record.value)) for record in side.polled(consumer, 5)]


@case("no check of checksums gives the same records")
def case_14(side: Side) -> Any:
    return side.offsets(side.by_hand(check_crcs=False), 10)


@case("read_committed gives records without transactions")
def case_15(side: Side) -> Any:
    return side.offsets(side.by_hand(isolation_level="read_committed"), 10)


# ---- iteration ------------------------------------------------------------------------------------------------------


@case("an iteration ends after consumer_timeout_ms")
def case_16(side: Side) -> Any:
    return [record.offset for record in side.by_hand(consumer_timeout_ms=2_000)]


@case("an iteration goes on where a poll has ended")
def case_17(side: Side) -> Any:
    consumer = side.by_hand(consumer_timeout_ms=2_000)
    side.polled(consumer, 4, max_records=4)
    return [record.offset for record in consumer]


@case("a poll goes on where an iteration was left")
def case_18(side: Side) -> Any:
    consumer = side.by_hand()
    for record in consumer:
        if record.offset == 3:
            break
    return consumer.position(side.corpus.first), side.offsets(consumer, 6)


@case("the position within an iteration")
def case_19(side: Side) -> Any:
    consumer = side.by_hand(consumer_timeout_ms=2_000)
    return [(record.offset, consumer.position(side.corpus.first)) for record in consumer]


@case("a seek within an iteration")
def case_20(side: Side) -> Any:
    consumer, found = side.by_hand(consumer_timeout_ms=2_000), []
    for record in consumer:
        found.append(record.offset)
        if record.offset == 2:
            consumer.seek(side.corpus.first, 8)
    return found


@case("an iteration of a closed consumer")
def case_21(side: Side) -> Any:
    consumer = side.by_hand(consumer_timeout_ms=1_000)
    consumer.close()
    return side.raised(lambda: list(consumer))


# ---- positions ------------------------------------------------------------------------------------------------------


@case("seek and read")
def case_22(side: Side) -> Any:
    consumer = side.by_hand()
    consumer.seek(side.corpus.first, 7)
    return consumer.position(side.corpus.first), side.offsets(consumer, 3)


@case("seek back after reading")
def case_23(side: Side) -> Any:
    consumer = side.by_hand()
    first = side.offsets(consumer, 10)
    consumer.seek(side.corpus.first, 5)
    return first, side.offsets(consumer, 5)


@case("seek_to_beginning of all")
def case_24(side: Side) -> Any:
    consumer = side.by_hand(*side.corpus.both, auto_offset_reset="latest")
    consumer.seek_to_beginning()
    return side.offsets(consumer, 20)


@case("seek_to_end of one")
def case_25(side: Side) -> Any:
    consumer = side.by_hand(*side.corpus.both)
    consumer.seek_to_end(side.corpus.both[0])
    return [consumer.position(one) for one in side.corpus.both], side.offsets(consumer, 10)


@case("positions by the policy")
def case_26(side: Side) -> Any:
    return [side.by_hand(auto_offset_reset=policy).position(side.corpus.first) for policy in ("earliest", "latest")]


@case("the position after a poll")
def case_27(side: Side) -> Any:
    consumer = side.by_hand()
    side.polled(consumer, 4, max_records=4)
    return consumer.position(side.corpus.first)


@case("highwater after a fetch")
def case_28(side: Side) -> Any:
    consumer = side.by_hand()
    side.polled(consumer, 10)
    return consumer.highwater(side.corpus.first)


@case("highwater before a fetch")
def case_29(side: Side) -> Any:
    return side.by_hand().highwater(side.corpus.first)


@case("pause and resume")
def case_30(side: Side) -> Any:
    consumer = side.by_hand(*side.corpus.both)
    consumer.pause(side.corpus.both[0])
    only = side.offsets(consumer, 10)
    paused = consumer.paused()
    consumer.resume(side.corpus.both[0])
    return only, paused, side.offsets(consumer, 10), consumer.paused()


@case("a seek of a paused partition")
def case_31(side: Side) -> Any:
    consumer = side.by_hand()
    consumer.pause(side.corpus.first)
    consumer.seek(side.corpus.first, 6)
    before = consumer.poll(timeout_ms=300)
    consumer.resume(side.corpus.first)
    return before, side.offsets(consumer, 4)


@case("an offset out of range, earliest")
def case_32(side: Side) -> Any:
    consumer = side.by_hand()
    consumer.seek(side.corpus.first, 1_000)
    return side.offsets(consumer, 10)


@case("an offset out of range, latest")
def case_33(side: Side) -> Any:
    topic = side.topic(records=3)
    consumer = side.by_hand(TopicPartition(topic, 0), auto_offset_reset="latest")
    consumer.seek(TopicPartition(topic, 0), 1_000)
    for _ in range(10):
        consumer.poll(timeout_ms=100)
    side.produce(topic, 0)
    return side.offsets(consumer, 1)


@case("an offset out of range, none")
def case_34(side: Side) -> Any:
    consumer = side.by_hand(auto_offset_reset="none")
    consumer.seek(side.corpus.first, 1_000)
    return side.raised(lambda: side.polled(consumer, 1))


@case("no start and the policy none")
def case_35(side: Side) -> Any:
    consumer = side.make(auto_offset_reset="none")
    assigned = side.raised(lambda: consumer.assign([side.corpus.first]))
    return assigned, side.raised(lambda: side.polled(consumer, 1))


# ---- assigning by hand ----------------------------------------------------------------------------------------------


@case("what is assigned")
def case_36(side: Side) -> Any:
    consumer = side.make()
    before = consumer.assignment()
    consumer.assign(list(side.corpus.both))
    return before, consumer.assignment(), consumer.subscription()


@case("an assignment that is replaced keeps the position of what stays")
def case_37(side: Side) -> Any:
    consumer = side.by_hand()
    side.polled(consumer, 4, max_records=4)
    consumer.assign([side.corpus.first, *side.corpus.both])
    return consumer.position(side.corpus.first), len(side.offsets(consumer, 26))


@case("unsubscribe ends an assignment")
def case_38(side: Side) -> Any:
    consumer = side.by_hand()
    consumer.unsubscribe()
    return consumer.assignment(), consumer.subscription()


@case("topics without a group are read whole")
def case_39(side: Side) -> Any:
    with side.made(side.corpus.two) as consumer:
        return side.offsets(consumer, 20), len(consumer.assignment())


@case("a pattern without a group")
def case_40(side: Side) -> Any:
    with side.made() as consumer:
        consumer.subscribe(pattern=f"^{side.corpus.two}$")
        return side.offsets(consumer, 20)


@case("a poll without a subscription", "`poll` without a subscription")
def case_41(side: Side) -> Any:
    return side.raised(lambda: side.make().poll(timeout_ms=100))


each(
    "what does not go together",
    {
        "assign after subscribe": lambda side: side.raised(
            lambda: side.make(side.corpus.one).assign([side.corpus.first])
        ),
        "subscribe after assign": lambda side: side.raised(lambda: side.by_hand().subscribe([side.corpus.one])),
        "topics and a pattern": lambda side: side.raised(lambda: side.make().subscribe(topics=["a"], pattern="b")),
        "neither topics nor a pattern": lambda side: side.raised(lambda: side.make().subscribe()),
        "a topic that cannot be one": lambda side: side.raised(lambda: side.make().subscribe(["a b"])),
        "a listener that is none": lambda side: side.raised(lambda: side.make().subscribe(["a"], listener=object())),
    },
)

each(
    "a partition that is not assigned",
    {
        "position": lambda side: side.raised(lambda: side.by_hand().position(TopicPartition("x", 0))),
        "seek": lambda side: side.raised(lambda: side.by_hand().seek(TopicPartition("x", 0), 1)),
        "pause": lambda side: side.raised(lambda: side.by_hand().pause(TopicPartition("x", 0))),
        "seek_to_beginning": lambda side: side.raised(lambda: side.by_hand().seek_to_beginning(TopicPartition("x", 0))),
        "highwater": lambda side: side.raised(lambda: side.by_hand().highwater(TopicPartition("x", 0))),
    },
)

each(
    "an argument of the wrong kind",
    {
        "a seek to a negative offset": lambda side: side.raised(lambda: side.by_hand().seek(side.corpus.first, -1)),
        "a seek to a text": lambda side: side.raised(lambda: side.by_hand().seek(side.corpus.first, "1")),
        "a seek of a plain tuple": lambda side: side.raised(lambda: side.by_hand().seek((side.corpus.one, 0), 1)),
        "a negative time-out": lambda side: side.raised(lambda: side.by_hand().poll(timeout_ms=-1)),
        "max_records 0": lambda side: side.raised(lambda: side.by_hand().poll(max_records=0)),
        "max_records as a text": lambda side: side.raised(lambda: side.by_hand().poll(max_records="5")),
        "a negative time": lambda side: side.raised(lambda: side.by_hand().offsets_for_times({side.corpus.first: -5})),
        "a setting that is not known": lambda side: side.raised(lambda: side.make(no_such_setting=1)),
        "committed of a plain tuple": lambda side: side.raised(
            lambda: side.make(group=True).committed((side.corpus.one, 0))
        ),
    },
)


# ---- what is asked of Kafka -----------------------------------------------------------------------------------------


@case("beginnings and ends")
def case_42(side: Side) -> Any:
    consumer, partitions = side.make(), [side.corpus.first, *side.corpus.both]
    return consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)


@case("the ends of a topic that is not there", "a topic that Kafka does not know")
def case_43(side: Side) -> Any:
    consumer = side.make(request_timeout_ms=3_000, **({} if side.is_ours else {"default_api_timeout_ms": "unset"}))
    return side.raised(lambda: consumer.end_offsets([TopicPartition("no-such-topic", 0)], timeout_ms=2_000))


@case("offsets for times")
def case_44(side: Side) -> Any:
    topic = side.topic()
    for time_ms in (1_000, 2_000, 3_000):
        side._producer.send(topic, b"x", timestamp_ms=time_ms, partition=0)
    side._producer.flush()
    consumer, partition_of = side.make(), TopicPartition(topic, 0)
    return [consumer.offsets_for_times({partition_of: time_ms})[partition_of] for time_ms in (0, 1_500, 3_000, 4_000)]


@case("the topics there are")
def case_45(side: Side) -> Any:
    return {side.corpus.one, side.corpus.two} <= side.make().topics()


@case("the partitions of a topic")
def case_46(side: Side) -> Any:
    return side.make().partitions_for_topic(side.corpus.two)


@case("the partitions of a topic that is not there")
def case_47(side: Side) -> Any:
    return bool(side.make().partitions_for_topic("no-such-topic"))


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
    with side.made(side.corpus.one, group=True, enable_auto_commit=False) as consumer:
        before = consumer.committed(side.corpus.first)
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
        side.assigned(consumer, count=1)
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


# ---- listeners ------------------------------------------------------------------------------------------------------


@case("a listener hears of what comes, and of what goes at the end")
def case_70(side: Side) -> Any:
    listener = Heard()
    with side.made(group=True) as consumer:
        consumer.subscribe([side.corpus.two], listener=listener)
        side.polled(consumer, 20)
    return listener.heard


@case("a listener hears of unsubscribe", "listeners at `unsubscribe`")
def case_71(side: Side) -> Any:
    listener = Heard()
    with side.made(group=True) as consumer:
        consumer.subscribe([side.corpus.two], listener=listener)
        side.polled(consumer, 20)
        consumer.unsubscribe()
        return list(listener.heard)


@case("a listener seeks what came")
def case_72(side: Side) -> Any:
    with side.made(group=True) as consumer:
        listener = Heard(assigned=lambda _: consumer.seek(side.corpus.first, 6))
        consumer.subscribe([side.corpus.one], listener=listener)
        return side.offsets(consumer, 4)


@case("a listener commits what is revoked", "a commit in `on_partitions_revoked` at `close`")
def case_73(side: Side) -> Any:
    with side.made(group=True, enable_auto_commit=False) as consumer:
        consumer.subscribe([side.corpus.one], listener=Heard(revoked=lambda _: consumer.commit()))
        side.polled(consumer, 4, max_records=4)
    with side.made(side.corpus.one, group=True) as other:
        return other.committed(side.corpus.first)


@case("a rebalance tells what moves", "rebalance")
def case_74(side: Side) -> Any:
    listener = Heard()
    with side.made(group=True) as one:
        one.subscribe([side.corpus.two], listener=listener)
        side.polled(one, 20)
        with side.made(side.corpus.two, group=True) as other:
            side.assigned(one, other, count=2)
            return [(what, len(partitions)) for what, partitions in listener.heard]


@case("a listener that raises", "a listener that raises")
def case_75(side: Side) -> Any:
    def fail(_: Any) -> None:
        raise KeyError("the listener's")

    with side.made(group=True) as consumer:
        consumer.subscribe([side.corpus.one], listener=Heard(assigned=fail))
        return side.raised(lambda: len(side.polled(consumer, 10)))


# ---- the end --------------------------------------------------------------------------------------------------------


@case("close twice")
def case_76(side: Side) -> Any:
    consumer = side.by_hand()
    consumer.close()
    return consumer.close()


@case("a poll after close")
def case_77(side: Side) -> Any:
    consumer = side.by_hand()
    consumer.close()
    return side.raised(lambda: consumer.poll(timeout_ms=100))


@case("a with block closes the consumer")
def case_78(side: Side) -> Any:
    def use() -> str:
        with side.make() as consumer:
            consumer.assign([side.corpus.first])
            return "used"

    return side.raised(use)
