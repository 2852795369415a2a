"""The words between the node and the outside so far in a run, which the next one is held against."""

from collections import Counter, deque
from dataclasses import dataclass, field

from coordinator.protocol.messages import Request
from tests.sim.facts import WorldFacts
from tests.sim.listed import Listed
from tests.sim.log.model import LogModel
from tests.sim.log.state import GroupModel, ViolationError
from tests.sim.told_epochs import ToldEpochs


@dataclass(slots=True)
class Counts:
    """What a run has exercised."""

    acked: int = 0
    handovers: int = 0
    fenced: int = 0
    resets: int = 0
    takeovers: int = 0
    resumed: int = 0
    reads: int = 0
    duplicates: int = 0
    delivered: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """A request under way: where the log was when it arrived, and how much of it its sender could know."""

    request: Request
    member: tuple[str, str] | None
    shard: int
    end_at_arrival: int
    known_end: int
    arrived_ms: int


@dataclass(slots=True)
class Session:
    """What the outside knows of a member's session in this life of the node; times are the node's."""

    heard_ms: int
    closed_ms: int | None = None
    is_closed_by_node: bool = False


@dataclass(slots=True)
class Life:
    """What ends with the node's process."""

    started_ms: int
    asked: dict[tuple[int, int], Asked] = field(default_factory=dict)
    bound: dict[int, tuple[str, str]] = field(default_factory=dict)
    removed: dict[int, tuple[tuple[str, str], int]] = field(default_factory=dict)
    """Connections whose member was removed, and where: they are nobody's, but may still be told so."""
    accepted: dict[tuple[str, str], deque[int]] = field(default_factory=dict)
    """Where the log ended whenever a member was let in and was not told yet."""
    gone: set[int] = field(default_factory=set)
    """Connections that closed."""
    ended: dict[int, Session] = field(default_factory=dict)
    """The sessions of those that members had: the node may have decided to close one before it closed."""
    processes: dict[int, str] = field(default_factory=dict)
    """The process behind each connection of a member."""
    closing: set[int] = field(default_factory=set)
    """Connections that the node has closed."""
    sessions: dict[tuple[str, str], Session] = field(default_factory=dict)
    void: set[tuple[int, int]] = field(default_factory=set)
    """Requests that were decided by a leader which resigned before it answered."""
    deposed: set[int] = field(default_factory=set)
    """Connections of those who were members of a shard when its leader resigned."""
    listed: Listed = field(default_factory=Listed)


@dataclass(slots=True)
class Said:
    """The logs and facts of a run, how far each log is on disk, and how far it was told of; lists are by shard."""

    facts: WorldFacts
    logs: list[LogModel]
    durable: list[int]
    told: list[int]
    life: Life
    epochs: ToldEpochs = field(default_factory=ToldEpochs)
    counts: Counts = field(default_factory=Counts)
    coverage: Counter[str] = field(default_factory=Counter)
    """How often what was exercised: faults, records, notices, refusals, by name."""
    group_epochs: dict[str, int] = field(default_factory=dict)
    forgotten_at: dict[str, int] = field(default_factory=dict)
    """Where in the log a group was deleted or expired last."""

    def group(self, group_id: str, shard: int) -> GroupModel:
        return self.logs[shard].groups.get(group_id) or GroupModel()

    def unbind(self, member: tuple[str, str], at: int) -> None:
        for connection_id in [key for key, bound in self.life.bound.items() if bound == member]:
            self.life.removed[connection_id] = (self.life.bound.pop(connection_id), at)

    def must_be_durable(self, shard: int, at: int, what: object) -> None:
        if at >= self.durable[shard]:
            raise ViolationError(
                "said-before-durable",
                f"shard {shard}: {what} is said and record {at} is not on disk, which ends at {self.durable[shard]}",
            )
        self.told[shard] = max(self.told[shard], at + 1)

    def group_epoch_seen(self, group_id: str, group_epoch: int) -> None:
        if group_epoch < self.group_epochs.get(group_id, 0):
            raise ViolationError("epoch-regress", f"{group_id}: group epoch {group_epoch} is shown after a greater one")
        self.group_epochs[group_id] = group_epoch
