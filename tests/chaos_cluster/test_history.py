"""The checker of histories: it finds each kind of mistake where one is planted, and none where there is none."""

from dataclasses import replace
from random import Random

import pytest

from tests.chaos_cluster.history import KINDS, NOTHING, Calm, Commit, Grant, History, Outcome, Read, judge

KEY = ("g", "t", 0)
OTHER = ("g", "t", 1)


def commit(offset: int, at_s: float, *, epoch: int = 10, member: str = "m", outcome: Outcome = Outcome.ACKED) -> Commit:
    return Commit(KEY, member, epoch, offset, at_s, at_s + 1, outcome)


def read(offset: int, at_s: float, node: str = "n1") -> Read:
    return Read(KEY, offset, at_s, at_s + 1, node)


def grant(epoch: int, start: int, at_s: float, member: str = "m") -> Grant:
    return Grant(KEY, member, epoch, start, at_s)


def kinds(history: History) -> list[str]:
    return [anomaly.kind for anomaly in judge(history)]


def test_what_a_cluster_may_show_is_no_anomaly() -> None:
    history = History(
        commits=[
            commit(1, 0),
            commit(2, 10, outcome=Outcome.UNKNOWN),
            commit(3, 20),
            commit(4, 41, outcome=Outcome.FENCED),
            commit(4, 42, epoch=11, member="other"),
        ],
        reads=[read(NOTHING, -5), read(NOTHING, 0), read(1, 0.5), read(1, 5), read(2, 11), read(3, 20), read(4, 50)],
        grants=[grant(10, NOTHING, -1), grant(10, 3, 30), grant(11, 3, 40, "other")],
        calms=[Calm(41, 60)],
        keys=[KEY],
    )

    assert judge(history) == []


def test_a_commit_of_unknown_outcome_may_be_there_or_not() -> None:
    tried = commit(2, 10, outcome=Outcome.UNKNOWN)
    assert kinds(History(commits=[commit(1, 0), tried], reads=[read(1, 30), read(1, 40)])) == []
    assert kinds(History(commits=[commit(1, 0), tried], reads=[read(2, 30), read(2, 40)])) == []
    assert kinds(History(commits=[commit(1, 0), tried], reads=[read(1, 30), read(2, 40)])) == []


def test_a_commit_of_unknown_outcome_may_not_change_its_mind() -> None:
    tried = commit(2, 10, outcome=Outcome.UNKNOWN)
    assert kinds(History(commits=[commit(1, 0), tried], reads=[read(2, 30), read(1, 40)])) == ["regressed"]


def test_an_acknowledged_commit_that_nobody_has_any_more_is_lost() -> None:
    assert kinds(History(commits=[commit(1, 0), commit(2, 10)], reads=[read(1, 30), read(1, 40)])) == ["lost", "lost"]
    assert kinds(History(commits=[commit(2, 10)], reads=[read(NOTHING, 30)])) == ["lost"]


def test_a_read_that_overlaps_the_commit_may_miss_it() -> None:
    assert kinds(History(commits=[commit(1, 0), commit(2, 10)], reads=[read(1, 10.5)])) == []


def test_an_acknowledged_commit_that_is_there_again_was_missing_in_a_stale_answer() -> None:
    history = History(commits=[commit(1, 0), commit(2, 10)], reads=[read(1, 30, "n2"), read(2, 40)])
    (anomaly,) = judge(history)
    assert anomaly.kind == "stale"
    assert "n2 said 1" in anomaly.why


def test_an_owner_that_begins_below_what_was_acknowledged_to_another_shows_a_loss() -> None:
    history = History(commits=[commit(5, 0)], grants=[grant(10, 0, -1), grant(12, 4, 20, "other")])
    assert kinds(history) == ["lost"]


def test_an_owner_that_hears_of_its_own_partition_again_begins_where_it_did() -> None:
    history = History(commits=[commit(5, 0)], grants=[grant(10, 0, -1), grant(10, 0, 20)])
    assert kinds(history) == []


def test_what_nobody_tried_to_commit_is_a_phantom() -> None:
    assert kinds(History(commits=[commit(1, 0)], reads=[read(7, 30)])) == ["phantom"]
    assert kinds(History(reads=[read(3, 30)])) == ["phantom"]
    assert kinds(History(commits=[commit(7, 100)], reads=[read(7, 30)])) == ["phantom"], "not before it was tried"


def test_the_beginning_is_committed_by_an_owner_that_gives_back_what_it_has_not_read() -> None:
    assert kinds(History(reads=[read(0, 30)])) == []
    assert kinds(History(commits=[commit(1, 0)], reads=[read(0, 30)])) == ["lost"]


