"""Memory that no account counts: claims that are listed and never registered with, and timelines that say very much."""

from contextlib import ExitStack

from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import CommitOffsets, ListClaims
from coordinator.protocol.messages.operators import ChangePause
from coordinator.protocol.parts import Claim
from tests.helpers.raw_member import RawMember
from tests.standing.case import Case, must
from tests.standing.load import resident_mib
from tests.standing.trial import Trial

MIB = 1 << 20
LISTERS = 16
LISTED = 190_000
AT_ONCE = 5_000
LONG = "t" * 249
PAUSES = 800
GROUPS = 4
MOST_GROWTH_MIB = 200


def listed_and_left(trial: Trial) -> None:
    """List as many claims as one registration may have, on one connection after the other, and never register."""
    node = trial.start(f"group.listed_total_bytes={32 * MIB}")
    trial.beside()
    claims = [Claim("t", "i", number, 2**40 + number, number, 2**34 + number) for number in range(LISTED)]
    lists = [ListClaims(claims=tuple(claims[first : first + AT_ONCE])) for first in range(0, LISTED, AT_ONCE)]
    before = resident_mib(node.process.pid)
    with ExitStack() as opened:
        for _ in range(LISTERS):
            lister = opened.enter_context(RawMember(trial.address, "listers"))
            for request in lists:
                answer = lister.ask(request)
                must(answer.error is ErrorCode.NONE, f"a list is refused: {answer.message}")
        grown = resident_mib(node.process.pid) - before
    must(grown < MOST_GROWTH_MIB, f"what {LISTERS} connections have listed takes {grown} MiB")


def long_timelines(trial: Trial) -> None:
    """Pause and resume a hundred partitions of long names, with the longest reason, as often as a timeline keeps."""
    node = trial.start(f"group.timeline_total_bytes={8 * MIB}")
    trial.beside()
    named = tuple((LONG, number) for number in range(100))
    before = resident_mib(node.process.pid)
    for group in (f"told-{number}" for number in range(GROUPS)):
        with RawMember(trial.address, group) as tool:
            tool.ask(CommitOffsets(group, in_columns(OffsetToCommit(*partition, 1) for partition in named)))
            for number in range(PAUSES):
                pause = ChangePause(group, named, number % 2 == 0, "ann", "\U0001f600" * 1_000, is_dry_run=False)
                answer = tool.ask(pause)
                must(answer.error is ErrorCode.NONE, f"a pause is refused: {answer.message}")
    grown = resident_mib(node.process.pid) - before
    must(grown < MOST_GROWTH_MIB // 2, f"the timelines of {GROUPS} groups take {grown} MiB")


CASES = [
    Case("listed-and-left", "claims that are listed and never registered with have a bound", listed_and_left),
    Case(
        "long-timelines",
        "what is told of groups has a bound, however much it is",
        long_timelines,
    ),
]
