"""How the tests are shared out to parallel processes: a plugin of pytest, for `scripts/check.sh`.

A process runs whole files, and `tests/spark` as a whole, so that a Spark session starts once and what a module sets up
is set up once. A process that needs a broker or a coordinator starts its own, in a directory of its own. Where a file
runs depends on how fast the others were; what runs does not.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

ONE_SESSION = "tests/spark/"
LONGEST_FIRST = (
    *("tests/sim/cluster/", ONE_SESSION, "tests/sim/"),
    *("tests/applications/", "tests/integration/", "tests/properties/"),
)
"""The order of the folders; the files of all others are short and come last, when every process has time for one.

`tests/sim` comes early because it keeps one core busy and no more: beside it, the first tests of the Spark session,
which hold that errors come soon, have most of the other; what else runs then gives way to both. A part of it comes
before them, so that Java's archive is there (`tests/quick_start`) with which the session starts in half the time.
"""


def share_of(nodeid: str) -> str:
    """Return the name of the share that a test belongs to; the tests of a share run in one process, one by one."""
    return ONE_SESSION if nodeid.startswith(ONE_SESSION) else nodeid.split("::", 1)[0]


def _turn(item: pytest.Item) -> tuple[int, Path]:
    starts = (item.nodeid.startswith(folder) for folder in LONGEST_FIRST)
    return next((turn for turn, is_it in enumerate(starts) if is_it), len(LONGEST_FIRST)), item.path


def pytest_configure(config: pytest.Config) -> None:
    """Have the second process collect from the end.

    What one has compiled the other finds compiled, which in a new clone is more than half of what collecting costs.
    """
    if getattr(config, "workerinput", {}).get("workerid") == "gw1" and config.args == config.getini("testpaths"):
        files = {path for folder in config.args for path in (config.rootpath / folder).rglob("test_*.py")}
        config.args = [str(path) for path in sorted(files, reverse=True)]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_turn)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> "LoadScopeScheduling":
    from xdist.scheduler import LoadScopeScheduling

    class Shares(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return share_of(nodeid)

    config.option.loadscopereorder = False  # it would put first what has the most tests
    return Shares(config, log)
