"""The tail of a log in memory: what followers that keep up are sent, found without passing through all that is kept."""

from random import Random

import pytest

from coordinator.core.cluster_node.stream.tail import Tail, batch_from
from coordinator.core.log.entry import Batch, batch_bytes

ROOMY = 1 << 30


class LookedAt(Batch):
    """A batch that counts how often its end is asked for."""

    __slots__ = ()
    count = 0

    @property
    def end(self) -> int:
        LookedAt.count += 1
        return self.base_offset + len(self.records)


def a_batch(base: int, records: int = 1) -> Batch:
    return Batch(base, 3, tuple(b"%d" % (base + number) for number in range(records)))


def test_what_was_appended_last_is_found_without_passing_through_the_rest() -> None:
    tail = Tail(ROOMY)
    for base in range(20_000):
        tail.add(LookedAt(base, 3, (b"x",)))
    LookedAt.count = 0

    found = tail.read(19_990, ROOMY)

    assert found is not None
    assert [batch.base_offset for batch in found] == list(range(19_990, 20_000))
    assert LookedAt.count <= 11


@pytest.mark.parametrize("begin", [10, 11, 12, 14, 15, 16])
def test_it_begins_inside_of_a_batch_where_it_is_asked_to(begin: int) -> None:
    tail = Tail(ROOMY)
    for batch in (a_batch(10, 2), a_batch(12, 3), a_batch(15)):
        tail.add(batch)

    found = tail.read(begin, ROOMY)

    assert found is not None
    records = [record for batch in found for record in batch.records]
    assert records == [b"%d" % offset for offset in range(begin, 16)]


def test_what_is_not_here_any_more_or_never_was_is_not_made_up() -> None:
    assert Tail(ROOMY).read(0, ROOMY) is None
    tail = Tail(ROOMY)
    for base in range(5):
        tail.add(a_batch(base))
    tail.let_go()
    assert tail.begin == 1
    assert tail.read(0, ROOMY) is None
    assert tail.read(5, ROOMY) == ()


def test_at_least_one_batch_is_read_and_no_more_than_have_room() -> None:
    tail = Tail(ROOMY)
    for base in range(5):
        tail.add(a_batch(base))
    size = batch_bytes(a_batch(0).records)

    assert len(tail.read(1, 0) or ()) == 1
    assert len(tail.read(1, 2 * size) or ()) == 2


def test_it_is_as_a_list_that_is_walked_through_whatever_comes_and_goes() -> None:
    dice = Random(0)
    for _ in range(6):
        most_bytes = dice.choice((0, 200, 2_000))
        tail, walked, end = Tail(most_bytes), list[Batch](), dice.randrange(100)
        for _ in range(600):
            batch = a_batch(end, dice.choice((1, 1, 2, 7)))
            end = batch.end
            tail.add(batch)
            walked.append(batch)
            while sum(batch_bytes(each.records) for each in walked) > most_bytes and len(walked) > 1:
                walked.pop(0)
            assert (tail.begin, tail.bytes) == (
                walked[0].base_offset,
                sum(batch_bytes(each.records) for each in walked),
            )
            if dice.random() < 0.1:
                begin = dice.randint(walked[0].base_offset, end)
                expected = tuple(batch_from(each, begin) for each in walked if each.end > begin)
                assert tail.read(begin, ROOMY) == expected
        assert tail.read(end, ROOMY) == ()
