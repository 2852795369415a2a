"""Records on disk: their bytes, and what is refused at the load."""

import msgspec
import pytest
from msgspec.structs import replace

from coordinator.core.groups.hard.journal import Journal
from coordinator.core.groups.hard.life_records import LeaderBegan, LogOpened, LogWentBack
from coordinator.core.groups.hard.operator_records import (
    ClaimsReleased,
    DrainChanged,
    GroupDeleted,
    OffsetsDeleted,
    PauseChanged,
    PlannedReset,
    ResetApplied,
    ResetsCancelled,
    ResetsPlanned,
)
from coordinator.core.groups.hard.records import (
    Advanced,
    ClaimsClosed,
    ClaimsGivenUp,
    ClaimsRunning,
    CommittedPart,
    EventsNoted,
    Granted,
    GroupEmptied,
    GroupExpired,
    GroupSettings,
    IdentityAwaited,
    MemberEpochsAdvanced,
    MemberFacts,
    MemberJoined,
    MemberRemoved,
    MemberTarget,
    OffsetsCommitted,
    Record,
    RecoveryChanged,
    Released,
    ReleasedPart,
    StopBegan,
    StreamsAssigned,
    Taken,
    TargetsAssigned,
    TimeLived,
    TopicCommit,
    TopicSeen,
    TopicsMatched,
    TopicSteps,
    UnreadableRecordError,
    WentOutOfRange,
    decode_record,
    encode_record,
)
from coordinator.core.groups.hard.tables.timeline import Entry, encode_entry, event_of, head_of
from coordinator.core.groups.partitions.in_topics import TopicNumbers
from coordinator.protocol.parts import GroupEvent, ResetPolicy
from tests.helpers.loading import load

FACTS = MemberFacts(
    "m1",
    "i",
    None,
    "c",
    "h",
    7,
    ("t",),
    1,
    ("sticky",),
    10_000,
    60_000,
    3_000,
    pattern="t.*",
    partitions=(("t", 0),),
    exclusions=("u",),
    wants_streams=True,
    application="boot.1.2.3",
    shares_application=True,
    commits=False,
    own_policy=ResetPolicy("latest"),
    isolation_level="read_committed",
    principal="User:alice",
)
NOTED = encode_entry(Entry(9, "paused", "m1", "why", 2, (TopicNumbers("t", (0, 2)),), 90, 2))
STEPS = TopicSteps("t", "id", (0, 4), (7, 300))
COMMITTED = CommittedPart("t", "id", 0, 5, None, "", 9, 3)

