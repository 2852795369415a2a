"""Cases with names: gathered from the files of a folder, and run on a thread each, which is left when time is up."""

import importlib
import pkgutil
import threading
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")


class NotEndedError(Exception):
    """Something was still at it when its time was up."""


def gathered(package: ModuleType, name: str) -> list[Any]:
    """Return what the files of a package list under a name; two of them with one name are a mistake."""
    found: list[Any] = []
    for module in sorted(each.name for each in pkgutil.iter_modules(package.__path__)):
        found += getattr(importlib.import_module(f"{package.__name__}.{module}"), name)
    twice = [name for name, count in Counter(each.name for each in found).items() if count > 1]
    assert not twice, f"{package.__name__} has two of one name: {twice}"
    return found


def outcome_of(work: Callable[[], T], *, name: str, timeout_s: float) -> T | BaseException:
    """Return what some work returns or raises on a thread of its own, or NotEndedError after its time."""
    told: list[T | BaseException] = []

    def do_it() -> None:
        try:
            told.append(work())
        except BaseException as error:  # noqa: BLE001 - whatever ends it is its outcome
            told.append(error)

    thread = threading.Thread(target=do_it, name=name, daemon=True)
    thread.start()
    thread.join(timeout_s)
    return told[0] if told else NotEndedError(f"it had not ended after {timeout_s:g} s")
