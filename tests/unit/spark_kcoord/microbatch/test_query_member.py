import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import Claim, LostPosition, PartitionResult
from spark_kcoord.errors import DataLossError, KafkaAwayError, KcoordError, UnknownTopicError
from spark_kcoord.member.client import AdvanceOutcome, Assignment
from spark_kcoord.microbatch.stream_offset import StreamOffset
from spark_kcoord.planning.rate_limit import BatchLimits
from tests.helpers.fake_member import FakeEnds, FakeMember, StrictMember, a_session, claim, owned


def test_the_first_batch_claims_all_there_is_and_returns_only_what_was_claimed() -> None:
    member = FakeMember((owned(0, 5), owned(1, 3)))
    session = a_session(member, {0: 9, 1: 3})
    latest = session.next_offset(session.identity, None, is_single_run=False)
    assert member.advanced == [((), (claim(0, 5, 9),))]
    assert latest.claims == (claim(0, 5, 9),)
    assert latest.ranges == (claim(0, 5, 9), claim(1, 3, 3))


def test_the_next_call_commits_the_batch_and_claims_on_in_one_round_trip() -> None:
    member = FakeMember((owned(0, 5),))
    session = a_session(member, {0: 9})
    first = session.next_offset(session.identity, 2, is_single_run=False)
    second = session.next_offset(first, 10, is_single_run=False)
    assert member.advanced[1] == ((claim(0, 5, 7),), (claim(0, 7, 9),))
    assert second.claims == (claim(0, 7, 9),)


def test_with_no_news_the_finished_batch_is_committed_once_and_the_start_comes_back() -> None:
    member = FakeMember((owned(0, 5),))
    session = a_session(member, {0: 9})
    first = session.next_offset(session.identity, None, is_single_run=False)
    assert session.next_offset(first, None, is_single_run=False) == first
    assert session.next_offset(first, None, is_single_run=False) == first
    assert member.advanced[1:] == [((claim(0, 5, 9),), ())]


def test_the_same_start_again_replaces_what_was_offered() -> None:
    member = FakeMember((owned(0, 5),))
    session = a_session(member, {0: 9})
    start = session.identity
    once = session.next_offset(start, 1, is_single_run=False)
    again = session.next_offset(start, 2, is_single_run=False)
    assert (once.claims, again.claims) == ((claim(0, 5, 6),), (claim(0, 5, 7),))


def test_an_offer_nobody_took_is_dropped_when_nothing_is_left_to_offer() -> None:
    member = FakeMember((owned(0, 5),))
    session = a_session(member, {0: 9})
    session.next_offset(session.identity, None, is_single_run=False)
    member.partitions = ()
    assert session.next_offset(session.identity, None, is_single_run=False) == session.identity
    assert member.advanced[-1] == ((), ())


def test_a_partition_that_is_wanted_back_gets_no_new_claim() -> None:
    member = FakeMember((owned(0, 5, is_stopping=True), owned(1, 5)))
    session = a_session(member, {0: 9, 1: 9})
    assert session.next_offset(session.identity, None, is_single_run=False).claims == (claim(1, 5, 9),)


def test_a_refused_claim_is_left_out_of_the_batch() -> None:
    member = FakeMember((owned(0, 5), owned(1, 5)), refused={0: ErrorCode.REBALANCE_IN_PROGRESS})
    session = a_session(member, {0: 9, 1: 9})
    assert session.next_offset(session.identity, None, is_single_run=False).claims == (claim(1, 5, 9),)


def test_the_committed_offset_of_a_refused_claim_is_where_the_query_goes_on() -> None:
    class RestoredDisk(FakeMember):
        """A coordinator whose disk is restored from an old copy: the same grant, at an offset that is behind."""

        def advance(self, finished: Sequence[Claim], claims: Sequence[Claim]) -> AdvanceOutcome:
            outcome = super().advance(finished, claims)
            wrong = [one for one in claims if one.from_offset != 5]
            refused = tuple(
                PartitionResult(one.topic, one.partition, ErrorCode.INVALID_REQUEST, "claim from there", 5)
                for one in wrong
            )
            return replace(outcome, claimed=(), claims=refused) if wrong else outcome

    member = RestoredDisk((owned(0, 5),))
    session = a_session(member, {0: 12})
    first = session.next_offset(session.identity, 4, is_single_run=False)
    assert first.claims == (claim(0, 5, 9),)
    assert session.next_offset(first, None, is_single_run=False).claims == (claim(0, 5, 12),)


