"""A leader commits what its whole in-sync set holds, and says nothing that the set has not confirmed."""

import pytest

from coordinator.core.replica import effects as o
from coordinator.core.replica import events as i
from coordinator.core.replica.epochs import ReplicaLog
from coordinator.core.replica.leader import needed_round
from coordinator.core.replica.replica import NO_ROUND, Declined, Leader, LeaderPhase, Replica
from tests.helpers.replica_builder import after, asks, command, has, leader, opened


def serving() -> Replica:
    """Both others follow and have everything, all of which is committed."""
    return after(leader(), asks(2), asks(3), has(2, 4), has(3, 4))[0]


def test_its_epoch_begins_with_a_record_before_the_load() -> None:
    replica, effects = opened(1, command(2, 1))
    assert effects == [o.BeginEpoch(0, 2, 3, goes_on=False), o.LoadShard(0, 2, 4)]
    assert (replica.log.end, replica.log.last_epoch) == (4, 2)
    assert after(replica, i.ShardLoaded(0, 0, 1)) == (replica, []), "a load of a former epoch is void"
    assert after(replica, i.ShardLoaded(0, 0, 2))[1] == [o.BecomeServing(0, 2)]


def test_a_follower_whose_log_is_the_begin_of_its_own_gets_what_follows() -> None:
    effects = after(leader(), asks(2))[1]
    assert effects == [o.AnswerFetch(0, 2, 2, 1, i.Streaming()), o.PushRecords(0, 2, 2, 1, 3, 4, 0)]


@pytest.mark.parametrize(
    ("end", "last_epoch", "answer"),
    [
        (5, 1, i.Diverged(1, 3)),
        (4, 1, i.Diverged(1, 3)),
        (2, 0, i.Diverged(-1, 0)),
        (9, 2, i.Diverged(2, 4)),
        (4, 2, i.Streaming()),
        (0, -1, i.Streaming()),
    ],
)
def test_a_log_that_differs_is_told_from_where_on(end: int, last_epoch: int, answer: i.FetchAnswer) -> None:
    assert o.AnswerFetch(0, 2, 2, 1, answer) in after(leader(), asks(2, end=end, last_epoch=last_epoch))[1]


def test_high_watermark_is_the_smallest_durable_end_of_the_whole_isr_its_own_included() -> None:
    replica = after(leader(), asks(2), asks(3), has(2, 4))[0]
    assert replica.high_watermark == 0
    replica, effects = after(replica, has(3, 4))
    assert o.GateMoved(0, 2, 4, 0) in effects
    replica = after(replica, i.Appended(0, 0, 2, 6), has(2, 6), has(3, 6))[0]
    assert replica.high_watermark == 4, "its own disk has not reported"
    assert after(replica, i.LogSynced(0, 0, 0, 6))[1] == [o.GateMoved(0, 2, 6, 0)]


def test_what_a_turn_appends_is_pushed_to_every_open_fetch_in_order() -> None:
    replica, effects = after(serving(), i.Appended(0, 0, 2, 6))
    assert effects == [o.PushRecords(0, 2, 2, 1, 4, 6, 4), o.PushRecords(0, 3, 2, 1, 4, 6, 4)]
    assert after(replica, i.Appended(0, 0, 2, 7))[1][0] == o.PushRecords(0, 2, 2, 1, 6, 7, 4)


def test_a_round_is_confirmed_when_all_others_of_the_maximal_isr_have_answered_it() -> None:
    replica = after(serving(), has(2, 4, round_=8))[0]
    assert after(replica, has(3, 4, round_=7))[1] == [o.GateMoved(0, 2, 4, 7)]


def test_a_leader_that_is_its_whole_isr_asks_nobody() -> None:
    alone = i.LeaderAndIsr(0, 0, 2, 1, (1,), (1,), 0)
    replica, effects = opened(1, alone)
    assert o.GateMoved(0, 2, 0, None) in effects
    assert needed_round(replica, 8) == NO_ROUND
    assert after(replica, i.LogSynced(0, 0, 0, 4))[0].high_watermark == 0, "min.insync.replicas is 2"


def test_progress_of_another_fetch_or_of_a_former_life_counts_for_nothing() -> None:
    replica = after(leader(), asks(2), asks(2, fetch=2))[0]
    assert after(replica, has(2, 4)) == (replica, [])
    former = i.ProgressMade(0, 0, 2, 4, 2, 2, 4, 9)
    assert after(replica, former) == (replica, [])


def test_a_follower_that_left_the_epoch_is_pushed_nothing_and_counts_for_nothing_more() -> None:
    replica = after(serving(), i.FetchEnded(0, 0, 2, 5, 2))[0]
    assert [effect.follower for effect in after(replica, i.Appended(0, 0, 2, 5))[1]] == [3]  # type: ignore[union-attr]
    assert after(replica, has(2, 4, round_=9)) == (replica, [])


def test_it_steps_down_when_a_follower_holds_committed_records_that_it_lacks() -> None:
    replica, effects = after(serving(), i.CutRefused(0, 0, 2, 2, 9))
    assert [type(effect) for effect in effects] == [o.Resign, o.StepDown]
    assert isinstance(replica.role, Declined)


def test_a_member_that_asks_for_what_it_had_leaves_the_isr_whatever_is_left_of_it() -> None:
    assert o.ChangeIsr(0, 2, 10, (1, 3), 1) in after(serving(), asks(2, fetch=2, end=0, last_epoch=-1))[1]
    two = after(leader((1, 2)), asks(2), has(2, 4))[0]
    assert o.ChangeIsr(0, 2, 10, (1,), 1) in after(two, asks(2, fetch=2, end=0, last_epoch=-1))[1]


