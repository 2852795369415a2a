"""A node whose machine's clock is wrong when it starts, while a group has no members."""

import time
from collections.abc import Callable
from pathlib import Path

from coordinator.local.node import LocalCoordinator
from kcoord import Consumer
from tests.helpers.group_view import GroupView
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.polled import polled
from tests.helpers.python_path import python_path
from tests.promises.place import Place
from tests.promises.schedule import Schedule, must, must_have

A_YEAR_S = 365 * 86_400
PATIENCE_S = 30.0
_SHIFTED = """import time
_true = time.time_ns
time.time_ns = lambda: _true() + {shift_s} * 1_000_000_000
"""


def shifted_clock(folder: Path, shift_s: int) -> dict[str, str]:
    """Return the environment of a Python whose wall clock is ahead by so many seconds."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_SHIFTED.format(shift_s=shift_s))
    return {"PYTHONPATH": python_path(folder)}


def read(address: str, group: str, topic: str, start: str, count: int) -> set[int]:
    """Read so many records as a member, or what comes in time, commit, leave, and return their offsets."""
    found: set[int] = set()
    until_s = time.monotonic() + PATIENCE_S
    with Consumer(topic, coordinators=address, group_id=group, auto_offset_reset=start) as consumer:
        while len(found) < count:
            if time.monotonic() > until_s:
                return found
            found.update(record.offset for record in polled(consumer))
        consumer.commit()
    return found


def start_under(place: Place, shift_s: int) -> None:
    """Have a group's last member leave, and the node start again under another clock, before the group is back."""
    folder, group, topic = place.folder("clock"), place.name("clock"), place.topic("clock")
    servers = place.kafka.bootstrap_servers
    settings = {"group.lived_interval_ms": 100}
    produce_numbers(servers, topic, 1, 0, 10)
    with LocalCoordinator(servers, folder, settings=settings) as node:
        first = read(node.address, group, topic, "earliest", 10)
        must_have(set(range(10)), first, what="the first member")
        port = node.port
    produce_numbers(servers, topic, 1, 10, 5)
    environment = shifted_clock(folder / "clock", shift_s)
    with LocalCoordinator(servers, folder, port=port, settings=settings, environment=environment) as node:
        must_stay(lambda: is_known(node.address, group), "the group's offsets are forgotten")
        again = read(node.address, group, topic, "latest", 5)
        said = node.log_path.read_text()
    must_have(set(range(10, 15)), again, what="the member that came back")
    must(said.count("the clock of this machine says") == 1, f"nobody was told of the clock: {said[-2000:]}")


def is_known(address: str, group: str) -> bool:
    """Say whether a group has its offset."""
    return [one.committed for one in GroupView(address, group).describe().partitions] == [10]


def must_stay(condition: Callable[[], bool], why_not: str) -> None:
    """Look for two seconds, twenty ticks of the node, whether something stays as it is."""
    until_s = time.monotonic() + 2
    while time.monotonic() < until_s:
        must(condition(), why_not, kind="lost")
        time.sleep(0.05)


SCHEDULES = [
    Schedule(
        "clock-ahead",
        "a node that starts under a clock that is a year ahead forgets no group, and says both times",
        lambda place: start_under(place, A_YEAR_S),
    ),
    Schedule(
        "clock-behind",
        "a node that starts under a clock that is a year behind forgets no group, and says both times",
        lambda place: start_under(place, -A_YEAR_S),
    ),
]