def test_a_batch_of_which_nothing_was_claimed_is_no_batch() -> None:
    member = FakeMember((owned(0, 5),), refused={0: ErrorCode.FENCED_OWNER_EPOCH})
    session = a_session(member, {0: 9})
    assert session.next_offset(session.identity, None, is_single_run=False) == session.identity


def test_the_epochs_committed_are_those_of_the_checkpoint_and_not_the_current_ones(
    caplog: pytest.LogCaptureFixture,
) -> None:
    member = FakeMember((owned(0, 20, epoch=30),), lost=frozenset({0}))
    session = a_session(member, {0: 25})
    start = StreamOffset("c", "g", "m-1", (claim(0, 5, 9, epoch=7),))
    with caplog.at_level(logging.WARNING):
        latest = session.next_offset(start, None, is_single_run=False)
    assert member.advanced == [((claim(0, 5, 9, epoch=7),), (claim(0, 20, 25, epoch=30),))]
    assert latest.claims == (claim(0, 20, 25, epoch=30),)
    assert "not committed: taken over by m-2" in caplog.text
    assert "starts at the group's committed offset 20 and not at the checkpoint's 9" in caplog.text


def test_a_replayed_batch_reads_only_claims_still_open(caplog: pytest.LogCaptureFixture) -> None:
    member = FakeMember((owned(0, 5),), closed_claims=frozenset({1}))
    session = a_session(member, {})
    end = StreamOffset("c", "g", "m-1", (claim(0, 5, 9), claim(1, 5, 9), claim(2, 4, 4)))
    assert session.readable(end) == (claim(0, 5, 9),)
    assert "offsets [5, 9) of t-1 are not read in this micro-batch: taken over by m-2" in caplog.text


def test_a_run_that_ends_waits_for_a_complete_assignment_and_keeps_to_it() -> None:
    member = FakeMember((owned(0, 5),))
    session = a_session(member, {0: 100, 1: 100})
    session.freeze_ends({("t", 0): 9, ("t", 1): 9})
    first = session.next_offset(session.identity, None, is_single_run=True)
    member.partitions = (owned(0, 5), owned(1, 0))
    second = session.next_offset(first, None, is_single_run=True)
    assert member.waits == [(True, 30.0)]
    assert first.claims == (claim(0, 5, 9),)
    assert second == first


def test_a_run_that_ends_claims_nothing_beyond_what_a_topic_that_was_made_again_holds() -> None:
    session = a_session(FakeMember((owned(0, 0), owned(1, 5))), {0: 3, 1: 4})
    session.freeze_ends({("t", 0): 9, ("t", 1): 9})
    assert session.next_offset(session.identity, None, is_single_run=True).claims == (claim(0, 0, 3),)


def test_another_topic_id_is_data_loss_naming_both() -> None:
    member = FakeMember((owned(0, 0, epoch=8, topic_id="new"),))
    start = StreamOffset("c", "g", "m-1", (claim(0, 5, 9, topic_id="old"),))
    with pytest.raises(DataLossError, match=r"old.*new"):
        a_session(member, {0: 3}).next_offset(start, None, is_single_run=False)
    lenient = a_session(member, {0: 3}, fail=False)
    assert lenient.next_offset(start, None, is_single_run=False).claims == (claim(0, 0, 3, epoch=8, topic_id="new"),)


def test_an_end_before_the_position_is_data_loss_naming_both_once_it_has_been_so_for_a_while() -> None:
    now = [0.0]
    session = a_session(FakeMember((owned(0, 50),)), {0: 9}, clock=lambda: now[0])
    for now[0] in (0.0, 1.0, 2.9):
        assert session.next_offset(session.identity, None, is_single_run=False) == session.identity
    now[0] = 3.0
    with pytest.raises(DataLossError, match=r"offset 9 .*offset 50"):
        session.next_offset(session.identity, None, is_single_run=False)


