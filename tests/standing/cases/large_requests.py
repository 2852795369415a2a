"""Requests that are large in what becomes of them: records and answers."""

from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import CommitOffsets, DescribeGroup, FetchOffsets
from coordinator.protocol.messages.pages import ask_for_all
from tests.helpers.raw_member import RawMember
from tests.standing.case import Case
from tests.standing.load import ask_each, fill, for_so_long
from tests.standing.trial import Trial

LONG = "t" * 249
LARGEST_LIST = 20_000


def commits(trial: Trial) -> None:
    """Commit partitions of a topic of the longest name, as many as a request may hold and as it may name."""
    trial.start()
    trial.beside()
    for number in range(12):
        offsets = in_columns(OffsetToCommit(LONG, partition, number) for partition in range(LARGEST_LIST))
        ask_each(trial, "large-commits", CommitOffsets("large-commits", offsets))
        fill(trial.address, "large-commits", LONG, LARGEST_LIST)


def described(trial: Trial) -> None:
    """Describe a group of 100,000 partitions, and fetch its offsets, all the time."""
    trial.start()
    trial.beside()
    fill(trial.address, "described", "history", 100_000)
    with RawMember(trial.address, "described") as tool, trial.only_this():
        for_so_long(5, lambda: ask_for_all(tool.ask, DescribeGroup("described")))
        for_so_long(3, lambda: ask_for_all(tool.ask, FetchOffsets("described")))


CASES = [
    Case("large-commits", "commits of the most partitions that a request may name stop nothing", commits),
    Case("large-descriptions", "descriptions of 100,000 partitions keep nobody else waiting", described),
]
