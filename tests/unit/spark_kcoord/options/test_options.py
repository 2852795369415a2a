"""Options: every one read, every mistake named with what to do, and no secret ever shown."""

import pickle
import subprocess
import sys
from typing import Any

import pytest

from spark_kcoord.errors import OptionError
from spark_kcoord.options.kafka_settings import KAFKA_OPTIONS, REFUSED_KAFKA_OPTIONS
from spark_kcoord.options.offset_specs import OffsetSpec
from spark_kcoord.options.security_options import SECURITY_OPTIONS
from spark_kcoord.options.source_options import SourceOptions, must_be_complete, parse_options
from spark_kcoord.options.subscription import Subscription
from spark_kcoord.options.table import COLUMNS, OPTIONS, WITHOUT_EFFECT, Mode, Option, describe_options
from spark_kcoord.source.data_source import KcoordDataSource

BATCH = {"subscribe": "flights", "kafka.bootstrap.servers": "kafka:9092"}
STREAM = {"subscribe": "flights", "kcoord.bootstrap.servers": "c1:7070", "kcoord.group.id": "g"}


def parse(mode: Mode, **more: str) -> SourceOptions:
    required = STREAM if mode == "stream" else BATCH
    return parse_options({**required, **{name.replace("__", "."): text for name, text in more.items()}}, mode)


def needed(name: str, mode: Mode = "stream") -> dict[str, str]:
    required = {**(STREAM if mode == "stream" else BATCH), **NEEDED.get(name, {})}
    return {
        key: text for key, text in required.items() if name not in ("subscribePattern", "assign") or key != "subscribe"
    }


def parse_one(name: str, text: str, mode: Mode = "stream") -> SourceOptions:
    return parse_options({**needed(name, mode), name: text}, mode)


OWN_DEFAULT = ("columns", "client_id", "ping_interval_ms", "offset_retries", "streams")
"""Fields whose default the table says in words."""


def test_defaults_are_those_of_the_table() -> None:
    read = parse_options(STREAM, "stream")
    assert parse_options(STREAM, "stream") == SourceOptions(
        mode="stream",
        subscription=Subscription(topics=("flights",)),
        starting=OffsetSpec(word="latest"),
        coordinators=("c1:7070",),
        group_id="g",
        kafka=parse("stream").kafka,
    )
    assert read.columns == COLUMNS[:-1]
    assert parse_options(BATCH, "batch").starting == OffsetSpec(word="earliest")
    assert parse_options(BATCH, "batch").ending == OffsetSpec(word="latest")
    for option in OPTIONS:
        if option.default is not None and option.field not in ("starting", "ending", "has_headers", *OWN_DEFAULT):
            assert getattr(read, option.field) == option.kind.read(option.name, option.default), option.name


