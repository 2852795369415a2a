"""The partitions of a tailing fetcher: whose turn it is, what is given up, and what waits."""

from kafka import errors as kafka_errors

from spark_kcoord.fetch.requests import PartAnswer
from spark_kcoord.fetch.tailing.fetched import AT_END, OutOfRange, Truncated, Wanted
from spark_kcoord.fetch.tailing.parts import Parts

A, B = ("t", 0), ("t", 1)


def parts(**positions: int) -> Parts:
    made = Parts(lambda low, high: 1.0)
    made.adopt({("t", int(name[1:])): Wanted("id", 1, position) for name, position in positions.items()})
    return made


def test_what_gave_something_comes_after_the_others() -> None:
    made = parts(p0=0, p1=0)
    first = next(made.ready(0.0))
    made.served(first)
    assert [part.key for part in made.ready(0.0)] == [B, A]


def test_one_that_is_wanted_under_the_same_token_goes_on_where_it_is() -> None:
    made = parts(p0=5)
    (part,) = made
    part.position = 9
    made.adopt({A: Wanted("id", 1, 5), B: Wanted("id", 2, 0)})
    assert [(one.key, one.position) for one in made] == [(A, 9), (B, 0)]
    made.adopt({A: Wanted("id", 3, 2)})
    assert [(one.key, one.position) for one in made] == [(A, 2)]
    assert not made.is_current(part)


def test_a_position_that_the_leader_does_not_have_is_told_once_and_one_of_a_replica_is_not() -> None:
    (part,) = parts(p0=5)
    answer = PartAnswer(kafka_errors.OffsetOutOfRangeError("t-0"))
    part.replica = 7
    assert part.judge(answer) is None
    part.replica = -1
    assert (part.judge(answer), part.is_stopped) == (OutOfRange(A, 1, 5), True)


def test_a_log_that_was_cut_back_is_told() -> None:
    (part,) = parts(p0=5)
    assert part.judge(PartAnswer(None, diverged_at=3)) == Truncated(A, 1, 3)


def test_a_log_of_another_history_before_a_position_is_told_though_it_goes_beyond_that() -> None:
    (part,) = parts(p0=5)
    assert part.judge(PartAnswer(None, diverged_at=8)) == Truncated(A, 1, 5)
    assert part.is_stopped, "a broker gives no record to whoever names that history"


def test_a_position_to_be_asked_for_is_not_fetched_and_failures_wait_longer_each_time() -> None:
    made = parts(p0=AT_END, p1=0)
    assert [part.key for part in made.unresolved(0.0)] == [A]
    (part,) = made.ready(0.0)
    waits = []
    for _ in range(7):
        made.put_off(part, 10.0)
        waits.append(round(part.ready_at - 10.0, 2))
    assert waits == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert list(made.ready(10.5)) == []
