"""The consumers by hand of a run, and topics that nobody else reads, which are deleted and made again under them.

They have dice of their own, and topics to which nobody else writes: the others' worlds are as they are without them,
but for what the coordinator has to do for them. They end when the faults do.
"""

from random import Random
from typing import TYPE_CHECKING

from tests.sim.by_hand.program import Program
from tests.sim.coordinator import GROUP
from tests.sim.group_operator import OTHER_GROUP

if TYPE_CHECKING:
    from tests.sim.world import World

TOPICS = ("h1", "h2")
CHANGES_EVERY_MS = 400
CHANGES = {"append": 10, "grow": 2, "delete": 1, "make": 2, "make again": 1, "retain": 1}


class Hands:
    """All of one run."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._dice = Random(f"by hand {world.seed}")

    def begin(self) -> None:
        """Begin some, if the run is to have some, each in a group or without one."""
        world, dice = self._world, self._dice
        if not world.mix.by_hand:
            return
        world.kafka.aside |= set(TOPICS)
        for name in TOPICS:
            world.kafka.create(name, dice.choice((1, 2)), dice)
        for number in range(world.mix.by_hand):
            group_id = dice.choice((GROUP, GROUP, OTHER_GROUP, None, None))
            others = (dice.choice(sorted(world.mix.topics)),) if dice.random() < 0.3 else ()
            program = Program(world, f"hand{number + 1}", group_id, (*TOPICS, *others), Random(dice.random()))
            world.schedule.after(dice.choice((0, 300, 3_000)), program.begin)
        world.schedule.after(CHANGES_EVERY_MS, self._change)

    def _change(self) -> None:
        """Change one of the topics, until the faults end."""
        world, dice = self._world, self._dice
        if world.is_healing:
            return
        kafka, name = world.kafka, dice.choice(TOPICS)
        change = dice.choices(list(CHANGES), list(CHANGES.values()))[0]
        if name not in kafka.topics:
            if change in ("make", "make again"):
                kafka.create(name, dice.choice((1, 2)), dice)
        elif change == "grow" and len(kafka.topics[name].ends) < 3:
            kafka.grow(name, dice)
        elif change in ("delete", "make again"):
            kafka.delete(name)
            if change == "make again":
                kafka.create(name, dice.choice((1, 2)), dice)
        else:
            topic = kafka.topics[name]
            number = dice.randrange(len(topic.ends))
            if change == "retain":
                kafka.retain(name, number, dice.randint(topic.begins[number], topic.ends[number]))
            else:
                topic.ends[number] += dice.choice((1, 3, 10))
        world.schedule.tell("topic of hands", (change, name, kafka.topics.get(name)))
        world.schedule.after(dice.randint(1, 2 * CHANGES_EVERY_MS), self._change)
