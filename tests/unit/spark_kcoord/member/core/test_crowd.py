"""A crowd of members before a node that is slower than their patience: all get in.

The node takes what comes in its order, one piece of work after another, also what a member has meanwhile given up: a
node cannot know of that before it has looked.
"""

from collections import deque
from collections.abc import Callable

import pytest

from coordinator.protocol.messages import FindCoordinator, RegisterConsumer
from tests.helpers.member_pair import MemberPair, found, registered, settings

STEP_MS = 10


class SlowNode:
    """A node on which a connection, and each request, takes some time of its one thread."""

    def __init__(self, crowd: list[MemberPair], work_ms: int) -> None:
        self.crowd = crowd
        self.now_ms = self.works = 0
        self._work_ms = work_ms
        self._queue: deque[tuple[MemberPair, int, Callable[[MemberPair], None]]] = deque()
        self._seen: dict[int, int] = {}
        self._free_ms = 0

    def pass_ms(self, ms: int) -> None:
        """Let time pass for all of them, and have the node work meanwhile."""
        for _ in range(ms // STEP_MS):
            self.now_ms += STEP_MS
            now_ms = self.now_ms
            for pair in self.crowd:
                if not pair.results:
                    pair.pass_ms(now_ms - pair.now_ms)
                    self._look_for_connection(pair)
            while self._queue and self._free_ms + self._work_ms <= now_ms:
                self._free_ms += self._work_ms
                self.works += 1
                pair, connection_id, work = self._queue.popleft()
                if pair.connection_id == connection_id:
                    work(pair)
            self._free_ms = self._free_ms if self._queue else now_ms

    def _look_for_connection(self, pair: MemberPair) -> None:
        if pair.connection_id is not None and self._seen.get(id(pair)) != pair.connection_id:
            self._seen[id(pair)] = pair.connection_id
            self._plan(pair, self._accept)

    def _plan(self, pair: MemberPair, work: Callable[[MemberPair], None]) -> None:
        assert pair.connection_id is not None
        self._queue.append((pair, pair.connection_id, work))

    def _accept(self, pair: MemberPair) -> None:
        pair.accept()
        self._plan(pair, self._find)

    def _find(self, pair: MemberPair) -> None:
        pair.answer(FindCoordinator, found())
        self._plan(pair, lambda pair: pair.answer(RegisterConsumer, registered) and None)


@pytest.mark.parametrize("work_ms", [10, 30, 60])
def test_crowd_gets_in_at_a_node_that_is_slower_than_its_patience(work_ms: int) -> None:
    crowd = [MemberPair(member_settings=settings(join_timeout_ms=10**6)) for _ in range(200)]
    for pair in crowd:
        pair.join()
    node = SlowNode(crowd, work_ms)
    least_ms = 3 * len(crowd) * work_ms
    node.pass_ms(4 * least_ms)
    assert sum(bool(pair.results) for pair in crowd) == len(crowd)
    assert node.works <= 3 * 3 * len(crowd), "more than two thirds of the node's work were for nothing"


def test_member_gives_a_silent_node_more_time_each_time_and_says_how_long_it_waited() -> None:
    pair = MemberPair(member_settings=settings(join_timeout_ms=100_000))
    call = pair.join()
    pair.pass_ms(60_000)
    assert [connect.timeout_ms for connect in pair.connects] == [3_000, 6_000, 12_000, 24_000, 24_000]
    pair.accept(greet=False)
    pair.pass_ms(45_000)
    assert "did not say hello within 24000 ms" in pair.errors[call]


def test_registration_that_is_not_answered_has_more_time_the_next_time() -> None:
    pair = MemberPair(member_settings=settings(join_timeout_ms=200_000))
    pair.join()
    waits = []
    for _ in range(3):
        pair.find()
        begin_ms, connects = pair.now_ms, len(pair.connects)
        while len(pair.connects) == connects:
            pair.pass_ms(1_000)
        waits.append((pair.now_ms - begin_ms) // 10_000)
    assert waits == [1, 2, 4]
