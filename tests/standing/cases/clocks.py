"""A wall clock that is wrong, while a node runs and over its restarts."""

from tests.standing.case import Case, must
from tests.standing.load import beginning_with, wait
from tests.standing.trial import Trial

YEAR_S = 365 * 86_400
JUMPING = """
import time
true = time.time_ns
began = time.monotonic()
def wrong():
    second = int((time.monotonic() - began) * 5)
    return true() + (0, 400, -400, 86_400 * 365, -86_400 * 365 * 20, 7_200)[second % 6] * 1_000_000_000
time.time_ns = wrong
"""
FIXED = """
import time
true = time.time_ns
time.time_ns = lambda: true() + {shift_s} * 1_000_000_000
"""


def jumps(trial: Trial) -> None:
    """Have the clock jump by years, forth and back, five times a second."""
    node = trial.start(environment=beginning_with(trial.folder, JUMPING))
    trial.beside()
    wait(5)
    must("member-expired" not in node.said, "a member was expired for the clock")


def is_elsewhere(trial: Trial) -> None:
    """Start a node under a clock ten years ahead, then under one ten years behind, then under the right one."""
    for number, shift_s in enumerate((10 * YEAR_S, -10 * YEAR_S, 0)):
        code = FIXED.format(shift_s=shift_s)
        trial.start(environment=beginning_with(trial.folder / str(number), code))
        if number == 0:
            trial.beside()
        wait(1.5)
        if number < 2:
            trial.stop()


CASES = [
    Case("clock-jumps", "a clock that jumps by years expires nobody and forgets nothing", jumps),
    Case("clock-elsewhere", "starts under clocks that are years apart forget nothing", is_elsewhere),
]
