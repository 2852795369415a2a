"""The parts that boards are made of: a panel, a board, and the questions to Prometheus that many panels ask alike."""

from dataclasses import dataclass
from typing import Final

_QUANTILE: Final = "histogram_quantile({q}, sum by (le{by}) (rate({name}_bucket{{{labels}}}[$__rate_interval])))"
NODES: Final = 'instance=~"$instance"'


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: its title, what it asks for with a legend each, the unit, its kind, and its width of 24."""

    title: str
    asks: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    about: str = ""


@dataclass(frozen=True, slots=True)
class Board:
    """One board: its name in an address, its title, and rows of panels under their headings."""

    uid: str
    title: str
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]
    variables: tuple[tuple[str, str, str], ...] = (("instance", "Node", "label_values(kcoord_build_info, instance)"),)


def quantile(name: str, *, q: float = 0.99, by: str = "", labels: str = NODES) -> str:
    """Return the question for a quantile of a histogram over the interval that is shown."""
    return _QUANTILE.format(name=name, q=q, by=f", {by}" if by else "", labels=labels)


def number(title: str, expr: str, unit: str = "short", width: int = 4, about: str = "") -> Panel:
    """Return a panel that is one number."""
    return Panel(title, ((expr, ""),), unit, "stat", width, 4, about)


def rate(name: str, labels: str = NODES, by: str = "") -> str:
    """Return the question for how much a counter grows in a second."""
    return f"sum{f' by ({by}) ' if by else ''}(rate({name}{{{labels}}}[$__rate_interval]))"


def top(expr: str) -> str:
    """Return the question for the ten largest."""
    return f"topk(10, {expr})"


GROUP: Final = ("group", "Group", "label_values(kcoord_group_state, group)")
NODE: Final = ("instance", "Node", "label_values(kcoord_build_info, instance)")
OF_GROUP: Final = 'group=~"$group"'