def test_an_offset_of_another_group_is_refused() -> None:
    member = FakeMember((owned(0, 5),))
    session = a_session(member, {0: 9})
    with pytest.raises(KcoordError, match="'other'"):
        session.next_offset(replace(session.identity, group="other"), None, is_single_run=False)


def test_a_start_past_what_this_process_finished_counts_also_under_the_same_owner_epoch() -> None:
    member = FakeMember((owned(0, 5),))
    session = a_session(member, {0: 20})
    first = session.next_offset(session.identity, 4, is_single_run=False)
    session.next_offset(first, 2, is_single_run=False)
    # A process with a copied checkpoint had the identity, and the partition with it, for a while.
    member.partitions = (owned(0, 13),)
    member.lost = frozenset({0})
    third = session.next_offset(replace(first, ranges=(claim(0, 9, 11),)), None, is_single_run=False)
    assert third.claims == (claim(0, 13, 20),)


def test_ranges_claimed_again_after_their_claims_were_closed_make_another_offset() -> None:
    member = FakeMember((owned(0, 5),), lost=frozenset({0}), committed=5)
    session = a_session(member, {0: 9})
    start = StreamOffset("c", "g", "m-1", (claim(0, 5, 9),))
    again = session.next_offset(start, None, is_single_run=False)
    assert again == replace(start, attempt=1)
    assert StreamOffset.from_json(again.to_json()) == again != start


def test_a_micro_batch_holds_one_topic_id_a_topic_which_is_the_newest() -> None:
    member = FakeMember((owned(0, 5, epoch=7, topic_id="old"), owned(1, 0, epoch=30, topic_id="new")))
    session = a_session(member, {0: 9, 1: 9}, fail=False)
    latest = session.next_offset(session.identity, None, is_single_run=False)
    assert latest.ranges == (claim(1, 0, 9, epoch=30, topic_id="new"),)
    assert StreamOffset.from_json(latest.to_json()) == latest


def test_an_idle_query_without_partitions_asks_nobody() -> None:
    member = FakeMember(())
    session = a_session(member, {})
    for _ in range(3):
        assert session.next_offset(session.identity, None, is_single_run=False) == session.identity
    assert member.advanced == []


def test_a_query_without_an_identity_gets_it_before_there_is_anything_to_read() -> None:
    session = a_session(FakeMember(()), {})
    nobody = StreamOffset("", "g", "")
    assert session.next_offset(nobody, None, is_single_run=False) == StreamOffset("c", "g", "m-1")


def test_after_a_skipped_range_the_same_call_goes_on_at_the_groups_offset() -> None:
    # Else a run that ends by itself would see no news in the first call and end.
    member = StrictMember((owned(0, 99), owned(1, 4)), lost=frozenset({0}))
    session = a_session(member, {0: 120, 1: 9})
    start = StreamOffset("c", "g", "m-1", (claim(0, 5, 9),))
    latest = session.next_offset(start, None, is_single_run=True)
    assert latest.claims == (claim(0, 99, 120), claim(1, 4, 9))


def test_a_kafka_that_is_away_while_the_query_runs_is_waited_for_once_the_finished_batch_is_committed() -> None:
    member = FakeMember((owned(0, 5),))
    kafka = FakeEnds({0: 9})
    session = a_session(member, kafka)
    first = session.next_offset(session.identity, None, is_single_run=False)
    kafka.ends[0] = 12
    kafka.failures.append(KafkaAwayError("Kafka at k:1 gave no answer."))
    second = session.next_offset(first, None, is_single_run=False)
    assert member.advanced[1:] == [((claim(0, 5, 9),), ()), ((), (claim(0, 9, 12),))]
    assert second.claims == (claim(0, 9, 12),)
    assert kafka.patience == [None, None, 120.0]


def test_a_kafka_that_never_answered_is_an_error_at_once() -> None:
    kafka = FakeEnds({0: 9}, failures=[KafkaAwayError("Kafka at k:1 gave no answer.")])
    session = a_session(FakeMember((owned(0, 5),)), kafka)
    with pytest.raises(KafkaAwayError, match="k:1"):
        session.next_offset(session.identity, None, is_single_run=False)
    assert kafka.patience == [None]


