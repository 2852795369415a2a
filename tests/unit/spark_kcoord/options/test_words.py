"""Options that become words of the protocol know the same words; what executors load does not import them."""

import pytest

from coordinator.protocol.vocabulary import AssignorName, Handover, IsolationLevel, PolicyKind
from spark_kcoord.options import offset_specs
from spark_kcoord.options.kafka_settings import KAFKA_OPTIONS
from spark_kcoord.options.source_options import SourceOptions
from spark_kcoord.options.table import OPTIONS


@pytest.mark.parametrize(
    ("name", "words", "default"),
    [
        ("kcoord.handover", Handover, Handover.TAKEOVER),
        ("kafka.isolation.level", IsolationLevel, IsolationLevel.READ_UNCOMMITTED),
    ],
)
def test_an_option_takes_every_word_of_its_list_and_no_other(name: str, words: type, default: str) -> None:
    (option,) = (option for option in (*OPTIONS, *KAFKA_OPTIONS) if option.name == name)
    assert option.kind.allowed == ", ".join(words)
    assert option.default == default


def test_starting_words_are_policies() -> None:
    assert (offset_specs.EARLIEST, offset_specs.LATEST) == (PolicyKind.EARLIEST, PolicyKind.LATEST)


def test_default_assignors_come_with_kcoord() -> None:
    assert set(SourceOptions.__dataclass_fields__["assignors"].default) <= set(AssignorName)
