"""The checker itself: histories that are fine pass, and each anomaly planted into one is named."""

from random import Random
from typing import Any, get_args

import pytest
from msgspec import structs
from msgspec.structs import replace

from coordinator.core.effects import Notice, OffsetToResolve
from coordinator.core.groups.hard import operator_records as o
from coordinator.core.groups.hard import records as r
from coordinator.core.groups.hard.replay.replay import replay
from coordinator.core.groups.hard.state import ShardState
from coordinator.core.groups.partitions.in_topics import TopicNumbers, by_topic
from coordinator.core.limits import Limits
from coordinator.protocol.claim_columns import advance_of, claims_in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import EARLIEST, LATEST
from coordinator.protocol.messages import (
    AdvanceResponse,
    ConfirmClaims,
    ConfirmClaimsResponse,
    ErrorResponse,
    FetchOffsets,
    FetchOffsetsResponse,
    LeaveGroup,
    Ping,
    PingResponse,
    Probe,
    RegisterConsumer,
    RegisterConsumerResponse,
    Request,
    Response,
    StartFetcher,
)
from coordinator.protocol.parts import (
    Claim,
    ClaimState,
    ClaimStatus,
    ClaimStatuses,
    CommittedOffset,
    Outcomes,
    PartitionResult,
    StartPartition,
    Subscription,
)
from coordinator.protocol.vocabulary import IsolationLevel
from tests.sim.bounds import MOST_WAKES_A_MS, WakeWatch
from tests.sim.checker import Checker
from tests.sim.kafka import Kafka
from tests.sim.log.history import History
from tests.sim.log.model import RULES, LogModel
from tests.sim.log.state import ViolationError
from tests.sim.probes import ProbeWatch

P = ("t", 0)
TOPIC_ID = "id-1"
CONNECTION = 5


def facts(member_id: str) -> r.MemberFacts:
    return r.MemberFacts(
        member_id, f"process-{member_id}", None, "", "h", 1, ("t",), 1, ("sticky",), 6_000, 3_000, 2_000
    )


def committed(offset: int, owner_epoch: int | None = 4) -> r.CommittedPart:
    return r.CommittedPart("t", TOPIC_ID, 0, offset, None, "", 0, owner_epoch)


def joined(member_id: str, **more: Any) -> r.MemberJoined:
    return r.MemberJoined("g", structs.replace(facts(member_id), **more), 0)


def granted(member_id: str, owner_epoch: int, start: int | None = None) -> r.Granted:
    written = r.TopicCommit("t", TOPIC_ID, 0, (0,), (start,)) if start is not None else None
    return r.Granted("g", member_id, "t", TOPIC_ID, (0,), owner_epoch, written)


def targets(group_epoch: int, member_id: str, *without: str) -> r.TargetsAssigned:
    given = (r.MemberTarget(member_id, by_topic((P,))), *(r.MemberTarget(other, ()) for other in without))
    return r.TargetsAssigned("g", group_epoch, "sticky", given)


def gained(topics: tuple[TopicNumbers, ...], *, is_stale: bool) -> r.TargetsAssigned:
    return r.TargetsAssigned("g", 2, "sticky", (), is_stale, (), (r.MemberTarget("m1", topics),))


def offered(from_offset: int, until_offset: int, member_id: str = "m1") -> r.Advanced:
    return r.Advanced("g", member_id, 0, (), (r.TopicSteps("t", "id-1", (0,), (until_offset - from_offset,)),))


def finished(until_offset: int, member_id: str = "m1", owner_epoch: int = 4) -> r.Advanced:
    return r.Advanced("g", member_id, 0, (r.TopicSteps("t", TOPIC_ID, (0,), (until_offset - 10,)),))


def released(*finals: r.CommittedPart) -> r.Released:
    return r.Released("g", "m1", (r.ReleasedPart("t", 0, 4),), finals)


def pause(is_paused: bool, *, whole_group: bool = False, who: str = "ann") -> o.PauseChanged:
    return o.PauseChanged("g", None if whole_group else (P,), is_paused, who, "", 0)


