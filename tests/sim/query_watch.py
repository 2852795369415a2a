"""What a query may not do without a word: end before its ends, go on without its coordinator, or lose a topic.

One watch a process, told of Spark's calls and of what they were answered. It judges by what the world knows, and knows
nothing of how the product decides.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from spark_kcoord.member.core.held.holdings import Assignment
from spark_kcoord.member.holders import Holder
from tests.sim.coordinator import GROUP
from tests.sim.log.state import ViolationError

if TYPE_CHECKING:
    from tests.sim.process import TopicPartition
    from tests.sim.query import Query

NOTICE_WITHIN_MS = 3_000
"""So long a query may go on after its topic was taken from it before it has to notice that the topic is gone."""


class QueryWatch:
    """The watch of one query."""

    def __init__(self, query: "Query") -> None:
        self._query = query
        self._world = query.world
        self._ends: dict[TopicPartition, tuple[str, int]] = {}
        self._due: dict[TopicPartition, tuple[str, int]] | None = None
        self._holders: Mapping[TopicPartition, Holder] = {}
        self._lost_ms: int | None = None
        self._stepped_ms = 0
        self._is_overdue = False
        self._alive: set[tuple[str, str]] = set()
        """Topics by name and id that it had partitions of when they were there last."""
        self._planned: set[tuple[str, str]] = set()
        """Those of which the call at hand was shown partitions."""
        self._known: set[tuple[str, str]] = set()
        """Those of which any call was; what comes and goes between calls for the first time, nobody planned."""
        self._silent_since_ms: int | None = None

    # ---- told -------------------------------------------------------------------------------------------------------

    def frozen(self, ends: "Mapping[TopicPartition, int]") -> None:
        """Note the ends of a run that ends by itself."""
        topics = self._world.kafka.topics
        self._ends = {key: (topics[key[0]].topic_id, end) for key, end in ends.items() if key[0] in topics}

    def assigned(self, assignment: Assignment) -> None:
        """Note what the first call has waited for: it is what the run is to read."""
        if self._due is None and assignment.is_complete:
            starts = {(one.topic, one.partition, one.topic_id): one.start for one in assignment.partitions}
            # What the group had read before the run began needs no commit of it, also if a disk is restored meanwhile.
            # Nor does what it was assigned of a topic whose name another one has had since before the ends were frozen.
            self._due = {key: end for key, end in self._ends.items() if starts.get((*key, end[0]), end[1]) < end[1]}

    def shown(self, assignment: Assignment) -> None:
        """Note what a call plans with."""
        self._planned |= {(one.topic, one.topic_id) for one in assignment.partitions}
        self._known |= self._planned

    def told_holders(self, found: "Mapping[TopicPartition, Holder]") -> None:
        """Note what a call was told of who has what."""
        self._holders = found

    def told_topics(self) -> None:
        """Note that a call was told which topics there are."""
        self._alive = {topic for topic in self._alive if topic in self._held or not self._is_there(topic)}

    def stepped(self) -> None:
        """Note that the member has taken in something."""
        now_ms = self._world.schedule.now_ms
        self._stepped_ms = now_ms
        self._alive |= self._held & self._known
        if self._query.has_joined:
            self._lost_ms = None
        elif self._lost_ms is None:
            self._lost_ms = now_ms

    def due_end(self, partition: "TopicPartition") -> int | None:
        """Return up to where a run that ends by itself is to read a partition; None for one that it leaves alone."""
        due = self._ends if self._due is None else self._due
        return due[partition][1] if partition in due else None

    @property
    def came_back(self) -> list[str]:
        """The topics that it had planned with before, and has again since the last call was shown what there is."""
        return sorted(name for name, _ in self._held & self._known - self._planned)

    # ---- judged -----------------------------------------------------------------------------------------------------

    def call_begins(self) -> None:
        """Note that Spark calls latestOffset."""
        self._holders = {}
        self._planned = set()
        timeout_ms = self._query.settings.coordinator_timeout_ms
        has_met = self._query.has_been_member
        self._is_overdue = has_met and self._lost_ms is not None and self._stepped_ms > self._lost_ms + timeout_ms

    def call_returned(self) -> None:
        """Raise ViolationError when latestOffset returned although it was not to."""
        if self._is_overdue and self._lost_ms is not None:
            raise ViolationError(
                "coordinator-missed",
                f"{self._query.name} goes on though its coordinator has been away since {self._lost_ms} ms",
            )
        self._look_for_silence()

    def _look_for_silence(self) -> None:
        world, now_ms = self._world, self._world.schedule.now_ms
        gone = {topic for topic in self._alive - self._held if not self._is_there(topic)}
        self._alive = gone | self._planned | (self._alive & self._held)
        if not gone or world.kafka.is_away or not self._query.assignment.is_complete:
            self._silent_since_ms = None
            return
        if not self._query.fail_on_data_loss:
            self._alive -= gone
            return
        if self._silent_since_ms is None:
            self._silent_since_ms = now_ms
        elif now_ms - self._silent_since_ms > NOTICE_WITHIN_MS:
            raise ViolationError(
                "silent-loss", f"{self._query.name} says nothing though its topics are gone: {sorted(gone)}"
            )

    @property
    def _held(self) -> set[tuple[str, str]]:
        return {(one.topic, one.topic_id) for one in self._query.assignment.partitions}

    def _is_there(self, topic: tuple[str, str]) -> bool:
        known = self._world.kafka.topics.get(topic[0])
        return known is not None and known.topic_id == topic[1]

    def run_ended(self) -> None:
        """Raise ViolationError when a run ended well before its frozen ends, which nobody else reads."""
        group = self._world.checker.group(GROUP, self._world.coordinator.node.shard_of(GROUP))
        for key, (topic_id, end) in sorted((self._due or {}).items()):
            if not self._is_there((key[0], topic_id)):
                continue
            commits = [commit.offset for commit in group.commits.get(key, ()) if commit.topic_id in ("", topic_id)]
            if not self._query.settings.commits:
                commits = [self._query.reached.get(key)]
            if any(offset is not None and offset >= end for offset in commits):
                continue
            holder = self._holders.get(key, Holder())
            if holder.is_paused or holder.member_id not in (None, self._query.member_id):
                self._world.checker.coverage["run left to others"] += 1
                continue
            raise ViolationError(
                "ended-early",
                f"{self._query.name} ended well: {key[0]}-{key[1]} is at {commits[-1:]}, its end was {end}",
            )
        if self._due:
            self._world.checker.coverage["run ended"] += 1