def test_it_stalls_when_what_it_said_does_not_leave_then_asks_to_be_replaced_and_serves_again_when_it_has_left() -> (
    None
):
    replica, effects = after(serving(), i.Ticked(2_000, waiting_since_ms=0))
    assert effects == [o.BecomeStalled(0, 2)]
    replica, effects = after(replica, i.Ticked(5_000, waiting_since_ms=0))
    assert [type(effect) for effect in effects] == [o.StepDown]
    assert after(replica, i.Ticked(9_900, waiting_since_ms=0))[1] == [], "it has just asked"
    again = after(replica, i.Ticked(10_000, waiting_since_ms=0))[1]
    assert [type(effect) for effect in again] == [o.StepDown], "there may have been no controller to hear it"
    replica, effects = after(replica, i.Ticked(5_200))
    assert effects == [o.BecomeServing(0, 2)]
    assert isinstance(replica.role, Leader)
    assert replica.role.phase is LeaderPhase.SERVING


def test_the_same_leader_goes_on_in_the_next_epoch_and_asks_for_rounds_anew() -> None:
    replica = after(serving(), has(2, 4, round_=3), has(3, 4, round_=3))[0]
    replica, effects = after(replica, command(3, 1, version=11))
    assert effects == [o.BeginEpoch(0, 3, 4, goes_on=True)]
    assert isinstance(replica.role, Leader)
    assert (replica.role.phase, replica.role.confirmed_round, replica.high_watermark) == (LeaderPhase.SERVING, 0, 4)


def test_a_leader_that_was_its_whole_isr_asks_for_rounds_again_as_soon_as_another_may_be_in_it() -> None:
    alone = after(leader((1,)), asks(2))[0]
    growing, effects = after(alone, has(2, 4, round_=3))
    assert o.ChangeIsr(0, 2, 10, (1, 2), 1, ((2, 5),)) in effects
    assert needed_round(growing, 8) == 8, "the write may be done: another can be elected"
    grown, effects = after(growing, i.IsrWritten(0, 0, 1, i.WriteOutcome.DONE))
    assert effects == [o.GateMoved(0, 2, 4, 3)], "what was answered is confirmed, and nothing above it"
    assert isinstance(grown.role, Leader)
    assert grown.role.confirmed_round == 3


def test_a_leader_whose_isr_did_not_grow_lets_go_what_was_decided_meanwhile() -> None:
    growing = after(leader((1,)), asks(2), has(2, 4))[0]
    assert after(growing, i.IsrWritten(0, 0, 1, i.WriteOutcome.NOT_REGISTERED))[1] == [o.GateMoved(0, 2, 0, None)]


def test_an_epoch_that_a_former_life_of_this_node_has_begun_is_not_led_again() -> None:
    log = ReplicaLog(end=6, durable_end=6, epochs=((1, 0), (2, 4)))
    replica, effects = opened(1, command(2, 1), log)
    assert [type(effect) for effect in effects] == [o.StepDown]
    assert (replica.log, type(replica.role)) == (log, Declined)
    assert after(replica, command(3, 1))[1][0] == o.BeginEpoch(0, 3, 6, goes_on=False)


def test_a_replica_that_does_not_lead_asks_to_be_replaced_until_it_is() -> None:
    replica = after(serving(), i.CutRefused(100, 0, 2, 2, 9))[0]
    assert after(replica, i.Ticked(5_099)) == (replica, [])
    replica, effects = after(replica, i.Ticked(5_100))
    (asked,) = effects
    assert isinstance(asked, o.StepDown)
    assert asked.lacks_committed
    assert after(replica, i.Ticked(5_200))[1] == []
    assert after(replica, command(3, 2), i.Ticked(20_000))[1] == []


def test_a_leader_whose_log_did_not_take_records_leaves_its_epoch_and_wants_another() -> None:
    replica = after(serving(), i.Appended(0, 0, 2, 6))[0]
    replica, effects = after(replica, i.AppendRefused(100, 0, 4))
    resigned, asked = effects
    assert resigned == o.Resign(0, 2)
    assert isinstance(asked, o.StepDown)
    assert (asked.wants_epoch, asked.lacks_committed) == (True, False)
    assert (replica.log.end, replica.log.number, replica.log.epochs) == (4, 0, ((1, 0), (2, 3)))
    assert after(replica, i.AppendRefused(100, 0, 5)) == (replica, []), "what came after is not there either"
    assert after(replica, i.Ticked(5_100))[1][0] == asked
    assert after(replica, command(3, 1))[1][0] == o.BeginEpoch(0, 3, 4, goes_on=False)


def test_a_fetch_from_exactly_where_the_log_starts_is_answered_with_what_follows() -> None:
    replica = after(serving(), i.LogStartMoved(0, 0, 0, 3))[0]
    answers = [after(replica, asks(2, fetch=2, end=end))[1][0] for end in (3, 2)]
    assert answers == [o.AnswerFetch(0, 2, 2, 2, i.Streaming()), o.AnswerFetch(0, 2, 2, 2, i.BelowLogStart(3))]
    differs = after(replica, asks(2, fetch=2, end=4, last_epoch=0))[1][0]
    assert differs == o.AnswerFetch(0, 2, 2, 2, i.BelowLogStart(3)), "the logs differ below the start"
