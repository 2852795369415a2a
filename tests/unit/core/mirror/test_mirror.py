"""Offsets that are committed here are written to Kafka: once an interval, never ahead, never over its members."""

from dataclasses import replace

import pytest

from coordinator.core.effects import MirrorEnded, MirrorOffsets, Notice
from coordinator.core.events import LeadershipGiven, LeadershipTaken
from coordinator.core.mirror.comparison import MOST_OF_FORMER, Former, Told
from coordinator.core.mirror.events import MirrorAnswered, Outcome
from coordinator.core.mirror.mirrored import PAUSE_MS
from coordinator.core.mirror.settings import MirrorSettings
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import CommitOffsets, CommitOffsetsResponse
from coordinator.protocol.messages.operators import (
    DeleteGroup,
    DeleteGroupResponse,
    DeleteOffsets,
    DeleteOffsetsResponse,
    ResetOffsets,
    ResetOffsetsResponse,
)
from coordinator.protocol.parts import ResetTarget
from coordinator.protocol.vocabulary import ResetKind
from tests.helpers.mirrored_kafka import MirroredKafka, commit, commit_of
from tests.helpers.node_world import NodeWorld

SETTINGS = MirrorSettings(settle_ms=3_000, refresh_ms=60_000, late_ms=5_000)
T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)


def world_of(
    *, settings: MirrorSettings = SETTINGS, is_durable_at_once: bool = True
) -> tuple[NodeWorld, MirroredKafka]:
    """Return a node with a mirror, past the time in which groups are written twice, and its Kafka."""
    world = NodeWorld({"t": 4, "u": 2}, mirror=settings, is_durable_at_once=is_durable_at_once)
    world.advance(settings.settle_ms + 100)
    return world, MirroredKafka(world)


def offsets_of(write: MirrorOffsets) -> dict[tuple[str, int], int]:
    kafka = MirroredKafka(NodeWorld())
    kafka.take(write)
    return kafka.offsets[write.group_id]


def notices(world: NodeWorld, kind: str) -> list[Notice]:
    return [effect for effect in world.effects if isinstance(effect, Notice) and effect.kind == kind]


def figures(world: NodeWorld) -> dict[str, float]:
    world.advance(1_100)
    assert world.around is not None
    return dict(world.around.mirror.figures)


def test_a_commit_is_written_at_the_next_tick() -> None:
    world, kafka = world_of()
    commit(world, "g", t0=7, u0=9)
    assert [offsets_of(write) for write in kafka.go_on(100)] == [{T0: 7, U0: 9}]


def test_a_group_is_written_once_an_interval_with_what_is_new() -> None:
    world, kafka = world_of()
    commit(world, "g", t0=0, t1=5)
    kafka.go_on(100)
    for offset in range(1, 10):
        commit(world, "g", t0=offset)
        assert kafka.go_on(100) == []
    commit(world, "g", t0=10)
    assert [offsets_of(write) for write in kafka.go_on(100)] == [{T0: 10}]


def test_groups_wait_for_themselves_alone() -> None:
    world, kafka = world_of()
    commit(world, "g", t0=1)
    world.advance(100)
    (held,) = kafka.asked()
    commit(world, "h", t0=2)
    assert [write.group_id for write in kafka.go_on(100)] == ["h"]
    commit(world, "g", t0=3)
    assert kafka.go_on(3_000) == [], "one write of a group is under way at a time"
    kafka.answer(held)
    assert [offsets_of(write) for write in kafka.go_on(100)] == [{T0: 3}]


def test_nothing_is_written_before_it_is_durable() -> None:
    world, kafka = world_of(is_durable_at_once=False)
    world.sync()
    world.connect().send(commit_of("g", t0=7))
    world.advance(1_000)
    assert kafka.asked() == []
    world.sync()
    assert [offsets_of(write) for write in kafka.asked()] == [{T0: 7}]


def reset(world: NodeWorld, offset: int) -> None:
    asked = ResetOffsets("g", (ResetTarget("t", 0, ResetKind.OFFSET, offset),), "ann", "again", is_dry_run=False)
    world.connect().ask(asked, ResetOffsetsResponse)


def test_a_reset_moves_the_mirror_back() -> None:
    world, kafka = world_of()
    commit(world, "g", t0=70)
    kafka.go_on(1_000)
    reset(world, 30)
    kafka.go_on(200)
    assert kafka.offsets == {"g": {T0: 30}}


def test_offsets_that_are_deleted_here_are_deleted_there() -> None:
    world, kafka = world_of()
    commit(world, "g", t0=7, t1=8)
    kafka.go_on(1_000)
    world.connect().ask(DeleteOffsets("g", (T0,), "ann", "gone", is_dry_run=False), DeleteOffsetsResponse)
    kafka.go_on(200)
    assert kafka.offsets == {"g": {T1: 8}}


