"""Everything that can be made to go wrong, by name; each returns whether there was something to break."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.sim.lost_disk import (
    copy_disk,
    copy_every_checkpoint,
    lose_disk,
    restore_checkpoint,
    restore_disk,
    widen_subscription,
)

if TYPE_CHECKING:
    from tests.sim.fleet import Application
    from tests.sim.process import Process
    from tests.sim.world import World

PAUSES_MS = (100, 700, 2_500, 7_000)


def reset_connection(world: "World") -> bool:
    links = world.network.live_links()
    if links:
        world.network.reset(world.dice.choice(links))
    return bool(links)


def silence_connection(world: "World") -> bool:
    links = world.network.live_links()
    if links:
        to_node, to_member = world.dice.choice(((True, True), (True, False), (False, True)))
        world.network.silence(world.dice.choice(links), to_node=to_node, to_member=to_member)
    return bool(links)


def hold_network(world: "World") -> bool:
    running = world.fleet.running()
    if running:
        to_node, to_member = world.dice.choice(((True, True), (True, False), (False, True)))
        host = world.dice.choice(running).host
        world.network.hold(host, world.dice.choice(PAUSES_MS), to_node=to_node, to_member=to_member)
    return bool(running)


def kill_node(world: "World") -> bool:
    if not world.coordinator.is_up:
        return False
    world.coordinator.kill(loses_power=False)
    world.schedule.after(world.dice.choice((0, 100, 900, 4_000)), world.coordinator.start)
    return True


def power_off_node(world: "World") -> bool:
    if not world.coordinator.is_up:
        return False
    world.coordinator.kill(loses_power=True)
    world.schedule.after(world.dice.choice((500, 3_000)), world.coordinator.power_on)
    return True


def pause_node(world: "World") -> bool:
    if not world.coordinator.is_up or world.coordinator.is_paused:
        return False
    world.coordinator.pause()
    world.schedule.after(world.dice.choice(PAUSES_MS), world.coordinator.resume)
    return True


def slow_disk(world: "World") -> bool:
    world.coordinator.extra_sync_ms = world.dice.choice((0, 30, 300, 1_500))
    return True


def fail_disk(world: "World") -> bool:
    world.coordinator.fail_next_sync()
    return True


def jump_clock(world: "World") -> bool:
    world.coordinator.wall_offset_ms += world.dice.choice((-86_400_000, -7_000, -500, 500, 7_000, 86_400_000))
    return True


def set_clock_while_node_is_away(world: "World") -> bool:
    """Have the node start under another wall clock, which may be further off than any retention."""
    if not world.coordinator.is_up:
        return False
    longest_ms = world.mix.limits.offsets_retention_ms
    world.coordinator.kill(loses_power=False)
    world.coordinator.wall_offset_ms += world.dice.choice((-2 * longest_ms, longest_ms, 2 * longest_ms, 5 * longest_ms))
    world.schedule.after(world.dice.choice((0, 100, 900, 4_000)), world.coordinator.start)
    return True


def _some_process(world: "World") -> "tuple[Application, Process] | None":
    running = world.fleet.running()
    if not running:
        return None
    application = world.dice.choice(running)
    assert application.process is not None
    return application, application.process


def kill_process(world: "World") -> bool:
    found = _some_process(world)
    if found is None:
        return False
    application, process = found
    process.kill()
    world.fleet.restart_later(application)
    return True


def lose_host(world: "World") -> bool:
    found = _some_process(world)
    if found is None:
        return False
    application, process = found
    process.vanish()
    world.fleet.restart_later(application)
    return True


def pause_process(world: "World") -> bool:
    found = _some_process(world)
    if found is None:
        return False
    _, process = found
    process.pause()
    world.schedule.after(world.dice.choice(PAUSES_MS), process.resume)
    return True


def stop_process(world: "World") -> bool:
    found = _some_process(world)
    if found is None:
        return False
    application, process = found
    process.stop()
    world.fleet.restart_later(application)
    return True


def stop_everybody(world: "World") -> bool:
    """Stop all that runs for long enough that a group without members can be deleted, or expires."""
    pause_ms = world.dice.choice((1_000, 4_000, 12_000))
    running = world.fleet.running()
    for application in running:
        assert application.process is not None
        if world.dice.random() < 0.5:
            application.process.leave()
        else:
            application.process.stop()
        world.fleet.restart_later(application, pause_ms)
    if world.dice.random() < 0.4:
        world.schedule.after(pause_ms // 2, world.operator.delete_group)
    return bool(running)


def lose_checkpoint(world: "World") -> bool:
    queries = [application for application in world.fleet.running() if application.checkpoint is not None]
    if not queries:
        return False
    application = world.dice.choice(queries)
    assert application.process is not None
    assert application.checkpoint is not None
    application.process.kill()
    application.checkpoint = type(application.checkpoint)()
    if world.dice.random() < 0.5:
        application.sink = application.sink.another()
    world.fleet.restart_later(application)
    return True


def copy_checkpoint(world: "World") -> bool:
    queries = [application for application in world.fleet.running() if application.checkpoint is not None]
    if not queries or len(world.fleet.applications) >= MOST_APPLICATIONS:
        return False
    world.fleet.copy(world.dice.choice(queries))
    return True


def add_member(world: "World") -> bool:
    if len(world.fleet.wanted()) >= world.mix.most_applications:
        return False
    world.fleet.add()
    return True


def take_member_away(world: "World") -> bool:
    running = world.fleet.running()
    if len(running) < 2:
        return False
    world.fleet.take_away(world.dice.choice(running))
    return True


def take_kafka_away(world: "World") -> bool:
    if world.kafka.is_away:
        return False

    def come_back() -> None:
        world.kafka.is_away = False

    world.kafka.is_away = True
    world.schedule.after(world.dice.choice(PAUSES_MS), come_back)
    return True


def forget_end(world: "World") -> bool:
    """Have a broker answer the end of a partition as it was: it does not know yet that it leads it no more."""
    log = world.kafka.forget_an_end()
    if log is not None:
        world.schedule.after(world.dice.choice((50, 500, 1_500)), world.kafka.remember_the_end, log)
    return log is not None


def grow_topic(world: "World") -> bool:
    names = [name for name in sorted(world.kafka.topics) if len(world.kafka.topics[name].ends) < 10]
    if names:
        world.kafka.grow(world.dice.choice(names))
    return bool(names)


def recreate_topic(world: "World") -> bool:
    names = sorted(world.mix.topics.keys() & world.kafka.topics.keys())
    if not names:
        return False
    name = world.dice.choice(names)

    def create() -> None:
        if name not in world.kafka.topics:
            world.kafka.create(name, world.dice.randint(1, 6))

    world.kafka.delete(name)
    world.schedule.after(world.dice.choice((0, 300, 2_000)), create)
    return True


def make_topic(world: "World") -> bool:
    """Have a topic appear that a pattern matches."""
    names = [name for name in world.mix.passing_topics if name not in world.kafka.topics]
    if names:
        world.kafka.create(world.dice.choice(names), world.dice.randint(1, 3))
    return bool(names)


def remove_topic(world: "World") -> bool:
    """Have a topic vanish that a pattern matched."""
    names = [name for name in world.mix.passing_topics if name in world.kafka.topics]
    if names:
        world.kafka.delete(world.dice.choice(names))
    return bool(names)


def pass_retention(world: "World") -> bool:
    """Have Kafka delete the oldest records of a partition, which somebody may not have read."""
    names = [name for name in sorted(world.kafka.topics) if world.kafka.topics[name].ends]
    if not names:
        return False
    topic = world.kafka.topics[name := world.dice.choice(names)]
    number = world.dice.randrange(len(topic.ends))
    world.kafka.retain(name, number, world.dice.randint(topic.begins[number], topic.ends[number]))
    return True


def resign_shard(world: "World") -> bool:
    """Have the node lead a shard no longer for a while, as an operator or a replica of it would."""
    return world.coordinator.leading.resign_some(world.dice.choice((0, 0, 20, 400, 2_500, 7_000)))


MOST_APPLICATIONS = 14
FAULT_OF: dict[str, Callable[["World"], bool]] = {
    "connection-reset": reset_connection,
    "connection-silent": silence_connection,
    "network-held": hold_network,
    "node-killed": kill_node,
    "node-power-lost": power_off_node,
    "node-paused": pause_node,
    "disk-slow": slow_disk,
    "disk-failed": fail_disk,
    "shard-resigned": resign_shard,
    "handler-bug": lambda world: world.coordinator.plant_bug(),
    "clock-jumped": jump_clock,
    "clock-set-while-node-away": set_clock_while_node_is_away,
    "process-killed": kill_process,
    "host-lost": lose_host,
    "process-paused": pause_process,
    "process-stopped": stop_process,
    "everybody-stopped": stop_everybody,
    "checkpoint-lost": lose_checkpoint,
    "checkpoint-copied": copy_checkpoint,
    "checkpoints-copied": copy_every_checkpoint,
    "checkpoint-restored": restore_checkpoint,
    "disk-copied": copy_disk,
    "disk-lost": lose_disk,
    "disk-restored": restore_disk,
    "subscription-widened": widen_subscription,
    "member-joined": add_member,
    "member-left": take_member_away,
    "kafka-away": take_kafka_away,
    "end-old": forget_end,
    "topic-grown": grow_topic,
    "topic-recreated": recreate_topic,
    "topic-made": make_topic,
    "topic-vanished": remove_topic,
    "retention-passed": pass_retention,
    "operator-commit": lambda world: world.operator.commit(),
    "operator-reset": lambda world: world.operator.reset(),
    "resets-cancelled": lambda world: world.operator.cancel_resets(),
    "group-paused": lambda world: world.operator.pause_group(),
    "partitions-paused": lambda world: world.operator.pause_partitions(),
    "member-drained": lambda world: world.operator.drain(),
    "offsets-deleted": lambda world: world.operator.delete_offsets(),
    "group-deleted": lambda world: world.operator.delete_group(),
    "claims-released": lambda world: world.operator.release_claims(),
}
"""Every fault by name."""
