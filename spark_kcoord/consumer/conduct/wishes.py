"""The things that a call of a consumer may have to wait for: what a flow yields, and its shell performs.

A flow is a generator that decides; a shell is the program's thread, or its event loop. So a blocking consumer and an
asyncio one say the same things in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from spark_kcoord.consumer.core.machine import Owed

__all__ = ["Answer", "Ask", "Call", "Do", "Flow", "Tell", "Wait", "Wish"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tell:
    """Tell the listener; what it raises is raised in the flow."""

    owed: Owed


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until the bell rings, for so long at most."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Answer:
    """Wait for a future, for so long at most; its result comes back, TimeoutError when time is over."""

    future: Future[Any]
    seconds: float


@dataclass(frozen=True, slots=True)
class Do:
    """Make a call that may block; its result comes back, and what it raises is raised in the flow."""

    work: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask Kafka or a coordinator something, beside the thread or the loop that waits; the outcome is as with Do.

    It waits for questions of others for so long at most, TimeoutError when time is over. Then `begin` is called where
    the flow is, with what only one question may use free for this one, and returns the call that blocks. An interrupt,
    or whatever else ends the wait, leaves the question alone: it ends with its own time.
    """

    begin: Callable[[], Callable[[], Any]]
    seconds: float = math.inf


@dataclass(frozen=True, slots=True)
class Call:
    """Run a callback that the program gave."""

    work: Callable[[], Any]


Wish: TypeAlias = Tell | Wait | Answer | Do | Ask | Call
Flow: TypeAlias = Generator[Wish, Any, T]
