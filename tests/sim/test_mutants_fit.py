"""Each planted mistake still fits the code it is planted in, also those that are too rare for every test run."""

import inspect
from inspect import Parameter
from typing import Any

import pytest

from tests.sim.mutants import ALL

_MANY = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def why_unfit(before: Any, after: Any) -> str:
    """Say why what takes the place of a function could not be called as that one is; empty if it could."""
    if not (inspect.isfunction(before) and inspect.isfunction(after)):
        return ""
    wanted, taken = (inspect.signature(function).parameters.values() for function in (before, after))
    names = {one.name for one in taken}
    takes_many = {one.kind for one in taken} & set(_MANY)
    for one in wanted:
        if one.kind is Parameter.KEYWORD_ONLY and one.name not in names and Parameter.VAR_KEYWORD not in takes_many:
            return f"it does not take {one.name}"
    in_order = [one for one in taken if one.kind not in (*_MANY, Parameter.KEYWORD_ONLY)]
    most = [one for one in wanted if one.kind not in (*_MANY, Parameter.KEYWORD_ONLY)]
    if len(in_order) < len(most) and Parameter.VAR_POSITIONAL not in takes_many:
        return f"it takes {len(in_order)} arguments in place of {len(most)}"
    known = {one.name for one in wanted}
    for one in taken:
        if one.kind is Parameter.KEYWORD_ONLY and one.default is Parameter.empty and one.name not in known:
            return f"it wants {one.name}, which nobody gives"
    return ""


@pytest.mark.parametrize("name", ALL)
def test_planted_mistake_takes_what_it_is_given(name: str) -> None:
    for owner, attribute, after in ALL[name].plant():
        before = inspect.getattr_static(owner, attribute)
        assert not why_unfit(before, after), f"{owner.__name__}.{attribute}: {why_unfit(before, after)}"


def test_mistake_that_lacks_an_argument_is_told() -> None:
    def before(self: object, group: str, *given: int, is_new: bool, has_gone_back: bool) -> None: ...

    def fits(self: object, *given: Any, is_new: bool, **rest: Any) -> None: ...

    def lacks(self: object, *given: Any, is_new: bool) -> None: ...

    def is_short(self: object, *, is_new: bool, has_gone_back: bool) -> None: ...

    def wants(self: object, *given: Any, is_new: bool, has_gone_back: bool, why: str) -> None: ...

    assert why_unfit(before, fits) == ""
    assert why_unfit(before, lacks) == "it does not take has_gone_back"
    assert why_unfit(before, is_short) == "it takes 1 arguments in place of 2"
    assert why_unfit(before, wants) == "it wants why, which nobody gives"