def drain(member_id: str) -> o.DrainChanged:
    return o.DrainChanged("g", member_id, True, "ann", "", 0)


def delete() -> o.OffsetsDeleted:
    return o.OffsetsDeleted("g", (P,), "ann", "", 0)


def plan_reset(offset: int) -> o.ResetsPlanned:
    return o.ResetsPlanned("g", (o.PlannedReset("t", TOPIC_ID, 0, offset, None, False),), "ann", "", 0)


HELD = r.GroupSettings("g", 1, "", None, "hold", is_target_stale=False, claim_timeout_ms=1_000)
GONE = r.MemberRemoved("g", "m1", keeps_running_claims=True)
GIVEN_UP = r.ClaimsGivenUp("g", (P,), "")
ALL_OF_P = (TopicNumbers("t", (0,)),)
RUNNING = r.ClaimsRunning("g", ALL_OF_P)
SETTLED: tuple[r.Record, ...] = (
    r.GroupSettings("g", 0, "", None, "takeover", is_target_stale=False),
    r.TopicSeen("g", "t", TOPIC_ID, 1, 1),
    joined("m1"),
    targets(1, "m1"),
    granted("m1", 4, start=10),
)
"""m1 owns the one partition under owner epoch 4, from offset 10 on."""
CLAIM = Claim("t", TOPIC_ID, 0, 4, 10, 15)


class World:
    """A checker that is told of a log and of what is said."""

    def __init__(self, *records: r.Record, durable: int | None = None) -> None:
        self.kafka = Kafka(Random(1), {"t": 1})
        self.kafka.topics["t"].begins[0] = 10
        self.kafka.resolve((OffsetToResolve("t", 0, EARLIEST),))
        self.checker = Checker(self.kafka, 1, Limits())
        self.state = ShardState()
        self.end = 0
        self.append(*SETTLED, *records)
        self.checker.became_durable(0, self.end if durable is None else durable)

    def append(self, *records: r.Record) -> None:
        """Let the node decide records; its own state follows them even where they make no sense."""
        base = self.end
        for record in records:
            replay(self.state, record, None)
            self.end += 1
        self.checker.appended(0, base, [r.encode_record(record) for record in records], self.state)

    def let_in(self, member_id: str = "m1") -> None:
        """Have a member's registration answered."""
        self.checker.noticed(Notice("member-joined", "", "g", member_id), 0, 0)
        request = RegisterConsumer("g", member_id, f"process-{member_id}", Subscription(("t",)), "", 1, 6_000, 3_000)
        self.say(request, RegisterConsumerResponse(member_id=member_id))

    def say(self, request: Request, response: Response) -> None:
        self.checker.asked(CONNECTION, 1, request, 0, 0)
        self.checker.responded(CONNECTION, 1, response)


def test_a_hand_over_with_nothing_wrong_passes() -> None:
    world = World(offered(10, 15), RUNNING)
    world.checker.facts.deliver("m1", [CLAIM])
    world.append(finished(15), joined("m2"), targets(2, "m2", "m1"))
    world.append(r.StopBegan("g", "m1", (P,), "m2 joined"))
    world.append(r.Released("g", "m1", (r.ReleasedPart("t", 0, 4),), ()), granted("m2", 12))
    assert world.checker.logs[0].handovers == 1


LEFT = (joined("m2"), targets(2, "m2", "m1"))