GOOD = {
    "subscribe": (" a, b.c ,,a", "subscription", Subscription(topics=("a", "b.c"))),
    "subscribePattern": (" fl.* ", "subscription", Subscription(pattern="fl.*")),
    "assign": (
        '{"b": [2, 0, 2], "a": [1]}',
        "subscription",
        Subscription(assigned=(("a", 1), ("b", 0), ("b", 2))),
    ),
    "kcoord.exclude": ("b, c", "subscription", Subscription(topics=("flights",), exclusions=("b", "c"))),
    "kcoord.bootstrap.servers": ("c1:1, [::1]:2", "coordinators", ("c1:1", "[::1]:2")),
    "kcoord.group.id": (" my group ", "group_id", "my group"),
    "kafka.group.id": ("g", "group_id", "g"),
    "startingTimestamp": ("1790000000000", "starting", OffsetSpec(time_ms=1_790_000_000_000)),
    "startingOffsetsByTimestamp": (
        '{"flights": {"1": 5}}',
        "starting",
        OffsetSpec(partitions=(("flights", 1, 5),), is_by_time=True),
    ),
    "startingOffsetsByTimestampStrategy": ("LATEST", "starting_strategy", "latest"),
    "fetchOffset.numRetries": ("0", "offset_retries", 0),
    "fetchOffset.retryIntervalMs": ("1000", "offset_retry_interval_ms", 1_000),
    "startingOffsets": (" EARLIEST ", "starting", OffsetSpec(word="earliest")),
    "maxOffsetsPerTrigger": ("1000", "max_offsets_per_trigger", 1000),
    "minOffsetsPerTrigger": ("7", "min_offsets_per_trigger", 7),
    "maxTriggerDelay": ("90", "max_trigger_delay_ms", 90),
    "maxBytesPerTrigger": ("64m", "max_bytes_per_trigger", 64 * 2**20),
    "minPartitions": ("16", "min_partitions", 16),
    "maxRecordsPerPartition": ("1000", "max_records_per_partition", 1000),
    "includeHeaders": ("True", "columns", COLUMNS),
    "kcoord.columns": ("TIMESTAMP, value,Value", "columns", ("value", "timestamp")),
    "kcoord.commit": ("false", "is_committing", False),
    "kcoord.share.within.application": ("true", "shares_application", True),
    "kcoord.ping.interval": ("500ms", "ping_interval_ms", 500),
    "failOnDataLoss": ("false", "fail_on_data_loss", False),
    "kafkaConsumer.pollTimeoutMs": ("512", "fetch_timeout_ms", 512),
    "kcoord.wait.for.topics": ("true", "wait_for_topics", True),
    "kcoord.client.id": ("nightly flights", "client_id", "nightly flights"),
    "kcoord.instance.id": ("i-1", "instance_id", "i-1"),
    "kcoord.session.timeout": ("30 s", "session_timeout_ms", 30_000),
    "kcoord.rebalance.timeout": ("2m", "rebalance_timeout_ms", 120_000),
    "kcoord.streams": ("8", "streams", 8),
    "kcoord.assignors": ("range, sticky", "assignors", ("range", "sticky")),
    "kcoord.coordinator.timeout": ("500ms", "coordinator_timeout_ms", 500),
    "kcoord.handover": (" Takeover", "handover", "takeover"),
    "kcoord.claim.timeout": ("2h", "claim_timeout_ms", 7_200_000),
}
NEEDED = {
    "kcoord.claim.timeout": {"kcoord.handover": "hold", "kcoord.instance.id": "i-1"},
    "maxTriggerDelay": {"minOffsetsPerTrigger": "1"},
}
"""What an option cannot do without."""

BAD = {
    "subscribe": ("a/b", "is not a topic name"),
    "subscribePattern": (" ", "it is empty"),
    "assign": ('{"a": 1}', "topic 'a' has no list of partitions"),
    "kcoord.exclude": ("..", "is not a topic name"),
    "minOffsetsPerTrigger": ("0", "a whole number from 1"),
    "maxTriggerDelay": ("later", "milliseconds, or a number with a unit"),
    "maxBytesPerTrigger": ("0k", "a whole number of bytes from 1"),
    "minPartitions": ("0", "a whole number from 1 to 100000"),
    "maxRecordsPerPartition": ("none", "a whole number from 1"),
    "kcoord.columns": ("value, keys", "'keys' is none of them"),
    "kcoord.commit": ("no", "true or false"),
    "kcoord.share.within.application": ("yes", "true or false"),
    "kcoord.ping.interval": ("5", "has no unit"),
    "kcoord.bootstrap.servers": ("c1", "'c1' is not HOST:PORT"),
    "kcoord.group.id": ("g" * 251, "1 to 250 printable characters"),
    "kafka.group.id": (" ", "1 to 250 printable characters"),
    "startingTimestamp": ("-1", "ms since 1970"),
    "startingOffsetsByTimestamp": ("yesterday", "is not valid JSON"),
    "startingOffsetsByTimestampStrategy": ("earliest", "error, latest"),
    "fetchOffset.numRetries": ("-1", "a whole number from 0 to 1000"),
    "fetchOffset.retryIntervalMs": ("1s", "a whole number"),
    "startingOffsets": ("newest", "'earliest', 'latest', 'committed' or JSON"),
    "maxOffsetsPerTrigger": ("0", "a whole number from 1"),
    "includeHeaders": ("yes", "true or false"),
    "failOnDataLoss": ("1", "true or false"),
    "kafkaConsumer.pollTimeoutMs": ("1.5", "a whole number"),
    "kcoord.wait.for.topics": ("", "true or false"),
    "kcoord.client.id": ("a\nb", "printable characters"),
    "kcoord.instance.id": (" ", "printable characters"),
    "kcoord.session.timeout": ("10", "has no unit"),
    "kcoord.rebalance.timeout": ("25h", "from 1s to 24h"),
    "kcoord.streams": ("-1", "a whole number from 1 to 100000"),
    "kcoord.assignors": (",", "names"),
    "kcoord.coordinator.timeout": ("soon", "with a unit"),
    "kcoord.handover": ("keep", "takeover, hold"),
    "kcoord.claim.timeout": ("31d", "with a unit"),
}


