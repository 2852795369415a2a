"""What clients of a cluster saw, and whether a cluster that keeps its promises could have shown it to them.

Each partition of each group is a register of its own that only goes up: an owner commits offsets above where it began.
Times are of one clock, which all clients share; an operation took place at some time between its two. Pure: a recorded
history in, a verdict out, so that planted histories show that each kind of mistake is found.

- lost: an acknowledged commit is not in a read that began later, nor in any read after that; or the next owner was
  told to begin below it.
- stale: it is missing in such a read, and there again later: somebody spoke who should not have.
- regressed: a read shows less than one that had ended before it, though nothing acknowledged is missing; or a commit
  was accepted below one that had been.
- phantom: a read shows what nobody had tried to commit, and not the beginning of the log either.
- zombie: a commit was accepted under an owner epoch after its partition was given to another under a later one; or two
  members were given a partition under the same epoch.
- stuck: nothing is committed of a partition for too long after all faults have ended.

A commit whose outcome is unknown may be there or not, but not change its mind: that is regressed.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

Key = tuple[str, str, int]
"""Group, topic and partition."""
NOTHING = -1
"""The offset of a partition of which nothing is committed."""
BEGINNING = 0
"""The start of a partition's first owner, which is committed when that gives it back and has committed nothing yet."""


class Outcome(Enum):
    """What a client heard of its commit."""

    ACKED = "acked"
    FENCED = "fenced"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of one partition, by a member under its owner epoch."""

    key: Key
    member: str
    owner_epoch: int
    offset: int
    began_s: float
    ended_s: float
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Read:
    """What `node` said is committed; NOTHING for nothing."""

    key: Key
    offset: int
    began_s: float
    ended_s: float
    node: str


@dataclass(frozen=True, slots=True)
class Grant:
    """A member has seen that a partition is its own under an owner epoch, to be read from `start` on."""

    key: Key
    member: str
    owner_epoch: int
    start: int
    seen_s: float


@dataclass(frozen=True, slots=True)
class Calm:
    """A time at which all faults had ended; until `until_s` each partition has to have a commit accepted."""

    since_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class History:
    """Everything that was recorded, in any order."""

    commits: Sequence[Commit] = ()
    reads: Sequence[Read] = ()
    grants: Sequence[Grant] = ()
    calms: Sequence[Calm] = ()
    keys: Sequence[Key] = ()
    """The partitions that have to come on in each calm."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One thing that cannot be, with a sentence."""

    kind: str
    key: Key
    why: str


T = TypeVar("T", Commit, Read, Grant)
KINDS = ("lost", "regressed", "phantom", "stale", "zombie", "stuck")


def judge(history: History) -> list[Anomaly]:
    """Return everything in a history that cannot be."""
    commits = _by_key(history.commits)
    reads = _by_key(history.reads)
    grants = _by_key(history.grants)
    found: list[Anomaly] = []
    for key in sorted({*commits, *reads, *grants}):
        register = _Register(key, commits[key], reads[key], grants[key])
        found += register.judge()
    return found + _stuck(history, commits)


