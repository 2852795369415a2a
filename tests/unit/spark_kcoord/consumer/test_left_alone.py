"""A consumer that has left its group because its program did not poll: it is open, and its commits are refused."""

from typing import Any

import pytest

from spark_kcoord.consumer import errors
from spark_kcoord.consumer.values import TopicPartition
from spark_kcoord.errors import LeftAloneError
from tests.helpers.fake_consuming import Rig

pytestmark = pytest.mark.usefixtures("closes_rigs")

P0 = TopicPartition("t", 0)


def leave_alone(rig: Rig) -> None:
    """Have the member leave because it was not polled."""

    def refuse(call: Any, timeout_ms: int | None = None) -> Any:
        raise LeftAloneError("The member has left: it was not polled for 300 s.")

    rig.member.is_left_alone = True
    rig.member.failure = LeftAloneError("it was not polled for 300 s")
    rig.member.ask = refuse  # type: ignore[method-assign]


class Told:
    """A callback that keeps which errors it is told, and of which partitions."""

    def __init__(self) -> None:
        self.errors: list[tuple[type, Any]] = []

    def __call__(self, offsets: Any, error: Any) -> None:
        self.errors.append((type(error), error.partitions))


@pytest.mark.parametrize("given", [None, {P0: 2}])
def test_a_commit_of_a_consumer_that_was_left_alone_is_refused_and_the_next_poll_comes_back(given: Any) -> None:
    rig = Rig(max_poll_records=4)
    rig.poll()
    leave_alone(rig)
    with pytest.raises(errors.CommitRefusedError, match="not polled for 300 s") as raised:
        rig.commit(given)
    assert raised.value.partitions == (P0,)
    assert not isinstance(raised.value, errors.ConsumerClosedError)
    rig.poll()
    assert len(rig.members) == 2


def test_a_commit_that_nobody_waits_for_of_a_consumer_that_was_left_alone_is_refused() -> None:
    rig = Rig(max_poll_records=4)
    rig.poll()
    leave_alone(rig)
    heard = Told()
    rig.commit_async(callback=heard)
    rig.poll()
    assert heard.errors == [(errors.CommitRefusedError, (P0,))]


def test_a_commit_that_was_out_when_the_consumer_was_left_alone_is_refused() -> None:
    rig = Rig(max_poll_records=4)
    rig.poll()
    rig.member.holds_answers = True
    heard = Told()
    rig.commit_async(callback=heard)
    ((answer, _),) = rig.member.held_answers
    rig.member.held_answers.clear()
    first = rig.member
    leave_alone(rig)
    first.close = lambda: answer.set_exception(LeftAloneError("it has left"))  # type: ignore[method-assign]
    rig.poll()
    assert len(rig.members) == 2
    rig.poll()
    assert heard.errors == [(errors.CommitRefusedError, (P0,))]
