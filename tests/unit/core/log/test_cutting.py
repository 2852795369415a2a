"""A log is cut or replaced whole, wherever a crash stops it."""

from collections.abc import Iterable

import pytest

from coordinator.core.log import cutting
from coordinator.core.log.cutting import (
    BLANK,
    INCOMING,
    MARKER,
    Change,
    Cut,
    DeleteFile,
    FileChange,
    Install,
    PutFile,
    RenameFile,
    begun,
    cut_segment,
    decode_marker,
    encode_marker,
    rest_of,
    segment_name,
    snapshot_name,
)
from coordinator.core.log.entry import Batch, CorruptLogError, encode_batch
from coordinator.core.log.recovery import SegmentBytes, recover_log

FIRST = [Batch(0, 1, (b"a", b"b")), Batch(2, 1, (b"c", b"d", b"e"))]
SECOND = [Batch(5, 2, (b"f", b"g"))]
THIRD = [Batch(7, 2, (b"h",)), Batch(8, 4, (b"i", b"j"))]

Files = dict[str, bytes]


def segment(batches: list[Batch], *, seal: int | None = None) -> bytes:
    seals = [] if seal is None else [Batch(seal, batches[-1].leader_epoch, ())]
    return b"".join(map(encode_batch, [*batches, *seals])) + bytes(512)


def log() -> Files:
    """Three segments, of which a snapshot stands for the first record; the last write was torn."""
    torn = encode_batch(Batch(10, 4, (b"k" * 600,)))[:520]
    return {
        segment_name(0): segment(FIRST, seal=5),
        segment_name(5): segment(SECOND, seal=7),
        segment_name(7): segment(THIRD).rstrip(b"\0") + torn,
        snapshot_name(1): b"a snapshot",
    }


def applied(files: Files, changes: Iterable[FileChange]) -> Files:
    after = dict(files)
    for change in changes:
        match change:
            case PutFile():
                after[change.name] = change.data
            case RenameFile():
                after[change.to] = after.pop(change.name)
            case DeleteFile():
                del after[change.name]
    return after


def steps(files: Files, change: Change) -> list[FileChange]:
    first = begun(change)
    with_marker = applied(files, [first])
    return [first, *rest_of(change, with_marker, with_marker.__getitem__)]


def started(files: Files) -> Files:
    """Do what a start does before it recovers the log."""
    if MARKER not in files:
        return files
    change = decode_marker(files[MARKER], path_hint=MARKER)
    return applied(files, rest_of(change, files, files.__getitem__))


def recovered(files: Files) -> list[tuple[int, int, bytes]]:
    """Return offset, epoch and content of each record that the log has after its snapshot."""
    ends = [int(name.removesuffix(".snapshot")) for name in files if name.endswith(".snapshot") and name != INCOMING]
    start = max(ends, default=None)
    names = sorted(name for name in files if name.endswith(".log"))
    bases = [int(name.removesuffix(".log")) for name in names]
    wanted = [
        SegmentBytes(name, base, files[name])
        for at, (name, base) in enumerate(zip(names, bases, strict=True))
        if at + 1 == len(names) or bases[at + 1] > (start or 0)
    ]
    records: list[tuple[int, int, bytes]] = []

    def take(batch: Batch) -> None:
        records.extend((batch.base_offset + at, batch.leader_epoch, each) for at, each in enumerate(batch.records))

    recover_log("log", start, wanted, take)
    return records


ALL = [(at, epoch, bytes((ord("a") + at,))) for at, epoch in enumerate([1, 1, 1, 1, 1, 2, 2, 2, 4, 4])][1:]


@pytest.mark.parametrize("end", range(1, 11))
def test_a_cut_leaves_what_is_below_it_wherever_a_crash_stops_it(end: int) -> None:
    before, changes = log(), steps(log(), Cut(end))
    assert recovered(before) == ALL
    for done in range(1, len(changes) + 1):
        after = started(applied(before, changes[:done]))
        assert recovered(after) == [record for record in ALL if record[0] < end]
        assert MARKER not in after


@pytest.mark.parametrize("end", range(1, 11))
def test_a_start_that_is_stopped_as_well_makes_the_same_of_it(end: int) -> None:
    halfway = applied(log(), steps(log(), Cut(end))[:2])
    again = rest_of(Cut(end), halfway, halfway.__getitem__)
    for done in range(len(again) + 1):
        assert recovered(started(applied(halfway, again[:done]))) == [record for record in ALL if record[0] < end]


@pytest.mark.parametrize("end", [5, 8, 40])
def test_a_snapshot_takes_the_place_of_a_log_wherever_a_crash_stops_it(end: int) -> None:
    before = log() | {INCOMING: b"the leader's"}
    assert recovered(before) == ALL, "nothing relies on it before the marker is there"
    changes = steps(before, Install(end))
    for done in range(1, len(changes) + 1):
        after = started(applied(before, changes[:done]))
        assert after == {snapshot_name(end): b"the leader's", segment_name(end): BLANK}
        assert recovered(after) == []


def test_what_takes_records_that_were_committed_is_refused_and_changes_nothing() -> None:
    with pytest.raises(ValueError, match="committed"):
        steps(log(), Cut(0))


def test_a_cut_above_the_log_or_below_all_of_it_is_not_made() -> None:
    with pytest.raises(CorruptLogError, match="above it"):
        steps(log(), Cut(11))
    with pytest.raises(CorruptLogError, match="before its first segment"):
        steps({segment_name(5): segment(SECOND)}, Cut(4))


def test_an_install_whose_snapshot_is_gone_is_damage() -> None:
    with pytest.raises(CorruptLogError, match="is missing"):
        steps(log(), Install(40))


def test_damage_is_not_cut_away() -> None:
    damaged = bytearray(segment(FIRST, seal=5))
    damaged[40] ^= 1
    with pytest.raises(CorruptLogError):
        cut_segment(bytes(damaged), path_hint="log", base_offset=0, end=1)


@pytest.mark.parametrize("change", [Cut(0), Cut(2**47), Install(7)])
def test_a_marker_is_read_as_it_was_written(change: Change) -> None:
    assert decode_marker(encode_marker(change), path_hint=MARKER) == change


@pytest.mark.parametrize("data", [b"", b"{}\n", encode_marker(Cut(7)).replace(b"7", b"8", 1), b"\xff"])
def test_a_marker_that_is_damaged_is_not_guessed(data: bytes) -> None:
    with pytest.raises(CorruptLogError):
        decode_marker(data, path_hint=MARKER)


def test_a_mistake_in_the_order_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the marker half a cut is damage, so the tests above would fail if it came late."""
    half = applied(log(), steps(log(), Cut(6))[1:2])
    with pytest.raises(CorruptLogError):
        recovered(half)
    monkeypatch.setattr(cutting, "BLANK", b"")
    with pytest.raises(CorruptLogError):
        recovered(applied(log(), steps(log(), Cut(5))))
