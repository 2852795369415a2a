"""A crowd of members before a node that is slower than their patience: all get in.

`SlowNode` takes what comes in its order, one piece of work after another, also what a member has meanwhile given up.
`BusyNode` does as a node of ours: a hello at once, first questions before what costs more, nothing for who has hung up.
"""

import heapq
from collections import deque
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from coordinator.core.requests.finding import PATIENCE_EACH_MS
from coordinator.protocol.messages import FindCoordinator, RegisterConsumer
from coordinator.runtime.server.turns import FIRST_SHARE
from spark_kcoord.member.core.session.states import State
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


class BusyNode:
    """A node that is some times slower than usual, with the line of who greets, who asks first and who registers."""

    def __init__(self, crowd: list[MemberPair], slowness: float) -> None:
        self.crowd = crowd
        self.costs_ms = {"greet": 0.1 * slowness, "find": 0.1 * slowness, "register": slowness}
        self.works = 0
        self._now_ms = 0.0
        self._spent_ms = dict.fromkeys(self.costs_ms, 0.0)
        self._lines: dict[str, deque[tuple[int, int]]] = {kind: deque() for kind in self.costs_ms}
        self._wakes: list[tuple[int, int]] = []
        self._seen: dict[int, int] = {}
        self._expected: set[tuple[int, int]] = set()
        for number in range(len(crowd)):
            self._look_at(number)

    def work(self) -> None:
        """Work until nobody waits for anything."""
        while (kind := self._next_kind()) or self._wakes:
            if kind is None:
                self._pass_to(max(self._now_ms, self._wakes[0][0]))
                continue
            number, connection_id = self._lines[kind].popleft()
            pair = self.crowd[number]
            if pair.connection_id == connection_id:  # one that hangs up while it waits is not heard
                self.works += 1
                self._spent_ms[kind] += self.costs_ms[kind]
                self._pass_to(self._now_ms + self.costs_ms[kind])
                if pair.connection_id == connection_id:
                    self._do(kind, number, connection_id)

    def _next_kind(self) -> str | None:
        greet, find, register = self._lines.values()
        if greet or not (find and register):
            return next((kind for kind, line in self._lines.items() if line), None)
        is_share_spent = self._spent_ms["find"] * (1 - FIRST_SHARE) > self._spent_ms["register"] * FIRST_SHARE
        return "register" if is_share_spent else "find"

    def _do(self, kind: str, number: int, connection_id: int) -> None:
        pair, me = self.crowd[number], (number, connection_id)
        pair.pass_ms(int(self._now_ms) - pair.now_ms)
        if kind == "greet":
            pair.accept()
            self._lines["find"].append(me)
        elif kind == "find":
            self._expected.add(me)
            pair.answer(FindCoordinator, replace(found(), patience_ms=PATIENCE_EACH_MS * len(self._expected)))
            self._lines["register"].append(me)
        else:
            self._expected.discard(me)
            pair.answer(RegisterConsumer, registered)
            return
        self._look_at(number)

    def _pass_to(self, now_ms: float) -> None:
        self._now_ms = now_ms
        while self._wakes and self._wakes[0][0] <= now_ms:
            wake_ms, number = heapq.heappop(self._wakes)
            pair = self.crowd[number]
            if not pair.results and pair.wake_ms == wake_ms:
                pair.pass_ms(wake_ms - pair.now_ms)
                self._look_at(number)

    def _look_at(self, number: int) -> None:
        pair = self.crowd[number]
        if pair.connection_id is not None and self._seen.get(number) != pair.connection_id:
            self._seen[number] = pair.connection_id
            self._lines["greet"].append((number, pair.connection_id))
        if pair.wake_ms is not None:
            heapq.heappush(self._wakes, (pair.wake_ms, number))


def crowd_of(count: int) -> list[MemberPair]:
    crowd = [MemberPair(member_settings=settings(join_timeout_ms=10**6)) for _ in range(count)]
    for pair in crowd:
        pair.join()
    return crowd


@pytest.mark.parametrize(("count", "slowness"), [(200, 1), (200, 45), (1_000, 8)])
def test_nobody_gives_up_a_node_that_is_behind_and_lives(count: int, slowness: float) -> None:
    crowd = crowd_of(count)
    node = BusyNode(crowd, slowness)
    node.work()
    assert sum(bool(pair.results) for pair in crowd) == count
    assert sum(len(pair.connects) for pair in crowd) == count
    assert node.works == 3 * count


@pytest.mark.parametrize("slowness", [150])
def test_what_a_crowd_gives_up_at_a_node_that_is_slower_still_costs_the_node_little(slowness: float) -> None:
    crowd = crowd_of(200)
    node = BusyNode(crowd, slowness)
    node.work()
    assert sum(bool(pair.results) for pair in crowd) == len(crowd)
    assert sum(len(pair.connects) for pair in crowd) > len(crowd)
    assert node.works <= 2 * 3 * len(crowd)


@pytest.mark.parametrize("work_ms", [10, 30, 60])
def test_crowd_gets_in_at_a_node_that_is_slower_than_its_patience(work_ms: int) -> None:
    crowd = crowd_of(200)
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


def test_node_that_has_said_hello_has_more_time_than_one_that_has_not() -> None:
    pair = MemberPair(member_settings=settings(join_timeout_ms=100_000))
    pair.join()
    pair.accept()
    pair.pass_ms(5_900)
    assert pair.member.state is State.FINDING
    pair.pass_ms(100)
    assert pair.member.state is State.WAITING
    pair.pass_ms(100)
    pair.accept(greet=False)
    pair.pass_ms(5_900)
    assert pair.member.state is State.GREETING
    pair.pass_ms(100)
    assert pair.member.state is State.WAITING


@pytest.mark.parametrize(("asked_ms", "waits_ms"), [(0, 10_000), (9_000, 10_000), (25_000, 25_000), (10**9, 120_000)])
def test_registration_has_the_time_that_its_node_asks_for_within_bounds(asked_ms: int, waits_ms: int) -> None:
    pair = MemberPair(member_settings=settings(join_timeout_ms=200_000))
    pair.join()
    pair.accept()
    pair.answer(FindCoordinator, replace(found(), patience_ms=asked_ms))
    pair.pass_ms(waits_ms - 1)
    assert pair.member.state is State.REGISTERING
    pair.pass_ms(1)
    assert pair.member.state is State.WAITING
