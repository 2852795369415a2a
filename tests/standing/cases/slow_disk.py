"""A disk that is slow, beside members that write more than it takes."""

from contextlib import suppress

from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import CommitOffsets
from tests.helpers.raw_member import RawMember
from tests.standing.case import Case
from tests.standing.load import beginning_with, wait
from tests.standing.trial import Trial

SLOW_DISK = """
import os, time
def slow(true):
    def after_a_while(*given):
        time.sleep(0.4)
        return true(*given)
    return after_a_while
os.fdatasync, os.pwritev = slow(os.fdatasync), slow(os.pwritev)
"""


def beside_a_slow_disk(trial: Trial) -> None:
    """Have commits of the largest size in flight on many connections, more than may wait for a disk that is slow."""
    trial.start(environment=beginning_with(trial.folder, SLOW_DISK))
    with trial.set_apart():
        trial.beside()
        metadata = "m" * 4_000
        offsets = in_columns(OffsetToCommit("t", partition, 1, metadata=metadata) for partition in range(240))
        members = [RawMember(trial.address, f"large-{number}") for number in range(8)]
        for member in members:
            member.connect()
        with suppress(EOFError, OSError):
            for _ in range(16):
                for member in members:
                    member.send(CommitOffsets(member.group_id, offsets))
        wait(2)
        for member in members:
            member.disconnect()
        wait(4)


CASES = [
    Case("large-appends-slow-disk", "members that write more than a slow disk takes have to wait", beside_a_slow_disk),
]
