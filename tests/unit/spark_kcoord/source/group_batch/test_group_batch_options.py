"""The options of a batch that is a member: those of Spark's readers, in whatever form these take them."""

from typing import TYPE_CHECKING, cast

import pytest

from spark_kcoord.errors import OptionError
from spark_kcoord.source.group_batch.batch import batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GIVEN = {"kcoord.bootstrap.servers": "c:1", "kcoord.group.id": "g", "subscribe": "t"}
NO_SESSION = cast("SparkSession", None)


def test_numbers_and_booleans_are_options_as_with_sparks_readers() -> None:
    batch(NO_SESSION, GIVEN | {"maxOffsetsPerTrigger": 1000, "includeHeaders": True, "kcoord.client.id": None})
    with pytest.raises(OptionError, match=r"'maxOffsetsPerTrigger' cannot be '0\.5'"):
        batch(NO_SESSION, GIVEN | {"maxOffsetsPerTrigger": 0.5})
    with pytest.raises(OptionError, match="'includeHeaders' is true"):
        batch(NO_SESSION, GIVEN | {"includeHeaders": True, "kcoord.columns": "key"})
