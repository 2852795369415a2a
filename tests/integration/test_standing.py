"""The quickest of the cases that `make standing` runs, with a good client beside each."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.standing import waits
from tests.standing.__main__ import all_cases, echo, outcome
from tests.standing.cases import floods
from tests.standing.trial import Trial

if TYPE_CHECKING:
    from coordinator.local.kafka.broker import LocalKafka

QUICK = ("reset-current", "directory-twice", "stderr-closed", "flood-of-wild-frames")
pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def echo_address() -> Iterator[str]:
    with echo() as address:
        yield address


@pytest.mark.parametrize("name", QUICK)
def test_a_case_holds(
    name: str, kafka: "LocalKafka", echo_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A tenth of a second is judged by `make standing`: this machine may stand as long, which the echo does not tell.
    monkeypatch.setattr(waits, "BAR_MS", 2_000.0)
    monkeypatch.setattr(floods, "SECONDS", 1.0)
    (case,) = (each for each in all_cases() if each.name == name)
    result = outcome(case, Trial(name, tmp_path, kafka, echo_address))
    assert isinstance(result, str), result
