"""The options of a batch that is a member: those of Spark's readers, in whatever form these take them."""

from typing import TYPE_CHECKING, cast

import pytest

from spark_kcoord.errors import OptionError
from spark_kcoord.source.data_source import KcoordDataSource
from spark_kcoord.source.group_batch.batch import batch
from spark_kcoord.source.group_batch.claimed_ranges import ClaimedRangesSource, claim_options

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


@pytest.mark.parametrize("value", ["true", "one-scan", "false"])
def test_what_is_said_of_filters_has_no_effect_on_the_rows_of_a_block(value: str) -> None:
    given = GIVEN | {"kcoord.push.filters": value}
    batch(NO_SESSION, given)
    source = ClaimedRangesSource(given | claim_options([], block="b", member_id=None))
    assert source.schema() == KcoordDataSource(GIVEN).schema()
    assert "pushFilters" not in vars(type(source.reader(source.schema())))
