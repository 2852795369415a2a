"""What browser tests look at: a real coordinator with groups whose members read and fall behind, and a console."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from coordinator.client.request import ask
from coordinator.local.console import LocalConsole
from coordinator.protocol.messages import CommitOffsets, CommitOffsetsResponse
from coordinator.protocol.parts import TopicOffsets
from coordinator.protocol.text.addresses import parse_addresses
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.processes import eventually
from tests.helpers.raw_member import RawMember

HOSTILE = "<img src=x onerror=alert(1)> & co"
GROUPS = ("team-flights", HOSTILE, "nightly", "billing")
RECORDS = 4_000


@dataclass
class Stage:
    """A console that may change groups, over one node."""

    console: LocalConsole
    node_address: str
    topic: str
    member: RawMember

    def described(self) -> int:
        """Count the groups that the console knows all of."""
        with urllib.request.urlopen(f"{self.console.url}api/v1/overview", timeout=30) as said:
            return int(json.loads(said.read())["described"] or 0)

    def commit(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        """Commit offsets of partitions that nobody owns."""
        named = TopicOffsets(topic, tuple(offsets), tuple(offsets.values()))
        answer = ask(parse_addresses(self.node_address), CommitOffsets(group, (named,)), 10)
        assert isinstance(answer, CommitOffsetsResponse)
        assert not answer.refused


@contextmanager
def a_stage(kafka: str, node_address: str, topics: tuple[str, str], directory: Path) -> Iterator[Stage]:
    """Have groups and a console for the time of a with block; the topics have 8 and 4 partitions."""
    for name, partitions in zip(topics, (8, 4), strict=True):
        produce_numbers(kafka, name, partitions, 0, RECORDS)
    with ExitStack() as stack:
        console = stack.enter_context(
            LocalConsole(node_address, directory / "console", flags=("--refresh", "0.5", "--allow-changes"))
        )
        members = []
        for group, topic in (("team-flights", topics[0]), ("team-flights", topics[0]), (HOSTILE, topics[1])):
            member = stack.enter_context(RawMember(node_address, group, topic))
            member.session_timeout_ms = 1_800_000
            member.register()
            members.append(member)
        members[-1].wait_until_complete()
        made = Stage(console, node_address, topics[0], members[0])
        made.commit("nightly", topics[1], {0: 10, 1: 1_000, 2: 700, 3: 0})
        made.commit("billing", topics[1], {0: 1_000, 1: 1_000, 2: 1_000, 3: 999})
        assert eventually(lambda: made.described() == len(GROUPS))
        yield made
