"""A node that has a group of very many partitions, in this process, and how long its longest step was.

The pure core with answers encoded, in processor time: what the event loop would stand still for. The disk is durable at
once, and Kafka answers at once.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from coordinator.core.effects import Append, Effect, LoadShard, ResolveOffsets, Respond, SendPush, WakeAt
from coordinator.core.events import (
    BecameDurable,
    ConnectionClosed,
    ConnectionOpened,
    Event,
    LeadershipGiven,
    LeadershipTaken,
    OffsetsResolved,
    RequestArrived,
    ResolvedOffset,
    ShardRecovered,
    Ticked,
    TopicMetadata,
    TopicsRead,
)
from coordinator.core.limits import Limits
from coordinator.core.node import Node
from coordinator.protocol.codec import encode_message
from coordinator.protocol.messages import RegisterConsumer, Request, Response, StartFetcher
from coordinator.protocol.messages.pages import ask_for_all
from coordinator.protocol.parts import NodeAddress

WALL_MS: Final = 1_700_000_000_000
SHARDS: Final = 8


CASES: Final[dict[str, Callable[["Held"], None]]] = {}
"""The things that are asked of a node one after another, in this order, by what is said of each."""


def case(says: str) -> Callable[[Callable[["Held"], None]], Callable[["Held"], None]]:
    """Have a function be the next case."""

    def note(act: Callable[["Held"], None]) -> Callable[["Held"], None]:
        assert says not in CASES, f"there are two cases named {says}"
        CASES[says] = act
        return act

    return note


class Held:
    """A node, and the longest step since it was last asked about."""

    def __init__(self, partitions: int, connections: int) -> None:
        self.partitions = partitions
        self.longest_ms = 0.0
        self._node = Node(Limits(), SHARDS, NodeAddress(1, "h", 1), ("k:1",))
        self._now_ms = 1_000
        self._due: deque[Event] = deque()
        self._answers: dict[int, Response] = {}
        self._asked = 0
        self._logs: list[list[Append]] = [[] for _ in range(SHARDS)]
        self._perform(self._node.start(self._now_ms, WALL_MS, "bench"))
        self.granted: dict[int, int] = {}
        """The owner epoch of each partition that was told last."""
        self.told: dict[int, set[int]] = {}
        """The partitions that each connection was told to read."""
        self._topic = TopicMetadata("t", "id", (1,) * partitions)
        for connection_id in range(connections):
            self._happen(ConnectionOpened(connection_id, "h"))

    def lose(self, connection_id: int) -> None:
        """Close a connection, and open another in its place."""
        self._happen(ConnectionClosed(connection_id, "reset"))
        self._happen(ConnectionOpened(connection_id, "h"))

    def ask(self, request: Request, connection_id: int = 0) -> Response:
        """Ask one thing and let everything happen that follows at once."""
        self._asked += 1
        self._happen(RequestArrived(connection_id, self._asked, request, f"m{self._asked}"))
        return self._answers.pop(self._asked)

    def ask_for_all(self, request: Request) -> None:
        """Ask for all pages."""
        ask_for_all(self.ask, request)

    def advance(self, ms: int) -> None:
        """Let time pass."""
        for _ in range(ms // 50):
            self._now_ms += 50
            self._happen(Ticked(WALL_MS + self._now_ms))

    def register(self, request: RegisterConsumer, connection_id: int) -> None:
        """Register a member, which may wait until Kafka has been asked about the topic."""
        self._asked += 1
        self._happen(RequestArrived(connection_id, self._asked, request, f"m{self._asked}"))
        self.read_topic()
        must_be_done(self._answers.pop(self._asked))

    def pass_time(self, ms: int) -> None:
        """Let much time pass at once."""
        self._now_ms += ms
        self.advance(1_000)

    def read_topic(self) -> None:
        """Have Kafka say how many partitions there are."""
        self._happen(TopicsRead({"t": self._topic}, frozenset(), {}, {1: ("b", 1)}, "c"))

    def grow(self, partitions: int) -> None:
        """Have the topic have so many partitions."""
        self._topic = TopicMetadata("t", "id", (1,) * partitions)
        self.read_topic()

    def lose_topic(self) -> None:
        """Have Kafka say twice in a row that the topic is no more."""
        for _ in range(2):
            self._happen(TopicsRead({}, frozenset({"t"}), {}, {1: ("b", 1)}, "c"))

    def resign(self, group_id: str) -> None:
        """Have the node lead the shard of a group no longer."""
        self._happen(LeadershipTaken(self._node.shard_of(group_id), "another node leads it"))

    def lead(self, group_id: str) -> None:
        """Have the node lead the shard of a group again."""
        shard = self._node.shard_of(group_id)
        self._happen(LeadershipGiven(shard, self._logs[shard][-1].leader_epoch + 1))

    def _happen(self, event: Event) -> None:
        self._due.append(event)
        while self._due:
            next_event = self._due.popleft()
            began_s = time.process_time()
            effects = self._step(next_event)
            self.longest_ms = max(self.longest_ms, (time.process_time() - began_s) * 1000)
            self._perform(effects)

    def _step(self, event: Event) -> list[Effect]:
        effects = self._node.step(event, self._now_ms)
        for effect in effects:
            if isinstance(effect, Respond):
                encode_message(effect.response)
            elif isinstance(effect, SendPush):
                encode_message(effect.push)
        return effects

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Respond(_, correlation_id, response):
                    self._answers[correlation_id] = response
                case Append(shard, base_offset, _, records):
                    self._logs[shard].append(effect)
                    self._due.append(BecameDurable(shard, base_offset + len(records)))
                case SendPush(connection_id, StartFetcher(partitions)):
                    self.granted.update((part.partition, part.owner_epoch) for part in partitions)
                    self.told.setdefault(connection_id, set()).update(part.partition for part in partitions)
                case LoadShard(shard, leader_epoch):
                    log = self._logs[shard]
                    pieces = [(False, append.base_offset, append.records) for append in log]
                    self._due.append(ShardRecovered(shard, leader_epoch, log[-1].leader_epoch, pieces))
                case WakeAt():
                    self._due.append(Ticked(WALL_MS + self._now_ms))
                case ResolveOffsets(lookup_id, asked):
                    found = tuple(ResolvedOffset(one.topic, one.partition, 3) for one in asked)
                    self._due.append(OffsetsResolved(lookup_id, found))
                case _:
                    pass


def must_be_done(response: Response) -> None:
    """Stop when something was refused: what is measured then is something else."""
    assert not getattr(response, "error", 0), response