@pytest.mark.parametrize(
    ("name", "history"),
    [
        ("double-owner", (*LEFT, granted("m2", 7))),
        (
            "grant-beside-target",
            (joined("m2"), r.Released("g", "m1", (r.ReleasedPart("t", 0, 4),), ()), granted("m2", 7)),
        ),
        ("epoch-reuse", (r.Released("g", "m1", (r.ReleasedPart("t", 0, 4),), ()), granted("m1", 4))),
        (
            "start-misplaced",
            (
                r.Released("g", "m1", (r.ReleasedPart("t", 0, 4),), ()),
                structs.replace(granted("m1", 6, start=10), partitions=(0, 1)),
            ),
        ),
        ("double-owner", (released(), structs.replace(granted("m1", 6), partitions=(0, 0)))),
        ("start-resolved-again", (r.Released("g", "m1", (r.ReleasedPart("t", 0, 4),), ()), granted("m1", 6, start=10))),
        ("zombie-release", (r.Released("g", "m1", (r.ReleasedPart("t", 0, 3),), ()),)),
        ("not-owner", (joined("m2"), r.Released("g", "m2", (r.ReleasedPart("t", 0, 4),), ()))),
        ("lost-record", (offered(10, 15), RUNNING, finished(15))),
        ("commit-unread", (offered(10, 15), RUNNING, finished(16))),
        ("zombie-commit", (joined("m2"), offered(10, 15), finished(15, "m2"))),
        ("zombie-commit", (r.OffsetsCommitted("g", (committed(12, None),)),)),
        ("poll-skip", (offered(10, 10),)),
        ("phantom-claim", (RUNNING,)),
        ("epoch-regress", (targets(1, "m1"),)),
        ("double-target", (joined("m2"), r.TargetsAssigned("g", 2, "", (r.MemberTarget("m2", by_topic((P,))),)))),
        ("incomplete-target", (r.TargetsAssigned("g", 2, "", (r.MemberTarget("m1", ()),)),)),
        ("no-such-member", (r.TargetsAssigned("g", 2, "", (r.MemberTarget("m9", ()),)),)),
        ("foreign-target", (joined("m1", topics=("u",)), gained(ALL_OF_P, is_stale=True))),
        ("foreign-target", (joined("m1", topics=("u",)), gained((), is_stale=False))),
        ("paused-grant", (pause(True), released(), granted("m1", 7))),
        ("paused-grant", (pause(True, whole_group=True), released(), granted("m1", 7))),
        ("drained-target", (drain("m1"), r.TargetsAssigned("g", 2, "", ()))),
        ("no-such-member", (drain("m9"),)),
        ("lost-commit", (o.OffsetsDeleted("g", (P,), "ann", "", 0),)),
        ("phantom-delete", (released(), delete(), delete())),
        ("no-start", (released(), delete(), granted("m1", 7))),
        ("lost-group", (o.GroupDeleted("g", "ann", "", 0),)),
        ("lost-group", (r.GroupExpired("g", ""),)),
        ("no-such-member", (r.GroupEmptied("g", 0),)),
        ("phantom-reset", (released(), o.ResetApplied("g", "t", TOPIC_ID, 0, 3, None, 0))),
        ("phantom-reset", (plan_reset(4), released(), o.ResetApplied("g", "t", TOPIC_ID, 0, 3, None, 0))),
        ("phantom-reset", (o.ResetsCancelled("g", (P,), "ann", "", 0),)),
        ("double-owner", (plan_reset(3), o.ResetApplied("g", "t", TOPIC_ID, 0, 3, None, 0))),
        ("reset-overtaken", (plan_reset(3), released(), granted("m1", 7))),
        ("double-owner", (o.ClaimsReleased("g", (P,), "ann", "", 0),)),
        ("lost-commit", (r.WentOutOfRange("g", (P,)),)),
        ("not-owner", (released(), r.WentOutOfRange("g", (P,)))),
        ("lost-record", (r.OffsetsCommitted("g", (committed(12),)),)),
        ("commit-unread", (released(committed(12)),)),
        ("snapshot-only", (r.IdentityAwaited("g", "m1", "one"),)),
        ("foreign-topic", (r.TopicsMatched("g", ("m1",), ("u",)),)),
        ("dry-run-done", (pause(True, who="dry"),)),
        ("hold-broken", (HELD, offered(10, 15), RUNNING, GONE, joined("m2"), GIVEN_UP)),
        ("hold-broken", (HELD, offered(10, 15), RUNNING, GONE, r.GroupExpired("g", ""))),
        (
            "hold-broken",
            (
                *(HELD, joined("m2"), offered(10, 15), RUNNING, GONE, plan_reset(3)),
                o.ResetApplied("g", "t", TOPIC_ID, 0, 3, None, 0),
            ),
        ),
        ("double-claimant", (joined("m2", partitions=(P,)), joined("m3", partitions=(P,)))),
        ("double-identity", (joined("m2", instance_id="one"), joined("m3", instance_id="one"))),
    ],
)
def test_a_record_that_breaks_a_promise_is_named(name: str, history: tuple[r.Record, ...]) -> None:
    log = World().checker.logs[0]
    with pytest.raises(ViolationError) as caught:
        log.append(log.end, [r.encode_record(record) for record in history])
    assert caught.value.name == name


