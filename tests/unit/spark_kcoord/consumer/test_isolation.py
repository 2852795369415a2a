"""A position between the last stable offset and the high watermark is there, with nothing to read yet."""

import itertools

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import LostPosition
from spark_kcoord.consumer.conduct.group import member_settings
from spark_kcoord.consumer.settings import parse_settings
from spark_kcoord.consumer.subscription import Subscription
from spark_kcoord.errors import DataLossError
from spark_kcoord.options.source_options import parse_options
from tests.helpers.fake_member import FakeEnds, FakeMember, a_session, claim, owned


def waiting(*, fail: bool = True) -> tuple[FakeMember, FakeEnds, list[float]]:
    """Return a member whose position 50 is behind the last stable offset 9 and before the high watermark 60."""
    del fail
    return FakeMember((owned(0, 50),)), FakeEnds({0: 9}, marks={0: 60}), [0.0]


@pytest.mark.parametrize("fail", [True, False])
def test_a_position_behind_an_open_transaction_waits_for_it_and_is_not_reported(
    fail: bool, caplog: pytest.LogCaptureFixture
) -> None:
    member, kafka, now = waiting()
    session = a_session(member, kafka, fail=fail, clock=lambda: now[0])
    for now[0] in (0.0, 1.0, 5.0, 30.0):
        assert session.next_offset(session.identity, None, is_single_run=False) == session.identity
    assert (member.reported, caplog.text) == ([], "")
    kafka.ends[0] = 60
    assert session.next_offset(session.identity, None, is_single_run=False).claims == (claim(0, 50, 60),)


def test_other_partitions_are_read_meanwhile_and_the_high_watermark_is_asked_now_and_then() -> None:
    member, kafka, now = waiting()
    member.partitions = (*member.partitions, owned(1, 0))
    session = a_session(member, kafka, clock=lambda: now[0])
    batch = session.identity
    for step in range(1, 9):
        now[0] += 0.01
        kafka.ends[1] = step
        batch = session.next_offset(batch, None, is_single_run=False)
        assert batch.claims == (claim(1, step - 1, step),)
    assert kafka.marks_asked == 1


def test_a_run_that_ends_by_itself_ends_well_behind_an_open_transaction() -> None:
    member, kafka, _ = waiting()
    session = a_session(member, kafka)
    assert session.next_offset(session.identity, None, is_single_run=True) == session.identity


def test_an_old_end_is_no_data_loss_when_the_brokers_know_better_when_asked() -> None:
    member, kafka, now = waiting()
    session = a_session(member, kafka, clock=lambda: now[0])
    kafka.marks[0] = 40
    assert session.next_offset(session.identity, None, is_single_run=False) == session.identity
    kafka.ends[0] = kafka.marks[0] = 55
    now[0] = 60.0
    assert session.next_offset(session.identity, None, is_single_run=False).claims == (claim(0, 50, 55),)
    assert member.reported == []


def test_a_report_that_changes_nothing_is_made_again_after_longer_and_longer_pauses() -> None:
    member, kafka, now = waiting()
    kafka.marks[0] = 9
    member.partitions = (*member.partitions, owned(1, 0))
    member.report_error, member.report_committed = ErrorCode.OFFSET_NOT_AVAILABLE, 50
    session = a_session(member, kafka, fail=False, clock=lambda: now[0])
    reported = []
    for _ in range(6_000):
        now[0] += 0.01
        session.next_offset(session.identity, None, is_single_run=False)
        if len(member.reported) > len(reported):
            reported.append(round(now[0]))
    assert reported == [0, 1, 3, 7, 15, 30]
    assert set(member.reported) == {LostPosition("t", 0, 7, 50)}


def test_a_partition_goes_on_at_the_groups_offset_where_kafka_has_that_one(caplog: pytest.LogCaptureFixture) -> None:
    member = FakeMember((owned(0, 5),))
    kafka = FakeEnds({0: 20})
    session = a_session(member, kafka, fail=False)
    batch = session.next_offset(session.identity, None, is_single_run=False)
    session.next_offset(batch, None, is_single_run=False)
    kafka.ends[0] = 12
    member.report_committed = 10
    assert session.next_offset(batch, None, is_single_run=False).claims == (claim(0, 10, 12),)
    assert "ends at offset 12 at the broker, before offset 20" in caplog.text


def test_without_patience_for_losses_nothing_is_reported_that_the_query_fails_for() -> None:
    member, kafka, _ = waiting()
    kafka.marks[0] = 9
    passing = itertools.count()
    session = a_session(member, kafka, clock=lambda: float(next(passing)))
    with pytest.raises(DataLossError, match="before offset 50"):
        session.next_offset(session.identity, None, is_single_run=True)
    assert member.reported == []


def test_a_consumer_registers_with_its_isolation_level() -> None:
    given = {"coordinators": "c:1", "group_id": "g"}
    read = Subscription(topics=("t",))
    assert member_settings(parse_settings(given), read).isolation_level == "read_uncommitted"
    own = parse_settings(given | {"isolation_level": "read_committed"})
    assert (member_settings(own, read).isolation_level, own.kafka.is_read_committed) == ("read_committed", True)


def test_a_source_knows_its_isolation_level_by_kafkas_word() -> None:
    given = {"kcoord.bootstrap.servers": "c:1", "kcoord.group.id": "g", "subscribe": "t"}
    assert parse_options(given, "stream").kafka.isolation_level == "read_uncommitted"
    given["kafka.isolation.level"] = "read_committed"
    assert parse_options(given, "stream").kafka.isolation_level == "read_committed"


def test_lag_is_reported_to_the_high_watermark() -> None:
    member, kafka, _ = waiting()
    session = a_session(member, kafka)
    session.next_offset(session.identity, None, is_single_run=False)
    assert session.report().ends == {("t", 0): 60}


def test_an_idle_query_makes_its_report_once() -> None:
    member, kafka, _ = waiting()
    session = a_session(member, kafka)
    session.next_offset(session.identity, None, is_single_run=False)
    first = session.report()
    assert session.report() is first
    session.next_offset(session.identity, None, is_single_run=False)
    again = session.report()
    assert again == first
    kafka.marks[0] = 61
    session.next_offset(session.identity, None, is_single_run=False)
    assert session.report().ends == {("t", 0): 61}
