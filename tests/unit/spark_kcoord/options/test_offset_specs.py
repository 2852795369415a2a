"""What JSON says of single partitions and of whole topics, found again among very many."""

import json
from typing import Any

from spark_kcoord.options.offset_specs import OffsetSpec, parse_offset_spec

MANY = 10_000


class Counted(str):
    """A topic's name that counts how often it is compared."""

    __slots__ = ("times",)
    __hash__ = str.__hash__

    def __init__(self, *_: str) -> None:
        self.times = 0

    def __eq__(self, other: object) -> bool:
        self.times += 1
        return str.__eq__(self, other)


def parse(document: dict[str, Any]) -> OffsetSpec:
    return parse_offset_spec("startingOffsets", json.dumps(document), words=(), positions=(-2, -1))


def test_a_partition_is_found_by_what_is_said_of_it_or_of_its_topic() -> None:
    spec = parse({"c": {"2": 7, "10": 0, "0": -1}, "d": "latest", "a": "earliest", "b": {"2": 1}})
    named = {("a", 0): -2, ("a", 9): -2, ("b", 2): 1, ("c", 0): -1, ("c", 2): 7, ("c", 10): 0, ("d", 0): -1}
    assert {key: spec.position(*key) for key in named} == named
    unnamed = [("", 0), ("aa", 0), ("b", 1), ("b", 3), ("c", 1), ("c", 11), ("e", 0)]
    assert [key for key in unnamed if spec.names(*key)] == []
    assert parse({"a": "latest"}).position("a", 3) == -1


def test_a_partition_among_very_many_is_found_without_a_look_at_each() -> None:
    """Each partition is looked for, several times: ten thousand of them took half a minute before a read began."""
    partitions = parse({"t": {str(number): number for number in range(MANY)}})
    topics = parse({f"t{number}": "latest" for number in range(MANY)} | {"t": {"0": 1}})
    for spec, name, partition in ((partitions, "t", MANY - 1), (topics, "t9", 0), (topics, "none", 0)):
        topic = Counted(name)
        assert spec.names(topic, partition) is (name != "none")
        assert topic.times < 100
