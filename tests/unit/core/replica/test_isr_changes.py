"""Who is taken out of the ISR, who joins it, and what the end of a write says."""

from msgspec.structs import replace

from coordinator.core.replica import effects as o
from coordinator.core.replica import events as i
from coordinator.core.replica.replica import Leader, Replica
from tests.helpers.replica_builder import after, asks, has, leader


def serving() -> Replica:
    return after(leader(), asks(2), asks(3), has(2, 4), has(3, 4))[0]


def isr_of(replica: Replica) -> tuple[int, ...]:
    assert isinstance(replica.role, Leader)
    return replica.role.isr.maximal


def test_a_follower_that_is_behind_for_too_long_leaves() -> None:
    replica = after(serving(), i.Appended(1_000, 0, 2, 5), i.LogSynced(1_010, 0, 0, 5), has(2, 5, now_ms=1_020))[0]
    assert after(replica, i.Ticked(2_900))[1] == []
    assert after(replica, i.Ticked(3_000))[1] == [o.ChangeIsr(0, 2, 10, (1, 2), 1)]


def test_a_follower_that_keeps_up_with_a_busy_log_stays_though_it_never_has_all_of_it() -> None:
    replica = after(serving(), i.Appended(0, 0, 2, 5))[0]
    for turn in range(1, 50):
        now_ms = turn * 100
        replica, effects = after(
            replica,
            i.Appended(now_ms, 0, 2, 5 + turn),
            i.LogSynced(now_ms, 0, 0, 5 + turn),
            has(2, 4 + turn, now_ms=now_ms),
            has(3, 4 + turn, now_ms=now_ms),
            i.Ticked(now_ms),
        )
        assert not any(isinstance(effect, o.ChangeIsr) for effect in effects)


def test_the_isr_never_shrinks_below_the_least_for_those_who_are_late() -> None:
    replica = after(serving(), i.Appended(0, 0, 2, 5), i.LogSynced(0, 0, 0, 5))[0]
    replica, effects = after(replica, i.Ticked(2_000))
    assert effects == [o.ChangeIsr(0, 2, 10, (1, 3), 1)], "both are late, and one has to stay"
    done, effects = after(replica, i.IsrWritten(0, 0, 1, i.WriteOutcome.DONE), i.Ticked(4_000))
    assert (effects, isr_of(done)) == ([], (1, 3))


def test_a_follower_without_a_connection_leaves_after_a_grace() -> None:
    replica = after(serving(), i.PeerDown(1_000, 3))[0]
    assert after(replica, i.Ticked(1_299))[1] == []
    assert after(replica, i.Ticked(1_300))[1] == [o.ChangeIsr(0, 2, 10, (1, 2), 1)]
    assert after(replica, i.PeerUp(1_200, 3), i.Ticked(1_300))[1] == []


def test_a_follower_that_drains_leaves_at_once_and_does_not_join() -> None:
    replica, effects = after(serving(), i.PeerDraining(0, 3, is_draining=True))
    assert effects == [o.ChangeIsr(0, 2, 10, (1, 2), 1)]
    replica = after(replica, i.IsrWritten(0, 0, 1, i.WriteOutcome.DONE))[0]
    assert after(replica, has(3, 4, round_=1))[1] == []


def test_a_follower_joins_once_it_has_what_is_committed_and_what_came_before_the_epoch() -> None:
    replica, effects = after(leader((1, 2)), asks(3, end=0, last_epoch=-1), has(3, 2))
    assert (replica.high_watermark, effects) == (0, []), "what this leader knows to be committed is not all there is"
    replica, effects = after(replica, has(3, 4))
    assert effects == [o.ChangeIsr(0, 2, 10, (1, 2, 3), 1, ((3, 5),))]
    assert isr_of(replica) == (1, 2, 3), "it counts from the moment in which it may be in"


