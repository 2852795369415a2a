"""Whom a replica obeys, and that it leaves an epoch before anything else."""

import pytest

from coordinator.core.replica import effects as o
from coordinator.core.replica import events as i
from coordinator.core.replica.epochs import ReplicaLog
from coordinator.core.replica.replica import Absent, Offline, Opening, Replica
from tests.helpers.replica_builder import LOG, SETTINGS, after, asks, command, follower, leader, opened


def test_a_first_command_opens_the_log_and_the_latest_one_is_obeyed_then() -> None:
    replica, effects = after(Replica(0, 1, SETTINGS), command(2, 1))
    assert (effects, replica.role) == ([o.OpenReplica(0)], Opening(command(2, 1)))
    replica, effects = after(replica, command(3, 2))
    assert effects == []
    assert after(replica, i.ReplicaOpened(0, 0, LOG))[1] == [o.AskFetch(0, 2, 3, 1, 3, 1)]


def test_what_a_snapshot_stands_for_is_known_to_be_committed() -> None:
    log = ReplicaLog(start=5, end=9, durable_end=9, epochs=((1, 4),))
    assert opened(1, command(2, 2), log)[0].high_watermark == 5


@pytest.mark.parametrize("replica", [follower(), leader()], ids=["follower", "leader"])
@pytest.mark.parametrize("told", [command(2, 3), command(1, 1), command(2, None)], ids=str)
def test_an_epoch_that_is_not_greater_changes_nothing(replica: Replica, told: i.LeaderAndIsr) -> None:
    assert after(replica, told) == (replica, [])


def test_a_follower_ends_its_fetch_before_it_leads() -> None:
    effects = after(follower(), command(3, 1))[1]
    assert effects[:2] == [o.EndFetch(0, 2, 2), o.BeginEpoch(0, 3, 3, goes_on=False)]


def test_a_leader_resigns_before_it_fetches() -> None:
    assert after(leader(), command(3, 2))[1] == [o.Resign(0, 2), o.AskFetch(0, 2, 3, 1, 4, 2)]


def test_without_a_leader_a_replica_waits() -> None:
    replica, effects = after(leader(), command(3, None))
    assert (effects, replica.role) == ([o.Resign(0, 2)], Offline())
    assert after(replica, command(4, 1))[1][0] == o.BeginEpoch(0, 4, 4, goes_on=False)


def test_a_fetch_of_an_epoch_not_heard_of_yet_is_asked_again_and_one_of_another_is_fenced() -> None:
    assert after(follower(), asks(3))[1] == [o.AnswerFetch(0, 3, 2, 1, i.Fenced())]
    ahead = i.FetchAsked(0, 0, 3, 5, 3, 1, 3, 1)
    assert after(leader(), ahead)[1] == [o.AnswerFetch(0, 3, 3, 1, i.UnknownEpoch())]


def test_a_replica_that_is_stopped_leaves_and_forgets_all_but_the_epoch() -> None:
    replica, effects = after(leader(), i.StopReplica(0, 0, 3, deletes=True))
    assert effects == [o.Resign(0, 2), o.DropReplica(0, deletes=True)]
    assert (replica.role, replica.leader_epoch, replica.log) == (Absent(), 3, ReplicaLog())
    assert after(leader(), i.StopReplica(0, 0, 1, deletes=True)) == (leader(), [])


def test_a_command_of_an_epoch_below_that_of_the_log_halts_the_node() -> None:
    log = ReplicaLog(end=3, durable_end=3, epochs=((7, 0),))
    (halt,) = opened(1, command(2, 1), log)[1]
    assert isinstance(halt, o.HaltNode)
    assert "older than this log" in halt.why
