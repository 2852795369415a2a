"""All that looks have told together: who is asked next, what is kept while something fails, and health."""

from coordinator.cli.verbs.top.known import Known
from coordinator.cli.verbs.top.seen import Trouble
from coordinator.client.cluster_view import ClusterView, ShardView
from coordinator.core.shards.place import shard_of
from coordinator.protocol.messages import DescribeGroupResponse
from coordinator.protocol.parts import CommittedOffset, GroupSummary, PartitionDescription


def cluster(*out_of_sync: int) -> ClusterView:
    isr = {shard: (1,) if shard in out_of_sync else (1, 2) for shard in range(3)}
    shards = tuple(ShardView(shard, 1, 1, "serving", (1, 2), isr[shard], 1, 1, {}) for shard in range(3))
    return ClusterView("c1", 1, 1, 2, 0, (), shards, ())


def listed(*groups: str) -> dict[str, tuple[GroupSummary, int]]:
    return {group: (GroupSummary(group, "Stable", 1, 1), 1) for group in groups}


def described(group: str, committed: int, end: int) -> DescribeGroupResponse:
    partition = PartitionDescription("t", 0, committed, end)
    return DescribeGroupResponse(group_id=group, state="Stable", partitions=(partition,))


def commit(offset: int, at_ms: int) -> tuple[CommittedOffset, ...]:
    return (CommittedOffset("t", "id", 0, offset, None, "", at_ms),)


def test_groups_that_were_described_longest_ago_have_their_turn_first() -> None:
    known = Known()
    known.begin(None, listed("a", "b", "c"), (), 1_000)
    known.see(described("b", 1, 2), None, 1_000, 1.0)
    known.see(described("a", 1, 2), None, 1_001, 1.1)
    assert [name for name, _ in known.in_turn()] == ["c", "b", "a"]


def test_group_that_is_gone_is_forgotten_unless_its_shard_is_not_listed() -> None:
    known = Known()
    known.begin(cluster(), listed("a", "b"), (), 1_000)
    known.begin(cluster(), listed("b"), (2,), 2_000)
    assert [row.group for row in known.end(2_000).rows] == ["a", "b"]
    known.begin(cluster(), listed("b"), (), 3_000)
    assert [row.group for row in known.end(3_000).rows] == ["b"]


def test_group_that_is_gone_is_forgotten_while_another_shard_is_not_listed() -> None:
    known, other = Known(), 1 - shard_of(2, "a")
    known.begin(cluster(), listed("a"), (), 1_000, 2)
    known.begin(cluster(), {}, (other,), 2_000, 2)
    assert known.end(2_000).rows == ()


def test_trouble_of_shards_keeps_its_time_while_other_shards_come_to_it() -> None:
    known = Known()
    known.begin(cluster(0), {}, (), 1_000)
    assert known.end(1_000).troubles == (Trouble(1_000, "shard 0 has fewer replicas in sync than there are"),)
    known.begin(cluster(0, 2), {}, (), 2_000)
    assert known.end(2_000).troubles == (Trouble(1_000, "shards 0, 2 have fewer replicas in sync than there are"),)


def test_health_is_of_groups_whose_commits_were_asked_for_and_none_of_what_was_not_seen() -> None:
    known = Known()
    for look, (committed, end) in enumerate([(10, 100), (20, 200), (30, 300)]):
        known.begin(None, listed("a"), (), look)
        known.see(described("a", committed, end), commit(committed, 1_000 * look), 1_000 * look, float(look))
    assert known.end(2_000).rows[0].status == "WARN"
    known.begin(None, listed("a"), (), 60_000)
    known.see(described("a", 290, 400), None, 60_000, 60.0)
    assert known.end(60_000).rows[0].status is None


def test_look_that_fails_leaves_all_as_it_was_and_marks_it() -> None:
    known = Known()
    known.begin(cluster(), listed("a"), (), 1_000)
    known.see(described("a", 90, 100), commit(90, 900), 1_000, 1.0)
    before = known.end(1_000)
    after = known.fail("nobody answers", 3_000)
    assert (after.at_ms, after.cluster, after.rows[0].lag) == (1_000, before.cluster, 10)
    assert (before.rows[0].is_old, after.rows[0].is_old) == (False, True)
    assert after.troubles == (Trouble(3_000, "nobody answers"),)
