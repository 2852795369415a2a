"""Fetch sessions: what a broker knows is not said again, what it leaves out goes on, and what is over begins anew."""

from typing import Any
from uuid import UUID

import pytest

from spark_kcoord.fetch.requests import PartWanted
from spark_kcoord.fetch.tailing.exchange import Asked, Exchange
from spark_kcoord.fetch.tailing.fetched import Wanted
from spark_kcoord.fetch.tailing.parts import Part, Parts
from tests.helpers.scripted_kafka import SETTINGS, TOPIC_ID, fetched, values

NOW = 0.0
OTHER_ID = "87654321-1234-5678-1234-567812345678"


class Talk:
    """The requests to one broker, and the partitions that are ready for the next."""

    def __init__(self, *numbers: int) -> None:
        self.exchange = Exchange(SETTINGS)
        self.parts = Parts(lambda low, high: 1.0)
        self.want(dict.fromkeys(numbers, (1, 4)))

    def want(self, starts: dict[int, tuple[int, int]]) -> None:
        """Want partitions under tokens from positions on."""
        self.parts.adopt({("t", number): Wanted(TOPIC_ID, *start) for number, start in starts.items()})
        self.exchange.keep(self.parts)

    def ask(self, lane: int = 0) -> tuple[Any, Asked]:
        asked = [
            (part, PartWanted("t", TOPIC_ID, part.key[1], part.position, 100, 7)) for part in self.parts.ready(NOW)
        ]
        return self.exchange.ask((1, lane), asked, 1000, NOW, 0.5)

    def answer(self, asked: Asked, session_id: int, *numbers: int, error: int = 0, throttle: int = 0) -> list[Part]:
        """Answer with the end of these partitions; return those of which something was said."""
        response = fetched(throttle=throttle)
        response.session_id, response.error_code = session_id, error
        response.responses[0].partitions = []
        for number in numbers:
            said = fetched().responses[0].partitions[0]
            said.partition_index = number
            response.responses[0].partitions.append(said)
        found, left = self.exchange.answers(asked, response)
        for part in (*left, *(part for part, _ in found)):
            part.is_out = False
        for part, answer in found:
            part.end = answer.readable_end
        return [part for part, _ in found]


def named(request: Any) -> list[tuple[int, int]]:
    return [(part.partition, part.fetch_offset) for topic in request.topics for part in topic.partitions]


def forgotten(request: Any) -> list[int]:
    return [number for topic in request.forgotten_topics_data for number in topic.partitions]


def numbers(request: Any) -> tuple[int, int]:
    return request.session_id, request.session_epoch


def in_session(talk: Talk, *partitions: int) -> None:
    """Have the partitions stand in session 9, the epoch of whose next request is 2."""
    for answered in (partitions, ()):
        _, asked = talk.ask()
        talk.answer(asked, 9, *answered)


def test_partitions_without_news_are_neither_said_nor_answered_nor_ready_again() -> None:
    talk = Talk(0, 1)
    request, asked = talk.ask()
    assert (named(request), numbers(request)) == ([(0, 4), (1, 4)], (0, 0))
    talk.answer(asked, 9, 0, 1)
    for epoch in (1, 2, 3):
        request, asked = talk.ask()
        assert (named(request), forgotten(request), numbers(request)) == ([], [], (9, epoch))
        assert talk.answer(asked, 9) == []
    assert list(talk.exchange.standing()) == [1]
    assert list(talk.parts.ready(NOW)) == []


def test_a_position_that_moved_is_said_and_others_are_not() -> None:
    talk = Talk(0, 1)
    in_session(talk, 0, 1)
    _, asked = talk.ask()
    (part,) = talk.answer(asked, 9, 1)
    part.position = 6
    request, _ = talk.ask()
    assert (named(request), numbers(request)) == ([(1, 6)], (9, 3))


def test_a_partition_that_is_not_wanted_any_more_is_forgotten_once() -> None:
    talk = Talk(0, 1)
    in_session(talk, 0, 1)
    talk.want({0: (1, 4)})
    request, asked = talk.ask()
    assert (named(request), forgotten(request)) == ([], [1])
    talk.answer(asked, 9)
    assert forgotten(talk.ask()[0]) == []


