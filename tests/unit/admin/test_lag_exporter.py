"""The page under kafka-lag-exporter's names has its labels, and the figures of /metrics."""

from prometheus_client.parser import text_string_to_metric_families

from coordinator.admin.metrics import Metrics
from coordinator.core.requests.survey import Seen
from tests.unit.admin.test_metrics import WILD, group, partitions


def page(*surveys: list[Seen], cluster: str = "k") -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    made = Metrics("9.9", max_groups=100, max_partitions=100, cluster=cluster)
    for number, seen in enumerate(surveys):
        for _ in made.take(seen, {}, 10_000 * (number + 1)):
            pass
    text = b"".join(made.lag_exporter().body).decode()
    return {
        family.name: {tuple(sample.labels.items()): sample.value for sample in family.samples}
        for family in text_string_to_metric_families(text)
    }


def test_lag_has_the_names_and_labels_of_kafka_lag_exporter() -> None:
    seen = page(
        [group(), partitions((0, 100, 200), (1, 100, 300))],
        [group(), partitions((0, 100, 200), (1, 100, 400), commit_ms=11_000)],
    )
    nobody = (("member_host", "unknown"), ("consumer_id", "unknown"), ("client_id", "unknown"))
    of_group = (("cluster_name", "k"), ("group", "g"))

    def part(number: int) -> tuple[tuple[str, str], ...]:
        return (*of_group, ("topic", "t"), ("partition", str(number)), *nobody)

    seconds = seen.pop("kafka_consumergroup_group_lag_seconds")
    assert set(seconds) <= {part(0), part(1)}
    assert seen.pop("kafka_consumergroup_group_max_lag_seconds") == {of_group: max(seconds.values())}
    assert seen == {
        "kafka_consumergroup_group_offset": {part(0): 100, part(1): 100},
        "kafka_consumergroup_group_lag": {part(0): 100, part(1): 300},
        "kafka_consumergroup_group_max_lag": {of_group: 300},
        "kafka_consumergroup_group_sum_lag": {of_group: 400},
        "kafka_consumergroup_group_topic_sum_lag": {(*of_group, ("topic", "t")): 400},
        "kafka_partition_latest_offset": {
            (("cluster_name", "k"), ("topic", "t"), ("partition", "0")): 200,
            (("cluster_name", "k"), ("topic", "t"), ("partition", "1")): 400,
        },
    }


def test_what_is_not_known_has_no_line() -> None:
    assert set(page([group(), partitions((0, 100, None))])) == {"kafka_consumergroup_group_offset"}


def test_names_are_escaped_here_too() -> None:
    seen = page([group(WILD), partitions((0, 1, 3), group_id=WILD, topic=WILD)], cluster=WILD)
    shown = WILD.replace("\ud800", "\\ud800")
    labels = (("cluster_name", shown), ("group", shown), ("topic", shown))
    assert seen["kafka_consumergroup_group_topic_sum_lag"] == {labels: 2}
    assert next(iter(seen["kafka_consumergroup_group_lag"]))[:3] == labels


def test_every_partition_has_its_line_however_many_there_are() -> None:
    rows = [(number, 1, 3) for number in range(1_700)]
    made = Metrics("9.9", max_groups=9, max_partitions=9_999, cluster="k")
    for _ in made.take([group(), partitions(*rows)], {}, 1_000):
        pass
    parts = list(made.lag_exporter().body)
    assert max(part.count(b"\n") for part in parts) <= 500
    assert b"".join(parts).count(b"kafka_consumergroup_group_lag{") == 1_700
