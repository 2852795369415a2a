"""Words that there are not are refused with the nearest, and partitions are meant as they are named."""

import pytest

from coordinator.cli.parts.exits import EXIT_OF_REFUSAL, ExitCode
from coordinator.client.operating.lag import TopicLag, lag_by_topic
from coordinator.client.operating.partitions_meant import UnknownTopicError, in_portions, partitions_meant
from coordinator.client.operating.refusal_kinds import NOT_FOUND, REFUSED_BY_STATE, TIMED_OUT, UNAUTHORISED
from coordinator.client.operating.what_is_asked import parse_kind, parse_timeout_s, parse_word
from coordinator.protocol.ids import MAX_NAMED
from coordinator.protocol.messages import DescribeGroupResponse
from coordinator.protocol.parts import PartitionDescription
from coordinator.protocol.vocabulary import EventKind, GroupStatus

GROUP = DescribeGroupResponse(
    group_id="g",
    partitions=(
        PartitionDescription("t", 0, 5, 9),
        PartitionDescription("t", 1, None, 9),
        PartitionDescription("u", 0, 7, 5),
        PartitionDescription("v", 0),
    ),
)


def test_a_word_is_read_whatever_its_case():
    assert parse_kind(" Rebalance ") is EventKind.REBALANCE
    assert parse_word("stable", GroupStatus, "is no state") is GroupStatus.STABLE


@pytest.mark.parametrize(
    ("text", "said"),
    [("rebalanced", "is 'rebalance' meant?"), ("?", "known: member-joined"), ("a\x1b[2J", r"a\x1b[2J")],
)
def test_a_kind_of_events_that_there_is_not(text, said):
    with pytest.raises(ValueError) as refused:
        parse_kind(text)
    assert said in str(refused.value)


@pytest.mark.parametrize(("given", "seconds"), [("30", 30), (0.1, 0.1), ("500ms", 0.5), ("10m", 600)])
def test_a_time_out(given, seconds):
    assert parse_timeout_s(given) == seconds


@pytest.mark.parametrize("given", ["11m", "0", "soon", float("nan"), float("inf"), -1])
def test_a_time_out_that_is_none(given):
    with pytest.raises(ValueError):
        parse_timeout_s(given)


@pytest.mark.parametrize(
    ("named", "meant"),
    [
        (None, [("t", 0), ("u", 0)]),
        (["t"], [("t", 0)]),
        (["t:1,7", "t"], [("t", 1), ("t", 7), ("t", 0)]),
        (["x:3", "x:3"], [("x", 3)]),
    ],
)
def test_partitions_are_meant_by_number_or_as_far_as_they_count(named, meant):
    assert list(partitions_meant(GROUP, named, lambda one: one.committed is not None)) == meant


def test_a_topic_of_which_the_group_knows_nothing_is_refused():
    with pytest.raises(UnknownTopicError, match="group 'g' knows no partition of topic 'x'; correct the name"):
        partitions_meant(GROUP, ["x"])


def test_lag_is_over_what_is_known():
    assert lag_by_topic(GROUP.partitions) == (
        TopicLag("t", 2, 4, 4, 1),
        TopicLag("u", 1, 0, 0, 0),
        TopicLag("v", 1, 0, None, 1),
    )


def test_no_portion_is_more_than_a_request_may_name():
    assert [len(some) for some in in_portions(range(2 * MAX_NAMED + 1))] == [MAX_NAMED, MAX_NAMED, 1]


def test_a_refusal_is_of_one_kind_with_one_exit_code():
    kinds = (NOT_FOUND, REFUSED_BY_STATE, TIMED_OUT, UNAUTHORISED)
    assert len(EXIT_OF_REFUSAL) == sum(map(len, kinds))
    assert set(EXIT_OF_REFUSAL.values()) == {
        ExitCode.NOT_FOUND,
        ExitCode.REFUSED_BY_STATE,
        ExitCode.TIMEOUT,
        ExitCode.UNAUTHORISED,
    }
