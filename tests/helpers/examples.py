"""The number of examples that a property is tried on: few of the same ones in a run of all tests, many when drawn anew.

A run of all tests draws the same examples each time, so that more of them find the same nothing again; `make
properties` draws others in each run, and there each one more may find something.
"""

from typing import Final

from hypothesis import settings

DRAWN_ANEW: Final = "drawn anew"
"""The profile in which hypothesis tries other examples in each run: `make properties`."""


def examples(few: int, drawn_anew: int) -> int:
    """Return how many to try: few of the same ones, or so many that are drawn anew."""
    return drawn_anew if settings.get_current_profile_name() == DRAWN_ANEW else few