ENDS = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets", "kcoord.push.filters")
"""What only batch reads have."""


def test_good_and_bad_values_of_every_option_are_tried() -> None:
    secured = {name for name, _ in SECURITY_OPTIONS}  # see tests/unit/client/test_security.py
    assert {*GOOD, *ENDS} == {*BAD, *ENDS} == {option.name for option in OPTIONS} - secured


@pytest.mark.parametrize("name", GOOD)
def test_good_value_is_read_whatever_the_case_of_the_name(name: str) -> None:
    text, field, value = GOOD[name]

    assert getattr(parse_one(name, text), field) == value
    lower = {key.lower(): given for key, given in needed(name).items()} | {name.lower(): text}
    assert getattr(parse_options(lower, "stream"), field) == value


@pytest.mark.parametrize("name", BAD)
def test_bad_value_names_the_option_and_what_is_allowed(name: str) -> None:
    text, said = BAD[name]

    with pytest.raises(OptionError, match=said) as raised:
        parse_one(name, text)
    assert f"'{name}'" in str(raised.value)
    assert repr(text) in str(raised.value) or "JSON" in said


@pytest.mark.parametrize("name", [option.name for option in (*OPTIONS, *KAFKA_OPTIONS)])
def test_misspelt_name_is_told_the_nearest_one(name: str) -> None:
    misspelt = name[:-2] + name[-1] + name[-2] + "x"

    with pytest.raises(OptionError, match=r"is unknown\. Did you mean '") as raised:
        parse_one(misspelt, "x")
    assert f"'{misspelt.lower()}'" in str(raised.value)


def test_name_near_none_is_told_all_names() -> None:
    with pytest.raises(OptionError, match=r"'zzzzzz' is unknown. Known: .*subscribe"):
        parse_one("zzzzzz", "1")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"assign": '{"a": [0]}'}, "Options 'subscribe' and 'assign' are given"),
        ({"subscribePattern": "a.*", "assign": '{"a": [0]}'}, "'subscribe' and 'subscribePattern' and 'assign'"),
        ({"kcoord.exclude": "flights, b"}, "'kcoord.exclude' leaves out every topic of 'subscribe'"),
        ({"minOffsetsPerTrigger": "3", "maxOffsetsPerTrigger": "2"}, "'minOffsetsPerTrigger' is 3, more than"),
        ({"kcoord.columns": "value", "includeHeaders": "true"}, "'kcoord.columns' leaves out the column headers"),
        ({"kcoord.columns": "headers", "includeHeaders": "false"}, "'kcoord.columns' names the column headers"),
    ],
)
def test_options_that_contradict_each_other_are_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        parse_options({**STREAM, **given}, "stream")


@pytest.mark.parametrize(
    ("subscription", "read"),
    [
        (Subscription(topics=("a", "b"), exclusions=("b",)), {("a", 0), ("a", 1)}),
        (Subscription(pattern="[ab]", exclusions=("b",)), {("a", 0), ("a", 1)}),
        (Subscription(pattern="a"), {("a", 0), ("a", 1)}),
        (Subscription(assigned=(("a", 1), ("b", 0))), {("a", 1), ("b", 0)}),
    ],
)
def test_a_subscription_says_of_each_partition_whether_it_asks_for_it(
    subscription: Subscription, read: set[tuple[str, int]]
) -> None:
    every = {(topic, number) for topic in ("a", "b", "ab") for number in (0, 1)}
    assert {key for key in every if subscription.reads(*key)} == read


