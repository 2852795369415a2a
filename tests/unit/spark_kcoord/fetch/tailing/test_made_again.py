"""A partition that is read by its topic's name: a position of a topic that was made again is none of its successor."""

from spark_kcoord.fetch.tailing.fetched import AT_BEGINNING, Chunk, Fetched, OutOfRange, Resolved, Wanted
from tests.helpers.processes import eventually
from tests.helpers.scripted_kafka import TOPIC_ID
from tests.unit.spark_kcoord.fetch.tailing.test_tailer import KEY, Broker, tailing

OTHER_ID = "87654321-4321-8765-4321-876543218765"


def told(broker: Broker, wanted: Wanted) -> Fetched:
    """Return the first that is said of a partition."""
    with tailing(broker) as tailer:
        tailer.want({KEY: wanted})
        assert eventually(lambda: tailer.news() != [])
        return tailer.news()[0]


def test_a_position_of_a_topic_that_was_made_again_while_nothing_was_fetched_is_not_there() -> None:
    broker = Broker(topic_id=OTHER_ID)
    assert told(broker, Wanted(None, 1, 2, named_id=TOPIC_ID)) == OutOfRange(KEY, 1, 2, is_new_topic=True)
    assert broker.fetches == []


def test_records_say_of_which_topic_they_are() -> None:
    found = told(Broker(), Wanted(None, 1, 2))
    assert isinstance(found, Chunk)
    assert (found.start, found.next_offset, found.topic_id) == (2, 4, TOPIC_ID)


def test_the_end_of_a_log_says_of_which_topic_it_is() -> None:
    broker = Broker()
    with tailing(broker) as tailer:
        tailer.want({KEY: Wanted(None, 1, 4)})
        assert eventually(lambda: len(broker.answers) == 1)
        broker.answers[0][1].is_done = True
        broker.turned.set()
        assert eventually(lambda: tailer.news() != [])
        (found,) = tailer.news()
    assert isinstance(found, Chunk)
    assert (found.rows, found.next_offset, found.topic_id) == (None, 4, TOPIC_ID)


def test_a_position_of_a_topic_of_which_the_metadata_is_older_goes_on_when_that_is_read_again() -> None:
    broker = Broker(known_id=OTHER_ID)
    found = told(broker, Wanted(None, 1, 2, named_id=TOPIC_ID))
    assert isinstance(found, Chunk)
    assert (found.start, found.topic_id) == (2, TOPIC_ID)


def test_a_position_that_was_found_says_of_which_topic_it_is() -> None:
    assert told(Broker(), Wanted(None, 1, AT_BEGINNING)) == Resolved(KEY, 1, 0, TOPIC_ID)
