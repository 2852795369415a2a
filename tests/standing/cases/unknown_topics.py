"""Offsets of a topic that Kafka does not have, as many as a large group has."""

from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import CommitOffsets
from tests.helpers.raw_member import RawMember
from tests.standing.case import Case
from tests.standing.cases.kafka_numbers import registration
from tests.standing.load import ask_each, wait
from tests.standing.trial import Trial


def unknown_topic(trial: Trial) -> None:
    """Have a group with 150,000 offsets of a topic that Kafka does not have, and a member of that topic."""
    trial.start()
    trial.beside()
    topic = f"unknown-{trial.name}"
    trial.kafka.create_topic(topic, 1)
    with RawMember(trial.address, "unknown") as tool:
        for first in range(0, 150_000, 5_000):
            offsets = (OffsetToCommit("nobody-has-it", partition, 1) for partition in range(first, first + 5_000))
            tool.ask(CommitOffsets("unknown", in_columns(offsets)))
    ask_each(trial, "unknown", registration("unknown", topic))
    ask_each(trial, "unknown", registration("unknown", "nobody-has-it", wait_for_topics=True))
    wait(8)


CASES = [
    Case("unknown-topics", "150,000 offsets of a topic that Kafka does not have keep nobody waiting", unknown_topic),
]