def test_partitions_that_are_assigned_have_no_exclusions() -> None:
    given = {"kcoord.bootstrap.servers": "c:1", "kcoord.group.id": "g", "assign": '{"a": [0]}', "kcoord.exclude": "b"}
    with pytest.raises(OptionError, match="Leave those partitions out of 'assign'"):
        parse_options(given, "stream")


@pytest.mark.parametrize("text", ["[]", "{}", '{"a": []}', '{"a": [-1]}', '{"a": [true]}', '{"a": [0], "a": [1]}', "{"])
def test_wrong_assignments_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match="'assign' cannot be"):
        parse_one("assign", text)


def test_delay_without_a_least_number_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    parse_options({**STREAM, "maxTriggerDelay": "3m"}, "stream")
    assert "'maxTriggerDelay' has no effect without 'minOffsetsPerTrigger'" in caplog.text


@pytest.mark.parametrize(
    ("text", "ms"), [("1500us", 1), ("250", 250), ("250ms", 250), ("2 s", 2_000), ("3min", 180_000), ("1d", 86_400_000)]
)
def test_delays_are_written_as_spark_writes_them(text: str, ms: int) -> None:
    assert parse_one("maxTriggerDelay", text).max_trigger_delay_ms == ms


def test_hold_needs_an_instance_id_and_a_claim_time_out_needs_hold() -> None:
    held = parse_options({**STREAM, "kcoord.handover": "hold", "kcoord.instance.id": "i"}, "stream")
    assert (held.handover, held.instance_id, held.claim_timeout_ms) == ("hold", "i", None)
    with pytest.raises(OptionError, match=r"'kcoord.instance.id' is missing\. 'kcoord.handover' is 'hold'"):
        parse_one("kcoord.handover", "hold")
    with pytest.raises(OptionError, match=r"'kcoord.claim.timeout' needs 'kcoord.handover' to be 'hold'"):
        parse_options({**STREAM, "kcoord.claim.timeout": "1h"}, "stream")


def test_path_is_told_to_subscribe() -> None:
    with pytest.raises(OptionError, match=r"kcoord reads topics\. Name them with the option 'subscribe'"):
        parse_one("path", "/data")


@pytest.mark.parametrize("option", WITHOUT_EFFECT, ids=lambda option: str(option.name))
def test_option_without_effect_is_warned_about(option: Option, caplog: pytest.LogCaptureFixture) -> None:
    assert parse_one(option.name, option.default or "x") == parse_options(STREAM, "stream")
    assert f"option '{option.name}' has no effect: {option.meaning.partition(': ')[2]}" in caplog.text


@pytest.mark.parametrize("text", ["0", "-2"])
def test_value_of_an_option_without_effect_is_checked_all_the_same(text: str) -> None:
    with pytest.raises(
        OptionError, match=r"'partition.metadata.cache.ttl.ms' cannot be .* -1 or a whole number from 1"
    ):
        parse_one("partition.metadata.cache.ttl.ms", text)


def test_kafkas_group_is_the_group_where_none_is_given(caplog: pytest.LogCaptureFixture) -> None:
    without = {key: text for key, text in STREAM.items() if key != "kcoord.group.id"}

    assert parse_options({**without, "kafka.group.id": "mine"}, "stream").group_id == "mine"
    assert "'kafka.group.id' ('mine') is taken for 'kcoord.group.id'" in caplog.text
    assert parse_options({**STREAM, "kafka.group.id": "mine"}, "stream").group_id == "g"
    assert "'kafka.group.id' ('mine') has no effect: 'kcoord.group.id' is 'g'" in caplog.text


@pytest.mark.parametrize("name", REFUSED_KAFKA_OPTIONS)
def test_refused_kafka_option_is_told_why(name: str) -> None:
    with pytest.raises(OptionError, match=rf"Option '{name}' is not supported\. "):
        parse_one(name, "x")


def test_kafka_option_without_counterpart_is_an_error() -> None:
    with pytest.raises(OptionError, match=r"'kafka\.zzz\.qqq' has no counterpart in kafka-python"):
        parse_one("kafka.zzz.qqq", "x")


