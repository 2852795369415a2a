"""A topic that is deleted, or made again, under a query: known by its id whenever grants change."""

import pytest

from coordinator.protocol.parts import Claim
from spark_kcoord.errors import DataLossError, KafkaAwayError
from spark_kcoord.microbatch.stream_offset import StreamOffset
from spark_kcoord.microbatch.topic_watch import TopicWatch
from tests.helpers.fake_member import FakeEnds, FakeMember, a_session, claim, owned


def test_topic_deleted_in_the_middle_of_a_batch_is_data_loss_naming_topic_id_and_positions() -> None:
    member, kafka = FakeMember((owned(0, 0), owned(1, 3))), FakeEnds({0: 200, 1: 3})
    session = a_session(member, kafka)
    first = session.next_offset(session.identity, 40, is_single_run=False)
    member.partitions, kafka.ids = (), {}
    with pytest.raises(DataLossError, match=r"topic t any more.*had read t-0 up to offset 40, t-1 up to offset 3"):
        session.next_offset(first, None, is_single_run=False)


def test_topic_deleted_after_its_batch_was_settled_is_data_loss_too() -> None:
    member, kafka = FakeMember((owned(0, 0),)), FakeEnds({0: 40})
    session = a_session(member, kafka)
    first = session.next_offset(session.identity, None, is_single_run=False)
    assert session.next_offset(first, None, is_single_run=False) == first
    member.partitions, kafka.ids = (), {}
    with pytest.raises(DataLossError, match="topic t any more"):
        session.next_offset(first, None, is_single_run=False)


@pytest.mark.parametrize("comes_back_at_once", [True, False])
def test_topic_made_again_after_its_batch_was_settled_is_data_loss(comes_back_at_once: bool) -> None:
    member, kafka = FakeMember((owned(0, 0),)), FakeEnds({0: 40})
    session = a_session(member, kafka)
    first = session.next_offset(session.identity, None, is_single_run=False)
    assert session.next_offset(first, None, is_single_run=False) == first
    member.partitions, member.is_complete = (), False
    if not comes_back_at_once:
        assert session.next_offset(first, None, is_single_run=False) == first
    member.partitions, member.is_complete = (owned(0, 0, epoch=9, topic_id="new"),), True
    with pytest.raises(DataLossError, match=r"t' has been deleted and created again: .* as id and Kafka as new"):
        session.next_offset(first, None, is_single_run=False)


def test_topic_made_again_whose_partitions_another_member_gets_is_data_loss() -> None:
    member, kafka = FakeMember((owned(0, 0),)), FakeEnds({0: 40})
    session = a_session(member, kafka)
    first = session.next_offset(session.identity, None, is_single_run=False)
    member.partitions, kafka.ids = (), {"t": "new"}
    with pytest.raises(DataLossError, match="created again"):
        session.next_offset(first, None, is_single_run=False)


def test_topic_that_came_back_and_was_deleted_between_two_plans_is_data_loss() -> None:
    # Its partition was handed over, came back while the micro-batch was read, and left again for good.
    member, kafka = FakeMember((owned(0, 0),), last_grants={"t": 7}), FakeEnds({0: 40})
    session = a_session(member, kafka)
    first = session.next_offset(session.identity, None, is_single_run=False)
    member.partitions = ()
    assert session.next_offset(first, None, is_single_run=False) == first
    member.last_grants, kafka.ids = {"t": 9}, {}
    with pytest.raises(DataLossError, match="topic t any more"):
        session.next_offset(first, None, is_single_run=False)


def test_topic_that_came_and_went_between_two_plans_and_was_never_read_is_not_asked_about() -> None:
    member, kafka = FakeMember((owned(0, 0),), last_grants={"t": 7}), FakeEnds({0: 40})
    session = a_session(member, kafka)
    first = session.next_offset(session.identity, None, is_single_run=False)
    member.last_grants = {"t": 7, "other": 9}
    assert session.next_offset(first, None, is_single_run=False) == first
    assert kafka.ids_asked == []


def test_partition_that_left_in_a_rebalance_is_no_loss_and_is_asked_about_once() -> None:
    member, kafka = FakeMember((owned(0, 0), owned(1, 0))), FakeEnds({0: 40, 1: 40})
    session = a_session(member, kafka)
    first = session.next_offset(session.identity, None, is_single_run=False)
    member.partitions = (owned(1, 0),)
    for _ in range(3):
        assert session.next_offset(first, None, is_single_run=False) == first
    assert kafka.ids_asked == [("t",)]


def test_topic_whose_partitions_are_wanted_back_because_it_is_gone_is_data_loss_before_the_next_batch() -> None:
    # The next micro-batch would not name the topic any more, and a query started again after it would not know it.
    member, kafka = FakeMember((owned(0, 0),)), FakeEnds({0: 40})
    session = a_session(member, kafka)
    first = session.next_offset(session.identity, None, is_single_run=False)
    member.partitions, kafka.ids = (owned(0, 0, is_stopping=True),), {}
    with pytest.raises(DataLossError, match="topic t any more"):
        session.next_offset(first, None, is_single_run=False)
    assert member.advanced == [((), (claim(0, 0, 40),)), ((claim(0, 0, 40),), ())]