GOLDEN: list[tuple[Record, str]] = [
    (
        GroupSettings("g", 1, "sticky", ResetPolicy("latest"), "hold", True, 5_000, "User:a"),
        "019901a16701a6737469636b7992a66c6174657374c0a4686f6c64c3cd1388a6" + b"User:a".hex(),
    ),
    (TopicSeen("g", "t", "id", 2, 4, True, "why"), "019802a167a174a269640204c3a3776879"),
    (RecoveryChanged("g", 6_000), "019334a167cd1770"),
    (LeaderBegan(5, 2, 1_700_000_000_000), "0194390502cf0000018bcfe56800"),
    (LogOpened("life", 7, 9), "019437a46c6966650709"),
    (LogWentBack("g", 20, 9), "019438a1671409"),
    (
        MemberJoined("g", FACTS, 1),
        "019403a167dc0018a26d31a169c0a163a1680791a1740191a6737469636b79cd2710cdea60cd0bb8c290a3742e2a9192a174"
        "0091a175c3aa626f6f742e312e322e33c3c292a66c6174657374c0ae726561645f636f6d6d6974746564aa557365723a616c69636501",
    ),
    (MemberRemoved("g", "m1", True), "019404a167a26d31c3"),
    (
        TargetsAssigned("g", 2, "sticky", (MemberTarget("m1", (TopicNumbers("t", (0,)),)),)),
        "019805a16702a6737469636b799192a26d319192a1749100c29090",
    ),
    (
        TargetsAssigned(
            "g",
            2,
            "sticky",
            (),
            True,
            (MemberTarget("m1", (TopicNumbers("t", (0,)),)),),
            (MemberTarget("m2", (TopicNumbers("t", (0,)),)),),
        ),
        "019805a16702a6737469636b7990c39192a26d319192a17491009192a26d329192a1749100",
    ),
    (MemberEpochsAdvanced("g", 2, ("m1",)), "019406a1670291a26d31"),
    (StopBegan("g", "m1", (("t", 0),), "why"), "019507a167a26d319192a17400a3776879"),
    (
        Granted("g", "m1", "t", "id", (0, 2), 3, TopicCommit("t", "id", 9, (0, 2), (5, 6), (), (7, None)), "why"),
        "019a2fa167a26d31a174a269649200020398a174a2696409920002920506909207c090a3776879c2",
    ),
    (
        Released("g", "m1", (ReleasedPart("t", 0, 3),), (COMMITTED,)),
        "019509a167a26d319193a17400039198a174a269640005c0a00903",
    ),
    (
        OffsetsCommitted("g", (COMMITTED,), (TopicCommit("t", "id", 9, (0, 1), (5, 6), (3, 3), (7, None), ("x", "")),)),
        "01940aa1679198a174a269640005c0a009039198a174a26964099200019205069203039207c092a178a0",
    ),
    (
        Advanced("g", "m1", 9, (STEPS,), (STEPS,), (ReleasedPart("t", 0, 3),), (COMMITTED,), True),
        "01990ba167a26d31099194a174a269649200049207cd012c9194a174a269649200049207cd012c9193a17400039198a174a269640005c0a00903c3",
    ),
    (
        Advanced("g", "m1", 9, (STEPS,), (TopicSteps("t", "id", (), (7, 300)),)),
        "01990ba167a26d31099194a174a269649200049207cd012c9194a174a26964909207cd012c9090c2",
    ),
    (ClaimsRunning("g", (TopicNumbers("t", (0,)),)), "01930ca1679192a1749100"),
    (EventsNoted("g", 7, (NOTED,), 2), "01953aa1670791c41a9809a6706175736564a26d31a3776879029192a1749200025a0202"),
    (ClaimsClosed("g", (TopicNumbers("t", (0,)),)), "01930da1679192a1749100"),
    (TopicsMatched("g", ("m1",), ("t",)), "01942aa16791a26d3191a174"),
    (GroupEmptied("g", 9, 7), "01942ba1670907"),
    (TimeLived(7, 9), "0193300709"),
    (GroupExpired("g", "why"), "01932ca167a3776879"),
    (WentOutOfRange("g", (("t", 0),)), "01932da1679192a17400"),
    (StreamsAssigned("g", (("t", 0, 3),)), "01932ea1679193a1740003"),
    (Taken("g", "m1", (("t", 0),), "why"), "019531a167a26d319192a17400a3776879"),
    (IdentityAwaited("g", "m1", "i", "User:a"), "019528a167a26d31a169a6557365723a61"),
    (ClaimsGivenUp("g", (("t", 0),), "why"), "019429a1679192a17400a3776879"),
    (PauseChanged("g", (("t", 0),), True, "a@h", "why", 9), "01973ca1679192a17400c3a3614068a377687909"),
    (DrainChanged("g", "m1", True, "a@h", "why", 9), "01973da167a26d31c3a3614068a377687909"),
    (
        ResetsPlanned("g", (PlannedReset("t", "id", 0, 5, 7, True),), "a@h", "why", 9),
        "01963ea1679196a174a26964000507c3a3614068a377687909",
    ),
    (ResetApplied("g", "t", "id", 0, 5, 7, 9, "m1", 3), "019a3fa167a174a2696400050709a26d3103"),
    (ResetsCancelled("g", (("t", 0),), "a@h", "why", 9), "019640a1679192a17400a3614068a377687909"),
    (OffsetsDeleted("g", (("t", 0),), "a@h", "why", 9), "019641a1679192a17400a3614068a377687909"),
    (GroupDeleted("g", "a@h", "why", 9), "019542a167a3614068a377687909"),
    (ClaimsReleased("g", (("t", 0),), "a@h", "why", 9), "019643a1679192a17400a3614068a377687909"),
]


@pytest.mark.parametrize(("record", "hexadecimal"), GOLDEN, ids=lambda value: type(value).__name__)
def test_record_keeps_its_bytes(record: Record, hexadecimal: str) -> None:
    assert encode_record(record).hex() == hexadecimal
    assert decode_record(bytes.fromhex(hexadecimal)) == record


