"""The last line."""

from coordinator.demo.outcome import Outcome, failure_line, final_line


def test_the_line_of_success_has_every_figure() -> None:
    outcome = Outcome(flights=336776, missing=0, duplicates=12, lag=0, moved=4, taken_over=4, handover_ms=1043)
    assert (
        final_line(outcome)
        == "demo: OK flights=336776 missing=0 duplicates=12 lag=0 moved=4 taken_over=4 handover_ms=1043"
    )


def test_the_line_of_a_cluster_says_how_long_the_group_had_no_node() -> None:
    outcome = Outcome(20000, 0, 0, 0, moved=4, taken_over=4, handover_ms=7, nodes=3, failover_ms=900)
    assert final_line(outcome).endswith(" handover_ms=7 nodes=3 failover_ms=900")


def test_the_line_of_failure_is_one_line() -> None:
    assert failure_line("Kafka ended;\n  it said:\n no space") == "demo: FAILED Kafka ended; it said: no space"
