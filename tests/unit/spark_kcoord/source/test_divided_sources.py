"""A query whose sources divide a topic between them is told so."""

from spark_kcoord.microbatch.stream_offset import StreamOffset
from spark_kcoord.source.listeners.divided_sources import say_divided
from tests.helpers.fake_member import claim


def an_offset(member: str, *partitions: int, group: str = "g") -> StreamOffset:
    return StreamOffset("c", group, member, tuple(claim(number, 0, 5) for number in partitions))


def test_two_sources_of_a_topic_in_one_group_are_said_with_what_to_do() -> None:
    said = say_divided([an_offset("m1", 0), an_offset("m2", 1)])
    assert said is not None
    assert "as members m1 and m2" in said
    assert "Load the topic once" in said
    assert "'kcoord.group.id'" in said


def test_sources_of_other_groups_or_topics_and_one_source_are_not() -> None:
    one = an_offset("m1", 0)
    assert say_divided([one]) is None
    assert say_divided([one, an_offset("m2", 1, group="h")]) is None
    assert say_divided([one, an_offset("m2")]) is None
