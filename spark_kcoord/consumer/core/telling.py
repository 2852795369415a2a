"""Telling a listener all that it is owed: partitions change hands whatever it raises.

No input or output: how the listener is told, and waited for, is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from spark_kcoord.consumer.core.machine import ConsumerMachine, Owed

__all__ = ["tell_all"]

Waits = TypeVar("Waits")


def tell_all(
    machine: ConsumerMachine, tell: Callable[[Owed], Generator[Waits, Any, None]]
) -> Generator[Waits, Any, None]:
    """Tell everything that is owed, in order; the first error that a listener raises is raised when all is told."""
    error: BaseException | None = None
    while (owed := machine.next_owed()) is not None:
        machine.begin_telling(owed)
        try:
            yield from tell(owed)
        except GeneratorExit:
            machine.end_telling(owed)
            raise
        except BaseException as raised:  # noqa: BLE001 - told below, when everything has changed hands
            error = error or raised
        machine.end_telling(owed)
    if error is not None:
        raise error
