"""Requests of members are bounded before they become a record, and those that are large and legal become several."""

import pytest

from coordinator.core.effects import Append
from coordinator.core.groups.hard import pieces
from coordinator.core.groups.hard.journal import Journal
from coordinator.core.groups.hard.pieces import MAX_RECORD_BYTES, RecordTooLargeError, in_pieces
from coordinator.core.groups.hard.records import (
    ClaimsClosed,
    ClaimsGivenUp,
    ClaimsRunning,
    CommittedPart,
    MemberEpochsAdvanced,
    MemberFacts,
    MemberJoined,
    OffsetsCommitted,
    Record,
    Released,
    ReleasedPart,
    TopicCommit,
    TopicsMatched,
    decode_record,
    encode_record,
)
from coordinator.core.groups.partitions.in_topics import TopicNumbers
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.limits import Limits
from coordinator.core.log.entry import MAX_BATCH_BYTES, batch_bytes
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import CommitOffsets, CommitOffsetsResponse, ListClaims, ListClaimsResponse
from coordinator.protocol.parts import Claim, StartHint, Subscription
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld

LONG = "t" * 249


def largest_record(world: NodeWorld) -> int:
    return max(len(record) for effect in world.effects if isinstance(effect, Append) for record in effect.records)


def list_hints(member: Member, hints: list[StartHint]) -> None:
    for begin in range(0, len(hints), 20_000):
        part = tuple(hints[begin : begin + 20_000])
        assert member.ask(ListClaims(hints=part), ListClaimsResponse).error is ErrorCode.NONE


def test_a_record_of_the_largest_size_fits_a_frame_of_the_log() -> None:
    assert batch_bytes([bytes(MAX_RECORD_BYTES)]) <= MAX_BATCH_BYTES


def test_a_registration_that_shows_very_many_ends_is_one_record_that_fits_a_frame() -> None:
    """36,000 of them once made a record of more than 8 MiB, with which the node ended."""
    world = NodeWorld({LONG: 60_000})
    world.kafka.ids[LONG] = "id"
    member = world.joining("m1", topics=(LONG,))
    list_hints(member, [StartHint(LONG, "id", number, 2**40, True, 2**40) for number in range(60_000)])
    assert member.register().error is ErrorCode.NONE
    world.settle()
    assert member.owned[LONG, 59_999].offset == 2**40
    assert largest_record(world) <= MAX_RECORD_BYTES
    world.restart()
    shown = world.group().members["m1"].facts.hints
    assert [number for each in shown for number in each.partitions] == list(range(60_000))


def test_a_registration_that_would_be_too_large_in_the_log_is_refused_with_its_size() -> None:
    world = NodeWorld({"t": 1})
    member = world.joining("m1")
    hints = [StartHint(f"{LONG[:240]}{number}", "id", 0, 5, True, 3) for number in range(36_000)]
    list_hints(member, hints)
    refused = member.register()
    assert refused.error is ErrorCode.INVALID_REQUEST
    assert "the 36000 starts that it comes with are" in refused.message
    assert "spread the partitions over more members" in refused.message
    assert "g" not in world.state(world.node.shard_of("g")).groups


def test_names_that_are_listed_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.core.requests.listing.MAX_LISTED_BYTES", 1_000)
    world = NodeWorld({"t": 1})
    claims = (Claim("x" * 600, "id", 0, 1, 2, 3),)
    connection = world.joining("m1")
    assert connection.ask(ListClaims(claims=claims), ListClaimsResponse).error is ErrorCode.NONE
    refused = connection.ask(ListClaims(claims=claims), ListClaimsResponse)
    assert (refused.error, "more than 1000 bytes" in refused.message) == (ErrorCode.INVALID_REQUEST, True)
    assert connection.register().message == refused.message
    assert connection.ask(ListClaims(claims=claims), ListClaimsResponse).error is ErrorCode.NONE


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"assignors": tuple(f"a{number}" for number in range(21))}, "21 assignors are named and at most 20 may be"),
        ({"assignors": ("a" * 251,)}, "the name of an assignor has more than 250 characters"),
        ({"hints": [StartHint("t", "i" * 251, 0, 5, from_checkpoint=True)]}, "a topic id of 251 characters"),
    ],
)
def test_names_of_any_length_are_not_taken(facts: dict[str, object], why: str) -> None:
    refused = NodeWorld({"t": 1}).joining("m1", **facts).register()  # type: ignore[arg-type]
    assert refused.error is ErrorCode.INVALID_REQUEST
    assert why in refused.message


