import pytest

from coordinator.protocol.text.counts import counted


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 groups are there"), (1, "1 group is there"), (2, "2 groups are there")]
)
def test_a_sentence_fits_its_number(number: int, said: str) -> None:
    assert f"{counted(number, 'group is', 'groups are')} there" == said


def test_most_words_are_many_with_an_s() -> None:
    assert (counted(1, "member"), counted(12, "member")) == ("1 member", "12 members")
