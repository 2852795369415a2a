from inspect import isfunction

from benchmarks.group_server import TableClient
from coordinator.core.effects import OffsetToResolve
from coordinator.protocol.ids import LATEST
from coordinator.runtime.kafka.client import KafkaClient


def test_nothing_that_a_table_is_asked_goes_to_a_broker_that_is_not_there() -> None:
    asked = {name for name, what in vars(KafkaClient).items() if isfunction(what) and not name.startswith("_")}

    assert asked <= vars(TableClient).keys()


def test_every_partition_of_a_table_ends_where_it_begins() -> None:
    asked = [OffsetToResolve("orders", number, LATEST) for number in range(3)]

    told = TableClient({"orders": 3}).list_ends(asked, {})

    assert [(end.partition, end.offset) for end in told.ends] == [(0, 0), (1, 0), (2, 0)]
    assert told.waited_s == 0
