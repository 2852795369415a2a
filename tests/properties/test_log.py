"""A shard's log against a list: it stays a prefix of what was appended that holds all acknowledged."""

import contextlib
import errno
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from coordinator.runtime.disk.disk import Disk
from coordinator.runtime.disk.files import DiskError
from tests.helpers.examples import examples
from tests.helpers.loading import Found, read_shard
from tests.helpers.memory_disk import MemoryDisk

WAIT_S = 10.0


def content(found: Found) -> list[bytes]:
    """What the log holds: a snapshot here is every record below its end."""
    assert len(found.records) + found.shard.snapshot_end == found.shard.log_end_offset
    return [*(found.snapshot[1] if found.snapshot is not None else ()), *found.records]


def failing_after(calls: int | None) -> Callable[[str, Path], None]:
    """Make a failure of every file call after the first `calls`; of none with None."""
    seen = count()

    def fail(_call: str, _path: Path) -> None:
        if calls is not None and next(seen) >= calls:
            raise OSError(errno.EIO, "Input/output error")

    return fail


class LogAgainstList(RuleBasedStateMachine):
    """Appends, snapshots, failing calls, processes that die and power that goes, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.acknowledged = 0
        self.failures: list[str] = []
        self.disk = MemoryDisk(1, on_durable=self.on_durable, on_failure=self.failures.append)
        self.appended: list[bytes] = []
        self.numbers = count()
        self.leader_epoch = 0
        self.snapshot_to_come: tuple[int, int, int, list[bytes]] | None = None
        self.disk.recover(0)

    def on_durable(self, shard: int, end_offset: int, _log_number: int) -> None:
        assert not self.failures
        assert self.acknowledged <= end_offset <= len(self.appended)
        self.acknowledged = end_offset

    @precondition(lambda self: not self.failures)
    @rule(sizes=st.lists(st.sampled_from([0, 10, 480, 1500, 5000]), min_size=1, max_size=4), grows=st.booleans())
    def append(self, sizes: list[int], grows: bool) -> None:
        self.leader_epoch += grows
        records = [b"%d " % next(self.numbers) + b"x" * size for size in sizes]
        self.disk.append(0, len(self.appended), self.leader_epoch, records)
        self.appended += records

    @precondition(lambda self: not self.failures)
    @rule()
    def flush(self) -> None:
        self.disk.flush()

    @precondition(lambda self: not self.failures)
    @rule(share=st.floats(0, 1))
    def snapshot(self, share: float) -> None:
        end = int(self.acknowledged * share)
        self.disk.write_snapshot(0, end, self.leader_epoch, self.appended[:end])
        self.snapshot_to_come = None

    @precondition(lambda self: not self.failures)
    @rule(share=st.floats(0, 1), first=st.floats(0, 1))
    def begin_snapshot(self, share: float, first: float) -> None:
        end = int(self.acknowledged * share)
        cut = int(end * first)
        self.disk.write_snapshot(0, end, self.leader_epoch, self.appended[:cut], is_last=False)
        self.snapshot_to_come = (end, self.leader_epoch, 1, self.appended[cut:end])

    @precondition(lambda self: not self.failures and self.snapshot_to_come)
    @rule(share=st.floats(0, 1), is_last=st.booleans())
    def go_on_with_the_snapshot(self, share: float, is_last: bool) -> None:
        assert self.snapshot_to_come is not None
        end, leader_epoch, index, records = self.snapshot_to_come
        cut = len(records) if is_last else int(len(records) * share)
        self.disk.write_snapshot(0, end, leader_epoch, records[:cut], index=index, is_last=is_last)
        self.snapshot_to_come = None if is_last else (end, leader_epoch, index + 1, records[cut:])

    @precondition(lambda self: not self.failures)
    @rule(calls=st.integers(0, 9))
    def flush_until_a_call_fails(self, calls: int) -> None:
        self.disk.files.fail = failing_after(calls)
        self.disk.flush()
        self.disk.files.fail = failing_after(None)

    @precondition(lambda self: not self.failures)
    @rule(seed=st.integers(0, 2**32))
    def power_goes_in_the_middle_of_a_group(self, seed: int) -> None:
        self.disk.write_without_sync()
        self.power_goes(seed)

    @rule(seed=st.integers(0, 2**32))
    def power_goes(self, seed: int) -> None:
        self.disk.crash(Random(seed))
        self.load()

    @rule(seed=st.integers(0, 2**32), calls=st.integers(0, 12))
    def power_goes_while_loading(self, seed: int, calls: int) -> None:
        self.disk.restart()
        self.disk.files.fail = failing_after(calls)
        with contextlib.suppress(DiskError):
            self.disk.recover(0)
        self.disk.files.fail = failing_after(None)
        self.power_goes(seed)

    @rule()
    def process_dies(self) -> None:
        self.disk.restart()
        self.load()

    def load(self) -> None:
        self.failures.clear()
        self.snapshot_to_come = None
        recovered = read_shard(self.disk, 0)
        found = content(recovered)
        assert found == self.appended[: len(found)]
        assert len(found) >= self.acknowledged
        self.appended, self.acknowledged = found, len(found)
        self.leader_epoch = max(recovered.shard.leader_epoch, self.leader_epoch)

    @invariant()
    def nothing_is_acknowledged_before_it_is_appended(self) -> None:
        assert self.acknowledged <= len(self.appended)


LogAgainstList.TestCase.settings = settings(max_examples=examples(40, 150), stateful_step_count=40, deadline=None)
TestLogAgainstList = LogAgainstList.TestCase


@settings(max_examples=25, deadline=None)
@given(st.lists(st.one_of(st.integers(1, 3000), st.sampled_from(["snapshot", "reopen", "recover"])), max_size=30))
def test_real_disk_equals_a_list(steps: list[int | str]) -> None:
    ends, failures, changed = [0], list[str](), threading.Condition()

    def on_durable(_shard: int, end_offset: int, _log_number: int) -> None:
        with changed:
            ends.append(end_offset)
            changed.notify_all()

    model: list[bytes] = []
    with TemporaryDirectory() as directory:

        def open_disk() -> Disk:
            return Disk.open(
                Path(directory),
                1,
                new_directory_id="d1",
                segment_bytes=4096,
                on_durable=on_durable,
                on_failure=failures.append,
            )

        disk = open_disk()
        disk.recover(0)
        for step in [*steps, "reopen"]:
            if step == "snapshot":
                disk.write_snapshot(0, len(model), 0, model)
            elif isinstance(step, int):
                model.append(b"%d" % len(model) + bytes(step))
                disk.append(0, len(model) - 1, 0, model[-1:])
                with changed:
                    assert changed.wait_for(lambda: ends[-1] == len(model), WAIT_S)
            else:
                if step == "reopen":
                    disk.close()
                    disk = open_disk()
                assert content(read_shard(disk, 0)) == model
        disk.close()
    assert failures == []


@pytest.mark.parametrize("calls", range(8))
def test_what_is_loaded_after_a_failed_sync_is_written_again_before_it_counts(calls: int) -> None:
    for seed in range(20):
        machine = LogAgainstList()
        machine.append([1500], grows=False)
        machine.flush()
        machine.append([1500], grows=False)
        machine.flush()
        machine.append([1500], grows=False)
        machine.flush_until_a_call_fails(calls)
        machine.process_dies()
        machine.power_goes(seed)
        assert machine.acknowledged >= 2


def test_a_log_that_failed_takes_nothing_until_it_is_loaded_again() -> None:
    machine = LogAgainstList()
    machine.append([10], grows=False)
    machine.flush_until_a_call_fails(0)
    assert len(machine.failures) == 1
    assert machine.acknowledged == 0
    try:
        machine.disk.append(0, 1, 0, [b"x"])
    except DiskError as error:
        assert "takes nothing more" in str(error)  # noqa: PT017
    machine.process_dies()
    machine.append([10], grows=False)
    machine.flush()
    assert machine.acknowledged == len(machine.appended)


@pytest.mark.parametrize("seed", range(12))
def test_power_that_goes_while_a_snapshot_of_the_whole_log_begins_a_segment_loses_nothing(seed: int) -> None:
    disk = MemoryDisk(1, on_durable=lambda *_: None, on_failure=lambda _: None)
    disk.recover(0)
    disk.append(0, 0, 0, [bytes(3000)])
    disk.flush()
    disk.write_snapshot(0, 1, 0, [b"all"])

    def fail(call: str, path: Path) -> None:
        if call == "write" and path.name == "00000000000000000001.log":
            raise OSError(errno.EIO, "Input/output error")

    disk.files.fail = fail
    disk.flush()
    disk.files.fail = lambda _call, _path: None
    disk.crash(Random(seed))
    found = read_shard(disk, 0)
    assert (found.snapshot, found.records, found.shard.log_end_offset) == ((1, (b"all",)), [], 1)
