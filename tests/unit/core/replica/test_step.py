"""Whom a replica obeys, and that it leaves an epoch before anything else."""

import pytest
from msgspec.structs import replace

from coordinator.core.replica import effects as o
from coordinator.core.replica import events as i
from coordinator.core.replica.epochs import ReplicaLog
from coordinator.core.replica.replica import Absent, Offline, Opening, Replica
from tests.helpers.replica_builder import LOG, SETTINGS, after, asks, command, follower, leader, opened, push, started


def test_a_first_command_opens_the_log_and_the_latest_one_is_obeyed_then() -> None:
    replica, effects = after(Replica(0, 1, SETTINGS), command(2, 1))
    assert (effects, replica.role) == ([o.OpenReplica(0, 0)], Opening(command(2, 1)))
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
    assert (replica.role, replica.leader_epoch, replica.log.end) == (Absent(), 3, 0)
    assert after(leader(), i.StopReplica(0, 0, 1, deletes=True)) == (leader(), [])


def test_a_command_of_an_epoch_below_that_of_the_log_halts_the_node() -> None:
    log = ReplicaLog(end=3, durable_end=3, epochs=((7, 0),))
    (halt,) = opened(1, command(2, 1), log)[1]
    assert isinstance(halt, o.HaltNode)
    assert "older than this log" in halt.why


def test_a_log_that_is_opened_again_has_another_number_than_the_one_that_was_dropped() -> None:
    stopped = after(leader(), i.StopReplica(0, 0, 3, deletes=True))[0]
    opening, effects = after(stopped, command(4, 2))
    assert effects == [o.OpenReplica(0, 1)]
    assert after(opening, i.ReplicaOpened(0, 0, LOG)) == (opening, []), "that is the one that was dropped"
    replica, effects = after(opening, i.ReplicaOpened(0, 0, ReplicaLog(number=1)))
    assert effects == [o.AskFetch(0, 2, 4, 1, 0, -1)]
    streamed = after(
        replica, i.FetchAnswered(0, 0, 4, 1, i.Streaming()), push(0, 1, 1, 1, 1, high_watermark=0, leader_epoch=4)
    )[0]
    assert after(streamed, i.LogSynced(0, 0, 0, 4)) == (streamed, []), "said of the log that was dropped"
    assert after(streamed, i.LogSynced(0, 0, 1, 4))[1] == [o.ReportProgress(0, 2, 4, 1, 4)]


def test_a_snapshot_of_a_log_that_was_replaced_moves_no_start() -> None:
    installed = after(
        opened(1, command(2, 2))[0],
        i.FetchAnswered(0, 0, 2, 1, i.BelowLogStart(40)),
        i.SnapshotInstalled(0, 0, 1, 50, 2),
    )[0]
    stopped = after(leader(), i.StopReplica(0, 0, 3, deletes=True))[0]
    for replica in (installed, stopped, after(stopped, command(4, 2))[0]):
        assert after(replica, i.LogStartMoved(0, 0, 0, 2)) == (replica, [])


def test_a_snapshot_that_was_begun_before_a_cut_moves_the_start_of_what_is_left() -> None:
    torn = ReplicaLog(end=6, durable_end=6, epochs=((1, 0), (2, 4)))
    cut = after(opened(1, command(3, 2), torn)[0], i.FetchAnswered(0, 0, 3, 1, i.Diverged(1, 4)))[0]
    assert after(cut, i.LogStartMoved(0, 0, 0, 3))[0].log.start == 3


def test_a_log_from_before_an_unclean_election_is_moved_aside_and_copied_anew() -> None:
    told = replace(command(5, 2, isr=(2,)), unclean_epoch=4)
    replica, effects = started(1, told)
    number = replica.log.number
    void = (
        "it ends at 3 in leader epoch 1, and in epoch 4 a person had a replica lead that lacked records: what only "
        "this log has was given up then"
    )
    assert effects == [o.DropReplica(0, deletes=True, void=void), o.OpenReplica(0, number)]
    empty = replace(LOG.renumbered(number), end=0, durable_end=0, epochs=())
    replica, effects = after(replica, i.ReplicaOpened(0, 0, empty))
    assert isinstance(effects[-1], o.AskFetch)
    assert (effects[-1].leader, effects[-1].end) == (2, 0)


@pytest.mark.parametrize(
    "told",
    [
        command(5, None, isr=(2,)),
        command(5, 1, isr=(1,)),
        command(5, 2, isr=(1, 2)),
    ],
)
def test_who_leads_after_an_unclean_election_or_is_in_sync_since_keeps_its_log(told: i.LeaderAndIsr) -> None:
    replica, effects = started(1, replace(told, unclean_epoch=4))
    assert not any(isinstance(effect, o.DropReplica) for effect in effects)
    assert replica.log.end >= LOG.end


def test_a_log_with_records_from_after_an_unclean_election_is_kept() -> None:
    effects = started(1, replace(command(5, 2, isr=(2,)), unclean_epoch=1))[1]
    assert not any(isinstance(effect, o.DropReplica) for effect in effects)


def test_a_leader_of_before_leaves_its_epoch_when_its_log_is_void() -> None:
    effects = after(leader(), replace(command(5, 2, isr=(2,)), unclean_epoch=5))[1]
    assert effects[0] == o.Resign(0, 2)
    assert isinstance(effects[1], o.DropReplica)
    assert effects[1].void.startswith("it ends at 4 in leader epoch 2, and in epoch 5 a person had")
