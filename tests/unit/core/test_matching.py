"""The topics that patterns match, a bounded number of names in each step."""

import pytest

from coordinator.core import matching, meter
from coordinator.core.matching import Matching
from coordinator.core.meter import Meter

NAMES = frozenset(f"{letter}{number:03}" for letter in "ab" for number in range(200))
OF_A = tuple(sorted(name for name in NAMES if name[0] == "a"))


def steps_for(found: Matching, work: Meter, pattern: str, names: frozenset[str]) -> tuple[tuple[str, ...], int]:
    """Return what a pattern matches, and how many steps that took."""
    for number in range(1, 10_000):
        work.matched = 0
        topics = found.topics(pattern, names)
        if topics is not None:
            return topics, number
    raise AssertionError("it is never through")


def test_few_names_are_matched_in_one_step() -> None:
    work = Meter()
    assert steps_for(Matching(work), work, "a.*", NAMES) == (OF_A, 1)


def test_many_names_are_matched_in_steps_of_a_bounded_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "MATCHED_AT_ONCE", 10_000)
    work = Meter()
    topics, steps = steps_for(Matching(work), work, "a.*", NAMES)
    assert (topics, steps > 30) == (OF_A, True)
    assert work.matched < 10_000 + 1_000


def test_dear_pattern_takes_more_steps_than_a_cheap_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "MATCHED_AT_ONCE", 100_000)
    work = Meter()
    cheap = steps_for(Matching(work), work, "a.*", NAMES)
    dear = steps_for(Matching(work), work, "(.?){200}", NAMES)
    assert (cheap[1] < 10, dear[1] > 30, dear[0]) == (True, True, tuple(sorted(NAMES)))


def test_what_was_found_is_found_again_at_once_and_only_new_names_are_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "MATCHED_AT_ONCE", 10_000)
    work = Meter()
    found = Matching(work)
    steps_for(found, work, "a.*", NAMES)
    assert steps_for(found, work, "a.*", NAMES) == (OF_A, 1)
    changed = (NAMES | {"a-new", "b-new"}) - {"a000"}
    assert steps_for(found, work, "a.*", changed) == (("a-new", *OF_A[1:]), 1)


def test_listing_that_changes_in_every_step_does_not_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "MATCHED_AT_ONCE", 10_000)
    work = Meter()
    found, names, last = Matching(work), NAMES, ""
    for number in range(100):
        work.matched = 0
        last = f"a-new-{number}"
        names = NAMES | {last}
        topics = found.topics("a.*", names)
        if topics is not None:
            break
    assert topics == tuple(sorted((*OF_A, last)))


def test_step_that_has_matched_enough_compiles_no_pattern() -> None:
    work = Meter()
    work.match(meter.MATCHED_AT_ONCE)
    matching.compiled.cache_clear()
    assert Matching(work).topics("a.*", NAMES) is None
    assert matching.compiled.cache_info().misses == 0


def test_patterns_asked_for_longest_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "KEPT_PATTERNS", 2)
    monkeypatch.setattr(meter, "MATCHED_AT_ONCE", 100_000)
    work = Meter()
    found = Matching(work)
    first = steps_for(found, work, "a.*", NAMES)
    for pattern in ("b.*", "a.*", ".*1"):
        steps_for(found, work, pattern, NAMES)
    assert first[1] > 1
    assert steps_for(found, work, "a.*", NAMES) == (OF_A, 1)
    assert steps_for(found, work, "b.*", NAMES)[1] > 1


def test_topics_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "KEPT_TOPICS", 250)
    work = Meter()
    found = Matching(work)
    for pattern in ("a.*", "b.*", ".*"):
        steps_for(found, work, pattern, NAMES)
    assert list(found._matched) == [".*"]


def test_listings_of_patterns_that_nobody_asks_for_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "KEPT_NAMES", 5 * len(NAMES))
    work = Meter()
    found = Matching(work)
    listings = [NAMES | {f"a-new-{number}"} for number in range(20)]
    for number, names in enumerate(listings):
        steps_for(found, work, f"a.*|{number}", names)
        assert steps_for(found, work, "b.*", names)[1] == 1
    kept = {id(matched.names): len(matched.names) for matched in found._matched.values()}
    assert id(listings[-1]) in kept
    assert sum(kept.values()) <= 5 * len(NAMES)
    assert sum(kept.values()) == found._names


def test_patterns_that_are_being_matched_on_many_listings_do_not_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "KEPT_NAMES", 1)
    monkeypatch.setattr(meter, "MATCHED_AT_ONCE", 10_000)
    work = Meter()
    found, left = Matching(work), {f"a.*|{number}": NAMES | {f"new-{number}"} for number in range(5)}
    for _ in range(100):
        for pattern, names in list(left.items()):
            work.matched = 0
            if found.topics(pattern, names) is not None:
                del left[pattern]
    assert not left
