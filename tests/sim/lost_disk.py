"""Disks of the coordinator that are lost or restored from an old copy, and what is then still to be held.

A copy is what was durable when it was made. What was said since then is lost with the disk: no promise speaks of it.
What remains is that members are back, and that nothing is passed over which they remember; the log's rules see to that.
"""

from typing import TYPE_CHECKING

from coordinator.protocol.ids import EARLIEST, LATEST
from coordinator.protocol.parts import StartHint

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sim.world import World


def copy_disk(world: "World") -> bool:
    """Make a copy of the coordinator's disk, as a nightly backup does."""
    world.disk_copy = world.coordinator.disk_copy()
    return True


def lose_disk(world: "World") -> bool:
    """Put an empty disk into the coordinator's machine."""
    is_done = _exchange(world, None)
    if is_done:
        world.disk_copy = None
    return is_done


def restore_disk(world: "World") -> bool:
    """Put a disk into the coordinator's machine that was filled from the last copy."""
    return world.disk_copy is not None and _exchange(world, world.disk_copy)


def _exchange(world: "World", copy: "dict[Path, bytes] | None") -> bool:
    if not world.coordinator.is_up:
        return False
    world.coordinator.exchange_disk(copy)
    world.checker.disk_exchanged()
    world.schedule.after(world.dice.choice((300, 1_500, 6_000)), world.coordinator.power_on)
    return True


def restore_checkpoint(world: "World") -> bool:
    """Start a query again from an older copy of its checkpoint, with a new output."""
    queries = [one for one in world.fleet.running() if one.checkpoint is not None and one.older is not None]
    if not queries:
        return False
    application = world.dice.choice(queries)
    assert application.process is not None
    assert application.older is not None
    application.process.kill()
    application.checkpoint = application.older.copy()
    application.sink = application.sink.another()
    world.fleet.restart_later(application)
    return True


def copy_every_checkpoint(world: "World") -> bool:
    """Make a copy of every checkpoint, as a nightly backup does."""
    for application in world.fleet.applications:
        if application.checkpoint is not None:
            application.older = application.checkpoint.copy()
    return bool(world.fleet.applications)


def widen_subscription(world: "World") -> bool:
    """Start an application again that reads one more topic from now on."""
    names = tuple(world.mix.topics)
    narrow = [
        one
        for one in world.fleet.running()
        if one.subscription.topics and not set(names) <= set(one.subscription.topics)
    ]
    if not narrow:
        return False
    application = world.dice.choice(narrow)
    assert application.process is not None
    application.process.stop()
    wish = application.subscription
    more = next(name for name in names if name not in wish.topics)
    application.subscription = type(wish)(topics=(*wish.topics, more), exclusions=wish.exclusions)
    world.fleet.restart_later(application)
    return True


def draw_start_hints(world: "World") -> tuple[StartHint, ...]:
    """Draw where JSON of an application's options says that partitions start."""
    hints = []
    for name, topic in sorted(world.kafka.topics.items()):
        for number, end in enumerate(topic.ends):
            if world.dice.random() < 0.7:
                offset = world.dice.choice((EARLIEST, LATEST, world.dice.randint(topic.begins[number], end)))
                hints.append(StartHint(name, "", number, offset, from_checkpoint=False))
    return tuple(hints)
