"""A follower's log is the begin of its leader's, or it is made so."""

from coordinator.core.replica import effects as o
from coordinator.core.replica import events as i
from coordinator.core.replica.epochs import ReplicaLog
from coordinator.core.replica.replica import Follower, FollowerPhase, Replica
from coordinator.core.replica.step import due_ms
from tests.helpers.replica_builder import LOG, after, command, follower, opened, push

TORN = ReplicaLog(end=6, durable_end=6, epochs=((1, 0), (2, 4)))


def test_it_asks_with_its_end_and_the_epoch_of_its_last_record() -> None:
    replica, effects = opened(1, command(2, 2))
    assert effects == [o.AskFetch(0, 2, 2, 1, 3, 1)]
    assert replica.role == Follower(2, FollowerPhase.MATCHING, 1)


def test_it_takes_nothing_before_it_was_matched() -> None:
    replica = opened(1, command(2, 2))[0]
    assert after(replica, push(3, 2)) == (replica, [])


def test_it_appends_what_continues_its_log_and_reports_it_once_it_is_synced() -> None:
    replica, effects = after(follower(), push(3, 2, 2, high_watermark=4))
    assert [type(effect) for effect in effects] == [o.AppendBatches, o.CommittedTo]
    assert (replica.log.end, replica.log.epochs, replica.high_watermark) == (5, ((1, 0), (2, 3)), 4)
    assert after(replica, i.LogSynced(0, 0, 0, 5))[1] == [o.ReportProgress(0, 2, 2, 1, 5)]


def test_a_high_watermark_above_its_end_is_known_as_far_as_its_log_goes() -> None:
    assert after(follower(), push(3, high_watermark=9))[0].high_watermark == 3


def test_records_pushed_twice_are_taken_once() -> None:
    replica = after(follower(), push(3, 2))[0]
    assert after(replica, push(3, 2)) == (replica, [])


def test_what_its_log_did_not_take_is_asked_for_again() -> None:
    replica = after(follower(), push(3, 2, 2), i.AppendRefused(100, 0, 4))[0]
    assert (replica.log.end, replica.log.number) == (4, 0)
    assert after(replica, i.Ticked(120))[1] == [o.AskFetch(0, 2, 2, 2, 4, 2)]


def test_a_gap_begins_the_fetch_again() -> None:
    assert after(follower(), push(4, 2))[1] == [o.AskFetch(0, 2, 2, 2, 3, 1)]


def test_records_of_an_epoch_before_that_of_its_last_record_are_no_log_and_dropped() -> None:
    assert after(follower(), push(3, 0)) == (follower(), [])


def test_what_belongs_to_another_fetch_or_epoch_is_dropped() -> None:
    for odd in (push(3, 2, fetch=2), push(3, 2, leader_epoch=1)):
        assert after(follower(), odd) == (follower(), [])


def test_it_cuts_where_either_log_ends_that_epoch_and_asks_again_when_the_cut_is_on_disk() -> None:
    replica = opened(1, command(3, 2), TORN)[0]
    replica, effects = after(replica, i.FetchAnswered(0, 0, 3, 1, i.Diverged(1, 5)))
    assert effects == [o.TruncateLog(0, 4, 1)], "its own records of epoch 1 end before the leader's"
    assert after(replica, i.LogCut(0, 0, 0)) == (replica, []), "that is another log"
    assert after(replica, i.LogCut(0, 0, 1))[1] == [o.AskFetch(0, 2, 3, 2, 4, 1)]


def test_a_report_about_what_was_cut_is_not_one_about_what_came_after() -> None:
    replica = after(
        opened(1, command(3, 2), TORN)[0],
        i.FetchAnswered(0, 0, 3, 1, i.Diverged(1, 4)),
        i.LogCut(0, 0, 1),
        i.FetchAnswered(0, 0, 3, 2, i.Streaming()),
        push(4, 3, 3, fetch=2, leader_epoch=3),
    )[0]
    assert after(replica, i.LogSynced(0, 0, 0, 6)) == (replica, [])
    assert after(replica, i.LogSynced(0, 0, 1, 6))[1] == [o.ReportProgress(0, 2, 3, 2, 6)]


def test_it_refuses_to_cut_what_it_knows_to_be_committed_and_says_so() -> None:
    replica = after(follower(), push(3, 2, high_watermark=4), command(3, 3))[0]
    refusing, effects = after(replica, i.FetchAnswered(0, 0, 3, 1, i.Diverged(1, 3)))
    assert effects == [o.RefuseCut(0, 3, 3, 4)]
    assert refusing.log == replica.log


def test_it_asks_again_a_leader_that_has_not_heard_of_the_epoch() -> None:
    replica = after(opened(1, command(2, 2))[0], i.FetchAnswered(100, 0, 2, 1, i.UnknownEpoch()))[0]
    assert after(replica, i.Ticked(119)) == (replica, [])
    assert after(replica, i.Ticked(120))[1] == [o.AskFetch(0, 2, 2, 2, 3, 1)]


def test_it_asks_less_often_a_leader_that_goes_on_not_having_heard_of_the_epoch() -> None:
    replica, now_ms, pauses = opened(1, command(2, 2))[0], 0, []
    for fetch in range(1, 10):
        replica = after(replica, i.FetchAnswered(now_ms, 0, 2, fetch, i.UnknownEpoch()))[0]
        again_ms = due_ms(replica)
        assert again_ms is not None
        pauses.append(again_ms - now_ms)
        now_ms = again_ms
        replica = after(replica, i.Ticked(now_ms))[0]
    assert pauses == [20, 40, 80, 160, 320, 640, 1_000, 1_000, 1_000]
    replica = after(replica, i.PeerDown(now_ms, 2), i.PeerUp(now_ms, 2))[0]
    replica = after(replica, i.FetchAnswered(now_ms, 0, 2, 11, i.UnknownEpoch()))[0]
    assert due_ms(replica) == now_ms + 20, "a connection anew may be to a node anew"


