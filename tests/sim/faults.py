"""Everything that can be made to go wrong, by name; each returns whether there was something to break."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    running = world.running()
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


def kill_query(world: "World") -> bool:
    running = world.running()
    if running:
        application = world.dice.choice(running)
        assert application.query is not None
        application.query.kill_jvm()
        world.restart_later(application)
    return bool(running)


def lose_query_host(world: "World") -> bool:
    running = world.running()
    if running:
        application = world.dice.choice(running)
        assert application.query is not None
        application.query.vanish()
        world.restart_later(application)
    return bool(running)


def pause_query(world: "World") -> bool:
    running = world.running()
    if running:
        query = world.dice.choice(running).query
        assert query is not None
        query.pause()
        world.schedule.after(world.dice.choice(PAUSES_MS), query.resume)
    return bool(running)


def stop_query(world: "World") -> bool:
    running = world.running()
    if running:
        application = world.dice.choice(running)
        assert application.query is not None
        application.query.stop()
        world.restart_later(application)
    return bool(running)


def lose_checkpoint(world: "World") -> bool:
    running = world.running()
    if running:
        application = world.dice.choice(running)
        assert application.query is not None
        application.query.kill_jvm()
        application.checkpoint = type(application.checkpoint)()
        world.restart_later(application)
    return bool(running)


def copy_checkpoint(world: "World") -> bool:
    running = world.running()
    if not running or len(world.applications) > 12:
        return False
    world.copy(world.dice.choice(running))
    return True


def add_member(world: "World") -> bool:
    if sum(application.is_wanted for application in world.applications) >= world.mix.most_queries:
        return False
    world.add_application()
    return True


def take_member_away(world: "World") -> bool:
    running = world.running()
    if len(running) < 2:
        return False
    application = world.dice.choice(running)
    assert application.query is not None
    application.is_wanted = False
    if world.dice.random() < 0.5:
        application.query.leave()
    else:
        application.query.kill_jvm()
    return True


def take_kafka_away(world: "World") -> bool:
    if world.kafka.is_away:
        return False

    def come_back() -> None:
        world.kafka.is_away = False

    world.kafka.is_away = True
    world.schedule.after(world.dice.choice(PAUSES_MS), come_back)
    return True


def grow_topic(world: "World") -> bool:
    names = [name for name in sorted(world.kafka.topics) if len(world.kafka.topics[name].ends) < 10]
    if names:
        world.kafka.grow(world.dice.choice(names))
    return bool(names)


def recreate_topic(world: "World") -> bool:
    names = sorted(world.kafka.topics)
    if not names:
        return False
    name = world.dice.choice(names)

    def create() -> None:
        if name not in world.kafka.topics:
            world.kafka.create(name, world.dice.randint(1, 6))

    world.kafka.delete(name)
    world.schedule.after(world.dice.choice((0, 300, 2_000)), create)
    return True


def commit_as_operator(world: "World") -> bool:
    return world.commit_as_operator()


def reset_as_operator(world: "World") -> bool:
    return world.reset_as_operator()


FAULT_OF: dict[str, Callable[["World"], bool]] = {
    "connection-reset": reset_connection,
    "connection-silent": silence_connection,
    "network-held": hold_network,
    "node-killed": kill_node,
    "node-power-lost": power_off_node,
    "node-paused": pause_node,
    "disk-slow": slow_disk,
    "disk-failed": fail_disk,
    "clock-jumped": jump_clock,
    "query-killed": kill_query,
    "query-host-lost": lose_query_host,
    "query-paused": pause_query,
    "query-stopped": stop_query,
    "checkpoint-lost": lose_checkpoint,
    "checkpoint-copied": copy_checkpoint,
    "member-joined": add_member,
    "member-left": take_member_away,
    "kafka-away": take_kafka_away,
    "topic-grown": grow_topic,
    "topic-recreated": recreate_topic,
    "operator-commit": commit_as_operator,
    "operator-reset": reset_as_operator,
}
