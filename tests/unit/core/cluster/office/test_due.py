"""Each reason for which a shard is changed is found by itself, where every other shard is as it should be."""

from collections.abc import Mapping
from typing import Any

import msgspec.structs
import pytest

from coordinator.core.cluster.events import StepDown, StepDownReason
from coordinator.core.cluster.image import Image
from coordinator.core.cluster.office.due import Due, Office
from coordinator.core.cluster.office.index import index_of
from coordinator.core.cluster.office.settings import ControllerSettings
from coordinator.core.cluster.office.telling import Mailbox, Outbox
from coordinator.core.cluster.znodes import Bucket, Cluster, KnownNode, LiveNode, NodeState, ShardEntry, Versioned

CLUSTER = Cluster(cluster_id="c", shards=6, buckets=2, replication_factor=3, min_insync_replicas=1)
WELL = ShardEntry(leader=1, leader_node_epoch=0, leader_epoch=4, isr=(1, 2, 3), replicas=(1, 2, 3))
LED_BY_2 = msgspec.structs.replace(WELL, leader=2, replicas=(2, 1, 3))
SHARD = 3
NOTHING: Mapping[str, Any] = {}
NOTHING_LACKED: Mapping[int, tuple[int, ...]] = {}


def changed(
    entry: ShardEntry,
    states: Mapping[int, NodeState] | None = None,
    *,
    others: ShardEntry = WELL,
    lacks: Mapping[int, tuple[int, ...]] = NOTHING_LACKED,
    **office: Any,
) -> dict[int, ShardEntry]:
    """Return what is due of six shards, of which one has this entry and the others are led well by node 1."""
    known = Versioned(KnownNode(directory_id="d", starts=1), 0)
    live = {
        node: Versioned(
            LiveNode(
                node_epoch=0,
                directory_id="d",
                addresses={},
                rack="r",
                release="1",
                state=(states or {}).get(node, NodeState.READY),
                lacks=lacks.get(node, ()),
            ),
            0,
            owner=node,
        )
        for node in (1, 2, 3)
    }
    buckets = {
        bucket: Versioned(Bucket(shards={each: entry if each == SHARD else others for each in range(bucket, 6, 2)}), 0)
        for bucket in range(2)
    }
    image = Image(cluster=Versioned(CLUSTER, 0), known=dict.fromkeys((1, 2, 3), known), live=live, buckets=buckets)
    held = Office(**{"controller_epoch": 1, "epoch_version": 1, "since_ms": 0, "balance_due_ms": 99_000, **office})
    due = Due(index_of(image), held, ControllerSettings(), frozenset(), "c", 90_000)
    return {
        shard: entry
        for change in due.changes(CLUSTER)
        for shard, entry in change.value.shards.items()
        if entry != buckets[shard % 2].value.shards[shard]
    }


def test_where_all_is_well_nothing_is_due() -> None:
    assert changed(WELL) == {}


@pytest.mark.parametrize(
    ("entry", "states", "office"),
    [
        pytest.param(
            msgspec.structs.replace(WELL, leader=None, leader_node_epoch=None), {}, NOTHING, id="nobody-leads"
        ),
        pytest.param(msgspec.structs.replace(WELL, leader_node_epoch=7), {}, NOTHING, id="a-former-life-leads"),
        pytest.param(LED_BY_2, {2: NodeState.DRAINING}, NOTHING, id="the-leader-drains"),
        pytest.param(
            LED_BY_2,
            {},
            {"late": frozenset({(2, 0)}), "outbox": Outbox(1, 1, {2: Mailbox(0)})},
            id="the-leader-does-not-answer",
        ),
        pytest.param(
            msgspec.structs.replace(WELL, removing=(3,), replicas=(1, 2, 3)),
            {},
            {"outbox": Outbox(1, 1, {1: Mailbox(0, known={SHARD: (WELL.leader_epoch, True)})})},
            id="a-reassignment-can-end",
        ),
        pytest.param(WELL, {}, {"wanted": {SHARD: (1, 2)}}, id="other-replicas-are-wanted"),
        pytest.param(
            msgspec.structs.replace(WELL, leader=2), {}, {"given_back": frozenset({SHARD})}, id="it-is-given-back"
        ),
        pytest.param(
            WELL,
            {},
            {"stepped_down": {SHARD: StepDown(SHARD, 4, StepDownReason.STALLED, 1, 0)}},
            id="its-leader-steps-down",
        ),
        pytest.param(WELL, {}, {"unfit": frozenset({(SHARD, 1, 0)})}, id="its-leader-cannot-load-it"),
        pytest.param(
            msgspec.structs.replace(WELL, leader=2),
            {},
            {"balance_due_ms": 90_000, "in_sync_since_ms": {SHARD: 0}},
            id="its-preferred-replica-has-been-in-sync-for-long",
        ),
    ],
)
def test_one_shard_that_is_to_be_changed_is_found_among_others(
    entry: ShardEntry, states: Mapping[int, NodeState], office: Mapping[str, Any]
) -> None:
    assert list(changed(entry, states, **office)) == [SHARD]


