"""A world whose members leave while the leader of their group moves, each once, and others come in their place.

A member that leaves changes its group at most once from then on, whatever becomes of the nodes that it asks: it goes,
by its own word or when its session is over, and never joins again by itself.
"""

from dataclasses import replace
from random import Random
from typing import Final

from coordinator.core.groups.hard.records import MemberJoined, MemberRemoved, decode_record
from spark_kcoord.member.core.session.states import State
from tests.sim.cluster.checker import ViolationError
from tests.sim.cluster.faults import FAULT_OF
from tests.sim.cluster.machines import SESSION_MS, MachineMember, MachineWorld, leads
from tests.sim.cluster.mix import ClusterMix

LEAVES: Final = 5
OTHER_MOVES: Final = ("node-cut-off", "contact-broken", "leaders-elected")
BEFORE_MS: Final = (0, 0, 0, 2, 10)
AROUND_MS: Final = (2, 5, 8, 12, 16, 20, 30, 60)
"""The times from which a member is told to leave, and after which the leader moves: most often in the midst of it."""


class LeavingWorld(MachineWorld):
    """Nothing happens but that members leave and leaders move."""

    reader_paces_ms = (300, 900)

    def __init__(self, seed: int, mix: ClusterMix, dice: Random) -> None:
        super().__init__(seed, replace(mix, faults={}, faulty_ms=0, loses_watches=0.0, paces_ms=(100, 400)), dice)
        self._left: list[tuple[MachineMember, int, int]] = []
        """Who has left, and the shard and the end of what was committed there when it was told to."""

    def run(self) -> None:
        """Run to the end, or to the first broken invariant."""
        super().run()
        for _ in range(LEAVES):
            self._have_one_leave()
            self._hold_to_one_change()
        self._heal()
        self._come_to_rest()
        self._hold_to_one_change()

    def _have_one_leave(self) -> None:
        dice, schedule = self.dice, self.schedule
        member = dice.choice(self.members)
        shard = self.clients.shard_of(member.group_id)
        schedule.after(dice.choice(AROUND_MS), self._move_leader, shard)
        schedule.run_until(schedule.now_ms + dice.choice(BEFORE_MS))
        while not member.is_member:
            schedule.run_until(schedule.now_ms + 100)
        self._left.append((member, shard, len(self.checker.committed[shard])))
        self.members.remove(member)
        member.leave(dice.choice((None, 1_000, 5_000)))
        self.checker.coverage["leaves"] += 1
        schedule.run_until(schedule.now_ms + dice.choice((100, 1_000, 2 * SESSION_MS)))
        successor = MachineMember(self.clients, f"{member.name}x", member.group_id, self.mix.paces_ms)
        self.members.append(successor)
        successor.begin()
        end_ms = schedule.now_ms + 2 * SESSION_MS
        while member.member.state is not State.CLOSED and schedule.now_ms < end_ms:
            schedule.run_until(schedule.now_ms + 100)
        if member.member.state is not State.CLOSED:
            raise ViolationError("LeavesOnce", f"{member.name} is {member.member.state} long after it was to leave")

    def _move_leader(self, shard: int) -> None:
        dice, schedule = self.dice, self.schedule
        leaders = [each for each in self.processes if each.is_up and shard in leads(each)]
        how = (
            dice.choice(("kill", "kill", "kill", "kill", "pause", "pause", "stop", *OTHER_MOVES))
            if leaders
            else "contact-broken"
        )
        match how:
            case "kill":
                leaders[0].end(loses_power=False, why="is killed")
                schedule.after(dice.choice((0, 900)), leaders[0].start)
            case "pause":
                leaders[0].pause()
                schedule.after(dice.choice((400, 9_000)), leaders[0].resume)
            case "stop" if not leaders[0].is_stopping:
                leaders[0].stop()
            case "stop":
                pass
            case _:
                FAULT_OF[how](self)
        self.checker.coverage[f"move: {how}"] += 1
        self.faults += 1

    def _hold_to_one_change(self) -> None:
        """Hold what was committed to one change of its group by each member since it was told to leave."""
        for member, shard, begin in self._left:
            changes = self._changes(member, shard, begin)
            if len(changes) > 1:
                raise ViolationError("LeavesOnce", f"{member.name} was to leave at {begin}, and {', '.join(changes)}")

    def _changes(self, member: MachineMember, shard: int, begin: int) -> list[str]:
        changes: list[str] = []
        is_in = False
        for offset, (_, data) in enumerate(self.checker.committed[shard]):
            record = decode_record(data)
            if isinstance(record, MemberJoined) and record.facts.member_id == member.member_id:
                change = "" if is_in else "joined"
                is_in = True
            elif isinstance(record, MemberRemoved) and record.member_id == member.member_id:
                change = "left" if is_in else ""
                is_in = False
            else:
                continue
            if change and offset >= begin:
                changes.append(f"{change} at {offset}")
        return changes