def test_a_kafka_that_never_answered_is_waited_for_as_long_as_is_wanted_behind_what_is_done() -> None:
    start = StreamOffset("c", "g", "m-1", (claim(0, 1, 5),))
    away = KafkaAwayError("Kafka at k:1 gave no answer.")
    member, kafka = FakeMember((owned(0, 5),)), FakeEnds({0: 9}, failures=[away])
    session = a_session(member, kafka, first_kafka_timeout_s=15.0)
    assert session.next_offset(start, None, is_single_run=False).claims == (claim(0, 5, 9),)
    assert kafka.patience == [None, 15.0]
    assert member.advanced == [(start.claims, ()), ((), (claim(0, 5, 9),))]


def test_a_topic_deleted_under_a_query_is_data_loss(caplog: pytest.LogCaptureFixture) -> None:
    gone = UnknownTopicError("Kafka at k:1 has no topic t", ["t"])
    session = a_session(FakeMember((owned(0, 5),)), FakeEnds(failures=[gone]))
    with pytest.raises(DataLossError, match="does not know topic t any more"):
        session.next_offset(session.identity, None, is_single_run=False)
    lenient = a_session(FakeMember((owned(0, 5),)), FakeEnds(failures=[gone, gone]), fail=False)
    for _ in range(2):
        assert lenient.next_offset(lenient.identity, None, is_single_run=False) == lenient.identity
    assert caplog.text.count("does not know topic t any more") == 1


def test_a_truncated_partition_is_started_anew_by_the_groups_policy_where_losses_are_tolerated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    member = FakeMember((owned(0, 50),), granted_anew=(owned(0, 5, epoch=8),))
    session = a_session(member, {0: 9}, fail=False)
    batch = session.next_offset(session.identity, None, is_single_run=False)
    assert member.reported == [LostPosition("t", 0, 7, 50)]
    assert batch.claims == (claim(0, 5, 9, epoch=8),)
    assert caplog.text.count("ends at offset 9 at the broker, before offset 50") == 1


def test_a_partition_whose_beginning_aged_out_is_read_from_what_is_left_where_losses_are_tolerated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    member = FakeMember((owned(0, 50),))
    session = a_session(member, FakeEnds({0: 90}, starts={0: 60}), fail=False)
    batch = session.next_offset(session.identity, None, is_single_run=False)
    assert batch.claims == (claim(0, 50, 90),), "executors pass over what is gone"
    assert member.reported == []
    assert caplog.text.count("begins at offset 60 at the broker, after offset 50") == 1


def test_what_is_done_is_committed_before_its_partition_is_started_anew() -> None:
    member = FakeMember((owned(0, 50), owned(1, 0)))
    kafka = FakeEnds({0: 60, 1: 5})
    session = a_session(member, kafka, fail=False)
    first = session.next_offset(session.identity, None, is_single_run=False)
    kafka.ends = {0: 55, 1: 9}
    second = session.next_offset(first, None, is_single_run=False)
    assert member.advanced[1:] == [((claim(0, 50, 60), claim(1, 0, 5)), ()), ((), (claim(1, 5, 9),))]
    assert member.reported == [LostPosition("t", 0, 7, 60)]
    assert second.claims == (claim(1, 5, 9),)


def test_a_position_that_aged_out_is_data_loss_naming_both() -> None:
    member = FakeMember((owned(0, 50),))
    session = a_session(member, FakeEnds({0: 90}, starts={0: 60}))
    with pytest.raises(DataLossError, match=r"Partition t-0 begins at offset 60 .* after offset 50 .*failOnDataLoss"):
        session.next_offset(session.identity, None, is_single_run=False)
    assert member.reported == []


def test_the_policy_none_makes_a_lost_position_an_error_even_where_losses_are_tolerated() -> None:
    session = a_session(FakeMember((owned(0, 50),), report_error=ErrorCode.OFFSET_OUT_OF_RANGE), {0: 9}, fail=False)
    with pytest.raises(DataLossError, match=r"before offset 50 .* the policy"):
        session.next_offset(session.identity, None, is_single_run=False)


