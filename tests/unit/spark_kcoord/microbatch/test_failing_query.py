"""A query that ends with an error commits what it has finished: who takes its partitions over would read that again."""

from collections.abc import Sequence

import pytest

from coordinator.protocol.parts import Claim
from spark_kcoord.errors import CoordinatorAwayError, DataLossError, KafkaAwayError, KcoordError, OptionError
from spark_kcoord.member.client import AdvanceOutcome
from spark_kcoord.microbatch.stream_offset import StreamOffset
from tests.helpers.fake_member import FakeEnds, FakeMember, a_session, claim, owned

FINISHED = StreamOffset("c", "g", "m-1", (claim(0, 2, 5), claim(1, 0, 4)))


def a_member() -> FakeMember:
    return FakeMember((owned(0, 2), owned(1, 0)))


@pytest.mark.parametrize(
    ("kafka", "error"),
    [
        pytest.param(FakeEnds({0: 9, 1: 9}, starts={0: 7}), DataLossError, id="records-have-aged-out"),
        pytest.param(FakeEnds(failures=[KafkaAwayError("no broker")]), KafkaAwayError, id="kafka-never-answered"),
        pytest.param(FakeEnds(failures=[KcoordError("refused")]), KcoordError, id="kafka-refuses"),
    ],
)
def test_a_finished_micro_batch_is_committed_before_the_query_ends(kafka: FakeEnds, error: type[KcoordError]) -> None:
    member = a_member()
    with pytest.raises(error):
        a_session(member, kafka).next_offset(FINISHED, None, is_single_run=False)
    assert member.advanced == [(FINISHED.claims, ())]


def test_what_was_committed_when_the_error_came_is_not_said_again() -> None:
    member, kafka = a_member(), FakeEnds({0: 5, 1: 4})
    session = a_session(member, kafka)
    assert session.next_offset(FINISHED, None, is_single_run=False) == FINISHED
    kafka.failures.append(KcoordError("refused"))
    with pytest.raises(KcoordError, match="refused"):
        session.next_offset(FINISHED, None, is_single_run=False)
    assert member.advanced == [(FINISHED.claims, ())]


def test_what_a_listener_had_committed_is_not_said_again() -> None:
    member = a_member()
    member.finished = (claim(0, 2, 5),)
    with pytest.raises(KafkaAwayError):
        a_session(member, FakeEnds(failures=[KafkaAwayError("no broker")])).next_offset(
            FINISHED, None, is_single_run=False
        )
    assert member.advanced == [((claim(1, 0, 4),), ())]


class WithoutCoordinator(FakeMember):
    """Cannot ask its coordinator to commit anything."""

    def advance(self, finished: Sequence[Claim], claims: Sequence[Claim]) -> AdvanceOutcome:
        super().advance(finished, claims)
        raise CoordinatorAwayError("the coordinator is away")


def test_the_error_is_told_that_ends_the_query_and_not_that_nothing_could_be_committed() -> None:
    member = WithoutCoordinator((owned(0, 2),))
    with pytest.raises(DataLossError, match="begins at offset 7"):
        a_session(member, FakeEnds({0: 9}, starts={0: 7})).next_offset(FINISHED, None, is_single_run=False)


def test_a_commit_that_failed_is_not_tried_again() -> None:
    member = WithoutCoordinator((owned(0, 2),))
    with pytest.raises(CoordinatorAwayError):
        a_session(member, FakeEnds({0: 9})).next_offset(FINISHED, None, is_single_run=False)
    assert len(member.advanced) == 1


def test_a_micro_batch_that_was_perhaps_read_in_another_cluster_is_left_to_the_next_start() -> None:
    member = a_member()
    with pytest.raises(OptionError):
        a_session(member, FakeEnds(failures=[OptionError("another cluster")])).next_offset(
            FINISHED, None, is_single_run=False
        )
    assert member.advanced == []
