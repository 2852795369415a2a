"""Worlds in which ZooKeeper's data is put back from a copy: whoever knows better has to halt, and nothing may be lost.

The copy is of any moment before; whatever faults can change in ZooKeeper may have changed since, under the same
controller or others. The newest data is put back in the end, as the runbook says, and all goes on with that.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import msgspec

from coordinator.core.cluster.observer import READ_ALL_MS
from coordinator.core.cluster.znodes import CLUSTER, SHARDS, encode
from tests.sim.cluster.checker import ViolationError
from tests.sim.cluster.directed import HALTED_MS, SETTLED_MS
from tests.sim.cluster.faults import other_numbers, write_by_hand
from tests.sim.cluster.mix import ClusterMix
from tests.sim.cluster.process import ClusterProcess
from tests.sim.cluster.world import ClusterWorld
from tests.sim.zookeeper_servers import Tree

Entries = dict[str, dict[str, Any]]


class OldCopyWorld(ClusterWorld):
    """ZooKeeper is put back from a copy, while nodes run or after they have ended, with their sessions or without.

    Everybody has been there after the last change, so every node has to halt, however often it is started, and nobody
    may change anything in what was put back. It takes minutes, and members and readers take their time: what they are
    answered meanwhile is not what is looked at.
    """

    reader_paces_ms = (300, 1_500)

    def __init__(self, seed: int, mix: ClusterMix, dice: Random) -> None:
        super().__init__(seed, replace(mix, paces_ms=(300, 1_500)), dice)

    def run(self) -> None:
        """Run to the end, or to the first broken invariant."""
        schedule, dice = self.schedule, self.dice
        self._begin()
        schedule.run_until(SETTLED_MS)
        copy = self.servers.copy()
        old = _shards(copy)
        schedule.after(0, self._break_something)
        schedule.run_until(schedule.now_ms + dice.choice((500, 3_000, 9_000)))
        self._settle()
        while _shards(self.servers.copy()) == old:
            dice.choice(self.processes).end(loses_power=False, why="is killed")
            schedule.run_until(schedule.now_ms + dice.choice((100, 3_000, 9_000)))
            self._settle()
        newest = self.servers.copy()
        is_ended = dice.random() < 0.5
        for process in self.processes:
            process.halts = []
            if is_ended:
                process.end(loses_power=dice.random() < 0.5, why="ends")
        self.servers.put_back(copy, keeps_sessions=dice.random() < 0.5)
        schedule.tell("zookeeper", "is put back")
        self.faults += 1
        for _ in range(2):
            for process in dice.sample(self.processes, len(self.processes)):
                schedule.run_until(schedule.now_ms + dice.choice((10, 1_000, 5_000)))
                process.power_on()
        schedule.run_until(schedule.now_ms + HALTED_MS)
        for process in self.processes:
            if not process.halts or not all("earlier time" in why for why in process.halts):
                raise ViolationError("OldZooKeeper", f"{process.name} halts with {process.halts}")
        if _shards(self.servers.copy()) != old:
            raise ViolationError("OldZooKeeper", "somebody has changed what was put back")
        for process in self.processes:
            process.end(loses_power=False, why="ends")
        self.servers.put_back(newest)
        schedule.tell("zookeeper", "has its newest data again")
        for process in self.processes:
            process.halts = None
        self._heal()
        self._come_to_rest()

    def _settle(self) -> None:
        """Have every node run in a whole world for long enough to see all that has changed."""
        self._heal()
        self.schedule.run_until(self.schedule.now_ms + 4 * SETTLED_MS + (READ_ALL_MS if self.has_lost_watches else 0))


class OldValueWorld(ClusterWorld):
    """Somebody puts back what was said of the shards before others led, and later the newest, while nodes die.

    The old value is a later version, so nothing but its leader epochs tells. Nobody may follow it or change it, and
    whoever takes office has not read the newest one.
    """

    def run(self) -> None:
        """Run to the end, or to the first broken invariant."""
        schedule, dice = self.schedule, self.dice
        self._begin()
        schedule.run_until(SETTLED_MS)
        old = self._said_of_shards()
        for _ in range(2):
            for process in dice.sample(self.processes, 2):
                process.end(loses_power=False, why="is killed")
                schedule.run_until(schedule.now_ms + dice.choice((500, 6_000)))
                process.power_on()
            self._heal()
            schedule.run_until(schedule.now_ms + 2 * SETTLED_MS)
        newest = self._said_of_shards()
        older = {path: _older_in(old[path], data) for path, data in newest.items()}
        self._put({path: _with(data, older[path]) for path, data in newest.items()})
        for process in self.processes:
            process.halts = []  # one that starts finds a log of a later epoch than it is commanded in
        for _ in range(dice.choice((0, 1, 2))):
            schedule.run_until(schedule.now_ms + dice.choice((10, 3_000, 9_000)))
            office = next((each for each in self.processes if each.is_up and each.node.has_office), None)
            process = office or dice.choice(self.processes)
            process.end(loses_power=False, why="is killed")
            schedule.after(dice.choice((100, 8_000)), process.power_on)
        schedule.run_until(schedule.now_ms + dice.choice((10, 3_000, 9_000)))
        for path, data in self._said_of_shards().items():
            if _with(data, older[path]) != data:
                raise ViolationError("OldValue", f"somebody has changed {older[path]} in {path}: {data!r}")
        right = {
            path: {shard: _entries(newest[path])[shard] | {"changed_by": "ann"} for shard in older[path]}
            for path in older
        }
        self._put({path: _with(data, right[path]) for path, data in self._said_of_shards().items()})
        for process in self.processes:
            process.halts = None
            process.power_on()
        self._heal()
        self._come_to_rest()

    def _said_of_shards(self) -> dict[str, bytes]:
        return {path: node.data for path, node in self.servers.tree.items() if path.startswith(f"{SHARDS}/")}

    def _put(self, values: Mapping[str, bytes]) -> None:
        write_by_hand(self.servers, values)


class GarbledWorld(OldValueWorld):
    """Somebody writes garbage in the place of what is said of shards, and puts it right later, while nodes die.

    A node may be away when that begins, or for all of it. Nobody may change what cannot be read, and all goes on when
    it is right again.
    """

    def run(self) -> None:
        """Run to the end, or to the first broken invariant."""
        schedule, dice = self.schedule, self.dice
        self._begin_at_rest(SETTLED_MS)
        away = dice.choice(self.processes)
        if dice.random() < 0.7:
            away.end(loses_power=dice.random() < 0.5, why="is away")
            schedule.run_until(schedule.now_ms + dice.choice((0, 1_000, 2 * SETTLED_MS)))
        newest = self._said_of_shards()
        garbled = {path: _garbled(data, dice) for path, data in newest.items() if dice.random() < 0.7}
        self._put(garbled)
        schedule.tell("zookeeper", f"is garbled: {garbled}")
        self.faults += 1
        for _ in range(dice.choice((1, 2, 3))):
            schedule.run_until(schedule.now_ms + dice.choice((10, 3_000, 9_000)))
            process = dice.choice([each for each in self.processes if each is not away])
            process.end(loses_power=dice.random() < 0.3, why="is killed")
            schedule.after(dice.choice((100, 8_000)), process.power_on)
        if dice.random() < 0.5:
            away.power_on()
        schedule.run_until(schedule.now_ms + dice.choice((10, 3_000, 2 * SETTLED_MS)))
        for path, data in garbled.items():
            now = self.servers.tree[path].data
            if now != data and not _is_garbled_alike(now, data):
                raise ViolationError("Garbled", f"somebody has changed {path}, which was {data!r}: {now!r}")
        self._put({path: _mended(self.servers.tree[path].data, newest[path]) for path in garbled})
        schedule.tell("zookeeper", "is put right")
        self._heal()
        self._come_to_rest()


class GarbledClusterWorld(OldValueWorld):
    """Somebody writes garbage in the place of `/cluster` while a node has registered and no controller has reached it.

    Without it nobody knows which shards there are: nobody may give up what it has, and all goes on when it is right.
    """

    def run(self) -> None:
        """Run to the end, or to the first broken invariant."""
        schedule, dice = self.schedule, self.dice
        self._begin_at_rest(SETTLED_MS)
        process = dice.choice([each for each in self.processes if not (each.is_up and each.node.has_office)])
        process.end(loses_power=dice.random() < 0.5, why="is killed")
        cut_ms = dice.choice((4_000, 8_000))
        for other in self.processes:
            self.peers.cut(other.number, process.number, cut_ms)
        process.power_on()
        schedule.run_until(schedule.now_ms + dice.choice((500, 2_000, 3_500)))
        rightly = self.servers.tree[CLUSTER].data
        self._put({CLUSTER: dice.choice((b"", b"nonsense", b"{}"))})
        schedule.tell("zookeeper", f"has garbage in {CLUSTER}")
        self.faults += 1
        schedule.run_until(schedule.now_ms + dice.choice((6_000, 3 * SETTLED_MS)))
        self._put({CLUSTER: rightly})
        schedule.tell("zookeeper", "is put right")
        self._heal()
        self._come_to_rest()


class OtherNumbersWorld(OldValueWorld):
    """Somebody writes another number of shards or buckets into `/cluster`, and nodes are started again one by one.

    Who knows the cluster by its directory halts, and so does who has an empty one and sees the entries; who runs goes
    on. Nobody may give up what it has, and all goes on when the number is put right.
    """

    def __init__(self, seed: int, mix: ClusterMix, dice: Random) -> None:
        shards = dice.choice((2, 3, 4))
        numbers = {"shards": shards, "buckets": dice.choice((1, 2, shards)), "min_insync_replicas": 2}
        cluster = msgspec.structs.replace(mix.cluster, **numbers)
        super().__init__(seed, replace(mix, cluster=cluster), dice)

    def run(self) -> None:
        """Run to the end, or to the first broken invariant."""
        schedule, dice = self.schedule, self.dice
        self._begin_at_rest(SETTLED_MS)
        had = {process: process.disk.disk.shards() for process in self.processes}
        rightly, other = self.servers.tree[CLUSTER].data, other_numbers(self.cluster, dice)
        self._put({CLUSTER: encode(other)})
        schedule.tell("zookeeper", f"says {other.shards} shards in {other.buckets} buckets")
        self.faults += 1
        again = dice.sample(self.processes, dice.choice((1, 2, 3)))
        if dice.random() < 0.7:
            office = [process for process in self.processes if process.is_up and process.node.has_office]
            again = [*office, *(process for process in again if process not in office)]
        loser = again[0] if dice.random() < 0.4 else None
        for process in again:
            schedule.run_until(schedule.now_ms + dice.choice((10, 500, 3_000)))
            process.halts = []
            if process is loser:
                process.lose_disk()
                self.has_lost_something = True
            else:
                process.end(loses_power=dice.random() < 0.3, why="is started again")
            schedule.run_until(schedule.now_ms + dice.choice((10, 500)))
            process.power_on()
            schedule.run_until(schedule.now_ms + dice.choice((1_000, SETTLED_MS, 3 * SETTLED_MS)))
        schedule.run_until(schedule.now_ms + SETTLED_MS)
        self._check(again, loser, had)
        self._put({CLUSTER: rightly})
        schedule.tell("zookeeper", "is put right")
        for process in self.processes:
            process.halts = None
        self._heal()
        self._come_to_rest()

    def _check(
        self,
        again: Sequence[ClusterProcess],
        loser: ClusterProcess | None,
        had: Mapping[ClusterProcess, tuple[int, ...]],
    ) -> None:
        for process in self.processes:
            if process in again and (process.is_up or not process.halts):
                raise ViolationError("OtherNumbers", f"{process.name} has joined by a number that is wrong")
            if process not in again and not process.is_up:
                raise ViolationError("OtherNumbers", f"{process.name} has not gone on")
            if process is not loser and process.disk.disk.shards() != had[process]:
                raise ViolationError("OtherNumbers", f"{process.name} has given up logs: it had {had[process]}")


def _garbled(bucket: bytes, dice: Random) -> bytes:
    """Return garbage in the place of a bucket, or of one entry in it."""
    entries = _entries(bucket)
    shard = dice.choice(sorted(entries))
    entry: object = dice.choice(({}, 7, entries[shard] | {"leader_epoch": "x"}, entries[shard] | {"isr": None}))
    of_one = json.dumps({"shards": entries | {shard: entry}}, sort_keys=True, separators=(",", ":")).encode()
    return dice.choice((b"", b"nonsense", b"{}", bucket[: len(bucket) // 2], of_one, of_one, of_one))


def _is_garbled_alike(now: bytes, garbled: bytes) -> bool:
    """Return whether what was garbage in a bucket is as it was; its other entries may have changed."""
    garbage = {shard: entry for shard, entry in _read(garbled).items() if not _is_entry(entry)}
    return bool(garbage) and all(_read(now).get(shard) == entry for shard, entry in garbage.items())


def _mended(now: bytes, newest: bytes) -> bytes:
    """Return a bucket with what is not garbage as it is, and the rest as it was, which a person has written."""
    whole = {shard: entry for shard, entry in _read(now).items() if _is_entry(entry)}
    rest = {shard: entry | {"changed_by": "ann"} for shard, entry in _entries(newest).items()}
    return _with(newest, rest | whole)


def _read(bucket: bytes) -> Entries:
    try:
        return _entries(bucket)
    except (ValueError, KeyError):
        return {}


def _is_entry(entry: object) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("leader_epoch"), int) and bool(entry.get("isr"))


def _shards(tree: Tree) -> Tree:
    """Return what is said of shards."""
    return {path: node for path, node in tree.items() if path.startswith(SHARDS)}


def _entries(bucket: bytes) -> Entries:
    entries: Entries = json.loads(bucket)["shards"]
    return entries


def _older_in(old: bytes, newest: bytes) -> Entries:
    """Return the entries of a bucket whose leader epoch has grown since, as they were."""
    now = _entries(newest)
    return {shard: was for shard, was in _entries(old).items() if was["leader_epoch"] < now[shard]["leader_epoch"]}


def _with(bucket: bytes, entries: Entries) -> bytes:
    """Return a bucket with other entries, as a node writes it."""
    return json.dumps({"shards": _entries(bucket) | entries}, sort_keys=True, separators=(",", ":")).encode()
