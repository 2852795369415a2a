"""A service that cannot be started says so in a sentence, whatever keeps it from that, and leaves nothing running."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from coordinator.local.errors import LocalServiceError
from coordinator.local.process.service import LocalService


class Toy(LocalService):
    """A service that needs a file of its own."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__("The toy", data_dir, log_name="toy.log", port=0, start_timeout_s=5.0)

    def _command(self) -> Sequence[str]:
        (self.data_dir / "settings").write_text("all=well\n")
        return [sys.executable, "-c", ""]

    def _why_not_ready(self) -> str:
        return ""


def is_a_file(path: Path) -> None:
    path.write_text("")


def has_a_directory_in_the_place_of_a_file(path: Path) -> None:
    (path / "settings").mkdir(parents=True)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (is_a_file, "The toy cannot be started: [Errno 17] File exists: '{}'."),
        (
            has_a_directory_in_the_place_of_a_file,
            "The toy cannot be started: [Errno 21] Is a directory: '{}/settings'.",
        ),
    ],
)
def test_a_directory_that_cannot_be_used_is_said(tmp_path: Path, made: Callable[[Path], None], said: str) -> None:
    path = tmp_path / "toy"
    made(path)
    toy = Toy(path)
    with pytest.raises(LocalServiceError) as refused:
        toy.start()
    assert str(refused.value) == said.format(path)
    assert not toy.is_running
