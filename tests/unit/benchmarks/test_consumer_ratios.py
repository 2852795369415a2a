"""The figures of bench-consumer: ratios of one round, the corpus that is worst, and bars."""

import pytest

from benchmarks.consumer.bench import AT_LEAST, AT_MOST, missed
from benchmarks.consumer.corpus import Corpus
from benchmarks.consumer.throughput import Measured, paired, worst

SMALL, LARGE = Corpus("small", 8, 10, 100), Corpus("large", 8, 10, 1_000)


def paces(*per_s: int) -> list[Measured]:
    return [Measured(rows, 1.0, 0.5) for rows in per_s]


def test_a_ratio_is_of_one_round_and_to_the_peer_that_was_fastest_in_it() -> None:
    rounds = {"ours": paces(10, 30), "slow": paces(5, 1), "fast": paces(2, 10)}
    assert paired(rounds, "ours", ["slow", "fast"]) == [2.0, 3.0]


def test_the_corpus_counts_that_has_the_smallest_median() -> None:
    measured = {
        SMALL: {"ours": paces(10, 20, 30), "peer": paces(10, 10, 10)},
        LARGE: {"ours": paces(11, 15, 90), "peer": paces(10, 10, 10)},
    }
    assert worst(measured, "ours", ["peer"]) == pytest.approx(1.5)


def test_figures_on_their_bars_are_within_and_beyond_are_named() -> None:
    assert missed(AT_LEAST | AT_MOST) == []
    wrong = {name: bar - 0.1 for name, bar in AT_LEAST.items()} | {name: bar + 0.1 for name, bar in AT_MOST.items()}
    assert missed(wrong) == [*AT_LEAST, *AT_MOST]
    assert missed({"commit_ms": 1e9}) == []
