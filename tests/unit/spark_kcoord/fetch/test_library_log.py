"""kafka-python's lines: from WARNING on, unless a level was chosen for the library."""

import logging
from collections.abc import Iterator

import pytest

from spark_kcoord.fetch.library_log import quieten

LIBRARY = logging.getLogger("kafka")


@pytest.fixture(autouse=True)
def _level_as_before() -> Iterator[None]:
    before = LIBRARY.level
    LIBRARY.setLevel(logging.NOTSET)
    yield
    LIBRARY.setLevel(before)


def test_connections_and_retries_are_not_said_in_a_log_at_info(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        quieten()
        logging.getLogger("kafka.net.manager").info("connecting to node bootstrap-0")
        logging.getLogger("kafka.net.manager").warning("connection failed")
    assert [record.getMessage() for record in caplog.records] == ["connection failed"]


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO, logging.CRITICAL])
def test_a_level_that_was_chosen_stays(level: int) -> None:
    LIBRARY.setLevel(level)
    quieten()
    assert LIBRARY.level == level