def test_what_a_member_reads_no_longer_may_stay_its_until_a_target_is_whole() -> None:
    """It was due the partition, and reads another topic since; a part of a target that was begun before comes then."""
    log = World().checker.logs[0]
    history = (joined("m1", topics=("u",)), gained((), is_stale=True))
    log.append(log.end, [r.encode_record(record) for record in history])
    assert log.end == len(SETTLED) + len(history)


STOPPED = r.StopBegan("g", "m1", (P,), "m2 joined")
TAKEN = r.Taken("g", "m1", (P,), "")
HELD_LONG = structs.replace(HELD, claim_timeout_ms=5_000)


def append_slowly(log: LogModel, history: tuple[r.Record, ...], passed_ms: int) -> None:
    """Let the node decide records, with so much time between each and the next."""
    for count, record in enumerate(history):
        log.append(log.end, [r.encode_record(record)], passed_ms * count)


@pytest.mark.parametrize(
    ("name", "history", "passed_ms"),
    [
        ("taken-unasked", (TAKEN,), 3_000),
        ("taken-too-early", (STOPPED, TAKEN), 2_999),
        ("taken-for-nothing", (STOPPED, TAKEN, granted("m1", 7), STOPPED, TAKEN), 3_000),
        ("hold-broken", (offered(10, 15), RUNNING, HELD_LONG, STOPPED, TAKEN), 3_000),
        ("offered-kept", (offered(10, 15), STOPPED, TAKEN), 3_000),
    ],
)
def test_a_partition_that_is_taken_without_need_is_named(
    name: str, history: tuple[r.Record, ...], passed_ms: int
) -> None:
    checker = World().checker
    checker.facts.is_calm = True
    with pytest.raises(ViolationError) as caught:
        append_slowly(checker.logs[0], history, passed_ms)
    assert caught.value.name == name


def test_a_member_that_leaves_without_having_asked_is_named() -> None:
    world = World()
    world.let_in()
    with pytest.raises(ViolationError, match=r"^put-out: "):
        world.checker.noticed(Notice("member-left", "it was late", "g", "m1"), 0, 0)


def test_a_leave_sent_behind_a_registration_that_was_not_answered_is_one_that_was_asked() -> None:
    world = World()
    world.let_in()
    request = RegisterConsumer("g", "m1", "process-m1", Subscription(("u",)), "", 1, 6_000, 3_000)
    world.checker.asked(CONNECTION, 2, request, 0, 0)
    world.checker.noticed(Notice("member-returned", "the same process registered again", "g", "m1"), 0, 0)
    world.checker.asked(CONNECTION, 3, LeaveGroup(), 0, 0)
    world.checker.noticed(Notice("member-left", "it left", "g", "m1"), 0, 0)


def test_there_is_a_rule_for_every_kind_of_record() -> None:
    assert RULES.keys() == set(get_args(r.Record))


EXPIRED = r.GroupExpired("g", "")
NOBODY: tuple[r.Record, ...] = (r.MemberRemoved("g", "m1", keeps_running_claims=False), r.GroupEmptied("g", 9, 0))


@pytest.mark.parametrize("passed_ms", [0, Limits().offsets_retention_ms - 1])
def test_a_group_that_is_forgotten_before_its_retention_is_over_is_seen(passed_ms: int) -> None:
    log = World(*NOBODY).checker.logs[0]
    with pytest.raises(ViolationError, match=r"^forgotten-too-early: "):
        log.append(log.end, [r.encode_record(EXPIRED)], passed_ms)


