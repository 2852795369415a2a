"""The fields of messages and pieces that hold a word of the vocabulary, as their annotations say."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, get_args, get_type_hints

import msgspec


def word_fields(kinds: Iterable[type[msgspec.Struct]]) -> list[tuple[type[msgspec.Struct], Any, type[StrEnum]]]:
    """Return class, field and list of words for each field that holds a word."""
    found = []
    for kind in kinds:
        hints = get_type_hints(kind, include_extras=True)
        for field in msgspec.structs.fields(kind):
            for said in get_args(hints[field.name])[1:]:
                if isinstance(said, type) and issubclass(said, StrEnum):
                    found.append((kind, field, said))
    return found