def test_topic_made_again_is_seen_whatever_the_order_of_its_grants() -> None:
    member, kafka = FakeMember((owned(0, 0),)), FakeEnds({0: 40})
    session = a_session(member, kafka)
    first = session.next_offset(session.identity, None, is_single_run=False)
    member.partitions = (owned(0, 0, epoch=9, topic_id="new"), owned(0, 0, is_stopping=True))
    with pytest.raises(DataLossError, match="created again"):
        session.next_offset(first, None, is_single_run=False)


def test_partition_that_is_wanted_back_in_a_rebalance_is_no_loss() -> None:
    member, kafka = FakeMember((owned(0, 0), owned(1, 0))), FakeEnds({0: 40, 1: 40})
    session = a_session(member, kafka)
    first = session.next_offset(session.identity, None, is_single_run=False)
    for partitions in ((owned(0, 0, is_stopping=True), owned(1, 0)), (owned(1, 0),)):
        member.partitions = partitions
        assert session.next_offset(first, None, is_single_run=False) == first
    assert kafka.ids_asked == [("t",), ("t",)]


def test_lost_session_says_nothing_about_topics() -> None:
    member, kafka = FakeMember((owned(0, 0),)), FakeEnds({0: 40})
    session = a_session(member, kafka)
    first = session.next_offset(session.identity, None, is_single_run=False)
    member.partitions, member.is_complete = (), False
    assert session.next_offset(first, None, is_single_run=False) == first
    assert kafka.ids_asked == []


def test_checkpoint_that_shows_a_topic_which_is_gone_is_data_loss_in_a_new_process() -> None:
    start = StreamOffset("c", "g", "m-1", (claim(0, 5, 9),))
    with pytest.raises(DataLossError, match=r"topic t any more.*t-0 up to offset 9"):
        a_session(FakeMember(()), FakeEnds(ids={})).next_offset(start, None, is_single_run=False)


def test_kafka_that_cannot_be_asked_about_a_topic_is_asked_again_a_little_later() -> None:
    now = [0.0]
    member = FakeMember((owned(0, 0),))
    kafka = FakeEnds({0: 40}, ids_failures=[KafkaAwayError("Kafka at k:1 gave no answer.")])
    session = a_session(member, kafka, clock=lambda: now[0])
    first = session.next_offset(session.identity, None, is_single_run=False)
    member.partitions, kafka.ids = (), {}
    for _ in range(3):
        assert session.next_offset(first, None, is_single_run=False) == first
    assert kafka.ids_asked == [("t",)]
    now[0] = 1.0
    with pytest.raises(DataLossError, match="topic t any more"):
        session.next_offset(first, None, is_single_run=False)


def test_loss_is_said_once_where_it_is_tolerated(caplog: pytest.LogCaptureFixture) -> None:
    member, kafka = FakeMember((owned(0, 0),)), FakeEnds({0: 40})
    session = a_session(member, kafka, fail=False)
    first = session.next_offset(session.identity, None, is_single_run=False)
    member.partitions, kafka.ids = (), {}
    for _ in range(3):
        assert session.next_offset(first, None, is_single_run=False) == first
    member.partitions = (owned(0, 0, epoch=9, topic_id="new"), owned(1, 5, epoch=7))
    latest = session.next_offset(first, None, is_single_run=False)
    assert latest.claims == (claim(0, 0, 40, epoch=9, topic_id="new"),)
    assert caplog.text.count("Going on, because failOnDataLoss is false") == 1


def reads_t(topic: str, partition: int) -> bool:
    return topic == "t"


OLD = Claim("old", "old-id", 0, 7, 90, 90)
"""A partition of a topic that is no more."""


def test_topic_that_is_gone_and_not_asked_for_any_more_stops_no_start() -> None:
    start = StreamOffset("c", "g", "m-1", (OLD, claim(0, 5, 9)))
    for _ in range(2):
        member, kafka = FakeMember((owned(0, 9),)), FakeEnds({0: 12})
        session = a_session(member, kafka, reads=reads_t)
        assert session.next_offset(start, None, is_single_run=False).ranges == (claim(0, 9, 12),)
        assert kafka.ids_asked == []


def test_topic_that_is_gone_and_asked_for_again_is_data_loss() -> None:
    start = StreamOffset("c", "g", "m-1", (OLD, claim(0, 5, 9)))
    with pytest.raises(DataLossError, match="topic old any more"):
        a_session(FakeMember((owned(0, 9),)), FakeEnds({0: 12})).next_offset(start, None, is_single_run=False)


def test_what_a_query_asks_for_is_found_out_once_for_each_partition() -> None:
    asked: list[tuple[str, int]] = []

    def reads(topic: str, partition: int) -> bool:
        asked.append((topic, partition))
        return True

    topics = TopicWatch(lambda: 0.0, reads)
    assert [topics.may_come_back(claim(number, 5, 9)) for number in (0, 1, 0, 1)] == [True] * 4
    assert asked == [("t", 0), ("t", 1)]
