"""The machines of the nodes: the wall clock and the disk of each can be made ill and well again while its node runs.

What a node's own Python finds in its machine's folder is what it sees; see `machine/sitecustomize.py`.
"""

from enum import Enum
from pathlib import Path

from tests.helpers.python_path import python_path

_CUSTOM = Path(__file__).parent / "machine"


class Disk(Enum):
    """The ways in which a disk is ill."""

    FULL = "full"
    FAILING = "failing"
    SLOW = "slow"

    @property
    def advice(self) -> str:
        """Return the words that a node that ends because of it has to say."""
        return {
            Disk.FULL: "Make room on this file system",
            Disk.FAILING: "Check the disk and the kernel's log",
            Disk.SLOW: "",
        }[self]


class Machine:
    """The machine of one node, as files in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of a Python that runs on this machine."""
        path = python_path(_CUSTOM)
        return {"PYTHONPATH": path, "KCOORD_CHAOS_MACHINE": str(self._folder)}

    def set_clock(self, ahead_s: int) -> None:
        """Have the wall clock be so many seconds ahead, or behind."""
        self._say("clock", str(ahead_s))

    def spoil_disk(self, how: Disk) -> None:
        """Have the disk be ill."""
        self._say("disk", how.value)

    def mend_disk(self) -> None:
        """Have the disk be well."""
        (self._folder / "disk").unlink(missing_ok=True)

    def _say(self, name: str, value: str) -> None:
        temporary = self._folder / f"{name}.new"
        temporary.write_text(value)
        temporary.replace(self._folder / name)