def test_offsets_of_a_group_that_is_deleted_are_left_to_kafka() -> None:
    world, kafka = world_of()
    commit(world, "g", t0=7)
    kafka.go_on(1_000)
    delete(world, "g")
    assert (kafka.go_on(120_000), kafka.offsets) == ([], {"g": {T0: 7}})


def delete(world: NodeWorld, group_id: str) -> None:
    world.connect().ask(DeleteGroup(group_id, "ann", "gone", is_dry_run=False), DeleteGroupResponse)


def test_a_group_that_is_made_again_has_no_more_offsets_in_kafka_than_here() -> None:
    world, kafka = world_of()
    commit(world, "g", t0=7, t1=8, u0=9)
    kafka.go_on(1_000)
    delete(world, "g")
    assert kafka.go_on(10_000) == []
    commit(world, "g", t0=3)
    kafka.go_on(1_000)
    assert kafka.offsets == {"g": {T0: 3}}


def test_a_group_that_is_made_again_is_written_whole_whoever_has_deleted_it_in_kafka() -> None:
    world, kafka = world_of()
    commit(world, "g", t0=7, t1=8)
    kafka.go_on(1_000)
    delete(world, "g")
    kafka.go_on(10_000)
    kafka.offsets.clear()
    commit(world, "g", t0=7)
    kafka.go_on(1_000)
    assert kafka.offsets == {"g": {T0: 7}}


def test_what_kafka_was_told_of_groups_that_are_gone_is_kept_for_a_time() -> None:
    world, kafka = world_of()
    commit(world, "g", t0=7, t1=8)
    kafka.go_on(1_000)
    delete(world, "g")
    kafka.go_on(SETTINGS.refresh_ms + 2_000)
    commit(world, "g", t0=3)
    kafka.go_on(1_000)
    assert kafka.offsets == {"g": {T0: 3, T1: 8}}