def test_entry_of_a_timeline_may_have_more_fields_than_this_program_knows() -> None:
    later = msgspec.msgpack.encode([9, "paused", "m1", "why", 2, [], None, 0, "of later"])
    assert event_of(7, later) == GroupEvent(7, 9, "paused", "m1", "why", 2)
    assert (head_of(later).at_ms, head_of(NOTED).kind) == (9, "paused")


def test_member_from_before_log_ins_has_no_principal() -> None:
    (written,) = [hexadecimal for record, hexadecimal in GOLDEN if isinstance(record, MemberJoined)]
    before = written.replace("dc0018", "dc0017").replace("aa" + b"User:alice".hex(), "")
    record = decode_record(bytes.fromhex(before))
    assert isinstance(record, MemberJoined)
    assert record.facts == replace(FACTS, principal="")


def test_every_record_has_golden_bytes() -> None:
    assert {type(record) for record, _ in GOLDEN} == set(Record.__args__)


def test_record_without_the_newest_fields_is_read() -> None:
    shorter = bytes.fromhex("019701a16701a6737469636b7992a66c6174657374c0a874616b656f766572c3")
    assert decode_record(shorter) == GroupSettings("g", 1, "sticky", ResetPolicy("latest"), "takeover", True)
    without_owner = bytes.fromhex("019801a16701a6737469636b7992a66c6174657374c0a4686f6c64c3cd1388")
    assert decode_record(bytes.fromhex("019428a167a26d31a169")) == IdentityAwaited("g", "m1", "i")
    assert decode_record(without_owner) == GroupSettings("g", 1, "sticky", ResetPolicy("latest"), "hold", True, 5_000)


def test_targets_that_were_written_whole_are_read() -> None:
    shorter = bytes.fromhex("019605a16702a6737469636b799192a26d319192a1749100c2")
    targets = (MemberTarget("m1", (TopicNumbers("t", (0,)),)),)
    assert decode_record(shorter) == TargetsAssigned("g", 2, "sticky", targets)


def test_record_with_fields_of_a_newer_program_is_read() -> None:
    longer = b"\x01" + msgspec.msgpack.encode([13, "g", [["t", [0]]], "a field to come"])
    assert decode_record(longer) == ClaimsClosed("g", (TopicNumbers("t", (0,)),))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "a record is empty"),
        (b"\x02\x91\x01", "format version 2 and this program reads version 1"),
        (b"\x01" + msgspec.msgpack.encode([99, "g"]), "not understood"),
        (
            b"\x01" + msgspec.msgpack.encode([8, "g", "m1", "t", "id", 0, 3, None, "a number that has gone"]),
            "not under",
        ),
        (b"\x01" + msgspec.msgpack.encode([13, 5, 5]), "not understood"),
        (b"\x01\xc1", "not understood"),
    ],
)
def test_record_that_is_not_understood_stops_the_load(data: bytes, words: str) -> None:
    with pytest.raises(UnreadableRecordError, match=words):
        decode_record(data)
    with pytest.raises(UnreadableRecordError, match="shard 3 cannot be loaded at offset 0"):
        load(Journal(3), None, 0, [(0, [data])])


def test_missing_batch_stops_the_load() -> None:
    record = encode_record(GroupSettings("g", 0, "", None, "takeover", False))
    with pytest.raises(UnreadableRecordError, match="at offset 1: the next batch begins at offset 2"):
        load(Journal(0), None, 0, [(0, [record]), (2, [record])])


def test_batches_that_a_snapshot_covers_are_passed_over() -> None:
    old = encode_record(OffsetsCommitted("g", (COMMITTED,)))
    new = encode_record(TopicSeen("g", "t", "id", 2, 4))
    journal = Journal(0)
    load(journal, [encode_record(GroupSettings("g", 0, "", None, "takeover", False))], 2, [(0, [old, old, new])])
    assert (journal.log_end_offset, len(journal.state.groups["g"].offsets)) == (3, 0)


@pytest.mark.parametrize(
    "fields",
    [b"\x93\x2c\xa1\xff\xa0", b"\x93\x2c\xa1g" + b"\x91" * 5_000 + b"\xc0"],
    ids=["a text that is no UTF-8", "arrays without end"],
)
def test_a_record_that_cannot_be_read_is_told_as_such_whatever_is_wrong_with_it(fields: bytes) -> None:
    with pytest.raises(UnreadableRecordError, match="is not understood"):
        decode_record(b"\x01" + fields)