def test_a_drain_takes_no_leader_that_stays_away_from_the_end_of_its_reassignment() -> None:
    ending = msgspec.structs.replace(WELL, removing=(3,), replicas=(1, 2, 3))
    drained = {1: NodeState.DRAINING, 2: NodeState.DRAINING}
    assert SHARD not in changed(ending, drained), "it would go to the one that is to leave, and wait for that"
    says = {"outbox": Outbox(1, 1, {1: Mailbox(0, known={SHARD: (WELL.leader_epoch, True)})})}
    assert changed(ending, drained, **says)[SHARD].replicas == (1, 2)


IS_2_LATE: Mapping[str, Any] = {"late": frozenset({(2, 0)}), "outbox": Outbox(1, 1, {2: Mailbox(0)})}
IS_3_DRAINED = {3: NodeState.DRAINING}
NOBODY_LEADS = msgspec.structs.replace(WELL, leader=None, leader_node_epoch=None)


def stepped_down(reason: StepDownReason) -> Mapping[str, Any]:
    return {"stepped_down": {SHARD: StepDown(SHARD, 4, reason, 1, 0)}}


@pytest.mark.parametrize(
    ("entry", "states", "office", "leader"),
    [
        pytest.param(
            msgspec.structs.replace(NOBODY_LEADS, isr=(2, 3)), IS_3_DRAINED, IS_2_LATE, 3, id="drained-before-late"
        ),
        pytest.param(
            msgspec.structs.replace(NOBODY_LEADS, isr=(2, 3)),
            IS_3_DRAINED,
            {"late": frozenset({(2, 0), (3, 0)})},
            2,
            id="of-those-who-are-late-the-one-that-is-not-drained",
        ),
        pytest.param(
            msgspec.structs.replace(LED_BY_2, isr=(2, 3)), IS_3_DRAINED, IS_2_LATE, 3, id="a-late-leader-is-followed"
        ),
        pytest.param(
            msgspec.structs.replace(WELL, isr=(1, 3)),
            IS_3_DRAINED,
            stepped_down(StepDownReason.STALLED),
            3,
            id="one-that-steps-down-is-followed",
        ),
        pytest.param(
            WELL,
            NOTHING,
            {**IS_2_LATE, **stepped_down(StepDownReason.STALLED)},
            3,
            id="one-that-steps-down-is-followed-by-one-that-answers",
        ),
    ],
)
def test_who_answers_leads_before_who_does_not_also_while_it_is_drained(
    entry: ShardEntry, states: Mapping[int, NodeState], office: Mapping[str, Any], leader: int
) -> None:
    after = changed(entry, states, **office)
    assert {shard: (each.leader, each.leader_epoch) for shard, each in after.items()} == {SHARD: (leader, 5)}


def test_where_all_have_started_who_answers_leads_before_who_does_not() -> None:
    gone = msgspec.structs.replace(NOBODY_LEADS, isr=(2, 3))
    after = changed(gone, IS_3_DRAINED, others=gone, **IS_2_LATE)
    assert {each.leader for each in after.values()} == {3}
    assert len(after) == CLUSTER.shards


def test_a_late_leader_stays_where_nobody_who_answers_is_in_sync() -> None:
    alone = msgspec.structs.replace(LED_BY_2, isr=(2, 3))
    assert changed(alone, IS_3_DRAINED, late=frozenset({(2, 0), (3, 0)}), outbox=IS_2_LATE["outbox"]) == {}


def test_a_leader_that_cannot_load_its_shard_stays_where_nobody_else_can_lead() -> None:
    for unfit in ({1}, {1, 2}):
        cannot = frozenset((SHARD, node, 0) for node in unfit)
        assert changed(msgspec.structs.replace(WELL, isr=tuple(unfit)), unfit=cannot) == {}, "it goes on trying"


def test_a_drained_leader_whose_epoch_is_spoilt_begins_the_next_at_once() -> None:
    alone = msgspec.structs.replace(WELL, isr=(1,))
    spoilt = stepped_down(StepDownReason.SPOILT_EPOCH)
    after = changed(alone, {1: NodeState.DRAINING}, others=LED_BY_2, **spoilt)
    assert {shard: (each.leader, each.leader_epoch) for shard, each in after.items()} == {SHARD: (1, 5)}


def test_a_node_that_says_that_it_lacks_a_shard_is_not_elected_for_it_and_leaves_its_in_sync_set_then() -> None:
    led_by_nobody = msgspec.structs.replace(WELL, leader=None, leader_node_epoch=None)
    (elected,) = changed(led_by_nobody, lacks={1: (SHARD,)}).values()
    assert (elected.leader, elected.isr) == (2, (2, 3))
    assert changed(LED_BY_2, lacks={1: (SHARD,)}) == {}, "while there is a leader the node leaves by itself"
    (alone,) = changed(msgspec.structs.replace(led_by_nobody, isr=(1, 4)), lacks={1: (SHARD,)}).values()
    assert (alone.leader, alone.isr) == (None, (4,)), "who has everything is waited for"
