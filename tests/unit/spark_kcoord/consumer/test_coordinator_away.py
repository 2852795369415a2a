"""A blocking consumer whose coordinator comes late, and one that is closed while its coordinator is away."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import FetchOffsetsResponse, Request, Response
from spark_kcoord.consumer.conduct import asking
from spark_kcoord.consumer.conduct.wishes import Answer
from spark_kcoord.consumer.errors import CommitRefusedError, CoordinatorUnavailableError
from spark_kcoord.consumer.values import TopicPartition
from spark_kcoord.errors import CoordinatorAwayError
from spark_kcoord.member.settings import MemberSettings
from tests.helpers.fake_consuming import FakeMember, Rig, owned


class LateRig(Rig):
    """A consumer that has been given up once before a coordinator came."""

    def _make_member(self, settings: MemberSettings, on_change: Callable[[], None]) -> FakeMember:
        member = super()._make_member(settings, on_change)
        member.failure = CoordinatorAwayError("nobody is there")
        return member


class WaitingRig(Rig):
    """A consumer whose waits for answers let time pass."""

    def _perform(self, wish: Any) -> Any:
        if isinstance(wish, Answer) and not wish.future.done():
            self.now += wish.seconds
            raise TimeoutError
        return super()._perform(wish)


@pytest.fixture(autouse=True)
def _all_are_closed() -> Iterator[None]:
    yield
    Rig.close_all()


def test_a_consumer_whose_coordinator_came_too_late_goes_on_when_it_is_there() -> None:
    rig = LateRig()
    with pytest.raises(CoordinatorUnavailableError, match="nobody is there"):
        rig.poll()
    rig.member.failure = None
    assert len(rig.offsets()) == 10


def test_what_is_granted_is_not_read_before_it_is_known_where_kafka_is() -> None:
    rig = LateRig()
    rig.member.failure, rig.member.holds_answers = None, True
    assert rig.offsets() == []
    assert rig.assignment() == set()
    rig.member.answer()
    assert len(rig.offsets()) == 10


def test_offsets_are_asked_for_where_the_member_is_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[tuple[str, int], ...]] = []

    def answer(coordinators: tuple[tuple[str, int], ...], _: Request, *, timeout_s: float) -> Response:
        del timeout_s
        asked.append(tuple(coordinators))
        return FetchOffsetsResponse(offsets=())

    monkeypatch.setattr(asking, "request_once", answer)
    rig = Rig()
    rig.poll()
    rig.member.learned = (("learned", 2),)
    assert rig.committed(TopicPartition("t", 0)) is None
    rig.unsubscribe()
    rig.committed(TopicPartition("t", 0))
    assert asked == [(("learned", 2), ("c", 1)), (("c", 1),)]


def test_a_close_outlasts_its_time_out_by_nothing_that_it_waits_for() -> None:
    rig = WaitingRig()
    rig.poll()
    rig.member.holds_answers = True
    rig.commit_async()
    rig.commit_async()
    rig.close(timeout_ms=1_000)
    assert rig.now == pytest.approx(1.0, abs=0.01)
    assert rig.member.left_with is not None


def test_a_static_members_close_outlasts_its_time_out_by_nothing_either() -> None:
    rig = WaitingRig(group_instance_id="i")
    rig.poll()
    rig.member.holds_answers = True
    rig.commit_async()
    rig.close(autocommit=True, timeout_ms=1_000)
    assert rig.now == pytest.approx(1.0, abs=0.01)
    assert len(rig.member.committed) == 2


def test_who_waits_for_a_commit_that_was_not_answered_before_the_close_is_told_so() -> None:
    rig = WaitingRig(enable_auto_commit=False)
    rig.poll()
    rig.member.holds_answers = True
    told: list[Exception | None] = []
    rig.commit_async(callback=lambda _, error: told.append(error))
    rig.commit_async(callback=lambda _, error: told.append(error))
    rig.close()
    assert [type(error) for error in told] == [CoordinatorUnavailableError] * 2


def test_a_commit_that_waits_for_another_is_made_before_the_consumer_leaves() -> None:
    rig = WaitingRig(max_poll_records=2, enable_auto_commit=False)
    told: list[Exception | None] = []
    rig.poll()
    rig.member.holds_answers = True
    rig.commit_async()
    rig.poll()
    rig.commit_async(callback=lambda _, error: told.append(error))
    rig.member.holds_answers = False
    rig.close()
    assert [one.offset for (one,) in rig.member.committed] == [2, 4]
    assert told == [None]


def test_a_commit_that_waits_is_told_as_it_is_answered_when_its_partition_is_lost_meanwhile() -> None:
    rig = Rig({("t", 0): 4, ("t", 1): 4}, max_poll_records=2, enable_auto_commit=False)
    told: list[Exception | None] = []
    rig.member.give(owned(0), owned(1))
    rig.poll()
    rig.member.holds_answers = True
    rig.commit_async()
    rig.poll()
    rig.commit_async(callback=lambda _, error: told.append(error))
    rig.member.answer()
    rig.member.holds_answers = False
    rig.member.refusals[0] = ErrorCode.FENCED_OWNER_EPOCH
    rig.member.give(owned(1))
    rig.poll()
    rig.poll()
    assert [type(error) for error in told] == [CommitRefusedError]


def test_a_callback_that_raises_at_the_close_keeps_neither_the_others_from_hearing_nor_the_consumer_from_leaving() -> (
    None
):
    rig, told = Rig(), []
    rig.poll()

    def fail(*_: object) -> None:
        told.append("fail")
        raise OSError("the callback's")

    rig.commit_async(callback=fail)
    rig.commit_async(callback=lambda *_: told.append("hear"))
    with pytest.raises(OSError, match="the callback's"):
        rig.close(autocommit=True)
    assert told == ["fail", "hear"]
    assert rig.member.left_with is not None
    assert rig.member.is_closed