@pytest.mark.parametrize("name", ["subscribe", "kcoord.bootstrap.servers", "kcoord.group.id"])
def test_missing_option_of_a_stream_is_named(name: str) -> None:
    with pytest.raises(OptionError, match=f"Option '{name}' is missing"):
        parse_options({key: text for key, text in STREAM.items() if key != name}, "stream")


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"subscribe": "t"}, "kcoord.bootstrap.servers"),
        ({"subscribe": "t", "kcoord.bootstrap.servers": "c:1"}, "kcoord.group.id"),
        ({**BATCH, "startingOffsets": "committed"}, "kcoord.bootstrap.servers"),
        ({**BATCH, "startingOffsets": "committed", "kcoord.bootstrap.servers": "c:1"}, "kcoord.group.id"),
    ],
)
def test_missing_option_of_a_batch_that_needs_the_coordinator_is_named(given: dict[str, str], missing: str) -> None:
    with pytest.raises(OptionError, match=f"Option '{missing}' is missing"):
        parse_options(given, "batch")


@pytest.mark.parametrize("name", ENDS)
def test_option_of_batches_only_is_refused_in_a_stream(name: str) -> None:
    with pytest.raises(OptionError, match=f"'{name}' is for batch reads"):
        parse_one(name, "latest")


@pytest.mark.parametrize(
    ("name", "text", "ending"),
    [
        ("endingOffsets", '{"flights": {"0": 7}}', OffsetSpec(partitions=(("flights", 0, 7),))),
        (
            "endingOffsetsByTimestamp",
            '{"flights": {"0": 7}}',
            OffsetSpec(partitions=(("flights", 0, 7),), is_by_time=True),
        ),
        ("endingTimestamp", "7", OffsetSpec(time_ms=7)),
    ],
)
def test_a_batch_as_a_member_has_an_end_and_the_options_of_a_member(name: str, text: str, ending: OffsetSpec) -> None:
    read = parse_options({**STREAM, name: text, "maxOffsetsPerTrigger": "9", "kcoord.streams": "4"}, "group batch")
    assert (read.ending, read.max_offsets_per_trigger, read.streams) == (ending, 9, 4)


@pytest.mark.parametrize("name", ["minOffsetsPerTrigger", "maxTriggerDelay", "kcoord.push.filters"])
def test_what_a_batch_as_a_member_cannot_do_is_warned_about(name: str, caplog: pytest.LogCaptureFixture) -> None:
    plain = parse_options(STREAM, "group batch")
    assert parse_options({**STREAM, name: "true"}, "group batch") == plain
    assert f"option '{name}' is for " in caplog.text
    assert "has no effect in spark_kcoord.batch" in caplog.text


@pytest.mark.parametrize("name", ["kcoord.bootstrap.servers", "kcoord.group.id"])
def test_a_batch_as_a_member_needs_a_coordinator_and_a_group(name: str) -> None:
    given = {key: text for key, text in STREAM.items() if key != name} | {"kafka.bootstrap.servers": "kafka:9092"}
    with pytest.raises(OptionError, match=f"Option '{name}' is missing. spark_kcoord.batch joins a group"):
        parse_options(given, "group batch")


def test_filters_are_taken_when_that_is_asked_for() -> None:
    assert parse_one("kcoord.push.filters", "One-Scan", "batch").takes_filters
    assert not parse_one("kcoord.push.filters", "FALSE", "batch").takes_filters
    with pytest.raises(OptionError) as raised:
        parse_one("kcoord.push.filters", "always", "batch")
    assert str(raised.value) == "Option 'kcoord.push.filters' cannot be 'always'. Allowed: one-scan, false."


def test_filters_are_not_taken_for_all_scans_of_a_load() -> None:
    said = r"'kcoord\.push\.filters' cannot be 'TRUE' \(Spark shares .* give 'one-scan' .* call load\(\) anew"
    with pytest.raises(OptionError, match=said):
        parse_one("kcoord.push.filters", "TRUE", "batch")