def test_a_refused_write_is_settled_by_what_is_read_under_a_later_version() -> None:
    replica, effects = after(serving(), i.PeerDraining(0, 3, is_draining=True))
    replica, effects = after(replica, i.IsrWritten(0, 0, 1, i.WriteOutcome.VERSION_MISMATCH))
    assert effects == [o.ReadIsr(0, 10)]
    again, effects = after(replica, i.IsrSeen(0, 0, 2, 10, (1, 2, 3)))
    assert (again, effects) == (replica, [o.ReadIsr(0, 10)]), "a server that lags tells nothing"
    assert after(replica, i.IsrSeen(0, 0, 2, 11, (1, 2, 3)))[1] == [o.ChangeIsr(0, 2, 11, (1, 2), 2)]


def test_an_unknown_end_is_settled_by_writing_again_and_never_by_reading_the_same_version() -> None:
    replica = after(serving(), i.PeerDraining(0, 3, is_draining=True))[0]
    replica, effects = after(replica, i.IsrWritten(0, 0, 1, i.WriteOutcome.UNKNOWN))
    assert effects == [o.ChangeIsr(0, 2, 10, (1, 2), 2)]
    assert after(replica, i.IsrSeen(0, 0, 2, 10, (1, 2, 3))) == (replica, [])
    assert isr_of(after(replica, i.IsrSeen(0, 0, 2, 11, (1, 2)))[0]) == (1, 2), "a later version tells all"
    assert isr_of(after(replica, i.IsrWritten(0, 0, 2, i.WriteOutcome.DONE))[0]) == (1, 2)


def test_a_follower_that_is_not_ready_any_more_joins_with_another_fetch_or_a_while_later() -> None:
    replica = after(leader((1, 2)), asks(3), has(3, 4))[0]
    replica = after(replica, i.IsrWritten(100, 0, 1, i.WriteOutcome.NOT_REGISTERED))[0]
    assert after(replica, has(3, 4)) == (replica, []), "a write that is refused is not made again and again"
    pushes = after(replica, i.Appended(0, 0, 2, 5))[1]
    assert [type(effect) for effect in pushes] == [o.PushRecords], "it is not known to the follower, who asks nothing"
    anew = replace(asks(3, fetch=1, end=4, last_epoch=2), node_epoch=6)
    fresh = replace(has(3, 4), node_epoch=6)
    assert after(replica, anew, fresh)[1] == [o.ChangeIsr(0, 2, 10, (1, 2, 3), 2, ((3, 6),))]
    assert after(replica, i.Ticked(2_099))[1] == []
    assert o.ChangeIsr(0, 2, 10, (1, 2, 3), 2, ((3, 5),)) in after(replica, i.Ticked(2_100))[1]
    ready = i.PeerDraining(0, 3, is_draining=True), i.PeerDraining(0, 3, is_draining=False)
    assert after(replica, *ready)[1] == [o.ChangeIsr(0, 2, 10, (1, 2, 3), 2, ((3, 5),))], "it has said so itself"


def test_a_follower_that_lost_records_while_it_was_to_join_is_not_taken_out_again_when_it_has_them() -> None:
    replica = after(leader((1, 2)), asks(2), asks(3), has(2, 4), has(3, 4))[0]
    replica = after(replica, asks(3, fetch=2, end=0, last_epoch=-1))[0]
    replica = after(replica, i.IsrWritten(0, 0, 1, i.WriteOutcome.NOT_REGISTERED), has(3, 4, fetch=2))[0]
    replica = after(replica, i.Ticked(2_000), i.IsrWritten(0, 0, 2, i.WriteOutcome.DONE))[0]
    assert isr_of(replica) == (1, 2, 3)


def test_a_leader_that_was_taken_out_of_its_isr_asks_to_be_replaced_and_writes_no_isr() -> None:
    replica, effects = after(serving(), i.IsrSeen(0, 0, 2, 11, (2, 3)))
    assert [type(effect) for effect in effects] == [o.StepDown]
    assert after(replica, i.PeerDraining(0, 3, is_draining=True))[1] == []
    assert [type(effect) for effect in after(replica, i.Ticked(5_000))[1]] == [o.StepDown], "and asks again"
