"""Registrations that show very much, and requests in which the node meets a bug of its own."""

from contextlib import suppress

from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import CommitOffsets, ListClaims
from coordinator.protocol.parts import Claim, StartHint
from tests.helpers.raw_member import RawMember
from tests.standing.case import Case, must
from tests.standing.cases.kafka_numbers import registration
from tests.standing.load import ask_each, beginning_with, wait
from tests.standing.trial import Trial

LONG = "t" * 249
BUGGY = """
from coordinator.core.groups.hard import journal
true = journal.Journal.decide
def decide(self, *records):
    if any(getattr(record, "group_id", None) == "buggy" for record in records):
        raise KeyError("a bug was planted here")
    return true(self, *records)
journal.Journal.decide = decide
"""


def shown_starts(trial: Trial) -> None:
    """Register with 40,000 starts of a checkpoint, and with 160,000 of short names, and with claims."""
    trial.start()
    trial.beside()
    topic = f"shown-{trial.name}"
    trial.kafka.create_topic(topic, 1)
    for name, count, at_once in ((LONG, 40_000, 3_500), ("t", 160_000, 19_000)):
        hints = [StartHint(name, "i", partition, 5, from_checkpoint=True) for partition in range(count)]
        lists = [ListClaims(hints=tuple(hints[first : first + at_once])) for first in range(0, count, at_once)]
        ask_each(trial, "shown", *lists, registration("shown", topic, is_returning=True))
        claims = [Claim(name, "i", partition, 7, 0, 5) for partition in range(count)]
        lists = [ListClaims(claims=tuple(claims[first : first + at_once])) for first in range(0, count, at_once)]
        ask_each(trial, "shown", *lists, registration("shown", topic, is_returning=True))


def a_bug(trial: Trial) -> None:
    """Have a handler fail, as a bug of ours would have it, again and again."""
    node = trial.start(environment=beginning_with(trial.folder, BUGGY))
    trial.beside()
    trial.is_traceback_expected = True
    for number in range(20):
        offsets = in_columns([OffsetToCommit("t", 0, number)])
        with suppress(EOFError, OSError), RawMember(trial.address, "buggy") as member:
            member.ask(CommitOffsets("buggy", offsets))
        must(node.is_running, "a bug in one request ended the node", kind="stopped")
        wait(0.1)
    node.wait_until_it_says("a bug was planted here")


CASES = [
    Case("large-registrations", "a registration that shows 160,000 starts or claims stops nothing", shown_starts, 90),
    Case("bug-in-a-request", "a bug in one request costs that request, and the node goes on", a_bug),
]