class _Register:
    """All that was seen of one partition of one group."""

    def __init__(self, key: Key, commits: list[Commit], reads: list[Read], grants: list[Grant]) -> None:
        self._key = key
        self._commits = commits
        self._acked = sorted((each for each in commits if each.outcome is Outcome.ACKED), key=_ended)
        self._reads = sorted(reads, key=_ended)
        self._grants = sorted(grants, key=lambda grant: grant.seen_s)
        self._acked_by = _Highest([(each.ended_s, each.offset) for each in self._acked])
        self._read_by = _Highest([(each.ended_s, each.offset) for each in self._reads])

    def judge(self) -> list[Anomaly]:
        """Return what cannot be."""
        return [*self._of_reads(), *self._of_commits(), *self._of_grants()]

    def _of_reads(self) -> Iterable[Anomaly]:
        tried = sorted((each.began_s, each.offset) for each in self._commits)
        known = {NOTHING, BEGINNING}
        at = 0
        for read in self._reads:
            while at < len(tried) and tried[at][0] <= read.ended_s:
                known.add(tried[at][1])
                at += 1
            if read.offset not in known:
                yield self._found("phantom", f"{_said(read)}, which nobody had tried to commit")
                continue
            floor = self._acked_by.before(read.began_s)
            if read.offset < floor:
                is_back = any(later.began_s > read.ended_s and later.offset >= floor for later in self._reads)
                yield self._found(
                    "stale" if is_back else "lost", f"{_said(read)}, and {floor} had been acknowledged before"
                )
            elif read.offset < self._read_by.before(read.began_s):
                yield self._found(
                    "regressed", f"{_said(read)}, and {self._read_by.before(read.began_s)} had been read before"
                )

    def _of_commits(self) -> Iterable[Anomaly]:
        later_owners = _Highest([(grant.seen_s, grant.owner_epoch) for grant in self._grants])
        for commit in self._acked:
            if later_owners.before(commit.began_s) > commit.owner_epoch:
                yield self._found(
                    "zombie",
                    f"{_done(commit)}, though the partition had been given away under owner epoch "
                    f"{later_owners.before(commit.began_s)}",
                )
            elif self._acked_by.before(commit.began_s) > commit.offset:
                yield self._found(
                    "regressed",
                    f"{_done(commit)}, and {self._acked_by.before(commit.began_s)} had been accepted before",
                )

    def _of_grants(self) -> Iterable[Anomaly]:
        owners: dict[int, Grant] = {}
        for grant in self._grants:
            first = owners.setdefault(grant.owner_epoch, grant)
            if first.member != grant.member:
                why = f"{first.member} and {grant.member} both had owner epoch {grant.owner_epoch}"
                yield self._found("zombie", why)
        for grant in owners.values():
            floor = max((each.offset for each in self._acked if each.owner_epoch < grant.owner_epoch), default=NOTHING)
            if grant.start < floor:
                yield self._found(
                    "lost",
                    f"{grant.member} was told to begin at {grant.start} under owner epoch {grant.owner_epoch}, and "
                    f"{floor} had been acknowledged to an owner before it",
                )

    def _found(self, kind: str, why: str) -> Anomaly:
        return Anomaly(kind, self._key, why)


class _Highest:
    """The greatest number so far, at any time."""

    def __init__(self, numbers: list[tuple[float, int]]) -> None:
        self._times: list[float] = []
        self._highest: list[int] = []
        highest = NOTHING
        for time_s, number in sorted(numbers):
            highest = max(highest, number)
            self._times.append(time_s)
            self._highest.append(highest)

    def before(self, time_s: float) -> int:
        """Return the greatest number of what was over before a time."""
        at = bisect_left(self._times, time_s)
        return self._highest[at - 1] if at else NOTHING


def _stuck(history: History, commits: dict[Key, list[Commit]]) -> list[Anomaly]:
    found: list[Anomaly] = []
    for calm in history.calms:
        for key in history.keys:
            moved = any(
                each.outcome is Outcome.ACKED and each.began_s >= calm.since_s and each.ended_s <= calm.until_s
                for each in commits[key]
            )
            if not moved:
                why = (
                    f"nothing of it was accepted in the {calm.until_s - calm.since_s:.0f} s after the faults had ended"
                )
                found.append(Anomaly("stuck", key, why))
    return found


def _by_key(recorded: Sequence[T]) -> dict[Key, list[T]]:
    found: dict[Key, list[T]] = defaultdict(list)
    for each in recorded:
        found[each.key].append(each)
    return found


def _ended(recorded: Commit | Read) -> float:
    return recorded.ended_s


def _said(read: Read) -> str:
    return f"{read.node} said {read.offset} at {read.began_s:.3f} to {read.ended_s:.3f} s"


def _done(commit: Commit) -> str:
    return (
        f"{commit.offset} of {commit.member} under owner epoch {commit.owner_epoch} was accepted at "
        f"{commit.began_s:.3f} to {commit.ended_s:.3f} s"
    )