def test_a_group_may_be_forgotten_when_its_retention_is_over() -> None:
    log = World(*NOBODY).checker.logs[0]
    log.append(log.end, [r.encode_record(EXPIRED)], Limits().offsets_retention_ms)
    assert "g" not in log.groups


@pytest.mark.parametrize("lived_ms", [99, 1_101])
def test_lived_time_that_goes_back_or_faster_than_time_is_seen(lived_ms: int) -> None:
    log = World(r.TimeLived(100, 9)).checker.logs[0]
    with pytest.raises(ViolationError, match=r"^lived-time: "):
        log.append(log.end, [r.encode_record(r.TimeLived(lived_ms, 9))], 1_000)


def test_a_record_without_a_rule_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(RULES, r.ClaimsRunning)
    with pytest.raises(ViolationError, match=r"^no-rule: "):
        World(offered(10, 15), RUNNING)


def test_a_held_claim_may_be_given_up_when_its_time_is_over() -> None:
    log = World(HELD, offered(10, 15), RUNNING).checker.logs[0]
    log.append(log.end, [r.encode_record(GONE)], 5_000)
    with pytest.raises(ViolationError, match=r"^hold-broken: "):
        log.append(log.end, [r.encode_record(GIVEN_UP)], 5_999)
    log.cut(log.end - 1)
    log.append(log.end, [r.encode_record(GIVEN_UP)], 6_000)
    assert not log.groups["g"].owners


def test_a_consumer_commits_what_it_had_returned_before_its_latest_poll() -> None:
    world = World(joined("m1", auto_commit=True))
    world.checker.facts.process((TOPIC_ID, 0, "m1", 4), 10, 15)
    world.append(r.OffsetsCommitted("g", (committed(12),)), released(committed(15)))
    world.checker.look_back()


def test_an_offset_that_kafka_no_longer_has_is_started_anew_by_the_policy() -> None:
    world = World()
    world.kafka.topics["t"].ends[0] = 90
    world.kafka.retain("t", 0, 70)
    log = world.checker.logs[0]
    log.append(5, [r.encode_record(r.WentOutOfRange("g", (P,)))])
    with pytest.raises(ViolationError, match=r"^phantom-commit: "):
        log.append(6, [r.encode_record(granted("m1", 6, start=71))])
    log.cut(6)
    assert world.kafka.resolve((OffsetToResolve("t", 0, LATEST),))[0].offset == 90
    log.append(6, [r.encode_record(granted("m1", 6, start=90))])
    world.checker.look_back()


def latest_of(world: World) -> r.Granted:
    """Have Kafka say where the topic of this name ends for who reads committed records only; return the start there."""
    (answer,) = world.kafka.resolve((OffsetToResolve("t", 0, LATEST, is_read_committed=True),))
    return replace(granted("m1", 7, start=answer.offset), why="latest, by the group's policy")


def test_latest_of_a_topic_that_was_made_again_is_no_transaction_passed_over_in_the_old_one() -> None:
    world = World(joined("m1", isolation_level=IsolationLevel.READ_COMMITTED))
    world.kafka.delete("t")
    world.kafka.create("t", 1)
    start = latest_of(world)
    world.append(r.WentOutOfRange("g", (P,)), start)
    assert world.checker.group("g", 0).committed(P, TOPIC_ID) == world.kafka.topics["t"].ends[0]


def test_latest_of_a_topic_says_nothing_of_the_one_that_was_made_after_it() -> None:
    world = World()
    end = world.kafka.topics["t"].ends[0]
    latest_of(world)
    assert world.kafka.was_stable_end("t", TOPIC_ID, 0, end)
    assert not world.kafka.was_stable_end("t", "id-2", 0, end)


