"""A table of claims is what a plain mapping is, however its claims share places."""

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.core.groups.hard.tables import claim_table
from coordinator.core.groups.hard.tables.claim_table import ClaimTable, OpenClaim, OpenClaims, Owner
from coordinator.core.groups.partitions.partition_table import TopicPartition
from tests.helpers.examples import examples

OWNERS = {"m1": ("t", range(5)), "m2": ("t", range(5, 8)), "m3": ("u", range(3))}
"""What is claimed at once is of one topic and one owner's."""
Model = dict[TopicPartition, OpenClaim]

PARTS = st.sampled_from(sorted(OWNERS)).flatmap(
    lambda owner: st.tuples(st.just(owner), st.sets(st.sampled_from(OWNERS[owner][1]), min_size=1).map(sorted))
)
WHOLE = st.sampled_from(sorted(OWNERS)).map(lambda owner: (owner, list(OWNERS[owner][1])))
CHANGES = st.lists(
    st.tuples(st.sampled_from(["open", "run", "close", "close all", "copy", "go"]), PARTS | WHOLE), max_size=14
)


def change(table: ClaimTable, model: Model, what: str, owner: str, numbers: list[int], begin: int) -> None:
    topic = OWNERS[owner][0]
    match what:
        case "open":
            begins, ends = tuple(begin + number for number in numbers), tuple(begin + 20 + number for number in numbers)
            table.open(topic, OpenClaims(tuple(numbers), begins, ends), Owner(0, owner, "id", (7,) * len(numbers)))
            model.update({(topic, number): OpenClaim(begin + number, begin + 20 + number) for number in numbers})
        case "run":
            claimed = tuple(number for number in numbers if (topic, number) in model)
            if claimed:
                table.run(topic, claimed)
            for number in claimed:
                claim = model[topic, number]
                model[topic, number] = OpenClaim(claim.from_offset, claim.until_offset, is_running=True)
        case "close":
            table.close((topic, numbers[0]))
            model.pop((topic, numbers[0]), None)
        case "close all":
            table.close_all(topic, numbers)
            for number in numbers:
                model.pop((topic, number), None)
        case "go":
            table.close_of(owner, topic, list(OWNERS[owner][1]))
            for number in OWNERS[owner][1]:
                model.pop((topic, number), None)


@pytest.mark.parametrize("many", [1, claim_table._MANY])
@settings(max_examples=examples(75, 300), deadline=None)
@given(changes=CHANGES)
def test_table_of_claims_is_a_plain_mapping(changes: list[tuple[str, tuple[str, list[int]]]], many: int) -> None:
    """Very many are looked at by their places, which ends as one by one does."""
    with patch.object(claim_table, "_MANY", many):
        check(changes)


def check(changes: list[tuple[str, tuple[str, list[int]]]]) -> None:
    table, model = ClaimTable(), Model()
    copies: list[tuple[ClaimTable, Model]] = []
    for step, (what, (owner, numbers)) in enumerate(changes):
        change(table, model, what, owner, numbers, step * 100)
        if what == "copy":
            copies.append((table.copy(), dict(model)))

        assert dict(table.items()) == model
        assert (set(table), len(table), set(table.topics())) == (set(model), len(model), {topic for topic, _ in model})
        for each, (topic, its_numbers) in OWNERS.items():
            found = [(name, number) for name, some in table.offered_to(each) for number in some]
            offered = [(topic, n) for n in its_numbers if (topic, n) in model and not model[topic, n].is_running]
            assert sorted(found) == offered
            running = [n for n in its_numbers if (topic, n) in model and model[topic, n].is_running]
            assert table.running(topic, its_numbers) == running
            idle = [number for number in its_numbers if number not in running]
            assert list(table.idle_of(each, topic, its_numbers)) == idle
            assert table.any_running(topic, its_numbers) is bool(running)
        for (topic, number), claim in model.items():
            assert table.get((topic, number)) == claim
            assert table.is_running((topic, number)) is claim.is_running
        for copy, then in copies:
            assert dict(copy.items()) == then
    assert set(table._offered) == {owner for owner in OWNERS if list(table.offered_to(owner))}
