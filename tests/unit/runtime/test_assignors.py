"""Assignors that are installed beside ours: found by name, held to what every assignor promises."""

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from coordinator.core.groups.assignment.assignors import ASSIGNORS, AssignorInput, AssignorMember
from coordinator.runtime.assignors import ENTRY_POINT_GROUP, AssignorError, InstalledAssignor, load_assignors
from tests.helpers.loopback import RememberedLog

QUESTION = AssignorInput(
    (AssignorMember("m1", frozenset({"t"}), 1), AssignorMember("m2", frozenset(), 1)), {"t": 2}, {}
)


def all_to_the_first(given: AssignorInput) -> Mapping[str, frozenset[tuple[str, int]]]:
    first, *rest = sorted(member.member_id for member in given.members)
    everything = frozenset((topic, number) for topic, count in given.partitions.items() for number in range(count))
    return {first: everything, **dict.fromkeys(rest, frozenset())}


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, ENTRY_POINT_GROUP)


def test_installed_assignors_are_found_by_name_after_ours() -> None:
    log = RememberedLog()
    found = load_assignors(log.logger, [entry("mine", f"{__name__}:all_to_the_first")])
    assert list(found) == [*ASSIGNORS, "mine"]
    assert found["mine"](QUESTION) == {"m1": {("t", 0), ("t", 1)}, "m2": frozenset()}
    assert [line["event"] for line in log.lines] == ["assignor-installed"]


def test_nothing_installed_leaves_ours() -> None:
    assert load_assignors(RememberedLog().logger) == dict(ASSIGNORS)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("mine", "no_such_module:assign", "cannot be loaded: No module named 'no_such_module'"),
        ("mine", f"{__name__}:nothing", "cannot be loaded"),
        ("mine", f"{__name__}:QUESTION", "is no function"),
        ("sticky", f"{__name__}:all_to_the_first", "has the name of another one"),
        ("a/b", f"{__name__}:all_to_the_first", "has a name that is not allowed"),
    ],
)
def test_assignor_that_cannot_be_used_is_named(name: str, value: str, words: str) -> None:
    with pytest.raises(AssignorError, match=words) as raised:
        load_assignors(RememberedLog().logger, [entry(name, value)])
    assert repr(name) in str(raised.value)


@pytest.mark.parametrize(
    ("assign", "words"),
    [
        (lambda _: {}, "not about exactly the members"),
        (lambda _: {"m1": {("t", 0)}, "m2": ()}, "it left out 1 partitions, such as t-1"),
        (lambda _: {"m1": {("t", 0), ("t", 1)}, "m2": {("t", 1)}}, "does not subscribe"),
        (lambda _: {"m1": {("t", 0), ("t", 1), ("t", 2)}, "m2": ()}, "twice, or the partition does not exist"),
        (lambda _: 1 / 0, "it raised ZeroDivisionError"),
        (lambda _: {"m1": None, "m2": ()}, "it raised TypeError"),
    ],
)
def test_wrong_answer_is_replaced_by_that_of_sticky_and_said(assign: Callable[[Any], Any], words: str) -> None:
    log = RememberedLog()
    answer = InstalledAssignor("mine", assign, log.logger)(QUESTION)
    assert answer == ASSIGNORS["sticky"](QUESTION)
    (line,) = log.lines
    assert (line["event"], line["name"]) == ("assignor-failed", "mine")
    assert words in line["why"]
