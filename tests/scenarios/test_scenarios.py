"""Runs the transcripts beside this file; KCOORD_RECORD=1 writes them anew, to be read before they are committed."""

import os
from pathlib import Path

import pytest

from tests.helpers.node_world import NodeWorld
from tests.helpers.transcripts import Transcript

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario_goes_as_written(path: Path) -> None:
    script = path.read_text()
    happened = Transcript(NodeWorld({})).run(script)
    if os.environ.get("KCOORD_RECORD"):
        path.write_text(happened)
    assert happened == path.read_text()
