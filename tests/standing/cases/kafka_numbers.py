"""Numbers and names that Kafka's protocol cannot hold, said by every verb that asks Kafka something."""

import contextlib
import struct

from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import CommitOffsets, RegisterConsumer, Request
from coordinator.protocol.messages.operators import DeleteOffsets, ResetOffsets
from coordinator.protocol.parts import ResetPolicy, ResetTarget, StartHint, Subscription
from tests.helpers.raw_member import RawMember
from tests.standing.case import Case, must
from tests.standing.load import says
from tests.standing.trial import Trial

LONG_NAME = "n" * 40_000
ROUNDS = 5
FOUR_BYTES = "\U0001f600" * 249
WILD = (2**31, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), -1)
NAMES = ("", LONG_NAME, FOUR_BYTES, "a/b", "a\x00b", "..")


def registration(group: str, topic: str, **more: object) -> RegisterConsumer:
    """Return the registration of a new member."""
    words: dict[str, object] = {
        "group_id": group,
        "member_id": "",
        "incarnation": "i",
        "subscription": Subscription((topic,)),
        "client_id": "wild",
        "pid": 1,
        "session_timeout_ms": 1_000,
        "rebalance_timeout_ms": 60_000,
        "assignors": ("sticky",),
    }
    return RegisterConsumer(**(words | more))  # type: ignore[arg-type]  # each is of its field's type


def wild_requests(topic: str) -> list[Request]:
    """Return requests of legal form that come to Kafka with wild values."""
    requests: list[Request] = []
    for number in WILD:
        for kind in ("timestamp", "duration", "offset", "shift"):
            targets = (ResetTarget(topic, 0, kind, number), ResetTarget(topic, 1, "current"))
            requests.append(ResetOffsets("wild", targets, "w", is_dry_run=False))
        requests.append(ResetOffsets("wild", (ResetTarget(topic, number, "latest"),), "w", is_dry_run=False))
        requests.append(CommitOffsets("wild", in_columns([OffsetToCommit(topic, number, 5)])))
        requests.append(DeleteOffsets("wild", ((topic, number),), "w", is_dry_run=False))
        requests.append(registration(f"policy-{number}", topic, reset_policy=ResetPolicy("timestamp", number)))
        hint = StartHint(topic, "", 0, number, from_checkpoint=False)
        requests.append(registration(f"hint-{number}", topic, hints=(hint,)))
        explicit = Subscription(partitions=((topic, number),))
        requests.append(registration(f"explicit-{number}", topic, subscription=explicit))
    for name in NAMES:
        requests.append(ResetOffsets("wild", (ResetTarget(name, 0, "latest"),), "w", is_dry_run=False))
        requests.append(CommitOffsets("wild", in_columns([OffsetToCommit(name, 0, 5)])))
        requests.append(registration("names", name))
        requests.append(registration("names", name, wait_for_topics=True))
        requests.append(registration(name or "x", topic, instance_id=name))
    return requests


def numbers(trial: Trial) -> None:
    """Say them all, and see that Kafka is still asked."""
    trial.start()
    trial.beside()
    topic = f"numbers-{trial.name}"
    trial.kafka.create_topic(topic, 2)
    said: set[str] = set()
    for _ in range(ROUNDS):
        for request in wild_requests(topic):
            with contextlib.suppress(OverflowError, ValueError, struct.error):  # some cannot be put on the wire at all
                said.add(says(trial, request))
    must(said <= {each.name for each in ErrorCode} | {"closed"}, f"answers: {said}")
    with RawMember(trial.address, "after") as tool:
        tool.ask(CommitOffsets("after", in_columns([OffsetToCommit(topic, 0, 5)])))
        answer = tool.ask(ResetOffsets("after", (ResetTarget(topic, 0, "latest"),), "w", is_dry_run=False))
    must(
        [result.error for result in getattr(answer, "results", ())] == [ErrorCode.NONE],
        f"Kafka is not asked any more: {answer}",
    )


def current_beside_a_deletion(trial: Trial) -> None:
    """Delete offsets again and again while resets to `current`, which ask Kafka, are under way."""
    trial.start()
    trial.beside()
    topic = f"current-{trial.name}"
    trial.kafka.create_topic(topic, 4)
    targets = (ResetTarget(topic, 0, "current"), *(ResetTarget(topic, each, "latest") for each in (1, 2, 3)))
    with RawMember(trial.address, "current") as one, RawMember(trial.address, "current") as two:
        for _ in range(300):
            one.ask(CommitOffsets("current", in_columns([OffsetToCommit(topic, 0, 5)])))
            asked = one.send(ResetOffsets("current", targets, "w", is_dry_run=False))
            two.ask(DeleteOffsets("current", ((topic, 0),), "w", is_dry_run=False))
            one.take_answer(asked)


CASES = [
    Case("kafka-numbers", "numbers and names that Kafka cannot hold are refused, and Kafka is asked on", numbers, 90),
    Case(
        "reset-current",
        "an offset that is deleted while it is reset to where it is stops nothing",
        current_beside_a_deletion,
    ),
]
