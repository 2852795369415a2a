"""Families of metrics in Prometheus' text, in parts."""

from collections.abc import Iterable, Iterator
from typing import Final

from coordinator.runtime.figures.family import Family

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def escape(text: str) -> str:
    """Return a label's value as it is written between quotes, in UTF-8 whatever the text is."""
    return text.translate(_ESCAPES).encode(errors="backslashreplace").decode()


def family_parts(families: Iterable[Family]) -> Iterator[bytes]:
    """Yield the lines of each family; one without samples has none."""
    for family in families:
        if family.samples:
            yield "".join(_lines(family)).encode()


def _lines(family: Family) -> Iterator[str]:
    yield f"# HELP {family.name} {family.meaning}\n# TYPE {family.name} {family.kind}\n"
    for suffix, labels, value in family.samples:
        written = ",".join(f'{name}="{escape(text)}"' for name, text in labels)
        yield f"{family.name}{suffix}{{{written}}} {value}\n" if written else f"{family.name}{suffix} {value}\n"
