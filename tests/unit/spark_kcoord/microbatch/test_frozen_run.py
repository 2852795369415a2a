"""When a run that ends by itself may end: read to its frozen ends, or somebody else's, or paused; else an error."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import LostPosition, PartitionResult
from spark_kcoord.errors import DataLossError, KafkaAwayError, KcoordError
from spark_kcoord.member.client import Assignment
from spark_kcoord.member.holders import Holder
from spark_kcoord.microbatch.query_member import QueryMember
from spark_kcoord.microbatch.stream_offset import StreamOffset
from tests.helpers.fake_member import FakeEnds, FakeMember, a_session, claim, owned

T0, T1 = ("t", 0), ("t", 1)


@dataclass
class PassingTime(FakeMember):
    """A member whose waits for a change take their time."""

    now_s: list[float] = field(default_factory=lambda: [0.0])

    def wait_for_change(self, known: Assignment, *, timeout_s: float) -> Assignment:
        self.now_s[0] += timeout_s
        return super().wait_for_change(known, timeout_s=timeout_s)


def a_run(
    member: PassingTime, ends: dict[int, int], kafka: FakeEnds | None = None, *, fail: bool = True
) -> QueryMember:
    session = a_session(member, kafka or FakeEnds(dict(ends)), fail=fail, clock=lambda: member.now_s[0])
    session.freeze_ends({("t", number): end for number, end in ends.items()})
    return session


def read_on(session: QueryMember, start: StreamOffset, limit: int | None = None) -> StreamOffset:
    return session.next_offset(start, limit, is_single_run=True)


def test_run_reads_on_under_another_owner_epoch_from_the_groups_offset() -> None:
    member = PassingTime((owned(0, 0),))
    session = a_run(member, {0: 200})
    first = read_on(session, session.identity, 40)
    member.partitions, member.lost = (owned(0, 40, epoch=9),), frozenset({0})
    second = read_on(session, first)
    assert second.claims == (claim(0, 40, 200, epoch=9),)
    member.lost = frozenset()
    assert read_on(session, second) == second


def test_run_whose_partitions_are_away_for_a_moment_waits_for_them() -> None:
    member = PassingTime((owned(0, 0),))
    session = a_run(member, {0: 200})
    first = read_on(session, session.identity, 40)
    member.partitions, member.is_complete, member.lost = (), False, frozenset({0})
    member.held_by = {T0: Holder(None)}
    member.changes = [(), (owned(0, 0, epoch=9),)]
    second = read_on(session, first)
    assert second.claims == (claim(0, 0, 200, epoch=9),)


def test_run_ends_well_without_what_another_member_has_taken_over(caplog: pytest.LogCaptureFixture) -> None:
    member = PassingTime((owned(0, 0), owned(1, 0)))
    session = a_run(member, {0: 50, 1: 9})
    first = read_on(session, session.identity, 20)
    member.partitions, member.lost = (owned(1, 0),), frozenset({0})
    member.held_by = {T0: Holder("m-2"), T1: Holder("m-1")}
    second = read_on(session, first)
    assert [one.partition for one in second.claims] == [1]
    with caplog.at_level(logging.INFO):
        assert read_on(session, second) == second
    assert "ends without the rest of t-0" in caplog.text
    assert "member m-2 has it now" in caplog.text
    assert member.changes_awaited == []


def test_run_that_could_end_once_has_all_its_patience_when_it_is_asked_again() -> None:
    """Spark asks each source of a query at every trigger, also one that could have ended while others read on."""
    member = PassingTime((owned(0, 0), owned(1, 0)))
    session = a_run(member, {0: 50, 1: 9})
    first = read_on(session, session.identity, 20)
    member.partitions, member.lost = (owned(1, 0),), frozenset({0})
    member.held_by = {T0: Holder("m-2"), T1: Holder("m-1")}
    second = read_on(session, first)
    assert read_on(session, second) == second
    member.now_s[0] += 100.0
    member.held_by, member.changes = {T0: Holder(None)}, [(owned(0, 20, epoch=9), owned(1, 0))]
    assert read_on(session, second).claims == (claim(0, 20, 50, epoch=9),)


def test_run_reports_the_ends_also_of_what_it_has_read_to_its_frozen_end() -> None:
    member, kafka = PassingTime((owned(0, 0), owned(1, 0))), FakeEnds({0: 3, 1: 12})
    session = a_run(member, {0: 1, 1: 9}, kafka)
    first = read_on(session, session.identity, 2)
    assert first.claims == (claim(0, 0, 1), claim(1, 0, 1))
    kafka.ends[1] = 15
    read_on(session, first)
    assert session.report().ends == {T0: 3, T1: 15}


class SlowProof(PassingTime):
    """Believes that a position is gone once two reports of it lie two seconds apart, as the coordinator does."""

    reported_at_s: float | None = None
    never = False

    def report_out_of_range(self, partitions: Sequence[LostPosition]) -> tuple[PartitionResult, ...]:
        if self.reported_at_s is None:
            self.reported_at_s = self.now_s[0]
        is_proven = self.now_s[0] - self.reported_at_s >= 2.0 and not self.never
        self.report_error = ErrorCode.NONE if is_proven else ErrorCode.OFFSET_NOT_AVAILABLE
        return super().report_out_of_range(partitions)


@pytest.mark.parametrize("is_single_run", [True, False])
def test_what_is_planned_once_waits_until_a_position_is_proven_to_be_gone(*, is_single_run: bool) -> None:
    """A run with Once, and a block, which is asked for one micro-batch too: the next may come a day later."""
    member = SlowProof((owned(0, 50), owned(1, 0)), granted_anew=(owned(0, 5, epoch=8),))
    session = a_session(member, {0: 9, 1: 3}, fail=False, clock=lambda: member.now_s[0])
    if not is_single_run:
        session.freeze_ends({T0: 9, T1: 3})
    batch = session.next_offset(session.identity, None, is_single_run=is_single_run)
    assert batch.claims == (claim(0, 5, 9, epoch=8), claim(1, 0, 3))


def test_what_is_planned_once_goes_on_without_a_position_that_is_not_proven_to_be_gone() -> None:
    member = SlowProof((owned(0, 50), owned(1, 0)))
    member.never = True
    session = a_run(member, {0: 9, 1: 3}, fail=False)
    assert session.next_offset(session.identity, None, is_single_run=False).claims == (claim(1, 0, 3),)
    assert member.now_s[0] <= 5.0


class HandedOver(PassingTime):
    """Lets go of its partition with the first wait, and another member has it with the second."""

    def holders(self) -> Mapping[tuple[str, int], Holder]:
        return {T0: Holder(("m-1", None, "m-2")[len(self.changes_awaited)])}


def test_run_that_is_asked_to_give_a_partition_back_waits_until_the_other_member_has_it() -> None:
    member = HandedOver((owned(0, 0),), changes=[(), ()])
    session = a_run(member, {0: 50})
    first = read_on(session, session.identity, 20)
    member.partitions = (owned(0, 0, is_stopping=True),)
    assert read_on(session, first) == first
    assert len(member.changes_awaited) == 2


def test_run_ends_well_and_says_so_without_what_an_operator_has_paused(caplog: pytest.LogCaptureFixture) -> None:
    member = PassingTime((owned(0, 0),))
    session = a_run(member, {0: 50})
    first = read_on(session, session.identity, 20)
    member.partitions, member.held_by = (), {T0: Holder(None, is_paused=True)}
    assert read_on(session, first) == first
    assert "without the rest of t-0, which is read up to offset 20 of 50, because an operator has paused it" in (
        caplog.text
    )


def test_run_does_not_end_well_while_nobody_has_a_partition_that_is_not_read_to_its_end() -> None:
    member = PassingTime((owned(0, 0), owned(1, 0)))
    session = a_run(member, {0: 200, 1: 10})
    first = read_on(session, session.identity, 105)
    member.partitions, member.held_by = (owned(1, 0),), {T0: Holder(None), T1: Holder("m-1")}
    second = read_on(session, first)
    with pytest.raises(
        KcoordError, match=r"t-0, which is read up to offset 100 of 200: no member has it.*Nothing is lost"
    ):
        read_on(session, second)
    assert sum(member.changes_awaited) == pytest.approx(30.0), "as long as a rebalance may take"


def test_run_that_cannot_claim_what_is_its_own_does_not_end_well() -> None:
    member = PassingTime((owned(0, 0),), refused={0: ErrorCode.FENCED_OWNER_EPOCH})
    session = a_run(member, {0: 200})
    start = StreamOffset("c", "g", "m-1", (claim(0, 0, 0),))
    with pytest.raises(KcoordError, match=r"t-0, which is read up to offset 0 of 200: it is this query's"):
        read_on(session, start)


def test_patience_of_a_run_begins_anew_with_every_batch() -> None:
    member = PassingTime((owned(0, 0),))
    session = a_run(member, {0: 30})
    batch = session.identity
    for done in (10, 20, 30):
        batch = read_on(session, batch, 10)
        assert batch.claims == (claim(0, done - 10, done),)
        member.now_s[0] += 29.0
    assert read_on(session, batch) == batch


def test_run_that_began_while_others_held_its_partitions_reads_what_comes_and_leaves_them_the_rest() -> None:
    member = PassingTime((), is_complete=False)
    session = a_run(member, {0: 50, 1: 50})
    member.held_by = {T0: Holder("m-2"), T1: Holder("m-2")}
    start = StreamOffset("c", "g", "m-1", (claim(0, 0, 0),))
    assert read_on(session, start) == start
    member.partitions = (owned(1, 7),)
    assert read_on(session, start).claims == (claim(1, 7, 50),)


def test_run_that_got_nothing_because_nobody_has_it_does_not_end_well() -> None:
    member = PassingTime((), is_complete=False)
    session = a_run(member, {0: 50})
    start = StreamOffset("c", "g", "m-1", (claim(0, 0, 0),))
    with pytest.raises(KcoordError, match=r"t-0, of which nothing is read of 50: no member has it"):
        read_on(session, start)


def test_log_cut_back_before_a_frozen_end_is_data_loss(caplog: pytest.LogCaptureFixture) -> None:
    start = StreamOffset("c", "g", "m-1", (claim(0, 5, 5),))
    kafka = FakeEnds({0: 5})
    session = a_run(PassingTime((owned(0, 5),)), {0: 9}, kafka)
    with pytest.raises(DataLossError, match=r"t-0, which is read up to offset 5 of 9, ends at 5 at the broker"):
        read_on(session, start)
    lenient = a_run(PassingTime((owned(0, 5),)), {0: 9}, FakeEnds({0: 5}), fail=False)
    assert read_on(lenient, start) == start
    assert caplog.text.count("ends at 5 at the broker") == 1


def test_end_that_lags_behind_for_a_moment_is_waited_for() -> None:
    kafka = FakeEnds({0: 5})

    class Catching(PassingTime):
        def wait_for_change(self, known: Assignment, *, timeout_s: float) -> Assignment:
            kafka.ends[0] = 9
            return super().wait_for_change(known, timeout_s=timeout_s)

    session = a_run(Catching((owned(0, 5),)), {0: 9}, kafka)
    start = StreamOffset("c", "g", "m-1", (claim(0, 5, 5),))
    assert read_on(session, start).claims == (claim(0, 5, 9),)


def test_topic_that_is_gone_is_not_waited_for_where_losses_are_tolerated(caplog: pytest.LogCaptureFixture) -> None:
    member = PassingTime((owned(0, 0),))
    kafka = FakeEnds({0: 200})
    session = a_run(member, {0: 200}, kafka, fail=False)
    first = read_on(session, session.identity, 40)
    kafka.ids, member.partitions = {}, ()
    assert read_on(session, first) == first
    assert caplog.text.count("does not know topic t any more") == 1
    assert member.changes_awaited == []


def test_topic_made_again_before_the_run_is_read_to_its_own_frozen_ends() -> None:
    member = PassingTime((owned(0, 0, epoch=9, topic_id="new"),), lost=frozenset({0}))
    session = a_run(member, {0: 9}, FakeEnds({0: 9}, ids={"t": "new"}), fail=False)
    first = read_on(session, StreamOffset("c", "g", "m-1", (claim(0, 5, 7, topic_id="old"),)), 4)
    member.partitions, member.held_by, member.lost = (), {T0: Holder(None)}, frozenset()
    with pytest.raises(KcoordError, match="t-0, which is read up to offset 4 of 9"):
        read_on(session, first)


def test_run_of_one_batch_has_no_ends_to_reach() -> None:
    member = PassingTime((owned(0, 5),))
    session = a_session(member, {0: 9})
    batch = read_on(session, session.identity)
    member.partitions = ()
    assert read_on(session, batch) == batch


class LettingGo(PassingTime):
    """Has another assignment, complete, once the micro-batch is committed whose partition is wanted back."""

    def wait_for_assignment(self, *, complete: bool, timeout_s: float) -> Assignment:
        if self.advanced:
            self.partitions, self.is_complete = (owned(1, 0),), True
        return super().wait_for_assignment(complete=complete, timeout_s=timeout_s)


def test_run_commits_what_is_finished_before_it_waits_for_all_that_it_is_to_have() -> None:
    member = LettingGo((owned(0, 5, is_stopping=True), owned(1, 0)), is_complete=False)
    session = a_run(member, {0: 9, 1: 3})
    start = StreamOffset("c", "g", "m-1", (claim(0, 5, 9), claim(1, 0, 0)))
    latest = read_on(session, start)
    assert member.advanced == [((claim(0, 5, 9),), ()), ((), (claim(1, 0, 3),))]
    assert read_on(session, latest) == latest


def test_what_a_run_has_read_to_its_end_is_not_waited_for_when_nobody_has_it_yet() -> None:
    member = PassingTime((), is_complete=False, held_by={T0: Holder(None)})
    start = StreamOffset("c", "g", "m-1", (claim(0, 5, 9),))
    assert read_on(a_run(member, {0: 9}), start) == start
    assert member.changes_awaited == []


def test_run_whose_position_is_behind_the_log_is_data_loss_also_where_it_has_nothing_to_read() -> None:
    start = StreamOffset("c", "g", "m-1", (claim(0, 50, 50),))
    with pytest.raises(DataLossError, match=r"ends at offset 9 at the broker, before offset 50"):
        read_on(a_run(PassingTime((owned(0, 50),)), {0: 9}), start)


def test_run_whose_position_is_behind_the_log_starts_anew_where_losses_are_tolerated() -> None:
    member = PassingTime((owned(0, 50),), granted_anew=(owned(0, 0, epoch=9),))
    start = StreamOffset("c", "g", "m-1", (claim(0, 50, 50),))
    assert read_on(a_run(member, {0: 9}, fail=False), start).claims == (claim(0, 0, 9, epoch=9),)
    assert [one.position for one in member.reported] == [50]


class OldEnd(PassingTime):
    """A member whose broker has just lost its leadership, and knows a moment later how far the log goes."""

    kafka = FakeEnds({})

    def wait_for_change(self, known: Assignment, *, timeout_s: float) -> Assignment:
        self.kafka.ends[0] = 60
        return super().wait_for_change(known, timeout_s=timeout_s)


@pytest.mark.parametrize(("is_single_run", "is_frozen"), [(True, True), (True, False), (False, True)])
def test_what_is_planned_once_does_not_take_the_end_that_one_broker_knows_for_a_loss(
    *, is_single_run: bool, is_frozen: bool
) -> None:
    member = OldEnd((owned(0, 50),))
    member.kafka = FakeEnds({0: 9})
    session = a_session(member, member.kafka, clock=lambda: member.now_s[0])
    if is_frozen:
        session.freeze_ends({T0: 40})
    start = StreamOffset("c", "g", "m-1", (claim(0, 50, 50),))
    latest = session.next_offset(start, None, is_single_run=is_single_run)
    assert latest.claims == (start.claims if is_frozen else (claim(0, 50, 60),))
    assert sum(member.changes_awaited) == pytest.approx(3.0), "no longer than it takes to be sure"


def test_what_is_finished_is_committed_before_a_run_waits_until_a_loss_is_proven() -> None:
    member = PassingTime((owned(0, 50), owned(1, 0)))
    start = StreamOffset("c", "g", "m-1", (claim(0, 50, 50), claim(1, 0, 3)))
    with pytest.raises(DataLossError, match=r"before offset 50"):
        a_run(member, {0: 9, 1: 3}).next_offset(start, None, is_single_run=False)
    assert member.advanced[0] == ((claim(1, 0, 3),), ())
    assert member.changes_awaited


def test_batch_as_a_member_is_told_that_its_position_is_behind_the_log_once_that_is_sure() -> None:
    member = PassingTime((owned(0, 50),))
    session = a_run(member, {0: 9})
    with pytest.raises(DataLossError, match=r"before offset 50"):
        session.next_offset(session.identity, None, is_single_run=False)
    assert member.now_s[0] == pytest.approx(3.0)


def test_end_that_others_have_read_beyond_is_no_loss() -> None:
    kafka = FakeEnds({0: 9}, marks={0: 60})
    start = StreamOffset("c", "g", "m-1", (claim(0, 50, 50),))
    assert read_on(a_run(PassingTime((owned(0, 50),)), {0: 9}, kafka), start) == start
    assert kafka.marks_asked == 1


class AwayOnce(FakeEnds):
    """Brokers that say once that a position is behind the log, and then nothing any more."""

    has_said = False

    def high_watermarks(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        if self.has_said:
            raise KafkaAwayError("no broker is there")
        self.has_said = True
        return super().high_watermarks(partitions)


def test_run_does_not_end_well_where_a_loss_is_in_doubt_and_nobody_can_be_asked_any_more() -> None:
    member = PassingTime((owned(0, 50),))
    session = a_run(member, {0: 9}, AwayOnce({0: 9}))
    start = StreamOffset("c", "g", "m-1", (claim(0, 50, 50),))
    with pytest.raises(DataLossError, match=r"does not say for certain whether it still has t-0 offset 50"):
        read_on(session, start)
    assert 9.0 < member.now_s[0] < 30.0


class NewEpochs(PassingTime):
    """A member that is granted its partition anew whenever it waits."""

    def wait_for_change(self, known: Assignment, *, timeout_s: float) -> Assignment:
        self.partitions = (owned(0, 50, epoch=self.partitions[0].owner_epoch + 1),)
        return super().wait_for_change(known, timeout_s=timeout_s)


def test_run_does_not_end_well_where_each_look_at_a_loss_is_under_another_owner_epoch() -> None:
    member = NewEpochs((owned(0, 50),))
    start = StreamOffset("c", "g", "m-1", (claim(0, 50, 50),))
    with pytest.raises(DataLossError, match=r"before offset 50|does not say for certain"):
        read_on(a_run(member, {0: 9}), start)
