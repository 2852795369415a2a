"""A careless operator: every verb, with names that are wrong or of somebody else, as fast as it goes."""

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import CommitOffsets, DescribeGroup, LeaveGroup, ListGroupEvents, Request
from coordinator.protocol.messages.operators import (
    CancelResets,
    ChangeDrain,
    ChangePause,
    DeleteGroup,
    DeleteOffsets,
    DescribeControls,
    ReleaseClaims,
    ResetOffsets,
)
from coordinator.protocol.parts import ResetTarget
from tests.helpers.raw_member import RawMember
from tests.standing.case import Case, must
from tests.standing.load import for_so_long
from tests.standing.trial import PARTITIONS, Trial

SECONDS = 6.0
NOBODY = "nobody"


def requests(chance: random.Random, group: str, topics: tuple[str, ...], *, is_dry_run: bool) -> Iterator[Request]:
    """Yield requests of every verb for ever, about partitions that are there and that are not."""
    while True:
        named = tuple((chance.choice(topics), chance.choice((0, 1, 3, 99, 2**31))) for _ in range(chance.randrange(4)))
        kind = chance.choice(("earliest", "latest", "current", "offset", "timestamp", "duration", "shift", "wrong"))
        value = chance.choice((None, 0, -1, 5, 2**62))
        targets = tuple(ResetTarget(topic, partition, kind, value) for topic, partition in named)
        yield chance.choice(
            (
                ChangePause(group, named or None, chance.random() < 0.5, "w", is_dry_run=is_dry_run),
                ChangeDrain(group, NOBODY, is_drained=True, who="w", is_dry_run=is_dry_run),
                ResetOffsets(group, targets, "w", is_dry_run=is_dry_run),
                CancelResets(group, named or None, "w", is_dry_run=is_dry_run),
                DeleteOffsets(group, named, "w", is_dry_run=is_dry_run),
                DeleteGroup(group, "w", is_dry_run=is_dry_run),
                ReleaseClaims(group, named, "w", is_dry_run=is_dry_run),
                DescribeControls(group),
                DescribeGroup(group),
                ListGroupEvents(group),
            )
        )


def careless(trial: Trial) -> None:
    """Ask all of it of the good client's group without executing, and of another one in earnest, amid its members."""
    trial.start()
    trial.beside()
    topic = f"operated-{trial.name}"
    trial.kafka.create_topic(topic, PARTITIONS)
    chance = random.Random(7)
    topics = (topic, f"good-{trial.name}", "not-there")
    looked_at = requests(chance, trial.group, topics, is_dry_run=True)
    changed = requests(chance, "operated", topics, is_dry_run=False)
    with RawMember(trial.address, "operated", topic) as member, RawMember(trial.address, "operated") as tool:

        def act() -> None:
            for _ in range(5):
                tool.ask(next(looked_at))
                tool.ask(next(changed))
            tool.ask(CommitOffsets("operated", in_columns([OffsetToCommit(topic, chance.randrange(4), 1)])))
            member.connect()
            with suppress(EOFError, OSError):
                member.register()
                tool.ask(next(changed))
                member.ask(LeaveGroup())

        must(for_so_long(SECONDS, act) > 10, "the operator was too slow")


def by_the_command_line(trial: Trial) -> None:
    """Type verbs with wrong names and wild values; none of them may do anything to the node."""
    trial.start()
    trial.beside()
    for words in (
        ("describe", "not-there"),
        ("reset-offsets", trial.group, "--to-offset", str(2**70)),
        ("delete", trial.group, "--execute"),
        ("delete-offsets", trial.group, "--topic", "not-there", "--execute"),
        ("drain", trial.group, "nobody", "--execute"),
        ("release-claim", trial.group, "--execute"),
        ("pause", "--match", "nothing-*", "--execute"),
    ):
        ended = subprocess.run(
            [sys.executable, "-m", "coordinator", "group", *words, "--coordinator", trial.address],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        must(ended.returncode in range(1, 8) or words[0] == "release-claim", f"{words} ended with {ended}")
        must("Traceback" not in ended.stderr, f"{words}: {ended.stderr[-1500:]}")


CASES = [
    Case("careless-operator", "operators who ask for anything at all keep nobody else waiting", careless),
    Case("careless-command-line", "verbs with wrong names do nothing to a group that is at work", by_the_command_line),
]
