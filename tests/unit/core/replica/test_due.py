"""Time is let pass where it may matter, and nowhere else."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from coordinator.core.replica import events as i
from coordinator.core.replica.replica import Leader, Replica
from coordinator.core.replica.step import ALWAYS, Ticks, due_ms, stalls_ms, step
from tests.helpers.replica_builder import LOG, SETTINGS, after, asks, command, follower, has, leader, opened, started
from tests.sim.cluster.run import run_cluster_seed


def serving() -> Replica:
    return after(leader(), asks(2), asks(3), has(2, 4), has(3, 4))[0]


BEHIND = i.Appended(500, 0, 2, 5)
OWN = i.LogSynced(500, 0, 0, 5)
DUE: dict[str, tuple[Callable[[], Replica], int | None]] = {
    "a leader of whom nothing is behind": (serving, None),
    "followers that are behind": (lambda: after(serving(), BEHIND, OWN)[0], 500 + SETTINGS.lag_ms),
    "its own disk alone": (
        lambda: after(serving(), BEHIND, has(2, 5, now_ms=500), has(3, 5, now_ms=500))[0],
        500 + SETTINGS.step_down_ms,
    ),
    "a follower without a connection": (
        lambda: after(serving(), i.PeerDown(700, 3))[0],
        700 + SETTINGS.closed_grace_ms,
    ),
    "one that was refused": (
        lambda: after(leader((1, 2)), asks(2), has(2, 4), asks(3), has(3, 4), _refused(900))[0],
        900 + SETTINGS.lag_ms,
    ),
    "a leader out of its set": (lambda: after(serving(), i.IsrSeen(0, 0, 2, 11, (2, 3)))[0], ALWAYS),
    "a stalled one": (lambda: after(serving(), i.Ticked(2_000, waiting_since_ms=0))[0], ALWAYS),
    "a follower": (follower, None),
    "one that asks again": (
        lambda: after(opened(1, command(2, 2))[0], i.FetchAnswered(40, 0, 2, 1, i.UnknownEpoch()))[0],
        40 + SETTINGS.fetch_retry_ms,
    ),
    "one that does not lead": (
        lambda: after(serving(), i.CutRefused(60, 0, 2, 2, 9))[0],
        60 + SETTINGS.step_down_ms,
    ),
    "one that hears others first": (lambda: started(1, command(2, 1), LOG)[0], SETTINGS.doubt_ms),
    "one without a leader": (lambda: opened(1, command(2, None))[0], None),
}


def _refused(now_ms: int) -> i.IsrWritten:
    return i.IsrWritten(now_ms, 0, 1, i.WriteOutcome.NOT_REGISTERED)


@pytest.mark.parametrize("name", DUE)
def test_a_tick_changes_something_from_when_it_is_due_on_and_nothing_before(name: str) -> None:
    make, due = DUE[name]
    replica = make()
    assert due_ms(replica) == due
    if due is None:
        assert step(replica, i.Ticked(10**9)) == (replica, [])
    elif due is not ALWAYS:
        assert step(replica, i.Ticked(due - 1)) == (replica, [])
        assert step(replica, i.Ticked(due)) != (replica, [])


def test_a_send_that_waits_is_looked_at_as_soon_as_it_is_too_long() -> None:
    replica = serving()
    due = stalls_ms(replica.settings, 100)
    assert due == 100 + SETTINGS.stall_ms
    assert step(replica, i.Ticked(due - 1, waiting_since_ms=100)) == (replica, [])
    assert step(replica, i.Ticked(due, waiting_since_ms=100)) != (replica, [])
    never = replace(SETTINGS, stall_ms=0)
    assert stalls_ms(never, 100) == 100 + SETTINGS.step_down_ms
    assert isinstance(replica.role, Leader)


@pytest.mark.parametrize("seed", [3, 9])
def test_no_tick_is_missed_in_a_simulated_cluster(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rightly, passed_over = Ticks.matters, [0]

    def matters(ticks: Ticks, shard: int, replica: Replica, waiting_since_ms: int | None, now_ms: int) -> bool:
        if rightly(ticks, shard, replica, waiting_since_ms, now_ms):
            return True
        assert step(replica, i.Ticked(now_ms, waiting_since_ms)) == (replica, [])
        passed_over[0] += 1
        return False

    monkeypatch.setattr(Ticks, "matters", matters)
    outcome = run_cluster_seed(seed, story_lines=20)
    assert outcome.broken == "", outcome.shown
    assert passed_over[0] > 100, "it is seen at work"
