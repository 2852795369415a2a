"""Who owns what, and since when: rebalances, stops, grants and starts."""

import pytest

from coordinator.core.limits import Limits
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import EARLIEST, LATEST
from coordinator.protocol.messages import (
    CommitOffsets,
    CommitOffsetsResponse,
    FetcherStopped,
    FetcherStoppedResponse,
    StartFetcher,
    StopFetcher,
)
from coordinator.protocol.parts import FinalOffset, ResetPolicy, StartHint
from tests.helpers.node_world import NodeWorld
from tests.helpers.passing_time import let_pass

T0, T1, T2, T3 = [("t", number) for number in range(4)]


def test_first_member_gets_everything_without_waiting_for_the_window() -> None:
    world = NodeWorld({"t": 2})
    m1 = world.join("m1", is_settled=False)
    assert (sorted(m1.owned), m1.is_complete, world.group().group_epoch) == ([T0, T1], True, 1)


def test_only_partitions_that_move_are_stopped() -> None:
    world = NodeWorld({"t": 4})
    m1 = world.join("m1")
    m2 = world.join("m2")
    assert (sorted(m1.stopping), m2.owned) == ([T2, T3], {})
    assert world.owners() == {T0: "m1", T1: "m1", T2: "m1", T3: "m1"}


def test_changes_within_the_window_are_one_rebalance() -> None:
    world = NodeWorld({"t": 4})
    world.join("m1")
    world.join("m2", is_settled=False)
    world.advance(30)
    world.join("m3", is_settled=False)
    assert world.group().group_epoch == 1
    world.advance(20)
    assert world.group().group_epoch == 2
    assert world.events("rebalance")[-1].why == "m2 joined; m3 joined"


def test_grant_waits_until_old_owner_has_released() -> None:
    world = NodeWorld({"t": 2})
    m1, m2 = world.join("m1"), world.join("m2")
    assert (world.owners()[T1], m2.is_complete) == ("m1", False)
    m1.stopped(T1)
    assert (world.owners()[T1], sorted(m2.owned), m2.is_complete) == ("m2", [T1], True)


def test_member_keeps_its_epoch_until_it_has_revoked() -> None:
    world = NodeWorld({"t": 4})
    m1, _ = world.join("m1"), world.join("m2")
    assert (m1.ping().member_epoch, m1.ping().group_epoch) == (1, 2)
    m1.stopped(T2)
    assert m1.ping().member_epoch == 1
    m1.stopped(T3)
    assert m1.ping().member_epoch == 2


def test_grant_has_the_offset_of_its_record_as_owner_epoch() -> None:
    world = NodeWorld({"t": 2})
    m1, _ = world.join("m1"), world.join("m2")
    before = m1.epoch(T1)
    m1.stopped(T1)
    grant = world.group().grants[T1]
    assert before < grant.owner_epoch < len(world.written[world.node.shard_of("g")])


def test_equal_target_moves_only_the_epoch() -> None:
    world = NodeWorld({"t": 1})
    m1 = world.join("m1")
    said = len(m1.inbox)
    m2 = world.join("m2")
    assert (m2.owned, m2.is_complete) == ({}, True)
    assert (m1.inbox[said:], m1.ping().member_epoch) == ([], 2)


def test_member_without_partitions_is_told_that_it_is_complete() -> None:
    world = NodeWorld({"t": 1})
    world.join("m1")
    m2 = world.join("m2")
    assert m2.inbox[-1] == StartFetcher((), is_complete=True, member_epoch=2, group_epoch=2, to_follow=0)


def test_partition_that_moves_back_while_it_is_stopped_is_granted_anew() -> None:
    world = NodeWorld({"t": 2})
    m1, m2 = world.join("m1"), world.join("m2")
    before = m1.epoch(T1)
    m2.leave()
    world.settle()
    assert world.group().grants[T1].is_stopping
    m1.stopped(T1)
    assert world.owners() == {T0: "m1", T1: "m1"}
    assert m1.epoch(T1) > before
    assert m1.is_complete


def test_stopped_said_twice_is_answered_alike_and_releases_once() -> None:
    world = NodeWorld({"t": 2})
    m1, _ = world.join("m1"), world.join("m2")
    final = FetcherStopped((FinalOffset(*T1, m1.epoch(T1), 120),))
    first = m1.ask(final, FetcherStoppedResponse)
    again = m1.ask(final, FetcherStoppedResponse)
    assert (first, world.owners()[T1], world.committed()[T1]) == (again, "m2", 120)


def test_final_offset_before_the_committed_one_is_refused_and_the_partition_released_all_the_same() -> None:
    world = NodeWorld({"t": 2})
    m1, _ = world.join("m1"), world.join("m2")
    m1.commit(T1, 150)
    (result,) = m1.stopped(T1, offset=149).results
    assert (result.error, result.committed) == (ErrorCode.INVALID_REQUEST, 150)
    assert (world.owners()[T1], world.committed()[T1]) == ("m2", 150)


def test_pushes_are_cut_and_only_the_last_is_complete() -> None:
    world = NodeWorld({"t": 5}, limits=Limits(push_max_partitions=2))
    m1 = world.join("m1")
    pushes = [said for said in m1.inbox if isinstance(said, StartFetcher)]
    assert [(len(push.partitions), push.is_complete) for push in pushes] == [
        (0, False),
        (2, False),
        (2, False),
        (1, True),
    ]
    world.join("m2")
    stops = [said for said in m1.inbox if isinstance(said, StopFetcher)]
    assert [len(push.partitions) for push in stops] == [2]


