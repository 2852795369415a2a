"""Rounds in both directions: what this node asks its followers to confirm, and what it confirms to its leaders.

What was decided leaves when a round that began later is confirmed. Rounds ride on records; when something waits that no
record will carry, a peer is asked by itself. An answer counts for every fetch of the peer that is open here: one that
the peer has left it has ended before it answered.
"""

from collections.abc import Iterable

from coordinator.core.replica.effects import ReportProgress
from coordinator.core.replica.replica import NO_ROUND
from coordinator.core.replica.rounds import Rounds


class Confirmations:
    """The rounds of a node, and the reports that go with the next answer to each leader."""

    def __init__(self, linger_ms: int) -> None:
        self.rounds = Rounds(linger_ms)
        self._seen: dict[int, int] = {}
        self._answered: dict[int, int] = {}
        self._reports: dict[int, dict[int, ReportProgress]] = {}
        self._owed: set[int] = set()

    # ---- as a leader ------------------------------------------------------------------------------------------------

    @property
    def next_round(self) -> int:
        """Return the round that what is decided now has to wait for."""
        return self.rounds.needed

    def with_records(self, peer: int, now_ms: int) -> int:
        """Begin a round that records carry."""
        self.rounds, round_ = self.rounds.asking_with_records(peer, now_ms)
        return round_

    def alone(self, peer: int, now_ms: int) -> int | None:
        """Begin a round to be asked by itself; None while an answer is awaited or the last question was just now."""
        self.rounds, round_ = self.rounds.asking(peer, now_ms)
        return round_

    def again_ms(self, peer: int) -> int | None:
        """Return when a peer may be asked again; None while its answer is awaited."""
        known = self.rounds.of(peer)
        return None if known.is_asked else known.asked_ms + self.rounds.linger_ms

    def answered(self, peer: int, round_: int) -> int:
        """Take note that a peer has answered a round; returns it, or none if it was not asked for that."""
        if round_ > self.rounds.of(peer).sent:
            return NO_ROUND
        self.rounds = self.rounds.answered(peer, round_)
        return round_

    # ---- as a follower ----------------------------------------------------------------------------------------------

    def asked(self, leader: int, round_: int, *, answers_with_sync: bool) -> None:
        """Take note of a leader's round; what it came with may be answered once it is on disk."""
        if round_ > self._seen.get(leader, 0):
            self._seen[leader] = round_
            if not answers_with_sync:
                self._owed.add(leader)

    def report(self, report: ReportProgress) -> None:
        """Have something said to a leader at the end of the turn."""
        self._reports.setdefault(report.leader, {})[report.shard] = report

    def withdraw(self, leader: int, shard: int) -> None:
        """Say nothing more about a shard, whose leader this is no longer."""
        self._reports.get(leader, {}).pop(shard, None)

    def owe_all(self) -> None:
        """Have every leader answered that has not been: what its records came with may never be synced."""
        self._owed |= {leader for leader, seen in self._seen.items() if seen > self._answered.get(leader, 0)}

    def take_answers(self) -> Iterable[tuple[int, int, tuple[ReportProgress, ...]]]:
        """Return leader, last round seen and reports of all that is to be said now."""
        if not self._reports and not self._owed:
            return
        reports, self._reports = self._reports, {}
        owed, self._owed = self._owed, set()
        for leader in sorted({leader for leader, its in reports.items() if its} | owed):
            round_ = self._seen.get(leader, 0)
            self._answered[leader] = round_
            yield leader, round_, tuple(reports.get(leader, {}).values())

    # ---- connections ------------------------------------------------------------------------------------------------

    def disconnected(self, peer: int) -> None:
        """Forget what was under way in either direction."""
        self.rounds = self.rounds.disconnected(peer)
        for of_contact in (self._seen, self._answered, self._reports):
            of_contact.pop(peer, None)
        self._owed.discard(peer)
