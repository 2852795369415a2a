"""The command line in this process, on a real node: the output of a command, and its notes."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typer.testing import CliRunner

from coordinator.cli import app

if TYPE_CHECKING:
    from coordinator.local.node import LocalCoordinator


@dataclass(frozen=True)
class Said:
    """The output of a command, its notes and its exit code."""

    stdout: str
    stderr: str
    exit_code: int

    @property
    def data(self) -> Any:
        """Return the value of its output, which is JSON; None where there is none."""
        return json.loads(self.stdout) if self.stdout else None


def kcoord(node: "LocalCoordinator", *words: str, exit_code: int = 0) -> Said:
    """Run `kcoord` with words against a node, and see that it ends as it is to."""
    result = CliRunner().invoke(app, [*words, "--coordinator", node.address])
    said = Said(result.stdout, result.stderr, result.exit_code)
    assert result.exit_code == exit_code, (words, said, result.exception)
    return said
