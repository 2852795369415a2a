"""Histograms as Prometheus has them."""

import threading

from coordinator.runtime.figures.family import Histogram, gauge


def test_a_histogram_is_cumulative_and_a_bound_belongs_to_its_bucket() -> None:
    made = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        made.observe(value)
    assert made.samples((("api", "Ping"),)) == (
        ("_bucket", (("api", "Ping"), ("le", "1.0")), 2),
        ("_bucket", (("api", "Ping"), ("le", "2.0")), 3),
        ("_bucket", (("api", "Ping"), ("le", "+Inf")), 4),
        ("_sum", (("api", "Ping"),), 12.0),
        ("_count", (("api", "Ping"),), 4),
    )


def test_no_value_is_lost_where_threads_come_together() -> None:
    made = Histogram((1.0,))
    threads = [threading.Thread(target=lambda: [made.observe(0.5) for _ in range(2_000)]) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    assert made.samples()[-1] == ("_count", (), 16_000)


def test_what_is_not_known_has_no_sample() -> None:
    assert gauge("kcoord_x", "X.", None).samples == ()
    assert gauge("kcoord_x", "X.", 0).samples == (("", (), 0),)
