"""Where partitions end is another matter for members that read committed records only."""

import pytest

from coordinator.core.effects import OffsetToResolve
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import EARLIEST, LATEST
from coordinator.protocol.messages import CommitOffsets, CommitOffsetsResponse
from coordinator.protocol.messages.operators import ResetOffsets, ResetOffsetsResponse
from coordinator.protocol.parts import ResetPolicy, ResetTarget, StartHint
from tests.helpers.node_world import NodeWorld

T0 = ("t", 0)
COMMITTED = "read_committed"


def world_with_an_open_transaction() -> NodeWorld:
    """Return a world whose one partition holds [10, 100), of which a transaction from 90 on is open."""
    world = NodeWorld({"t": 1})
    world.kafka.stable[T0] = 90
    return world


@pytest.mark.parametrize(("level", "start"), [(COMMITTED, 90), ("read_uncommitted", 100)])
def test_latest_is_the_end_of_what_the_member_can_read(level: str, start: int) -> None:
    world = world_with_an_open_transaction()
    member = world.join("m1", isolation_level=level)
    assert (member.owned[T0].offset, world.committed()) == (start, {T0: start})


@pytest.mark.parametrize(("level", "start"), [(COMMITTED, 90), ("read_uncommitted", 100)])
def test_so_is_latest_by_an_option_and_a_time_after_the_last_record(level: str, start: int) -> None:
    world = world_with_an_open_transaction()
    hint = StartHint("t", "", 0, LATEST, from_checkpoint=False)
    assert world.join("m1", isolation_level=level, hints=(hint,)).owned[T0].offset == start
    other = world_with_an_open_transaction()
    policy = ResetPolicy("timestamp", 5)
    assert other.join("m1", isolation_level=level, reset_policy=policy).owned[T0].offset == start


def test_where_a_log_begins_is_the_same_for_everybody() -> None:
    world = world_with_an_open_transaction()
    world.join("m1", isolation_level=COMMITTED, reset_policy=ResetPolicy("earliest"))
    (asked,) = world.kafka.resolved
    assert asked.offsets == (OffsetToResolve("t", 0, EARLIEST),)


def test_the_level_that_counts_is_that_of_the_member_that_gets_the_partition() -> None:
    world = world_with_an_open_transaction()
    world.kafka.cannot_resolve = True
    world.join("m1", isolation_level=COMMITTED)
    world.kafka.cannot_resolve = False
    again = world.join("m1", isolation_level="read_uncommitted")
    world.advance(2_000)
    assert again.owned[T0].offset == 100


def test_a_committed_offset_behind_an_open_transaction_is_where_a_member_starts() -> None:
    world = world_with_an_open_transaction()
    world.connect().ask(CommitOffsets("g", in_columns((OffsetToCommit("t", 0, 95),))), CommitOffsetsResponse)
    assert world.join("m1", isolation_level=COMMITTED).owned[T0].offset == 95


def test_a_reset_to_the_end_is_one_to_the_high_watermark_for_every_group() -> None:
    world = world_with_an_open_transaction()
    world.join("m1", isolation_level=COMMITTED).leave()
    request = ResetOffsets("g", (ResetTarget("t", 0, "latest"),), "ann", is_dry_run=False)
    (result,) = world.connect().ask(request, ResetOffsetsResponse).results
    assert result.new_offset == 100


def test_an_unknown_level_is_refused_naming_those_there_are() -> None:
    world = NodeWorld({"t": 1})
    response = world.joining("m1", isolation_level="serializable").register()
    assert response.error is ErrorCode.INVALID_REQUEST
    assert "'serializable' is not known; use one of read_uncommitted, read_committed" in response.message


def test_the_level_is_shown_and_outlives_a_restart() -> None:
    world = world_with_an_open_transaction()
    world.join("m1", isolation_level=COMMITTED)
    world.restart()
    (member,) = world.describe().members
    assert member.isolation_level == COMMITTED
