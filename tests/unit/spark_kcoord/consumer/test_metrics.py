"""A consumer's metrics say what its program got, in kafka-python's shape."""

import pytest

from tests.helpers.fake_consuming import Rig, owned


def test_metrics_are_of_what_calls_have_returned_whichever_they_were() -> None:
    with Rig({("t", 0): 8, ("t", 1): 3}, max_poll_records=5) as rig:
        rig.wait_for_assignment(0)
        rig.member.give(owned(0), owned(1))
        assert len(rig.offsets()) == 5
        next(rig)
        next(rig)
        next(rig)
        metrics = rig.metrics()
        assert metrics["consumer-fetch-manager-metrics"] == {
            "fetch-total": 2,
            "fetch-latency-avg": 25.0,
            "fetch-latency-max": 40.0,
            "bytes-consumed-total": 99,
            "records-consumed-total": 8,
            "records-lag-max": 3,
        }
        assert metrics["consumer-metrics"] == {"request-total": 3}
        assert metrics["consumer-coordinator-metrics"] == {"assigned-partitions": 2}
        lags = [metrics[f"consumer-fetch-manager-metrics.t-{number}"]["records-lag"] for number in (0, 1)]
        assert sorted(lags) == [0, 3]


def test_metrics_before_anything_is_read_are_all_zero() -> None:
    with Rig(topics=()) as rig:
        assert {number for group in rig.metrics().values() for number in group.values()} == {0}


def test_raw_metrics_are_refused() -> None:
    with Rig() as rig, pytest.raises(ValueError, match="raw"):
        rig.metrics(raw=True)
