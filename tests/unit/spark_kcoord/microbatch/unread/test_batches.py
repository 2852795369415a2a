"""A micro-batch that Spark counts as done without having planned it ends the query, with nothing of it committed."""

import logging

import pytest

from spark_kcoord.errors import KcoordError, UnreadBatchError
from spark_kcoord.microbatch.stream_offset import StreamOffset
from spark_kcoord.microbatch.unread.batches import show_claims, warn_where_group_is_known
from spark_kcoord.options.source_options import SourceOptions, parse_options
from tests.helpers.fake_member import FakeMember, a_session, claim, owned


def test_a_finished_batch_that_was_never_planned_ends_the_query_naming_its_ranges() -> None:
    start = StreamOffset("c", "g", "m-1", (claim(0, 5, 9), claim(1, 3, 4)))
    session = a_session(FakeMember((owned(0, 5), owned(1, 4)), unread=frozenset({0})), {0: 12, 1: 4})
    with pytest.raises(UnreadBatchError, match=r"has not read it, so that \[5, 9\) of t-0 are not committed") as unread:
        session.next_offset(start, None, is_single_run=False)
    assert "with a new checkpoint and a new output" in str(unread.value)
    assert "limit(0)" in str(unread.value)


def test_it_is_said_again_until_the_query_ends() -> None:
    start = StreamOffset("c", "g", "m-1", (claim(0, 5, 9),))
    session = a_session(FakeMember((owned(0, 5),), unread=frozenset({0})), {0: 12})
    for _ in range(2):
        with pytest.raises(UnreadBatchError):
            session.next_offset(start, None, is_single_run=False)


def test_many_ranges_are_shown_by_the_first_few() -> None:
    shown = show_claims([claim(number, 0, 10) for number in range(7)])
    assert shown.startswith("[0, 10) of t-0, [0, 10) of t-1")
    assert shown.endswith("of t-4 and 2 more ranges")


OPTIONS = parse_options({"kcoord.bootstrap.servers": "c1:7600", "kcoord.group.id": "g", "subscribe": "t"}, "stream")


@pytest.mark.parametrize(("committed", "warnings"), [({("t", 0): 0, ("t", 1): 7}, 1), ({}, 0)])
def test_a_new_checkpoint_in_a_group_that_has_offsets_is_told_to_need_a_new_output(
    committed: dict[tuple[str, int], int], warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    warn_where_group_is_known(OPTIONS, committed=lambda _: committed)
    said = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(said) == warnings
    assert all("offsets of 2 partitions" in line and "needs a new output" in line for line in said)


def test_a_coordinator_that_is_away_is_told_of_by_the_join(caplog: pytest.LogCaptureFixture) -> None:
    def away(options: SourceOptions) -> dict[str, int]:
        raise KcoordError("No kcoord coordinator answered.")

    warn_where_group_is_known(OPTIONS, committed=away)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