def test_a_record_that_nobody_read_and_nobody_left_out_is_found_in_the_end() -> None:
    history = History()
    history.moved(("t", TOPIC_ID, 0), 10, "earliest")
    history.read(("t", TOPIC_ID, 0), 10, 15)
    history.moved(("t", TOPIC_ID, 0), 12, "a reset")
    assert history.gap() is None
    history.read(("t", TOPIC_ID, 0), 16, 20)
    assert history.gap() == (
        "offset 15 of t-0 (id-1) was never read, and 20 is committed; known are "
        "[(0, 10, 'earliest'), (10, 15, ''), (16, 20, '')]"
    )


def test_a_commit_that_goes_back_is_named() -> None:
    world = World(r.Released("g", "m1", (r.ReleasedPart("t", 0, 4),), ()))
    with pytest.raises(ViolationError, match=r"^commit-regress: "):
        world.append(r.OffsetsCommitted("g", (committed(9, None),)))


def test_a_start_that_nobody_named_is_named() -> None:
    world = World(r.TopicSeen("g", "t", "id-2", 0, 1), r.Released("g", "m1", (r.ReleasedPart("t", 0, 4),), ()))
    record = replace_start(0)
    with pytest.raises(ViolationError, match=r"^phantom-commit: "):
        world.append(record)


def replace_start(offset: int) -> r.Granted:
    return r.Granted("g", "m1", "t", "id-2", (0,), 7, r.TopicCommit("t", "id-2", 0, (0,), (offset,)))


def test_state_that_is_not_what_the_log_says_is_named() -> None:
    world = World(offered(10, 15))
    world.state.groups["g"].claims.close(P)
    with pytest.raises(ViolationError, match=r"^state-differs: owners of group g"):
        world.append(r.MemberEpochsAdvanced("g", 1, ("m1",)))


# ---- what is said ---------------------------------------------------------------------------------------------------


def test_a_commit_acknowledged_before_it_is_on_disk_is_named() -> None:
    world = World(offered(10, 15), RUNNING)
    world.let_in()
    world.checker.facts.deliver("m1", [CLAIM])
    world.append(finished(15))
    answer = AdvanceResponse(finished=Outcomes(1))
    with pytest.raises(ViolationError, match=r"^said-before-durable: "):
        world.say(advance_of((CLAIM,), ()), answer)
    world.checker.became_durable(0, world.end)
    world.say(advance_of((CLAIM,), ()), answer)
    assert world.checker.counts.acked == 1


def test_a_commit_acknowledged_and_never_written_is_named() -> None:
    world = World(offered(10, 15), RUNNING)
    world.let_in()
    with pytest.raises(ViolationError, match=r"^lost-commit: "):
        world.say(
            advance_of((CLAIM,), ()),
            AdvanceResponse(finished=Outcomes(1)),
        )


def test_a_grant_said_before_it_is_on_disk_is_named() -> None:
    world = World(durable=4)
    world.checker.noticed(Notice("member-joined", "", "g", "m1"), 0, 0)
    world.checker.became_durable(0, 5)
    world.let_in()
    push = StartFetcher((StartPartition("t", TOPIC_ID, 0, 6, 10),), True, 1, 1)
    world.append(r.Released("g", "m1", (r.ReleasedPart("t", 0, 4),), ()), granted("m1", 6))
    with pytest.raises(ViolationError, match=r"^said-before-durable: "):
        world.checker.pushed(CONNECTION, push, 0)


def test_what_was_told_and_is_gone_after_a_crash_is_named() -> None:
    world = World(offered(10, 15), RUNNING)
    world.let_in()
    world.say(
        ConfirmClaims(claims_in_columns((CLAIM,))),
        ConfirmClaimsResponse(claims=ClaimStatuses(1)),
    )
    with pytest.raises(ViolationError, match=r"^lost-commit: "):
        world.checker.recovered(0, 6, ShardState(), 0)