def test_a_run_that_ends_by_itself_reads_what_was_started_anew() -> None:
    member = FakeMember((owned(0, 50),), granted_anew=(owned(0, 5, epoch=8),))
    session = a_session(member, FakeEnds({0: 9}), fail=False)
    batch = session.next_offset(session.identity, None, is_single_run=True)
    assert batch.claims == (claim(0, 5, 9, epoch=8),)
    assert member.waits[-1][0]


def test_beginnings_are_asked_of_new_grants_and_again_after_a_while() -> None:
    now = [0.0]
    member = FakeMember((owned(0, 0), owned(1, 5)))
    kafka = FakeEnds({0: 1, 1: 5})
    session = a_session(member, kafka, clock=lambda: now[0])
    batch = session.identity
    for seconds, end in ((0.0, 1), (1.0, 2), (2.0, 3), (12.0, 4)):
        now[0] = seconds
        kafka.ends[0] = end
        batch = session.next_offset(batch, None, is_single_run=False)
    member.partitions = (owned(0, 4, epoch=9),)
    kafka.ends[0] = 5
    session.next_offset(batch, None, is_single_run=False)
    assert kafka.starts_asked == [(0,), (0,), (0,)]


def test_a_kafka_that_does_not_say_where_partitions_begin_is_asked_again_with_the_next_batch() -> None:
    class NoStarts(FakeEnds):
        def earliest_offsets(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
            super().earliest_offsets(partitions)
            raise KafkaAwayError("away")

    kafka = NoStarts({0: 9})
    session = a_session(FakeMember((owned(0, 5),)), kafka)
    batch = session.next_offset(session.identity, None, is_single_run=False)
    assert batch.claims == (claim(0, 5, 9),)
    kafka.ends[0] = 12
    session.next_offset(batch, None, is_single_run=False)
    assert kafka.starts_asked == [(0,), (0,)]


def test_the_checkpoint_remembers_the_coordinator_nodes() -> None:
    session = a_session(FakeMember((owned(0, 5),), nodes=(("c2", 7600), ("::1", 7601))), {0: 9})
    batch = session.next_offset(session.identity, None, is_single_run=False)
    assert batch.to_json()["nodes"] == {"0": "c2:7600", "1": "[::1]:7601"}
    assert StreamOffset.from_json(batch.to_json()) == batch


@pytest.mark.parametrize(("seconds", "times_told"), [(15.0, 0), (16.0, 1)])
def test_a_batch_that_takes_more_than_half_the_rebalance_timeout_is_told(
    caplog: pytest.LogCaptureFixture, seconds: float, times_told: int
) -> None:
    now = [0.0]
    session = a_session(FakeMember((owned(0, 5),)), {0: 9}, clock=lambda: now[0])
    batch = session.next_offset(session.identity, None, is_single_run=False)
    session.readable(batch)
    now[0] += seconds
    for _ in range(2):
        session.next_offset(batch, None, is_single_run=False)
    assert caplog.text.count("kcoord.rebalance.timeout") == times_told


class SteadyMember(FakeMember):
    """Returns the same assignment until its partitions change, as the client does."""

    kept: Assignment | None = None

    def assignment(self) -> Assignment:
        if self.kept is None or self.kept.partitions != self.partitions:
            self.kept = super().assignment()
        return self.kept


def test_a_quiet_query_asks_for_ends_alone_and_sees_every_kind_of_news() -> None:
    member = SteadyMember((owned(0, 5),))
    kafka = FakeEnds({0: 5, 1: 7})
    session = a_session(member, kafka)
    start = session.identity
    for _ in range(3):
        assert session.next_offset(start, None, is_single_run=False) == start
    assert member.advanced == []
    member.partitions = (owned(0, 5), owned(1, 3))
    assert session.next_offset(start, None, is_single_run=False).claims == (claim(1, 3, 7),)
    quiet = a_session(SteadyMember((owned(0, 5),)), kafka)
    quiet.next_offset(start, None, is_single_run=False)
    kafka.ends[0] = 6
    assert quiet.next_offset(start, None, is_single_run=False).claims == (claim(0, 5, 6),)


def test_a_quiet_query_notices_that_a_topic_is_gone() -> None:
    kafka = FakeEnds({0: 5})
    session = a_session(SteadyMember((owned(0, 5),)), kafka)
    session.next_offset(session.identity, None, is_single_run=False)
    kafka.failures = [UnknownTopicError("gone", ["t"])] * 2
    with pytest.raises(DataLossError):
        session.next_offset(session.identity, None, is_single_run=False)


def test_a_quiet_query_waits_for_a_kafka_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    kafka = FakeEnds({0: 5})
    session = a_session(SteadyMember((owned(0, 5),)), kafka)
    session.next_offset(session.identity, None, is_single_run=False)
    kafka.failures = [KafkaAwayError("Kafka at k:1 gave no answer.")]
    assert session.next_offset(session.identity, None, is_single_run=False) == session.identity
    assert kafka.patience == [None, None, 120.0]
    assert "Kafka at k:1 gave no answer. Waiting for it up to 120 s." in caplog.text


def test_what_a_listener_had_committed_is_not_finished_again_and_the_query_goes_on_after_it() -> None:
    member = FakeMember((owned(0, 5), owned(1, 5)))
    session = a_session(member, {0: 9, 1: 12})
    first = session.next_offset(session.identity, 8, is_single_run=False)
    assert {c.partition: c.until_offset for c in first.claims} == {0: 7, 1: 10}
    member.finished = first.claims[:1]
    second = session.next_offset(first, None, is_single_run=False)
    assert member.advanced[-1] == (first.claims[1:], (claim(0, 7, 9), claim(1, 10, 12)))
    assert second.claims == (claim(0, 7, 9), claim(1, 10, 12))


def test_a_small_backlog_waits_until_it_is_large_enough_or_the_delay_is_over() -> None:
    now = [0.0]
    ends = FakeEnds({0: 6})
    member = FakeMember((owned(0, 5),))
    session = a_session(member, ends, clock=lambda: now[0])
    few = BatchLimits(min_offsets=10, max_delay_s=60.0)

    def latest(start: StreamOffset) -> StreamOffset:
        return session.next_offset(start, None, is_single_run=False, others=few)

    first = latest(session.identity)
    assert first.claims == (claim(0, 5, 6),), "the first micro-batch never waits"
    ends.ends[0] = 9
    assert latest(first) == first
    assert member.advanced[-1] == ((claim(0, 5, 6),), ()), "what is done is committed while more is waited for"
    now[0] = 59.0
    assert latest(first) == first
    now[0] = 60.0
    second = latest(first)
    assert second.claims == (claim(0, 6, 9),), "the delay is over though nothing is new"
    ends.ends[0] = 19
    assert latest(second).claims == (claim(0, 9, 19),), "there is enough"


def test_a_run_that_ends_does_not_wait_for_more() -> None:
    session = a_session(FakeMember((owned(0, 5),)), {0: 9})
    few = BatchLimits(min_offsets=10)
    first = session.next_offset(session.identity, 2, is_single_run=True, others=few)
    assert session.next_offset(first, 2, is_single_run=True, others=few).claims == (claim(0, 7, 9),)


def test_bytes_limit_by_the_size_of_records_where_the_batch_begins() -> None:
    kafka = FakeEnds({0: 105, 1: 50, 2: 3}, sizes={0: 10.0, 1: 20.0})
    session = a_session(FakeMember((owned(0, 5), owned(1, 0), owned(2, 3))), kafka)
    small = BatchLimits(max_bytes=500)
    first = session.next_offset(session.identity, None, is_single_run=False, others=small)
    assert first.claims == (claim(0, 5, 30), claim(1, 0, 12))
    assert kafka.sampled == [{("t", 0): 5, ("t", 1): 0}], "a partition without backlog is not sampled"


def test_last_known_sizes_count_while_kafka_does_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    kafka = FakeEnds({0: 100}, sizes={0: 10.0})
    session = a_session(FakeMember((owned(0, 0),)), kafka)
    small = BatchLimits(max_bytes=100)
    first = session.next_offset(session.identity, None, is_single_run=False, others=small)
    kafka.sizes = KafkaAwayError("Kafka is away.")
    assert session.next_offset(first, None, is_single_run=False, others=small).claims == (claim(0, 10, 20),)
    assert "Kafka is away. The last known sizes of records count." in caplog.text
