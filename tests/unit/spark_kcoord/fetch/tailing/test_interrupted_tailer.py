"""A signal in the middle of a call of the fetcher: its handler may make calls, and Ctrl-C strands nothing."""

from contextlib import suppress
from functools import partial

import pytest

import spark_kcoord.fetch.tailing.tailer
from spark_kcoord.fetch.tailing.fetched import Fetched
from spark_kcoord.fetch.tailing.tailer import Tailer
from tests.helpers.processes import eventually
from tests.helpers.signal_within import SignalWithin
from tests.unit.spark_kcoord.fetch.tailing.test_tailer import Broker, has_rows, tailing, wanted

HERE = spark_kcoord.fetch.tailing.tailer.__file__


def use(tailer: Tailer) -> None:
    tailer.want(wanted(1, 0))
    tailer.taken(tailer.news())
    tailer.free(0, 0)


def steps_of_use() -> int:
    with tailing(Broker()) as tailer:
        signal = SignalWithin(HERE)
        with signal.coming():
            use(tailer)
    assert len(signal.steps) > 10
    return len(signal.steps)


@pytest.mark.timeout(60)
def test_a_handler_of_a_signal_may_call_the_fetcher_in_the_middle_of_any_call() -> None:
    for at in range(1, steps_of_use() + 1):
        with tailing(Broker()) as tailer:
            with SignalWithin(HERE, at, partial(use, tailer)).coming():
                use(tailer)
            tailer.want(wanted(2, 0))
            assert eventually(partial(has_rows, tailer, 2))


@pytest.mark.timeout(60)
def test_ctrl_c_before_the_thread_is_started_does_not_keep_it_from_being_started_later() -> None:
    for at in range(1, steps_of_use() + 1):
        with tailing(Broker()) as tailer:
            with suppress(KeyboardInterrupt), SignalWithin(HERE, at).coming():
                use(tailer)
            tailer.want(wanted(2, 0))
            assert eventually(partial(has_rows, tailer, 2))


def test_what_is_said_twice_to_be_taken_takes_nothing_that_came_meanwhile() -> None:
    with tailing(Broker()) as tailer:
        tailer.want(wanted(1, 0))
        assert eventually(partial(has_rows, tailer, 1))
        known = tailer.news()
        tailer.taken(known)
        tailer.want(wanted(2, 0))
        assert eventually(partial(has_rows, tailer, 2))
        tailer.taken(known)
        assert has_rows(tailer, 2)


def two_news(tailer: Tailer) -> list[Fetched]:
    for token in (1, 2):
        tailer.want(wanted(token, 0))
        assert eventually(partial(has_rows, tailer, token))
    return tailer.news()


def test_a_handler_of_a_signal_that_takes_the_same_has_nothing_else_taken() -> None:
    with tailing(Broker()) as tailer:
        signal, known = SignalWithin(HERE), two_news(tailer)
        with signal.coming():
            tailer.taken(known[:1])
    for at in range(1, len(signal.steps) + 1):
        with tailing(Broker()) as tailer:
            known = two_news(tailer)
            with SignalWithin(HERE, at, partial(tailer.taken, known[:1])).coming():
                tailer.taken(known[:1])
            assert tailer.news()[0] is known[1]
