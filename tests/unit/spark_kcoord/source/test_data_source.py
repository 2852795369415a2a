"""The format itself: what it refuses before anything is read."""

import pytest

from spark_kcoord.errors import KcoordError
from spark_kcoord.source.data_source import KcoordDataSource


@pytest.mark.parametrize("kind", ["writer", "streamWriter"])
def test_writing_is_refused_with_the_format_that_writes(kind: str) -> None:
    source = KcoordDataSource({"kafka.bootstrap.servers": "h:1", "topic": "t"})
    with pytest.raises(KcoordError, match=r"reads Kafka and does not write to it: write with format\('kafka'\)"):
        getattr(source, kind)(None, False)
