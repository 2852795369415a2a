"""Runs a test's coroutine on the event loop whose turn it is: what a node does on one it does on both."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from coordinator.config import LoopKind
from coordinator.runtime.process.loop import loop_factory

Value = TypeVar("Value")

turn: LoopKind = "asyncio"
"""Set by the fixture `each_event_loop`."""


def run(coroutine: Coroutine[Any, Any, Value]) -> Value:
    """Run a coroutine to its end."""
    with asyncio.Runner(loop_factory=loop_factory(turn)[1]) as runner:
        return runner.run(coroutine)
