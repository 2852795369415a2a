"""Durations as people type them, the same wherever one is asked for: `15m`, `90s`, `500ms`, or `PT15M` of ISO 8601."""

import re
from typing import Final

_LONGEST_MS: Final = 2**63 - 1
"""The largest number of a message."""
_UNIT_US: Final = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_SHORT: Final = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,6}))?\s*(us|ms|s|min|m|h|d|)")
_ISO: Final = re.compile(
    r"p(?:(?P<d>[0-9]{1,12})d)?"
    r"(?:t(?=[0-9])(?:(?P<h>[0-9]{1,12})h)?(?:(?P<m>[0-9]{1,12})m)?(?:(?P<s>[0-9]{1,12})(?:\.(?P<f>[0-9]{1,6}))?s)?)?"
)


def parse_duration_ms(text: str, *, bare_unit: str | None = None) -> int:
    """Read a duration in whole milliseconds, rounded down; raises ValueError with the reason.

    A number without a unit is one of `bare_unit`, and refused where that is None.
    """
    wanted = text.strip().lower()
    iso = _ISO.fullmatch(wanted)
    if iso is not None and wanted != "p":
        fraction_us = int((iso["f"] or "0").ljust(6, "0"))
        return _bounded(text, sum(int(iso[unit] or 0) * _UNIT_US[unit] for unit in "dhms") + fraction_us)
    short = _SHORT.fullmatch(wanted)
    if short is None:
        raise ValueError(f"{text!r} is no duration such as 15m, 90s, 500ms or PT15M")
    whole, fraction, unit = short.groups()
    if not unit and bare_unit is None:
        raise ValueError(f"{text!r} has no unit, as 15m, 90s, 500ms or PT15M have")
    unit_us = _UNIT_US[unit or bare_unit or ""]
    return _bounded(text, int(whole) * unit_us + int((fraction or "0").ljust(6, "0")) * unit_us // 1_000_000)


def _bounded(text: str, duration_us: int) -> int:
    """Return a duration in milliseconds; raises ValueError for one that no message holds."""
    if duration_us // 1_000 > _LONGEST_MS:
        raise ValueError(f"{text!r} is longer than {_LONGEST_MS} ms")
    return duration_us // 1_000
