"""Offsets of a topic that Kafka does not have, as many as a large group has."""

from tests.standing.case import Case
from tests.standing.cases.kafka_numbers import registration
from tests.standing.load import ask_each, fill, wait
from tests.standing.trial import Trial


def unknown_topic(trial: Trial) -> None:
    """Have a group with 150,000 offsets of a topic that Kafka does not have, and a member of that topic."""
    trial.start()
    trial.beside()
    topic = f"unknown-{trial.name}"
    trial.kafka.create_topic(topic, 1)
    fill(trial.address, "unknown", "nobody-has-it", 150_000)
    ask_each(trial, "unknown", registration("unknown", topic))
    ask_each(trial, "unknown", registration("unknown", "nobody-has-it", wait_for_topics=True))
    wait(8)


CASES = [
    Case("unknown-topics", "150,000 offsets of a topic that Kafka does not have keep nobody waiting", unknown_topic),
]