def test_a_seek_to_where_a_partition_stands_is_told_the_end_though_the_broker_does_not_say_it_again() -> None:
    talk = Talk(0)
    in_session(talk, 0)
    talk.want({0: (2, 4)})
    request, asked = talk.ask()
    assert named(request) == []
    (part,) = talk.answer(asked, 9)
    assert (part.key, part.end) == (("t", 0), 4)
    assert talk.answer(talk.ask()[1], 9) == []


def test_a_session_with_a_topic_that_was_made_again_is_begun_anew_without_the_one_before() -> None:
    talk = Talk(0, 1)
    in_session(talk, 0, 1)
    _, asked = talk.ask()
    assert talk.answer(asked, 9, 0), "as the error does by which a topic is known to be gone"
    talk.want({0: (2, 0), 1: (1, 4)})
    (part,) = talk.parts.ready(NOW)
    wanted = PartWanted("t", OTHER_ID, 0, 0, 100, 7)
    request, _ = talk.exchange.ask((1, 0), [(part, wanted)], 1000, NOW, 0.5)
    assert numbers(request) == (9, 0)
    asked_by_id = {
        (str(topic.topic_id), part.partition, part.fetch_offset)
        for topic in request.topics
        for part in topic.partitions
    }
    assert asked_by_id == {(OTHER_ID, 0, 0), (TOPIC_ID, 1, 4)}


def test_what_a_broker_says_of_another_topic_of_the_name_is_not_of_the_one_that_is_read() -> None:
    talk = Talk(0)
    _, asked = talk.ask()
    response = fetched(values(4), watermark=5)
    response.session_id = 9
    other = fetched(error=100).responses[0]
    for topic, topic_id in ((response.responses[0], TOPIC_ID), (other, OTHER_ID)):
        topic.topic, topic.topic_id = "", UUID(topic_id)
    asked.session.names[OTHER_ID] = "t"  # type: ignore[union-attr]
    response.responses.append(other)
    ((_, answer),), _ = talk.exchange.answers(asked, response)
    assert (answer.error, answer.readable_end) == (None, 5)


@pytest.mark.parametrize(("session_id", "error", "throttle"), [(9, 0, 5), (0, 70, 0), (0, 71, 0)])
def test_an_answer_that_looked_at_nothing_says_nothing_of_a_seek(session_id: int, error: int, throttle: int) -> None:
    talk = Talk(0)
    in_session(talk, 0)
    talk.want({0: (2, 900)})
    _, asked = talk.ask()
    assert talk.answer(asked, session_id, error=error, throttle=throttle) == []


def test_an_answer_without_a_session_that_looked_at_nothing_says_nothing_either() -> None:
    talk = Talk(0)
    _, asked = talk.ask(lane=1)
    response = fetched(throttle=5)
    response.responses = []
    ((_, answer),), _ = talk.exchange.answers(asked, response)
    assert (answer.error, answer.readable_end, answer.high_watermark) == (None, -1, -1)


@pytest.mark.parametrize(("session_id", "error"), [(0, 0), (0, 70), (0, 71), (-1, 0), (8, 0)])
def test_a_session_that_the_broker_ends_is_begun_anew_with_everything(session_id: int, error: int) -> None:
    talk = Talk(0, 1)
    in_session(talk, 0, 1)
    talk.answer(talk.ask()[1], session_id, error=error)
    request, _ = talk.ask()
    assert named(request) == [(0, 4), (1, 4)]
    assert request.session_epoch == 0


def test_an_answer_that_never_comes_ends_the_session() -> None:
    talk = Talk(0, 1)
    in_session(talk, 0, 1)
    _, asked = talk.ask()
    failed = asked.failed()
    assert sorted(part.key for part in failed) == [("t", 0), ("t", 1)]
    for part in failed:
        part.is_out = False
    assert named(talk.ask()[0]) == [(0, 4), (1, 4)]


def test_a_request_beside_another_has_no_session() -> None:
    talk = Talk(0)
    request, _ = talk.ask(lane=1)
    assert (named(request), numbers(request)) == ([(0, 4)], (0, -1))
    assert list(talk.exchange.standing()) == []


def test_records_of_a_partition_that_was_sought_meanwhile_are_given_to_nobody_wanted() -> None:
    talk = Talk(0)
    in_session(talk, 0)
    _, asked = talk.ask()
    talk.want({0: (2, 0)})
    response = fetched(values(4))
    response.session_id = 9
    found, left = talk.exchange.answers(asked, response)
    assert (found, left) == ([], [])
    assert named(talk.ask()[0]) == [(0, 0)]
