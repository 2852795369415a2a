"""Only members of the in-sync set are elected, and who has what was acknowledged stays in it."""

from hypothesis import assume, given
from hypothesis import strategies as st

from coordinator.core.cluster.office.election import (
    MOST_UNCLEAN_EPOCH,
    Candidates,
    elect,
    elect_longest,
    elect_unclean,
    give_back,
    is_led,
    is_waited_for,
    move_away,
    why_not_unclean,
)
from coordinator.core.cluster.znodes import LogEnd, ShardEntry

ENTRY = ShardEntry(leader=1, leader_node_epoch=10, leader_epoch=4, isr=(1, 2, 3), replicas=(1, 2, 3))
NODES = frozenset({1, 2, 3})


def lives(*nodes: int) -> dict[int, int]:
    """Return node epochs, ten times the number of the node."""
    return {node: 10 * node for node in nodes}


def those(*live: int, eligible: tuple[int, ...] | None = None, lacking: tuple[int, ...] = ()) -> Candidates:
    return Candidates(lives(*live), frozenset(live if eligible is None else eligible), frozenset(lacking))


def entry(leader: int | None, isr: tuple[int, ...], *, epoch: int = 5) -> ShardEntry:
    node_epoch = None if leader is None else 10 * leader
    return ShardEntry(leader=leader, leader_node_epoch=node_epoch, leader_epoch=epoch, isr=isr, replicas=(1, 2, 3))


def end(epoch: int, offset: int) -> LogEnd:
    return LogEnd(leader_epoch=epoch, end=offset)


def test_the_first_replica_that_may_be_chosen_is() -> None:
    assert elect(ENTRY, those(2, 3), 2) == entry(2, (2, 3))
    assert elect(ENTRY, those(2, 3, eligible=(3,)), 2) == entry(3, (2, 3))


def test_dead_members_stay_where_too_few_are_alive_to_commit_anything_and_last() -> None:
    assert elect(ENTRY, those(2, 3), 2) == entry(2, (2, 3))
    assert elect(ENTRY, those(3), 2) == entry(3, (3, 1, 2)), "the first that comes back may be the one that has all"
    assert elect(ENTRY, those(3), 1) == entry(3, (3,))
    assert elect(ENTRY, those(3), 3) == entry(3, (3, 1, 2))


def test_nobody_leaves_the_set_when_nobody_can_lead() -> None:
    assert elect(ENTRY, those(), 2) == entry(None, (1, 2, 3))
    assert elect(ENTRY, those(2, eligible=()), 2) == entry(None, (1, 2, 3))
    assert elect(entry(None, (1, 2)), those(3), 2) is None, "3 is not in sync, and nothing changes"


def test_who_lacks_what_it_acknowledged_leaves_whatever_the_size() -> None:
    assert elect(ENTRY, those(1, 2, 3, lacking=(1,)), 2) == entry(2, (2, 3))
    assert elect(entry(1, (1, 2)), those(1, 2, lacking=(1,)), 2) == entry(2, (2,), epoch=6)
    assert elect(entry(1, (1,)), those(1, lacking=(1,)), 2) == entry(None, (), epoch=6)


def test_after_a_start_of_the_whole_cluster_the_longest_log_is_chosen() -> None:
    ends = {1: end(4, 100), 2: end(5, 90), 3: end(5, 90)}
    assert elect_longest(ENTRY, those(1, 2, 3), 2, ends) == entry(2, (1, 2, 3))
    assert elect_longest(ENTRY, those(1), 2, {}) == entry(1, (1, 2, 3))
    assert elect_longest(entry(None, (1, 2)), those(1, 2, 3), 2, {3: end(9, 9)}) == entry(1, (1, 2), epoch=6)


def test_a_member_that_might_come_is_waited_for() -> None:
    assert is_waited_for(ENTRY, those(1, 2))
    assert not is_waited_for(ENTRY, those(1, 2, 3))
    assert not is_waited_for(ENTRY, those(1, 2, lacking=(3,)))


def test_the_preferred_replica_gets_its_leadership_back_when_it_was_in_sync_for_long() -> None:
    away = entry(2, (1, 2, 3))
    assert give_back(away, those(1, 2, 3), frozenset({1})) == entry(1, (1, 2, 3), epoch=6)
    assert give_back(away, those(1, 2, 3), frozenset({2, 3})) is None
    assert give_back(away, those(1, 2, 3, eligible=(2, 3)), NODES) is None
    assert give_back(entry(2, (2, 3)), those(1, 2, 3), NODES) is None
    assert give_back(ENTRY, those(1, 2, 3), NODES) is None
    assert give_back(entry(None, (1, 2, 3)), those(1, 2, 3), NODES) is None, "that is an election"


