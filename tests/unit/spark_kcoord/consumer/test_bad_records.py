"""A record that cannot be deserialized keeps back what is behind it in its partition, and no other partition."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from spark_kcoord.consumer import errors
from spark_kcoord.consumer.values import TopicPartition
from tests.helpers.fake_consuming import AsyncRig, Rig, owned

pytestmark = pytest.mark.usefixtures("closes_rigs")

P0 = TopicPartition("t", 0)
OTHERS = 100
"""The offset at which partitions begin that have no bad record."""


def refusing(*bad: bytes) -> Callable[[bytes], bytes]:
    def read(value: bytes) -> bytes:
        if value in bad:
            raise ValueError("not one of ours")
        return value

    return read


def rig_of(ends: dict[int, int], *bad: bytes, **settings: Any) -> Rig:
    """Return a consumer of partitions by their ends; the first begins at 0, the others at OTHERS."""
    rig = Rig({("t", number): end for number, end in ends.items()}, value_deserializer=refusing(*bad), **settings)
    rig.member.give(*(owned(number, OTHERS * bool(number)) for number in ends))
    return rig


def polls(rig: Rig, times: int) -> list[list[tuple[int, int]] | str]:
    """Poll as a program that logs an error of a record and goes on."""
    found: list[list[tuple[int, int]] | str] = []
    for _ in range(times):
        try:
            found.append(rig.offsets())
        except errors.RecordDeserializationError as error:
            found.append(f"{error.partition}-{error.offset}")
    return found


def records(found: list[list[tuple[int, int]] | str]) -> list[tuple[int, int]]:
    return [record for one in found if isinstance(one, list) for record in one]


def test_a_program_that_logs_the_error_and_polls_on_reads_other_partitions_to_their_ends() -> None:
    rig = rig_of({0: 5, 1: OTHERS + 40, 2: OTHERS + 40}, b"2", max_poll_records=10)
    found = polls(rig, 30)
    assert sorted(records(found)) == [(0, 0), (0, 1)] + [(n, OTHERS + at) for n in (1, 2) for at in range(40)]
    assert rig.position(P0) == 2
    assert found[-3:] == ["0-2", "0-2", "0-2"]


def test_what_is_behind_a_bad_record_comes_when_it_is_sought_past() -> None:
    rig = rig_of({0: 5, 1: OTHERS + 2}, b"2")
    polls(rig, 4)
    rig.seek(P0, 3)
    assert records(polls(rig, 1)) == [(0, 3), (0, 4)]


def test_the_error_is_told_also_while_other_partitions_never_run_dry() -> None:
    rig = rig_of({0: 5, 1: OTHERS + 4}, b"0")
    found = []
    for _ in range(12):
        found += polls(rig, 1)
        rig.kafka.ends["t", 1] += 4
    assert found.count("0-0") >= 5
    assert all("0-0" not in (one, after) or one != after for one, after in pairwise(found))
    assert records(found) == [(1, OTHERS + at) for at in range(len(records(found)))]


def test_rows_that_cannot_be_given_do_not_fill_the_polls_of_others() -> None:
    rig = rig_of({0: 90, **dict.fromkeys(range(1, 4), OTHERS + 50)}, b"0", max_poll_records=50)
    assert sum(len(records(polls(rig, 1))) for _ in range(4)) == 150


def test_each_of_several_bad_records_is_told() -> None:
    rig = rig_of({0: 5, 1: OTHERS + 5, 2: OTHERS + 3}, b"1", b"102", b"101")
    assert {one for one in polls(rig, 8) if isinstance(one, str)} == {"0-1", "1-101", "2-101"}


def test_records_before_a_bad_one_come_first_also_when_they_are_sought_again() -> None:
    rig = rig_of({0: 5}, b"2")
    assert polls(rig, 1) == [[(0, 0), (0, 1)]]
    rig.seek(P0, 0)
    assert polls(rig, 2) == [[(0, 0), (0, 1)], "0-2"]


def test_an_iteration_goes_on_with_other_partitions_too() -> None:
    rig = rig_of({0: 5, 1: OTHERS + 3}, b"0", consumer_timeout_ms=10)
    found: list[Any] = []
    for _ in range(6):
        try:
            found.append(next(rig).offset)
        except errors.RecordDeserializationError:
            found.append("error")
    assert found == [OTHERS, OTHERS + 1, OTHERS + 2, "error", "error", "error"]


def test_named_reads_are_kept_back_by_a_bad_record_of_their_own_alone() -> None:
    async def main() -> None:
        rig = AsyncRig({("t", 0): 5, ("t", 1): OTHERS + 2}, value_deserializer=refusing(b"0"))
        rig.member.give(owned(0), owned(1, OTHERS))
        assert await rig.offsets(TopicPartition("t", 1)) == [(1, OTHERS), (1, OTHERS + 1)]
        for _ in range(2):
            with pytest.raises(errors.RecordDeserializationError):
                await rig.offsets(P0)
        await rig.stop()

    asyncio.run(main())
