"""The verdict on a mirror finds what it is there to find."""

from tests.mirror_check.verdict import Verdict


def test_an_offset_that_is_not_committed_here_is_ahead() -> None:
    verdict = Verdict()
    verdict.committed(1.0, {0: 5, 1: 7})
    verdict.check(2.0, {0: 5, 1: 7}, {0: 5, 1: 7})
    verdict.check(3.0, {0: 5, 1: 9}, {0: 5, 1: 8})
    verdict.check(4.0, {2: 1}, {0: 5, 1: 8})
    assert (verdict.checks, verdict.ahead, len(verdict.examples)) == (3, 2, 2)


def test_the_delay_is_the_age_of_the_oldest_commit_that_kafka_lacks() -> None:
    verdict = Verdict()
    verdict.committed(1.0, {0: 5})
    verdict.committed(1.5, {0: 6, 1: 3})
    verdict.committed(2.0, {0: 7})
    for there in ({0: 7, 1: 3}, {0: 6, 1: 3}, {0: 7}, {}):
        verdict.check(3.0, there, {0: 7, 1: 3})
    assert verdict.delays_ms == [0, 1000, 1500, 2000]
    assert verdict.delay_p99_ms == 2000


def test_a_delay_begins_when_an_outage_is_over() -> None:
    verdict = Verdict()
    verdict.committed(1.0, {0: 5})
    verdict.check(2.0, {}, {0: 5}, is_up=False)
    verdict.is_up(2.5)
    verdict.check(3.0, {}, {0: 5})
    assert verdict.delays_ms == [500]


def test_one_look_in_a_hundred_may_be_later() -> None:
    verdict = Verdict(delays_ms=[*[100] * 198, 5_000, 6_000])
    assert verdict.delay_p99_ms == 100