@pytest.mark.parametrize(
    ("name", "state", "history"),
    [
        ("phantom-claim", ClaimState.RUNNING, ()),
        ("phantom-claim", ClaimState.RUNNING, (offered(10, 15),)),
        ("phantom-claim", ClaimState.RUNNING, (offered(10, 15), RUNNING, r.ClaimsClosed("g", ALL_OF_P))),
        ("claim-denied", ClaimState.CLOSED, (offered(10, 15), RUNNING)),
    ],
)
def test_a_claim_that_does_not_stand_as_is_said_is_named(
    name: str, state: ClaimState, history: tuple[r.Record, ...]
) -> None:
    world = World(*history)
    world.let_in()
    with pytest.raises(ViolationError, match=f"^{name}: "):
        world.say(
            ConfirmClaims(claims_in_columns((CLAIM,))),
            ConfirmClaimsResponse(claims=ClaimStatuses(0, (ClaimStatus("t", 0, 4, state),), (0,))),
        )


@pytest.mark.parametrize(
    ("name", "offsets"),
    [
        ("lost-commit", ()),
        ("stale-read", (CommittedOffset("t", TOPIC_ID, 0, 10, None, "", 0),)),
        ("phantom-commit", (CommittedOffset("t", TOPIC_ID, 0, 0, None, "", 0),)),
        (
            "phantom-commit",
            (CommittedOffset("t", TOPIC_ID, 0, 20, None, "", 0), CommittedOffset("u", "", 0, 0, None, "", 0)),
        ),
    ],
)
def test_a_read_of_what_was_not_committed_is_named(name: str, offsets: tuple[CommittedOffset, ...]) -> None:
    world = World(
        r.Released("g", "m1", (r.ReleasedPart("t", 0, 4),), ()), r.OffsetsCommitted("g", (committed(20, None),))
    )
    with pytest.raises(ViolationError, match=f"^{name}: "):
        world.say(FetchOffsets("g"), FetchOffsetsResponse(offsets=offsets))


def test_a_group_epoch_shown_after_a_greater_one_is_named() -> None:
    world = World()
    world.let_in()
    world.say(Ping(0), PingResponse(ErrorCode.NONE, "", 1, 2))
    with pytest.raises(ViolationError, match=r"^epoch-regress: "):
        world.say(Ping(0), PingResponse(ErrorCode.NONE, "", 1, 1))


def test_a_member_that_expires_before_its_time_is_named() -> None:
    world = World()
    world.let_in()
    with pytest.raises(ViolationError, match=r"^expired-too-early: "):
        world.checker.noticed(Notice("member-expired", "no message for 1 ms", "g", "m1"), 0, 5_999)
    world.checker.noticed(Notice("member-expired", "no message for 6000 ms", "g", "m1"), 0, 6_000)


@pytest.mark.parametrize("closes_first", [False, True])
def test_a_member_whose_connection_the_node_has_closed_may_expire_at_any_time(*, closes_first: bool) -> None:
    """It may close by itself between the node's decision and the end of what that waits for, the disk."""
    world = World()
    world.let_in()
    if closes_first:
        world.checker.closed(CONNECTION, 0)
    world.checker.closes(CONNECTION)
    world.checker.noticed(Notice("member-expired", "no message for 6000 ms", "g", "m1"), 0, 1)


def test_a_probed_connection_has_its_time_to_answer() -> None:
    probes = ProbeWatch(2_000)
    with pytest.raises(ViolationError, match=r"^put-out: "):
        probes.closes(CONNECTION, "it did not answer a probe", 9_000)
    probes.pushed(CONNECTION, Probe(), 10_000)
    with pytest.raises(ViolationError, match=r"^put-out: "):
        probes.closes(CONNECTION, "it did not answer a probe", 11_999)
    probes.closes(CONNECTION, "it did not answer a probe", 12_000)


def test_a_member_whose_connection_had_closed_before_it_was_let_in_divides_no_topic() -> None:
    world = World(joined("m1", application="one"))
    world.let_in("m1")
    with pytest.raises(ViolationError, match=r"^divided-topic: "):
        let_in_beside(world)
    world = World(joined("m1", application="one"))
    world.checker.closed(CONNECTION, 0)
    world.let_in("m1")
    let_in_beside(world)


