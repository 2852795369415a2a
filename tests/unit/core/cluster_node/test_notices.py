"""Facts that a node of a cluster says with fields by which they are counted."""

from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.core.cluster.znodes import ShardEntry
from coordinator.core.cluster_node.answers.notices import isr_written, published, set_aside
from coordinator.core.replica.effects import DropReplica
from coordinator.core.replica.events import IsrWritten, WriteOutcome
from coordinator.core.replica.isr import Isr
from coordinator.core.replica.replica import Absent, Leader, LeaderPhase


def leading(*members: int) -> Any:
    """Return a replica that leads with this in-sync set."""
    goal: Any = None
    return SimpleNamespace(role=Leader(next(iter(LeaderPhase)), 0, Isr(members, 1), (), goal))


class Scripted:
    """A replication in which the write of an in-sync set ends as told."""

    def __init__(self, before: Any, after: Any) -> None:
        self.replicas, self._after = {3: before}, after

    def step(self, shard: int, written: IsrWritten) -> None:
        self.replicas[shard] = self._after


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (leading(1, 2, 3), leading(1, 2), "shrink"),
        (leading(1, 2), leading(1, 2, 3), "expand"),
        (leading(1, 2), leading(1, 3), "exchange"),
        (leading(1, 2), leading(1, 2), None),
        (leading(1, 2), SimpleNamespace(role=Absent()), None),
    ],
)
def test_a_change_of_an_in_sync_set_is_said_once_it_is_written(before: Any, after: Any, change: str | None) -> None:
    replication: Any = Scripted(before, after)
    said = isr_written(replication, [IsrWritten(1_000, 3, 1, next(iter(WriteOutcome)))])
    assert [dict(notice.fields)["isr_change"] for notice in said] == ([] if change is None else [change])


def test_an_election_is_said_by_its_kind() -> None:
    def entry(**changes: Any) -> Any:
        known: dict[str, Any] = {"leader": 1, "leader_epoch": 4, "isr": (1, 2), "unclean_epoch": 0}
        return SimpleNamespace(**known | changes)

    entries: dict[int, ShardEntry] = {0: entry(), 1: entry(leader=None), 2: entry(unclean_epoch=4)}
    kinds = [dict(notice.fields)["election"] for notice in published(entries)]
    assert kinds == ["elected", "without-leader", "unclean"]


def test_a_log_that_has_what_others_lack_is_set_aside_with_a_warning_for_whoever_looks_for_it() -> None:
    (notice,) = set_aside(DropReplica(7, deletes=True, void="it ends at 9 in leader epoch 1"))
    assert (notice.kind, notice.is_warning, notice.fields) == ("log-set-aside", True, (("shard", 7),))
    assert notice.why == (
        "the log of shard 7 is set aside, as aside-00007-… in the data directory, and deleted after "
        "cluster.deleted_keep_ms: it ends at 9 in leader epoch 1"
    )


def test_a_log_that_is_to_be_elsewhere_is_set_aside_and_that_is_said_without_a_warning() -> None:
    (notice,) = set_aside(DropReplica(7, deletes=True))
    assert not notice.is_warning
    assert "this node is to have no replica of it" in notice.why


def test_a_log_that_is_closed_and_stays_is_not_said_to_be_set_aside() -> None:
    assert set_aside(DropReplica(7, deletes=False)) == []
