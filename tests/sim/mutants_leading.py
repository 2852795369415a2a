"""Known mistakes in beginning to lead a shard and in resigning; `mutants` has them beside its own."""

from collections.abc import Callable, Iterator
from typing import Any

from coordinator.core.groups.shard import Shard
from coordinator.core.shards.gates import Gates
from coordinator.core.shards.shard_rack import ShardRack


def said_at_resign() -> list[tuple[Any, str, Any]]:
    resign = ShardRack.resign

    def say_and_resign(self: ShardRack, index: int, why: str) -> None:
        gate = self._gates._gates.get(index)
        waiting = [each[2] for each in gate.waiting] if gate is not None else []
        resign(self, index, why)
        self.direct[:0] = waiting

    return [(ShardRack, "resign", say_and_resign)]


def gate_goes_on() -> list[tuple[Any, str, Any]]:
    drop, begin = Gates.drop, Gates.begin
    kept: dict[tuple[int, int], list[Any]] = {}

    def keep(self: Gates[Any], shard: int) -> list[Any]:
        gate = self._gates.get(shard)
        kept[id(self), shard] = list(gate.waiting) if gate is not None else []
        return drop(self, shard)

    def begin_with_what_was_kept(self: Gates[Any], shard: int, leader_epoch: int, high_watermark: int) -> None:
        begin(self, shard, leader_epoch, high_watermark)
        self._gates[shard].waiting.extend(kept.pop((id(self), shard), ()))

    return [(Gates, "drop", keep), (Gates, "begin", begin_with_what_was_kept)]


def sessions_outlive_resign() -> list[tuple[Any, str, Any]]:
    resign, serve = ShardRack.resign, ShardRack._serve
    heard: dict[tuple[int, int], dict[tuple[str, str], int]] = {}

    def resign_and_remember(self: ShardRack, index: int, why: str) -> None:
        if self.is_led(index):
            heard[id(self), index] = {
                (group_id, member_id): session.last_heard_ms
                for group_id, soft in self.shards[index].desk.soft.items()
                for member_id, session in soft.sessions.items()
            }
        resign(self, index, why)

    def serve_as_before(self: ShardRack, index: int, shard: Shard) -> None:
        serve(self, index, shard)
        for key, heard_ms in heard.pop((id(self), index), {}).items():
            session = shard.desk.session_of(*key)
            if session is not None:
                session.last_heard_ms = heard_ms
                shard.desk.sessions.set(key, session.ends_ms)

    return [(ShardRack, "resign", resign_and_remember), (ShardRack, "_serve", serve_as_before)]


def epoch_without_record() -> list[tuple[Any, str, Any]]:
    def begin(self: ShardRack, index: int, shard: Shard, incarnation: str) -> Iterator[int]:
        shard.desk.journal.leader_epoch = self.leader_epochs[index]
        self.handed_out[index] = shard.desk.journal.log_end_offset
        yield from shard.start(incarnation)

    return [(ShardRack, "_begin", begin)]


MISTAKES: dict[str, tuple[str, Callable[[], list[tuple[Any, str, Any]]]]] = {
    "said-at-resign": ("what waits to be said is said when its leader resigns", said_at_resign),
    "gate-goes-on": ("what waited in one leadership is said in the next", gate_goes_on),
    "sessions-outlive-resign": ("time in which nobody led counts against members", sessions_outlive_resign),
    "epoch-without-record": ("a leader begins its epoch without a record of it", epoch_without_record),
}
