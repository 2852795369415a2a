"""Ties a test to the numbered sentences of docs/PROTOCOL.md that it holds."""

from collections.abc import Callable
from typing import TypeVar

Test = TypeVar("Test", bound=Callable[..., object])


def says(*sentences: str) -> Callable[[Test], Test]:
    """Mark a test as the one that holds these sentences, quoted word by word; test_document.py compares."""

    def mark(test: Test) -> Test:
        test.sentences = sentences  # type: ignore[attr-defined]
        return test

    return mark
