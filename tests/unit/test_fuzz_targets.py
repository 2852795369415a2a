"""What the fuzzer has found stays mended, and each of its targets takes whatever comes or refuses it as declared."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS
from tests.helpers.examples import examples

FOUND = Path(__file__).parents[1] / "fuzz" / "found"
EXAMPLES = examples(30, 3_000)
inputs = st.binary(max_size=300) | st.lists(st.binary(min_size=1, max_size=4), max_size=60).map(b"".join)


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_takes_its_seeds_and_not_all_of_them_are_refused(name: str) -> None:
    seeds = TARGETS[name].seeds()
    refused = [TARGETS[name].take(seed) for seed in seeds]
    assert len(refused) > 0
    assert not all(refused), "the fuzzer would never get past the first check"


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_takes_whatever_comes(name: str) -> None:
    @settings(max_examples=EXAMPLES)
    @given(inputs)
    def check(data: bytes) -> None:
        TARGETS[name].take(data)

    check()


@pytest.mark.parametrize("path", sorted(FOUND.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_was_found_is_taken_or_refused_as_declared(path: Path) -> None:
    TARGETS[path.parent.name].take(path.read_bytes())


def test_every_finding_is_of_a_target() -> None:
    assert {path.parent.name for path in FOUND.glob("*/*")} <= set(TARGETS)
