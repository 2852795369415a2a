"""The templates of pages, and the look of values in them.

Every value of others is written here once: as one line of printable characters, and then as HTML. A value that is not
known is a dash. A template that names something it was not given is an error.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.datastructures import QueryParams

from coordinator.console.documents import Control
from coordinator.console.web.assets import ROOM
from coordinator.protocol.text.escaping import one_line
from coordinator.protocol.vocabulary import ControlKind

DASH: Final = "\u2013"


def shown(value: object) -> object:
    """Return a value as a template writes it."""
    if value is None:
        return DASH
    if isinstance(value, str) and not isinstance(value, Markup):
        return one_line(value)
    return value


def count(value: int | None) -> str:
    """Write a number with spaces between thousands that do not break."""
    return DASH if value is None else Markup(f"{value:,}".replace(",", "&#8239;"))  # noqa: S704


def seconds(value: float | None) -> str:
    """Write a duration for people."""
    if value is None:
        return DASH
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 60:
        return f"{value:.1f} s" if value < 10 and not isinstance(value, int) else f"{value:.0f} s"
    whole = round(value)
    for size, unit, less, of in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // less
            return f"{whole // size} {unit}" + (f" {rest} {of}" if rest else "")
    return f"{whole} s"


def moment(at_ms: int) -> str:
    """Write a time as ISO 8601; one that no calendar has as its number."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"


def age(at_ms: int | None, now_ms: int) -> str:
    """Write how long ago a time was, which itself is shown where the pointer rests."""
    if at_ms is None:
        return DASH
    passed = max(0, now_ms - at_ms) / 1000
    text = "just now" if passed < 1 else f"{seconds(round(passed))} ago"
    exact = moment(at_ms)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(exact, exact, text)


def control_sentence(control: Control, now_ms: int) -> str:
    """Say what an operator has decided."""
    partition = f"{control.topic}-{control.partition}"
    sentences: dict[str, str] = {
        ControlKind.GROUP_PAUSED: "The group is paused",
        ControlKind.PARTITION_PAUSED: f"{partition} is paused",
        ControlKind.MEMBER_DRAINED: f"Member {control.consumer_id} is drained",
        ControlKind.RESET_PENDING: f"A reset of {partition} to {control.new_offset} is pending",
    }
    what = sentences.get(control.kind, control.kind)
    why = f": {one_line(control.why)}" if control.why else "."
    return Markup("{}, by {}, {}{}").format(one_line(what), one_line(control.who), age(control.at_ms, now_ms), why)


def path_part(text: str) -> str:
    """Return a name as one part of a path."""
    return quote(text, safe="")


def group_path(name: str) -> str:
    """Return the address of a group's page."""
    return f"/groups/{path_part(name)}"


def with_query(query: Mapping[str, str], **changes: object) -> str:
    """Return the parameters of an address with some of them changed; those that are empty are left out."""
    given = query.multi_items() if isinstance(query, QueryParams) else query.items()
    texts: dict[str, list[str]] = {}
    for name, text in given:
        texts.setdefault(name, []).append(text)
    texts |= {name: [] if value is None else [str(value)] for name, value in changes.items()}
    return "?" + urlencode([(name, text) for name, each in texts.items() for text in each if text])


def environment() -> Environment:
    """Return the templates."""
    made = Environment(
        loader=FileSystemLoader(ROOM / "templates"),
        autoescape=True,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "count": count,
        "seconds": seconds,
        "age": age,
        "path": path_part,
        "control_sentence": control_sentence,
    }
    made.globals |= {
        "group_path": group_path,
        "with_query": with_query,
        "version": metadata.version("kcoord"),
    }
    return made


def render(templates: Environment, name: str, **values: Any) -> str:
    """Return a page."""
    return templates.get_template(name).render(**values)