def let_in_beside(world: World) -> None:
    """Have another member of the same program be let in over a connection of its own."""
    world.append(joined("m2", application="one"))
    world.checker.became_durable(0, world.end)
    world.checker.noticed(Notice("member-joined", "", "g", "m2"), 0, 0)
    request = RegisterConsumer("g", "m2", "process-m2", Subscription(("t",)), "", 1, 6_000, 3_000)
    world.checker.asked(CONNECTION + 1, 1, request, 0, 0)
    world.checker.responded(CONNECTION + 1, 1, RegisterConsumerResponse(member_id="m2"))


def test_a_member_whose_connection_did_not_close_does_not_expire_by_it() -> None:
    world = World()
    world.let_in()
    notice = Notice("member-expired", "its connection closed (reset)", "g", "m1")
    with pytest.raises(ViolationError, match=r"^expired-too-early: "):
        world.checker.noticed(notice, 0, 1)
    world.checker.closed(CONNECTION, 1)
    world.checker.noticed(notice, 0, 1)


def test_a_static_member_that_expires_by_a_closed_connection_before_its_session_is_over_is_named() -> None:
    world = World(joined("m1", instance_id="one"))
    world.let_in()
    world.checker.closed(CONNECTION, 1)
    notice = Notice("member-expired", "its connection closed (reset)", "g", "m1")
    with pytest.raises(ViolationError, match=r"^static-put-out: "):
        world.checker.noticed(notice, 0, 5_999)
    world.checker.noticed(notice, 0, 6_000)


@pytest.mark.parametrize(
    ("asked", "response"),
    [
        (FetchOffsets("g"), FetchOffsetsResponse(ErrorCode.UNKNOWN_MEMBER_ID, "who?")),
        (FetchOffsets("g"), ErrorResponse(ErrorCode.REBALANCE_IN_PROGRESS, "not now")),
        (Ping(1), PingResponse(refused=(PartitionResult("t", 0, ErrorCode.PARTITION_OWNED, "it is m2's"),))),
    ],
)
def test_a_code_that_its_request_does_not_declare_is_named(asked: Request, response: Response) -> None:
    with pytest.raises(ViolationError, match=r"^undeclared-code: "):
        World().say(asked, response)


def test_an_answer_about_named_partitions_is_judged_by_those_alone() -> None:
    world = World()
    world.say(FetchOffsets("g", (("t", 9),)), FetchOffsetsResponse())
    with pytest.raises(ViolationError, match=r"^lost-commit: "):
        world.say(FetchOffsets("g", (("t", 9), P), after=("t", 9)), FetchOffsetsResponse())
    world.say(FetchOffsets("g", (P, ("t", 9)), after=P), FetchOffsetsResponse())


@pytest.mark.parametrize("how", ["answered", "closed by the node", "gone", "asked just now", "left open"])
def test_whoever_asked_is_answered_in_the_end_or_closed(how: str) -> None:
    world = World()
    world.checker.asked_by_operator(9, 1, FetchOffsets("g"), 0, 5, 1_000)
    if how == "answered":
        world.checker.responded(9, 1, FetchOffsetsResponse(ErrorCode.GROUP_ID_NOT_FOUND))
    elif how == "closed by the node":
        world.checker.closes(9)
    elif how == "gone":
        world.checker.closed(9, 1_500)
    now_ms = 2_000 if how == "asked just now" else 60_000
    if how != "left open":
        world.checker.look_for_unanswered(now_ms)
        return
    with pytest.raises(ViolationError, match=r"^unanswered: FetchOffsets\(group_id='g'"):
        world.checker.look_for_unanswered(now_ms)


def test_node_that_wakes_without_end_at_one_moment_is_found() -> None:
    watch = WakeWatch()
    for now_ms in (5, 6):
        for _ in range(MOST_WAKES_A_MS):
            watch.woke(now_ms)
    with pytest.raises(ViolationError, match=r"^spinning: the node has woken 10001 times at 6 ms"):
        watch.woke(6)