def test_a_time_goes_before_times_and_times_before_offsets() -> None:
    offsets = {"startingOffsets": '{"flights": {"0": 1}}', "endingOffsets": '{"flights": {"0": 2}}'}
    times = {
        "startingOffsetsByTimestamp": '{"flights": {"0": 3}}',
        "endingOffsetsByTimestamp": '{"flights": 4}',
    }
    one_time = {"startingTimestamp": "5", "endingTimestamp": "6"}

    def starts_and_ends(given: dict[str, str]) -> list[tuple[int | None, int | None]]:
        options = parse_options({**BATCH, **given}, "batch")
        return [
            (spec.position("flights", 0), spec.time_of("flights", 0)) for spec in (options.starting, options.ending)
        ]

    assert starts_and_ends(offsets) == [(1, None), (2, None)]
    assert starts_and_ends(offsets | times) == [(None, 3), (None, 4)]
    assert starts_and_ends(offsets | times | one_time) == [(None, 5), (None, 6)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "names no topic"),
        ('{"flights": {"0": -1}}', "gives topic 'flights' partition 0 the time -1"),
        ('{"flights": {"0": "5"}}', "gives topic 'flights' partition 0 the time '5'"),
        ('{"flights": -5}', "gives topic 'flights' the time -5"),
        ('{"flights": "latest"}', "gives topic 'flights' no partitions"),
        ('{"other": 5}', "names topics that 'subscribe' does not: other"),
    ],
)
def test_wrong_times_are_explained(text: str, said: str) -> None:
    with pytest.raises(OptionError, match=f"Option 'startingOffsetsByTimestamp' {said}"):
        parse_one("startingOffsetsByTimestamp", text)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("a(?!b)", r"at position 1; lookaround is not supported; 'kcoord.exclude' leaves topics out"),
        (r"(a)\\\1", r"at position 5; back-references are not supported"),
        ("xa*+", "at position 2; possessive quantifiers are not supported"),
        ("a(?>b)", "at position 1; atomic groups are not supported"),
        ("[a-z&&[^b]]", r"'&&' at position 4 means an intersection in Java"),
        ("[a[bc]]", "a set within a set at position 2"),
        ("a)", "at position 1"),
        ("(", r"missing \): \("),
        ("a" * 1_001, "it has 1001 characters and at most 1000 are allowed"),
    ],
)
def test_pattern_that_differs_from_javas_is_refused_with_its_position(pattern: str, said: str) -> None:
    with pytest.raises(OptionError, match=f"Option 'subscribePattern' cannot be .*{said}"):
        parse_one("subscribePattern", pattern)


@pytest.mark.parametrize("pattern", [r"\\[a&\&b]", r"\Q[a[b\E", "[]a]", "[[:alpha:]_]+", "(?<name>a)|b", "[^]&]"])
def test_pattern_that_means_the_same_is_accepted(pattern: str) -> None:
    assert parse_one("subscribePattern", pattern).subscription.pattern == pattern


def test_option_of_streams_only_warns_in_a_batch(caplog: pytest.LogCaptureFixture) -> None:
    assert parse_one("maxOffsetsPerTrigger", "5", "batch").max_offsets_per_trigger is None
    assert "'maxOffsetsPerTrigger' is for streaming queries" in caplog.text


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ('{"flights": {"0": 7, "1": -1, "2": -2}}', {("flights", 0): 7, ("flights", 1): -1, ("flights", 2): -2}),
        ('{"flights": "latest"}', {("flights", 0): -1, ("flights", 9): -1}),
        ('{"flights": "Earliest"}', {("flights", 0): -2}),
    ],
)
def test_starting_offsets_in_json(text: str, spec: dict[tuple[str, int], int]) -> None:
    starting = parse_one("startingOffsets", text).starting

    assert {key: starting.position(*key) for key in spec} == spec
    assert starting.position("other", 0) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not valid JSON"),
        ("{}", "names no topic"),
        ('{"flights": {}}', "gives topic 'flights' no partitions"),
        ('{"flights": 5}', "gives topic 'flights' no partitions"),
        ('{"flights": {"x": 5}}', "names partition 'x'"),
        ('{"flights": {"-1": 5}}', "names partition '-1'"),
        ('{"flights": {"0": 5, "00": 6}}', "names partition '00'"),
        ('{"flights": {"' + "9" * 5_000 + '": 5}}', "names partition '999"),
        ('{"flights": {"0": -3}}', "the offset -3"),
        ('{"flights": {"0": true}}', "the offset True"),
        ('{"flights": {"0": "latest"}}', "the offset 'latest'"),
        ('{"flights": {"0": 9223372036854775808}}', "the offset 9223372036854775808"),
        ('{"flights": "sometime"}', "says 'sometime'"),
        ('{"flights": {"0": 1, "0": 2}}', "0 is given twice"),
        ('{"other": {"0": 1}}', "names topics that 'subscribe' does not: other"),
    ],
)
def test_wrong_starting_offsets_are_explained(text: str, said: str) -> None:
    with pytest.raises(OptionError, match=said) as raised:
        parse_one("startingOffsets", text)
    assert "'startingOffsets'" in str(raised.value)


