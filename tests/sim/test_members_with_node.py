"""Member machines against the real node, with delays, lost connections, deaths and restarts drawn from a seed."""

import pytest

from tests.helpers.member_world import MemberWorld, Query

STEPS = 60


def disturb(world: MemberWorld, names: list[str]) -> None:
    """Do one random thing to the world."""
    kind = world.random.choices(("connection", "silence", "kill", "join", "restart", "calm"), (5, 2, 2, 3, 1, 4))[0]
    if kind == "connection":
        world.lose_a_connection()
    elif kind == "silence":
        world.silence_a_connection()
    elif kind == "kill" and len(world.queries) > 1:
        query: Query = world.random.choice(world.queries)
        world.kill(query)
        if world.random.random() < 0.6:
            world.after(
                world.random.randint(50, 3_000),
                lambda: world.start_query(query.name, query.member.member_id, query.batch) and None,
            )
    elif kind == "join" and len(world.queries) < 4:
        names.append(f"q{len(names) + 1}")
        world.start_query(names[-1])
    elif kind == "restart":
        world.restart_node(world.random.randint(0, 2_000))
    world.run_until(world.now_ms + world.random.choice((20, 200, 700, 1_500, 5_000)))


@pytest.mark.parametrize("seed", range(20))
def test_after_any_trouble_every_partition_has_one_owner_and_no_offset_went_back(seed: int) -> None:
    world = MemberWorld(seed)
    names = ["q1", "q2"]
    for name in names:
        world.start_query(name)
    for _ in range(STEPS):
        disturb(world, names)

    world.run_until(world.now_ms + 5_000)
    quiet_since_ms = world.now_ms
    while not world.is_settled():
        assert world.now_ms - quiet_since_ms < 30_000, (
            f"seed {seed}: not settled 30 s after the last trouble: {world.owners()}\n" + "\n".join(world.trace[-40:])
        )
        world.run_until(world.now_ms + 100)

    before, promised = dict(world.committed), dict(world.committed_by_queries)
    world.run_until(world.now_ms + 5_000)
    assert sum(world.committed.values()) > sum(before.values()), f"seed {seed}: nothing is committed any more"
    for partition, until in promised.items():
        assert world.committed["t", partition] >= until, f"seed {seed}: a commit of partition {partition} was lost"


def test_one_seed_gives_one_history() -> None:
    def history() -> list[str]:
        world = MemberWorld(7)
        names = ["q1", "q2"]
        for name in names:
            world.start_query(name)
        for _ in range(20):
            disturb(world, names)
        return world.trace

    assert history() == history()


def starts_of(world: MemberWorld, partition: int) -> list[tuple[int, int]]:
    """Return owner epoch and start of a partition as those believe who believe to own it."""
    held = [part for query in world.queries for part in query.member.assignment.partitions]
    return [(part.owner_epoch, part.start) for part in held if part.partition == partition]


@pytest.mark.parametrize("seed", range(8))
def test_queries_read_on_from_where_an_operator_has_set_them_back(seed: int) -> None:
    world = MemberWorld(seed)
    names = ["q1", "q2"]
    for name in names:
        world.start_query(name)
    for partition in (0, 3, 0):
        world.run_until(world.now_ms + 4_000)
        before = max(starts_of(world, partition), default=(0, 0))[0]
        world.reset(partition)
        asked_ms = world.now_ms
        while not any(epoch > before and start == 0 for epoch, start in starts_of(world, partition)):
            assert world.now_ms - asked_ms < 20_000, f"seed {seed}: partition {partition} was not set back"
            world.run_until(world.now_ms + 10)
        disturb(world, names)
    world.run_until(world.now_ms + 10_000)
    then = dict(world.committed)
    world.run_until(world.now_ms + 10_000)
    assert all(offset > then[key] for key, offset in world.committed.items()), f"seed {seed}: a partition stands still"
