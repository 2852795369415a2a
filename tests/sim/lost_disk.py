"""Disks of the coordinator that are lost or restored from an old copy, and what is then still to be held.

A copy is what was durable when it was made. What was said since then is lost with the disk: no promise speaks of it.
What remains is that members are back, and that nothing is passed over which they remember; the log's rules see to that.
"""

from typing import TYPE_CHECKING, NamedTuple

from coordinator.protocol.ids import EARLIEST, LATEST
from coordinator.protocol.parts import StartHint
from tests.sim.log.model import LogCopy
from tests.sim.member_process import MemberProcess

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sim.world import World


SOME_ARE_AWAY = 0.4
"""Chance that not everybody who knows more is there when the coordinator has its other disk."""
MOST_COPIES = 3
"""Copies that are kept, of which any may be put back, and one more than once."""


class DiskCopy(NamedTuple):
    """A copy of the coordinator's disk, and what the checker knows of its logs."""

    files: "dict[Path, bytes]"
    logs: list[tuple[LogCopy, int]]


def copy_disk(world: "World") -> bool:
    """Make a copy of the coordinator's disk, as a nightly backup does."""
    copy = DiskCopy(world.coordinator.disk_copy(), world.checker.copy_logs())
    world.disk_copies = [*world.disk_copies, copy][-MOST_COPIES:]
    return True


def lose_disk(world: "World") -> bool:
    """Put an empty disk into the coordinator's machine."""
    return _exchange(world, None)


def restore_disk(world: "World") -> bool:
    """Put a disk into the coordinator's machine that was filled from a copy."""
    return bool(world.disk_copies) and _exchange(world, world.dice.choice(world.disk_copies))


def _exchange(world: "World", copy: DiskCopy | None) -> bool:
    if not world.coordinator.is_up:
        return False
    world.coordinator.exchange_disk(copy.files if copy is not None else None)
    processes = (application.process for application in world.fleet.applications)
    told = {one.name for one in processes if isinstance(one, MemberProcess) and one.is_alive and one.has_been_told}
    world.checker.disk_exchanged(copy.logs if copy is not None else None, told)
    away_ms = world.dice.choice((300, 1_500, 6_000))
    world.schedule.after(away_ms, world.coordinator.power_on)
    if world.dice.random() < SOME_ARE_AWAY:
        _take_some_away(world, away_ms)
    return True


def _take_some_away(world: "World", away_ms: int) -> None:
    """Have some that know more die meanwhile, or lose their way; some of them are back much later than the others."""
    for application in world.fleet.running():
        assert application.process is not None
        chance = world.dice.random()
        if chance < 0.3:
            application.process.kill()
            world.fleet.restart_later(application, away_ms + world.dice.choice((0, 500, 9_000)))
        elif chance < 0.5:
            world.network.hold(
                application.host, away_ms + world.dice.choice((500, 9_000)), to_node=True, to_member=True
            )


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