def test_streams_weigh_the_shares() -> None:
    world = NodeWorld({"t": 4})
    m1 = world.join("m1", streams=3)
    m2 = world.join("m2", streams=1)
    m1.stop_all()
    assert (len(m1.owned), len(m2.owned)) == (3, 1)


def test_group_uses_the_assignor_common_to_all_that_most_name_first() -> None:
    world = NodeWorld()
    world.join("m1", assignors=("sticky", "range"))
    world.join("m2", assignors=("range", "sticky"))
    world.join("m3", assignors=("range",))
    assert world.group().assignor == "range"


def test_grant_names_the_leader_when_it_is_known() -> None:
    world = NodeWorld({"t": 1})
    part = world.join("m1").owned[T0]
    assert (part.leader_host, part.leader_port, part.leader_epoch) == ("broker", 9092, 7)


# ---- where a partition starts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "offset"),
    [
        (None, 100),
        (ResetPolicy("latest"), 100),
        (ResetPolicy("earliest"), 10),
        (ResetPolicy("timestamp", 5_000), 40),
    ],
)
def test_the_start_is_resolved_once_and_recorded(policy: ResetPolicy | None, offset: int) -> None:
    world = NodeWorld({"t": 1})
    world.kafka.at_timestamp[T0] = 40
    m1 = world.join("m1", reset_policy=policy)
    assert (m1.owned[T0].offset, world.committed()) == (offset, {T0: offset})
    world.kafka.begins[T0] = world.kafka.ends[T0] = 77
    m1.leave()
    m2 = world.join("m2")
    assert (m2.owned[T0].offset, len(world.kafka.resolved)) == (offset, 1)


def test_timestamp_after_the_last_record_starts_at_the_end() -> None:
    world = NodeWorld({"t": 1})
    m1 = world.join("m1", reset_policy=ResetPolicy("timestamp", 5_000))
    assert m1.owned[T0].offset == 100


def test_smallest_end_of_a_checkpoint_goes_before_an_option_and_the_policy() -> None:
    world = NodeWorld({"t": 3})
    m1 = world.join(
        "m1",
        hints=[
            StartHint("t", "id-t", 0, 33, from_checkpoint=True),
            StartHint("t", "id-t", 0, 31, from_checkpoint=True),
            StartHint("t", "", 0, 11, from_checkpoint=False),
            StartHint("t", "", 1, EARLIEST, from_checkpoint=False),
            StartHint("t", "another-id", 2, 5, from_checkpoint=True),
        ],
    )
    let_pass(world, 10_000, m1)
    assert {partition: part.offset for partition, part in m1.owned.items()} == {T0: 31, T1: 10, T2: 10}


def test_committed_offset_goes_before_every_hint() -> None:
    world = NodeWorld({"t": 1})
    m1 = world.join("m1")
    m1.commit(T0, 120)
    m1.leave()
    m2 = world.join("m2", hints=[StartHint("t", "id-t", 0, 33, from_checkpoint=True)])
    assert m2.owned[T0].offset == 120


def test_start_that_kafka_cannot_give_is_asked_again_and_never_zero() -> None:
    world = NodeWorld({"t": 1})
    world.kafka.cannot_resolve = True
    m1 = world.join("m1")
    assert (m1.owned, dict(world.group().offsets.items())) == ({}, {})
    assert "no leader" in world.events("start-unresolved")[0].why
    world.advance(5_000)
    m1.ping()
    assert len(world.events("start-unresolved")) == 1
    world.kafka.cannot_resolve = False
    world.advance(1_100)
    assert (m1.owned[T0].offset, m1.is_complete) == (100, True)


def test_policy_none_waits_for_an_operator_to_say_where() -> None:
    world = NodeWorld({"t": 1})
    m1 = world.join("m1", reset_policy=ResetPolicy("none"))
    assert m1.owned == {}
    world.connect().ask(CommitOffsets("g", in_columns((OffsetToCommit(*T0, 55),))), CommitOffsetsResponse)
    assert (m1.owned[T0].offset, m1.is_complete) == (55, True)


def test_topic_grown_starts_at_earliest() -> None:
    world = NodeWorld({"t": 1})
    m1 = world.join("m1", reset_policy=ResetPolicy("latest"))
    world.kafka.topics["t"] = 2
    world.poll_topics()
    world.settle()
    assert {partition: part.offset for partition, part in m1.owned.items()} == {T0: 100, T1: 10}
    assert [event.why for event in world.events("topic-grown")] == ["topic t has 2 partitions, and had 1"]


def test_recreated_topic_is_granted_anew_from_its_beginning() -> None:
    world = NodeWorld({"t": 1})
    m1 = world.join("m1")
    m1.commit(T0, 140)
    world.kafka.ids["t"] = "id-t-2"
    world.poll_topics()
    world.settle()
    assert m1.stopping == {T0: "its topic was deleted and made again"}
    m1.stopped(T0, offset=145)
    assert (m1.owned[T0].topic_id, m1.owned[T0].offset) == ("id-t-2", 10)
    assert len(world.events("topic-recreated")) == 1


def test_hint_may_ask_for_the_end() -> None:
    world = NodeWorld({"t": 1})
    m1 = world.join(
        "m1",
        reset_policy=ResetPolicy("earliest"),
        hints=[StartHint("t", "", 0, LATEST, from_checkpoint=False)],
    )
    assert m1.owned[T0].offset == 100
