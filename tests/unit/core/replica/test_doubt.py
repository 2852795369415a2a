"""A log that was read from disk may be an older copy: nobody leads with it before others were heard."""

import pytest
from msgspec.structs import replace

from coordinator.core.replica import effects as o
from coordinator.core.replica import events as i
from coordinator.core.replica.doubt import reaches_further
from coordinator.core.replica.epochs import ReplicaLog
from coordinator.core.replica.replica import Declined, Doubting, Follower, Leader, Offline, Replica
from tests.helpers.replica_builder import LOG, SETTINGS, after, asks, command, push, started

BEGUN = [o.BeginEpoch(0, 2, 3, goes_on=False), o.LoadShard(0, 2, 4)]


def doubting(isr: tuple[int, ...] = (1, 2, 3), log: ReplicaLog = LOG) -> Replica:
    """Node 1, elected for epoch 2 with the three records that its node was started with."""
    replica, effects = started(1, command(2, 1, isr), log)
    assert effects == []
    assert isinstance(replica.role, Doubting)
    return replica


@pytest.mark.parametrize(
    ("last_epoch", "end", "is_further"),
    [(1, 3, False), (1, 4, True), (1, 2, False), (0, 9, False), (-1, 0, False), (2, 1, True)],
)
def test_logs_are_compared_by_the_epoch_of_the_last_record_and_then_by_their_ends(
    last_epoch: int, end: int, is_further: bool
) -> None:
    assert reaches_further(LOG, asks(2, end=end, last_epoch=last_epoch)) is is_further


def test_it_leads_when_as_many_members_were_heard_as_may_commit_and_answers_them_then() -> None:
    replica, effects = after(doubting(), asks(2, end=2, now_ms=70))
    assert isinstance(replica.role, Leader)
    assert not replica.is_in_doubt, "what is proved stays so while the process lives"
    answers = [o.AnswerFetch(0, 2, 2, 1, i.Streaming()), o.PushRecords(0, 2, 2, 1, 2, 4, 0)]
    assert effects == [*BEGUN, *answers]
    assert replica.role.own_goal.since_ms == 70, "nobody was late while nothing was asked of it"


def test_it_lets_a_member_lead_that_has_more_and_has_appended_nothing_until_then() -> None:
    replica, effects = after(doubting(), asks(2, end=9))
    assert isinstance(replica.role, Declined)
    assert replica.log == LOG
    (asked,) = effects
    assert isinstance(asked, o.StepDown)
    assert (asked.successor, asked.lacks_committed) == (2, False), "it may have all that was committed"
    assert "node 2, in sync, ends at 9 in epoch 1" in asked.why
    assert "node 1 was started with at 3 in epoch 1" in asked.why
    (again,) = after(replica, i.Ticked(5_000))[1]
    assert again == asked, "there may have been no controller to hear it"


def test_who_is_not_in_sync_proves_nothing_and_waits() -> None:
    replica, effects = after(doubting((1, 2)), asks(3, end=9))
    assert (effects, isinstance(replica.role, Doubting)) == ([], True), "it is not cut either"
    effects = after(replica, asks(2))[1]
    assert effects[:2] == BEGUN
    assert o.AnswerFetch(0, 3, 2, 1, i.Diverged(1, 3)) in effects
    assert after(doubting(), asks(7))[1] == [], "it is no replica"


def test_a_set_that_is_smaller_than_may_commit_is_heard_when_all_of_it_is() -> None:
    effects = started(1, command(2, 1, (1,)))[1]
    assert [type(effect) for effect in effects[:3]] == [o.GoesOnInDoubt, o.BeginEpoch, o.LoadShard]
    only = replace(command(2, 1, (1,)), replicas=(1,))
    effects = started(1, only)[1]
    assert not [effect for effect in effects if isinstance(effect, o.GoesOnInDoubt)], "there is no other copy"


def test_where_one_disk_is_enough_to_commit_nobody_is_waited_for_and_that_is_said() -> None:
    careless = Replica(0, 1, replace(SETTINGS, min_insync_replicas=1))
    effects = after(careless, command(2, 1), i.ReplicaOpened(0, 0, LOG))[1]
    assert [type(effect) for effect in effects] == [o.GoesOnInDoubt, o.BeginEpoch, o.LoadShard]


def test_it_goes_on_after_a_while_and_says_so_for_the_others_may_never_come_back() -> None:
    replica = after(doubting((1, 2)), asks(3))[0]
    assert after(replica, i.Ticked(29_999)) == (replica, [])
    replica, effects = after(replica, i.Ticked(30_000))
    assert [type(effect) for effect in effects[:3]] == [o.GoesOnInDoubt, o.BeginEpoch, o.LoadShard]
    assert o.AnswerFetch(0, 3, 2, 1, i.Streaming()) in effects
    assert not [effect for effect in after(replica, i.Ticked(60_000))[1] if isinstance(effect, o.GoesOnInDoubt)]


def test_a_fetch_counts_while_its_connection_lasts_and_the_last_one_of_each() -> None:
    careful = Replica(0, 1, replace(SETTINGS, min_insync_replicas=3))
    replica = after(careful, command(2, 1), i.ReplicaOpened(0, 0, LOG), asks(2, fetch=2), asks(2, fetch=1, end=9))[0]
    assert isinstance(replica.role, Doubting), "a fetch that came late is void"
    gone = after(replica, i.PeerDown(0, 2), asks(3))[0]
    assert isinstance(gone.role, Doubting), "2 asks again when it is back"
    assert isinstance(after(gone, asks(2, fetch=3))[0].role, Leader)


def test_the_next_command_ends_it_and_another_epoch_is_doubted_anew() -> None:
    assert isinstance(after(doubting(), command(3, 2))[0].role, Follower)
    again, effects = after(doubting(), command(3, 1))
    assert (effects, isinstance(again.role, Doubting)) == ([], True)
    assert isinstance(after(doubting(), i.NodeRegistered(0))[0].role, Offline), "a former life was elected for it"
    assert after(again, i.LogSynced(0, 0, 0, 3))[0].log.durable_end == 3


def test_a_follower_is_believed_once_it_has_all_that_is_committed_some_of_it_in_this_epoch() -> None:
    replica = after(started(1, command(2, 2))[0], i.FetchAnswered(0, 0, 2, 1, i.Streaming()))[0]
    assert replica.is_in_doubt
    assert after(replica, push(3, 2, high_watermark=3))[0].is_in_doubt, "that was committed before this epoch"
    assert after(replica, push(3, 2, high_watermark=9))[0].is_in_doubt, "there is more than it has"
    proved = after(replica, push(3, 2, high_watermark=4))[0]
    assert not proved.is_in_doubt
    assert isinstance(after(proved, command(3, 1))[0].role, Leader)