def test_a_leader_that_drains_is_followed_by_another_and_stays_in_sync() -> None:
    assert move_away(ENTRY, those(1, 2, 3)) == entry(2, (1, 2, 3))
    assert move_away(ENTRY, those(1)) is None
    assert move_away(entry(None, (1,)), those(1, 2)) is None


def test_a_leader_leads_in_the_life_in_which_it_was_elected() -> None:
    assert is_led(ENTRY, those(1, 2))
    assert not is_led(ENTRY, those(2, 3))
    assert not is_led(ENTRY, Candidates({1: 11}, frozenset({1})))
    assert not is_led(ENTRY, those(1, lacking=(1,)))
    assert not is_led(entry(None, (1,)), those(1))


def test_a_person_may_have_a_replica_lead_that_is_not_in_sync_where_nobody_else_can() -> None:
    gone = entry(None, (3,))
    elected = elect_unclean(gone, 2, 5, those(1, 2), those(1, 2))
    assert elected is not None
    assert (elected.leader, elected.isr, elected.leader_epoch, elected.unclean_epoch) == (2, (2,), 6, 6)
    later = elect(elected, those(1), 2)
    assert later is not None
    assert (later.leader, later.unclean_epoch) == (None, 6), "each later leader is told of it"


def why_not(entry: ShardEntry, node: int, leader_epoch: int, candidates: Candidates) -> str:
    """Return why there is no unclean election where nobody is late or being drained."""
    return why_not_unclean(entry, node, leader_epoch, candidates, candidates)


def test_an_unclean_election_is_refused_where_something_else_can_be_done() -> None:
    gone = entry(None, (3,))
    assert why_not(gone, 2, 4, those(1, 2)).startswith("it is in leader epoch 5 by now")
    assert why_not(entry(1, (1,)), 2, 5, those(1, 2)).startswith("node 1 leads it")
    assert why_not(gone, 2, 5, those(2, 3)) == "node 3 is in sync and about to lead it"
    late = why_not_unclean(gone, 2, 5, those(2, 3, eligible=(2,)), those(2, 3))
    assert late == "node 3 is in sync and about to lead it"
    assert why_not(gone, 4, 5, those(1, 2, 4)) == "node 4 is none of its replicas, which are 1, 2, 3"
    assert why_not(gone, 2, 5, those(1)).startswith("node 2 is not there")
    assert why_not(gone, 2, 5, those(1, 2, eligible=(1,))).startswith("node 2 is not there")
    used_up = entry(None, (3,), epoch=MOST_UNCLEAN_EPOCH)
    assert why_not(used_up, 2, MOST_UNCLEAN_EPOCH, those(1, 2)).startswith("it is in leader epoch")
    assert elect_unclean(used_up, 2, MOST_UNCLEAN_EPOCH, those(1, 2), those(1, 2)) is None


subsets = st.frozensets(st.sampled_from((1, 2, 3, 4)))


@given(
    isr=st.lists(st.sampled_from((1, 2, 3, 4)), unique=True),
    live=subsets,
    eligible=subsets,
    lacking=subsets,
    min_insync=st.integers(1, 4),
    has_leader=st.booleans(),
    ends=st.dictionaries(st.sampled_from((1, 2, 3, 4)), st.builds(end, st.integers(0, 3), st.integers(0, 3))),
)
def test_whatever_is_chosen_keeps_the_rules(
    isr: list[int],
    live: frozenset[int],
    eligible: frozenset[int],
    lacking: frozenset[int],
    min_insync: int,
    has_leader: bool,
    ends: dict[int, LogEnd],
) -> None:
    assume(isr or not has_leader)
    before = ShardEntry(leader=isr[0] if has_leader else None, leader_epoch=4, isr=tuple(isr), replicas=(1, 2, 3, 4))
    candidates = Candidates(lives(*live), eligible, lacking)
    for after in (
        elect(before, candidates, min_insync),
        elect_longest(before, candidates, min_insync, ends),
        give_back(before, candidates, live),
        move_away(before, candidates),
    ):
        if after is None:
            continue
        assert after.problem() == ""
        assert after.leader_epoch == 5
        assert set(after.isr) <= set(before.isr), "nobody joins by an election"
        assert after.replicas == before.replicas
        sound = set(before.isr) - lacking
        if after.leader is not None:
            assert after.leader in sound & live & eligible
            assert after.leader_node_epoch == 10 * after.leader
        assert len(set(after.isr) & sound) >= min(len(sound), min_insync)
        assert set(after.isr) & sound >= sound & live