def test_it_fetches_again_when_the_connection_is_there_again() -> None:
    replica = after(follower(), i.PeerDown(0, 2))[0]
    assert after(replica, push(3, 2)) == (replica, [])
    assert after(replica, i.PeerUp(0, 2))[1] == [o.AskFetch(0, 2, 2, 2, 3, 1)]


def installing() -> Replica:
    """Node 1 takes the snapshot of node 2, whose log starts above its end."""
    return after(opened(1, command(2, 2))[0], i.FetchAnswered(0, 0, 2, 1, i.BelowLogStart(40)))[0]


def test_a_snapshot_takes_the_place_of_a_log_that_lags_too_far() -> None:
    replica, effects = after(opened(1, command(2, 2))[0], i.FetchAnswered(0, 0, 2, 1, i.BelowLogStart(40)))
    assert effects == [o.InstallSnapshot(0, 2, 2, 1)]
    replica, effects = after(replica, i.SnapshotInstalled(0, 0, 1, 50, 2))
    assert effects == [o.CommittedTo(0, 50), o.AskFetch(0, 2, 2, 2, 50, 2)]
    assert replica.log == ReplicaLog(50, 50, 50, 1, ((2, 49),), 1)


def test_a_fetch_that_stands_ends_with_a_snapshot_where_what_was_to_be_pushed_is_gone() -> None:
    overtaken = i.FetchAnswered(0, 0, 2, 1, i.BelowLogStart(40))
    replica, effects = after(follower(), overtaken)
    assert effects == [o.InstallSnapshot(0, 2, 2, 1)]
    assert after(replica, overtaken, push(3, 2)) == (replica, [])
    for void in (i.BelowLogStart(3), i.BelowLogStart(2), i.Streaming(), i.Diverged(1, 2), i.UnknownEpoch()):
        assert after(follower(), i.FetchAnswered(0, 0, 2, 1, void)) == (follower(), [])


def test_a_log_that_is_being_replaced_is_neither_led_nor_followed_with() -> None:
    assert [type(effect) for effect in after(installing(), command(3, 1))[1]] == [o.EndFetch, o.StepDown]
    moved, effects = after(installing(), command(3, 3))
    assert effects == [o.EndFetch(0, 2, 2)]
    assert after(moved, i.SnapshotInstalled(0, 0, 1, 50, 2))[1][-1] == o.AskFetch(0, 3, 3, 1, 50, 2)


def test_a_snapshot_that_does_not_come_leaves_the_log_as_it_was_and_whoever_leads_then_is_asked() -> None:
    for told, asked in ((), o.AskFetch(0, 2, 2, 2, 3, 1)), ((command(3, 3),), o.AskFetch(0, 3, 3, 1, 3, 1)):
        replica, effects = after(installing(), *told, i.SnapshotFailed(100, 0, 1))
        assert (effects, replica.log) == ([], LOG)
        assert after(replica, i.Ticked(119))[1] == []
        assert after(replica, i.Ticked(120))[1] == [asked]
    leads = after(installing(), i.SnapshotFailed(100, 0, 1), command(3, 1))[1]
    assert o.BeginEpoch(0, 3, 3, goes_on=False) in leads, "its log is whole"


def test_the_end_of_another_install_is_dropped() -> None:
    for odd in (i.SnapshotInstalled(0, 0, 0, 50, 2), i.SnapshotInstalled(0, 0, 2, 50, 2), i.SnapshotFailed(0, 0, 2)):
        assert after(installing(), odd) == (installing(), [])
    assert after(follower(), i.SnapshotInstalled(0, 0, 1, 50, 2)) == (follower(), [])


def test_it_refuses_a_snapshot_in_the_place_of_what_it_knows_to_be_committed() -> None:
    replica = after(follower(), push(3, 2, high_watermark=4), command(3, 3))[0]
    refusing, effects = after(replica, i.FetchAnswered(0, 0, 3, 1, i.BelowLogStart(3)))
    assert effects == [o.RefuseCut(0, 3, 3, 4)]
    assert (refusing.log, refusing.is_replaced) == (replica.log, False)
    effects = after(replica, i.FetchAnswered(0, 0, 3, 1, i.BelowLogStart(4)))[1]
    assert effects == [o.InstallSnapshot(0, 3, 3, 1)], "all that it knows of is in the snapshot"


def test_a_node_that_is_registered_anew_asks_again_under_its_new_node_epoch() -> None:
    asked = after(follower(), i.NodeRegistered(0))[1]
    assert asked == [o.AskFetch(0, 2, 2, 2, 3, 1)]
    assert after(installing(), i.NodeRegistered(0)) == (installing(), []), "it asks when that is over"


def test_it_confirms_the_leader_of_exactly_its_epoch() -> None:
    replica = follower()
    assert replica.confirms(2, 2)
    assert not replica.confirms(2, 1)
    assert not replica.confirms(3, 2)
    assert not after(replica, command(3, 1))[0].confirms(2, 2), "it leads a later epoch"
    assert LOG.end == 3
