import asyncio
import sys

import pytest

from coordinator.config import LoopKind
from coordinator.runtime.process.loop import LoopError, loop_factory


@pytest.fixture
def no_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)


@pytest.mark.parametrize(("kind", "name"), [("auto", "uvloop"), ("uvloop", "uvloop"), ("asyncio", "asyncio")])
def test_a_node_runs_on_the_loop_it_names(kind: LoopKind, name: str) -> None:
    said, new_loop = loop_factory(kind)
    loop = new_loop()
    try:
        assert said == name
        assert type(loop).__module__.partition(".")[0] == name
    finally:
        loop.close()


@pytest.mark.usefixtures("no_uvloop")
def test_without_uvloop_a_node_runs_on_asyncio() -> None:
    assert loop_factory("auto") == ("asyncio", asyncio.new_event_loop)


@pytest.mark.usefixtures("no_uvloop")
def test_uvloop_that_is_asked_for_and_missing_is_told_with_what_to_do() -> None:
    with pytest.raises(LoopError, match=r"node.event_loop is uvloop, which cannot be loaded .*pip install uvloop"):
        loop_factory("uvloop")
