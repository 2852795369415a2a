"""Cases of positions, of partitions that are assigned by hand, and of what is asked of Kafka."""

from typing import Any

from kafka import TopicPartition

from tests.compare_consumer.case import Cases
from tests.compare_consumer.side import Side

CASES = Cases()
case, each = CASES.case, CASES.each


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