def test_a_stream_may_start_where_its_group_is() -> None:
    assert parse_one("startingOffsets", "Committed").starting == OffsetSpec(word="committed")


def test_batch_refuses_to_start_at_the_end_or_to_end_at_the_start() -> None:
    for name, text in (
        ("startingOffsets", "latest"),
        ("startingOffsets", '{"flights": {"0": -1}}'),
        ("endingOffsets", "earliest"),
        ("endingOffsets", '{"flights": {"0": -2}}'),
    ):
        with pytest.raises(OptionError, match=f"'{name}'"):
            parse_one(name, text, "batch")


def client(**more: str) -> dict[str, Any]:
    return dict(parse("batch", **more).kafka.client)


def test_kafka_options_become_kafka_pythons() -> None:
    kafka = parse(
        "batch",
        kafka__isolation__level="READ_COMMITTED",
        kafka__client__rack="r1",
        kafka__check__crcs="false",
        kafka__fetch__max__bytes="1000",
        kafka__max__partition__fetch__bytes="2000",
        kafka__request__timeout__ms="3000",
        kafka__client__id="me",
        kafka__receive__buffer__bytes="65536",
    ).kafka

    assert kafka.servers == ("kafka:9092",)
    assert (kafka.is_read_committed, kafka.rack, kafka.check_crcs) == (True, "r1", False)
    assert (kafka.fetch_max_bytes, kafka.max_partition_fetch_bytes, kafka.request_timeout_ms) == (1000, 2000, 3000)
    settings = dict(kafka.client)
    assert (settings["client_id"], settings["request_timeout_ms"]) == ("me", 3000)
    assert settings["socket_options"][-1][-1] == 65536


def test_every_client_setting_is_one_of_kafka_pythons() -> None:
    from kafka.net.manager import KafkaConnectionManager

    names = {option.client for option in KAFKA_OPTIONS if option.client is not None}

    assert names <= KafkaConnectionManager.DEFAULT_CONFIG.keys()


@pytest.mark.parametrize(
    "login",
    [
        {"kafka.sasl.username": "u", "kafka.sasl.password": "hunter2"},
        {
            "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="u" password="hunter2";'
        },
    ],
)
def test_login_is_passed_on_and_never_shown(login: dict[str, str]) -> None:
    given = {**BATCH, "kafka.security.protocol": "sasl_ssl", "kafka.sasl.mechanism": "PLAIN", **login}

    options = parse_options(given, "batch")

    settings = dict(options.kafka.client)
    assert (settings["sasl_plain_username"], settings["sasl_plain_password"]) == ("u", "hunter2")
    assert "hunter2" not in f"{options!r} {options} {options.kafka!r}"
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kafka.security.protocol": "SASL_SSL"}, "'kafka.sasl.mechanism' is missing"),
        ({"kafka.security.protocol": "TLS"}, "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"kafka.sasl.username": "u", "kafka.sasl.password": "hunter2"}, "which does not log in"),
        (
            {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.password": "hunter2"},
            "PLAIN needs both",
        ),
        ({"kafka.sasl.jaas.config": "Other required password='hunter2';"}, "its value is not shown"),
        ({"kafka.sasl.password": " "}, "the given value"),
        ({"kafka.ssl.truststore.location": "/a/b.jks"}, "Java key store, which Python cannot read"),
        ({"kafka.ssl.keystore.type": "JKS"}, "Allowed: PEM"),
        ({"kafka.bootstrap.servers": "kafka:99999"}, "a port is a number from 1 to 65535"),
        ({"kafka.isolation.level": "serializable"}, "read_uncommitted, read_committed"),
    ],
)
def test_wrong_kafka_options_are_explained_without_secrets(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said) as raised:
        parse_options({**BATCH, **given}, "batch")
    assert "hunter2" not in str(raised.value)