def test_a_pattern_that_matches_too_many_topics_is_refused() -> None:
    world = NodeWorld({f"t{number}": 1 for number in range(4)}, limits=Limits(pattern_max_topics=3))
    refused = world.joining("m1", subscription=Subscription(pattern="t.*")).register()
    assert refused.error is ErrorCode.INVALID_REQUEST
    assert "the pattern matches 4 topics and at most 3 are allowed" in refused.message


def test_topics_beyond_those_that_a_pattern_may_match_are_left_out_with_a_warning() -> None:
    world = NodeWorld({f"t{number}": 1 for number in range(3)}, limits=Limits(pattern_max_topics=3))
    member = world.join("m1", subscription=Subscription(pattern="t.*"))
    world.kafka.topics["t00"] = 1
    world.poll_topics()
    world.settle()
    assert world.group().members["m1"].facts.topics == ("t0", "t00", "t1")
    (event,) = world.events("topics-left-out")
    assert "t2 and those after it are left out" in event.why
    assert world.reconnect(member).registration is not None


def test_a_large_commit_of_an_operator_is_written_as_several_records() -> None:
    world = NodeWorld({})
    asked = in_columns(OffsetToCommit(LONG, number, 7, metadata="x" * 300) for number in range(2_000))
    response = world.connect().ask(CommitOffsets("g", asked), CommitOffsetsResponse)
    assert (response.accepted, response.refused) == (2_000, ())
    assert largest_record(world) < 2 * pieces.LARGE_BYTES
    world.restart()
    assert len(world.group().offsets) == 2_000


# ---- pieces ---------------------------------------------------------------------------------------------------------

MANY: tuple[TopicPartition, ...] = tuple((LONG, number) for number in range(1_200))
PARTS = tuple(CommittedPart(*partition[:1], "id", partition[1], 5, None, "", 9, 3) for partition in MANY)
TOPICS = tuple(TopicNumbers(f"{LONG}{number}", (0, 3)) for number in range(1_200))
COLUMNS = tuple(TopicCommit(LONG, "id", 9, (number,), (5,)) for number in range(1_200))


@pytest.mark.parametrize(
    "record",
    [
        ClaimsClosed("g", TOPICS),
        ClaimsRunning("g", TOPICS),
        ClaimsGivenUp("g", MANY, "why"),
        MemberEpochsAdvanced("g", 4, tuple(f"{LONG}{number}" for number in range(1_200))),
        OffsetsCommitted("g", PARTS, COLUMNS),
        Released("g", "m", tuple(ReleasedPart(*partition, 3) for partition in MANY), PARTS[::2]),
        TopicsMatched("g", tuple(f"{LONG}{number}" for number in range(5_000)), ("t",)),
    ],
)
def test_pieces_say_what_the_record_says(record: Record) -> None:
    cut = in_pieces(record, encode_record(record))
    assert len(cut) > 2
    assert all(decode_record(data) == piece for piece, data in cut)
    for name in record.__struct_fields__:
        whole = getattr(record, name)
        parts = [getattr(piece, name) for piece, _ in cut]
        if isinstance(whole, tuple) and len(whole) > 100:
            assert sum(parts, ()) == whole
        else:
            assert all(part == whole for part in parts)


def test_a_partition_is_released_in_one_piece_with_its_final_offset() -> None:
    record = Released("g", "m", tuple(ReleasedPart(*partition, 3) for partition in MANY), PARTS[::2])
    for piece, _ in in_pieces(record, encode_record(record)):
        assert isinstance(piece, Released)
        released = {part.partition for part in piece.partitions}
        assert {part.partition for part in piece.committed} == {number for number in released if number % 2 == 0}


def test_what_cannot_be_cut_is_refused_before_anything_of_it_is_done() -> None:
    journal = Journal(0)
    facts = MemberFacts("m", "i", None, "x" * (9 * 1024 * 1024), "h", 1, (), 1, (), 1, 1, 1)
    with pytest.raises(RecordTooLargeError, match="MemberJoined of group 'g' has"):
        journal.decide(MemberJoined("g", facts, 0))
    assert (journal.log_end_offset, journal.state.groups, journal.take_append()) == (0, {}, None)