def test_of_groups_that_are_gone_a_bounded_number_of_offsets_is_remembered() -> None:
    former = Former()
    for group_id in ("a", "b", "c"):
        former.put(group_id, Told({"t": dict.fromkeys(range(MOST_OF_FORMER // 2), 1)}))
    former.put("d", Told())
    assert [former.take(group_id).count for group_id in ("a", "b", "c", "d")] == [
        0,
        MOST_OF_FORMER // 2,
        MOST_OF_FORMER // 2,
        0,
    ]
    former.put("e", Told({"t": dict.fromkeys(range(MOST_OF_FORMER + 1), 1)}))
    assert former.take("e").count == 0


def test_offsets_of_a_topic_that_was_made_again_do_not_count() -> None:
    world, kafka = world_of()
    world.join("m1", topics=("t",)).leave()
    kafka.go_on(1_000)
    known = kafka.offsets["g"]
    assert set(known) == {("t", number) for number in range(4)}
    world.kafka.ids["t"] = "another"
    world.poll_topics()
    commit(world, "g", u0=1)
    kafka.go_on(1_500)
    assert kafka.offsets == {"g": {U0: 1}}


def test_a_group_with_members_in_kafka_is_left_alone_and_said_once() -> None:
    world, kafka = world_of()
    commit(world, "g", t0=7)
    tries = 0
    for _ in range(1_200):
        world.advance(100)
        for write in kafka.asked():
            tries += 1
            kafka.answer(write, Outcome.HAS_MEMBERS, "UnknownMemberIdError")
    assert len(notices(world, "mirror-stopped")) == 1
    assert notices(world, "mirror-stopped")[0].is_warning
    assert 4 <= tries <= 6, "it is tried again, later each time"
    assert figures(world)["kcoord_mirror_groups_stopped"] == 1
    commit(world, "h", t0=1)
    assert [write.group_id for write in kafka.go_on(100)] == ["h"], "other groups go on"


def test_a_group_goes_on_when_its_members_in_kafka_are_gone() -> None:
    world, kafka = world_of()
    commit(world, "g", t0=7)
    world.advance(100)
    (write,) = kafka.asked()
    kafka.answer(write, Outcome.HAS_MEMBERS, "UnknownMemberIdError")
    commit(world, "g", t0=8)
    assert kafka.go_on(4_800) == []
    assert [offsets_of(write) for write in kafka.go_on(300)] == [{T0: 8}]
    assert len(notices(world, "mirror-goes-on")) == 1
    assert figures(world)["kcoord_mirror_groups_stopped"] == 0


def test_what_kafka_refuses_of_a_group_is_said_once_and_keeps_nothing_else() -> None:
    world, kafka = world_of()
    for offset in (7, 8):
        commit(world, "g", t0=offset, u0=offset)
        world.advance(1_000)
        (write,) = kafka.asked()
        kafka.answer(write, Outcome.DONE, "", ("u", 0, "its log-in needs the ACL Read"))
    assert [notice.why.count("u:0") for notice in notices(world, "mirror-refused")] == [1]
    assert figures(world)["kcoord_mirror_groups_refused"] == 1


def test_an_offset_of_a_topic_that_kafka_does_not_know_yet_is_written_again_soon() -> None:
    world, kafka = world_of()
    commit(world, "g", t0=70)
    world.advance(1_000)
    (write,) = kafka.asked()
    done = MirrorAnswered(write.shard, "g", write.attempt, Outcome.DONE, unknown=(T0,))
    world.happen(done)  # of a broker that has not heard of the topic: Kafka has nothing of it
    assert kafka.go_on(SETTINGS.settle_ms - 200) == []
    assert len(kafka.go_on(1_000)) == 1
    assert kafka.offsets["g"][T0] == 70
    assert kafka.go_on(3 * SETTINGS.settle_ms) == []


def test_a_topic_that_is_gone_is_not_asked_about_again() -> None:
    world, kafka = world_of()
    commit(world, "g", u0=7)
    world.advance(1_000)
    (write,) = kafka.asked()
    del world.kafka.topics["u"]
    world.poll_topics()
    world.happen(MirrorAnswered(write.shard, "g", write.attempt, Outcome.DONE, unknown=(U0,)))
    assert kafka.go_on(3 * SETTINGS.settle_ms) == []


def test_an_outage_is_caught_up_with_by_one_write_a_group() -> None:
    world, kafka = world_of()
    commit(world, "g", t0=1)
    kafka.go_on(1_000)
    tries = []
    for offset in range(2, 12):
        commit(world, "g", t0=offset)
        commit(world, "h", u0=offset)
        world.advance(1_000)
        for write in kafka.asked():
            tries.append(write)
            kafka.answer(write, Outcome.AWAY, "Kafka is away")
    assert len(tries) < 30, "it is not asked at every tick"
    assert figures(world)["kcoord_mirror_delay_seconds"] > 9
    (late,) = notices(world, "mirror-late")
    assert (late.is_warning, "Kafka is away" in late.why) == (True, True)
    assert "Kafka is away" in world.around.mirror.lacks  # type: ignore[union-attr]
    caught_up = [*kafka.asked()]
    for write in caught_up:
        kafka.answer(write)
    caught_up += kafka.go_on(1_200)
    assert kafka.offsets == {"g": {T0: 11}, "h": {U0: 11}}
    assert len(caught_up) <= 3
    assert figures(world)["kcoord_mirror_delay_seconds"] == 0
    assert (len(notices(world, "mirror-caught-up")), world.around.mirror.lacks) == (1, "")  # type: ignore[union-attr]


def test_what_may_have_been_taken_is_written_again_though_it_is_as_before() -> None:
    world, kafka = world_of(settings=replace(SETTINGS, settle_ms=60_000))
    commit(world, "g", t0=30)
    kafka.go_on(1_000)
    commit(world, "g", t0=70)
    world.advance(100)
    (write,) = kafka.asked()
    kafka.take(write)
    reset(world, 30)
    kafka.answer(write, Outcome.LATER, "nobody knows")
    kafka.go_on(2_000)
    assert kafka.offsets == {"g": {T0: 30}}


def test_all_is_written_again_once_what_was_under_way_is_over() -> None:
    world, kafka = world_of()
    commit(world, "g", t0=7, t1=1)
    world.advance(100)
    (late,) = kafka.asked()
    kafka.answer(late, Outcome.LATER, "nobody knows")
    commit(world, "g", t0=8)
    kafka.go_on(1_000)
    kafka.take(late)
    assert kafka.offsets["g"][T0] == 7
    kafka.go_on(SETTINGS.settle_ms + 1_000)
    assert kafka.offsets == {"g": {T0: 8, T1: 1}}


def test_a_new_leader_writes_all_at_once_and_once_more() -> None:
    world, kafka = world_of()
    commit(world, "g", t0=7)
    kafka.go_on(1_000)
    world.restart()
    writes = kafka.go_on(SETTINGS.settle_ms + 500)
    assert [offsets_of(write) for write in writes] == [{T0: 7}, {T0: 7}]
    assert kafka.go_on(SETTINGS.refresh_ms // 2) == []


def test_all_is_written_again_now_and_then() -> None:
    world, kafka = world_of()
    commit(world, "g", t0=7)
    kafka.go_on(1_000)
    kafka.offsets.clear()
    assert len(kafka.go_on(SETTINGS.refresh_ms + 1_000)) == 1
    assert kafka.offsets == {"g": {T0: 7}}


def test_a_leader_that_is_deposed_writes_nothing_more() -> None:
    world, kafka = world_of(is_durable_at_once=False)
    world.sync()
    world.advance(100)
    shard = world.node.shard_of("g")
    world.connect().send(commit_of("g", t0=7))
    world.advance(100)
    world.happen(LeadershipTaken(shard, "another one leads it"))
    world.sync()
    world.advance(5_000)
    assert kafka.asked() == []
    assert MirrorEnded(shard) in world.mirrored


def test_an_answer_to_a_leader_that_was_deposed_is_void() -> None:
    world, kafka = world_of()
    commit(world, "g", t0=7)
    world.advance(100)
    (write,) = kafka.asked()
    world.happen(LeadershipTaken(write.shard, "another one leads it"))
    world.advance(100)
    assert world.happen(MirrorAnswered(write.shard, "g", write.attempt, Outcome.DONE)) == []


def test_an_answer_to_a_former_term_is_not_taken_for_that_of_this_one() -> None:
    world, kafka = world_of()
    commit(world, "g", t0=7)
    world.advance(100)
    (former,) = kafka.asked()
    shard = former.shard
    world.happen(LeadershipTaken(shard, "another one leads it"))
    world.advance(200)
    world.happen(LeadershipGiven(shard, world.epochs[shard] + 1, len(world.written[shard])))
    world.advance(1_000)
    (write,) = kafka.asked()
    kafka.answer(former)
    commit(world, "g", t0=8)
    assert kafka.go_on(2_000) == [], "the write of this term is under way"
    kafka.answer(write)
    kafka.go_on(200)
    assert kafka.offsets == {"g": {T0: 8}}


def test_a_bug_of_the_mirror_costs_a_pause_and_nothing_of_the_node() -> None:
    world, kafka = world_of()
    world.bugs = []
    commit(world, "g", t0=7)
    world.advance(100)
    (former,) = kafka.asked()
    around = world.around
    assert around is not None
    around.mirror.look = None  # type: ignore[method-assign, assignment]
    commit(world, "g", t0=8)
    assert kafka.go_on(PAUSE_MS - 1_000) == []
    assert len(world.bugs) == 1
    kafka.answer(former)
    (write, *_) = kafka.go_on(2_000)
    assert write.attempt > former.attempt
    assert kafka.offsets == {"g": {T0: 8}}


def test_a_large_group_is_written_piece_by_piece() -> None:
    world = NodeWorld({"t": 4}, mirror=SETTINGS)
    kafka = MirroredKafka(world)
    world.advance(SETTINGS.settle_ms + 100)
    for begin in range(0, 6_000, 2_000):
        commit(world, "g", **{f"t{number}": number for number in range(begin, begin + 2_000)})
    writes = kafka.go_on(1_000)
    assert [sum(len(each.partitions) for each in write.topics) for write in writes] == [2_500, 2_500, 1_000]
    assert kafka.offsets["g"] == {("t", number): number for number in range(6_000)}


def test_no_write_is_larger_than_kafkas_topic_of_offsets_has_room_for() -> None:
    world = NodeWorld({"t": 600}, mirror=SETTINGS)
    kafka = MirroredKafka(world)
    parts = tuple(OffsetToCommit("t", number, number, metadata="x" * 4_096) for number in range(600))
    for some in (parts[:200], parts[200:400], parts[400:]):
        asked = CommitOffsets("g", in_columns(some))
        assert world.connect().ask(asked, CommitOffsetsResponse).accepted == 200
    writes = kafka.go_on(2_000)
    sizes = [sum(len("".join(each.metadata)) + 64 * len(each.partitions) for each in write.topics) for write in writes]
    assert max(sizes) < 1024 * 1024
    assert len(writes) < 8
    assert kafka.offsets["g"] == {("t", number): number for number in range(600)}


def test_so_many_groups_of_a_shard_are_written_at_once() -> None:
    world = NodeWorld({"t": 4}, mirror=SETTINGS, shards=1)
    kafka = MirroredKafka(world)
    for number in range(50):
        commit(world, f"g{number}", t0=number)
    world.advance(1_000)
    assert len(kafka.asked()) == SETTINGS.groups_at_once


@pytest.mark.parametrize("outcome", [Outcome.LATER, Outcome.AWAY, Outcome.REFUSED, Outcome.HAS_MEMBERS])
def test_whatever_kafka_answers_is_caught_up_with(outcome: Outcome) -> None:
    world, kafka = world_of()
    commit(world, "g", t0=7)
    for _ in range(3):
        world.advance(20_000)
        for write in kafka.asked()[-1:]:
            kafka.answer(write, outcome, "not now")
    kafka.go_on(120_000)
    assert kafka.offsets == {"g": {T0: 7}}