def test_what_was_refused_may_be_read_only_if_it_was_tried() -> None:
    assert kinds(History(commits=[commit(1, 0, outcome=Outcome.UNKNOWN)], reads=[read(1, 0.1)])) == []


def test_a_commit_that_is_accepted_below_another_goes_back() -> None:
    assert kinds(History(commits=[commit(5, 0), commit(4, 10)])) == ["regressed"]


def test_a_commit_that_is_accepted_of_a_former_owner_is_a_zombies() -> None:
    history = History(commits=[commit(5, 0), commit(6, 30)], grants=[grant(10, NOTHING, -1), grant(11, 5, 20, "other")])
    assert "zombie" in kinds(history)


def test_a_commit_that_began_before_the_next_owner_was_seen_is_none() -> None:
    history = History(commits=[commit(5, 0)], grants=[grant(10, NOTHING, -1), grant(11, 5, 0.5, "other")])
    assert kinds(history) == []


def test_two_members_under_one_owner_epoch_are_two_owners() -> None:
    assert kinds(History(grants=[grant(10, 0, 0), grant(10, 0, 5, "other")])) == ["zombie"]


def test_a_partition_that_does_not_come_on_after_the_faults_is_stuck() -> None:
    calm = Calm(100, 120)
    assert kinds(History(commits=[commit(1, 0)], calms=[calm], keys=[KEY])) == ["stuck"]
    assert kinds(History(commits=[commit(1, 105)], calms=[calm], keys=[KEY, OTHER])) == ["stuck"]
    assert kinds(History(commits=[commit(1, 119.5)], calms=[calm], keys=[KEY])) == ["stuck"], "too late"
    assert kinds(History(commits=[commit(1, 99.5)], calms=[calm], keys=[KEY])) == ["stuck"], "too early"
    assert kinds(History(commits=[commit(1, 105, outcome=Outcome.UNKNOWN)], calms=[calm], keys=[KEY])) == ["stuck"]


def a_sound_history(dice: Random) -> History:
    """Return what clients saw of a register that lost nothing, with owners that followed one another."""
    commits: list[Commit] = []
    reads: list[Read] = []
    grants: list[Grant] = []
    value, now_s, epoch = NOTHING, 0.0, 10
    for number in range(200):
        now_s += 1 + dice.random()
        match dice.choice(("commit", "commit", "unknown", "fenced", "read", "owner") if grants else ("owner",)):
            case "owner":
                epoch += dice.randint(1, 5)
                grants.append(grant(epoch, value, now_s, f"m{number}"))
            case "commit":
                commits.append(Commit(KEY, grants[-1].member, epoch, value + 1, now_s, now_s + 0.5, Outcome.ACKED))
                value += 1
            case "unknown":
                commits.append(Commit(KEY, grants[-1].member, epoch, value + 1, now_s, now_s + 0.5, Outcome.UNKNOWN))
                value += dice.choice((0, 1))
            case "fenced":
                commits.append(Commit(KEY, "old", 1, value + 9, now_s, now_s + 0.5, Outcome.FENCED))
            case "read":
                reads.append(Read(KEY, value, now_s, now_s + 0.5, f"n{dice.randint(1, 3)}"))
    return History(commits, reads, grants, [Calm(0, now_s + 1)], [KEY])


@pytest.mark.parametrize("seed", range(30))
def test_sound_histories_of_any_shape_are_sound_and_a_mistake_in_one_is_found(seed: int) -> None:
    dice = Random(seed)
    history = a_sound_history(dice)
    assert judge(history) == []

    acked = [each for each in history.commits if each.outcome is Outcome.ACKED]
    last = max(each.ended_s for each in (*history.commits, *history.reads))
    below = Read(KEY, acked[-1].offset - 1, last + 1, last + 2, "n9")
    assert {each.kind for each in judge(replace(history, reads=[*history.reads, below]))} <= {"lost", "phantom"}
    assert judge(replace(history, reads=[*history.reads, below]))
    late = replace(acked[0], began_s=last + 1, ended_s=last + 2, owner_epoch=history.grants[0].owner_epoch)
    if len(history.grants) > 1:
        assert "zombie" in kinds(replace(history, commits=[*history.commits, late]))


def test_each_kind_of_mistake_is_found_somewhere_here() -> None:
    planted = [
        History(commits=[commit(2, 10)], reads=[read(NOTHING, 30)]),
        History(commits=[commit(5, 0), commit(4, 10)]),
        History(reads=[read(3, 30)]),
        History(commits=[commit(1, 0), commit(2, 10)], reads=[read(1, 30), read(2, 40)]),
        History(grants=[grant(10, 0, 0), grant(10, 0, 5, "other")]),
        History(calms=[Calm(0, 1)], keys=[KEY]),
    ]
    assert tuple(kind for history in planted for kind in kinds(history)) == KINDS