def test_host_name_check_can_be_switched_off_as_in_java() -> None:
    assert client(kafka__ssl__endpoint__identification__algorithm="")["ssl_check_hostname"] is False
    assert "ssl_check_hostname" not in client(kafka__ssl__endpoint__identification__algorithm="https")


def test_documentation_lists_every_option() -> None:
    table = describe_options()

    assert all(f"| `{option.name}` |" in table for option in (*OPTIONS, *WITHOUT_EFFECT, *KAFKA_OPTIONS))
    assert all(f"| {option.name} |" in (KcoordDataSource.__doc__ or "") for option in OPTIONS)


def test_options_load_nothing_but_the_standard_library() -> None:
    code = (
        "import sys, spark_kcoord.options.source_options; "
        "print(sorted({'kafka', 'pyspark', 'pyarrow', 'msgspec', 'coordinator', 'cramjam'} & set(sys.modules)))"
    )

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"subscribe": "t", "kcoord.bootstrap.servers": "c:1"}, "kcoord.group.id"),
        ({"subscribe": "t", "kcoord.group.id": "g"}, "kcoord.bootstrap.servers"),
        ({"subscribe": "t"}, "kcoord.bootstrap.servers"),
    ],
)
def test_what_every_kind_of_read_lacks_is_refused_before_its_kind_is_known(given: dict[str, str], missing: str) -> None:
    with pytest.raises(OptionError, match=f"Option '{missing}' is missing"):
        must_be_complete(given)
    for mode in ("stream", "batch"):
        with pytest.raises(OptionError, match=f"Option '{missing}' is missing"):
            parse_options(given, mode)


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"kcoord.bootstrap.servers": "c:1"}, "kcoord.group.id"),
        ({"KCOORD.group.id": "g"}, "kcoord.bootstrap.servers"),
        ({"kcoord.group.id": "g", "kafka.group.id": "k"}, "kcoord.bootstrap.servers"),
    ],
)
def test_one_half_of_what_a_stream_needs_is_refused_early_also_where_kafka_is_known(
    given: dict[str, str], missing: str
) -> None:
    with pytest.raises(OptionError, match=f"Option '{missing}' is missing. A streaming query joins a group"):
        must_be_complete({"subscribe": "t", "kafka.bootstrap.servers": "k:1", **given})


@pytest.mark.parametrize(
    "given",
    [
        {"subscribe": "t", "kafka.bootstrap.servers": "k:1"},
        {"subscribe": "t", "kafka.bootstrap.servers": "k:1", "kafka.group.id": "g"},
        {"subscribe": "t", "kafka.bootstrap.servers": "k:1", "kcoord.bootstrap.servers": "c:1", "kcoord.group.id": "g"},
        {"subscribe": "t", "kcoord.bootstrap.servers": "c:1", "kcoord.group.id": "g"},
        {"subscribe": "t", "KCOORD.Bootstrap.Servers": "c:1", "kafka.group.id": "g"},
    ],
)
def test_what_may_be_complete_is_not_refused_early(given: dict[str, str]) -> None:
    must_be_complete(given)
    parse_options(given, "batch")


def test_member_is_called_what_brokers_are_told_unless_it_is_told_itself() -> None:
    assert parse_options(STREAM, "stream").client_id is None
    assert parse_options({**STREAM, "kafka.client.id": "k"}, "stream").client_id == "k"
    assert parse_options({**STREAM, "Kafka.Client.Id": "k", "kcoord.client.id": "m"}, "stream").client_id == "m"
