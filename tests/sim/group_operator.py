"""The operator: looks at the group all the time, and does to it whatever an operator can do.

Requests go over a connection of their own, straight to the coordinator, and a request to a coordinator that is down is
lost. Some are dry runs, which are told by who asks for them and must change nothing.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import (
    CommitOffsets,
    DescribeGroup,
    FetchOffsets,
    ListGroupEvents,
    ListGroups,
    Request,
    Response,
)
from coordinator.protocol.messages.operators import (
    CancelResets,
    ChangeDrain,
    ChangePause,
    DeleteGroup,
    DeleteOffsets,
    DescribeControls,
    ReleaseClaims,
    ResetOffsets,
)
from coordinator.protocol.messages.pages import next_page
from coordinator.protocol.parts import NewGroup, ResetTarget
from tests.sim.bounds import MOST_NAMED
from tests.sim.coordinator import GROUP
from tests.sim.log.operators import DRY
from tests.sim.log.state import GroupModel

if TYPE_CHECKING:
    from tests.sim.world import World

CONNECTION = 1
OTHER_GROUP = "other"
LONG_METADATA = "x" * 4_000
LOOK_EVERY_MS = 400
TIDY_EVERY_MS = 200
RESETS = ("earliest", "latest", "current", "offset", "shift", "timestamp", "duration")


class Operator:
    """The operator of one run."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._asked = 0
        self._life = -1
        self._waiting: dict[int, Callable[[Response], object]] = {}
        self._stay_paused: set[TopicPartition] = set()

    # ---- asking -----------------------------------------------------------------------------------------------------

    def ask(self, request: Request, then: Callable[[Response], object] | None = None) -> None:
        """Send a request; the checker looks at its answer, and so does who waits for it, if it comes."""
        world = self._world
        coordinator = world.coordinator
        if not coordinator.is_up:
            return
        known_end = world.checker.durable_end(coordinator.node.shard_of(getattr(request, "group_id", GROUP)))
        delay_ms = world.dice.choice(world.mix.network_delays_ms)
        world.schedule.after(delay_ms, self._arrive, coordinator.life, request, known_end, then)

    def _arrive(self, life: int, request: Request, known_end: int, then: Callable[[Response], object] | None) -> None:
        if life == self._world.coordinator.life:
            self._world.coordinator.do(partial(self._ask_now, request, known_end, then))

    def _ask_now(self, request: Request, known_end: int, then: Callable[[Response], object] | None) -> None:
        coordinator = self._world.coordinator
        if self._life != coordinator.life:
            self._life = coordinator.life
            coordinator.opened(CONNECTION, "operator")
            self._waiting.clear()
        self._asked += 1
        if then is not None:
            self._waiting[self._asked] = then
        coordinator.arrived(CONNECTION, self._asked, request, known_end)

    def answered(self, connection_id: int, correlation_id: int, response: Response) -> None:
        """Take an answer of the coordinator."""
        then = self._waiting.pop(correlation_id, None) if connection_id == CONNECTION else None
        if then is not None:
            then(response)

    def closed(self, connection_id: int, why: str) -> None:
        """Connect again for the next request when the coordinator closes; what was asked meanwhile gets no answer."""
        if connection_id == CONNECTION:
            self._world.schedule.after(0, self._end, self._world.coordinator.life, why)

    def _end(self, life: int, why: str) -> None:
        if life == self._world.coordinator.life:
            self._world.coordinator.do(partial(self._end_now, why))

    def _end_now(self, why: str) -> None:
        if self._life == self._world.coordinator.life:
            self._life = -1
            self._world.coordinator.closed(CONNECTION, why)

    def look(self) -> None:
        """Look at something, now and again for the whole run."""
        world = self._world
        if not world.coordinator.is_paused:
            requests: tuple[Request, ...] = (
                FetchOffsets(GROUP),
                FetchOffsets(GROUP),
                FetchOffsets(OTHER_GROUP),
                DescribeGroup(GROUP),
                ListGroups(),
                ListGroupEvents(GROUP),
                DescribeControls(GROUP),
            )
            self._ask_for_pages(world.dice.choice(requests))
        world.schedule.after(world.dice.randint(1, 2 * LOOK_EVERY_MS), self.look)

    def _ask_for_pages(self, request: Request) -> None:
        """Ask for something, and for each further page of its answer."""

        def go_on(response: Response) -> None:
            more = next_page(request, response)
            if more is not None:
                self._ask_for_pages(more)

        self.ask(request, go_on)

    # ---- acting -----------------------------------------------------------------------------------------------------

    @property
    def _group(self) -> GroupModel:
        return self._world.checker.group(GROUP, self._world.coordinator.node.shard_of(GROUP))

    def _who(self) -> tuple[str, bool]:
        """Draw whether something is only tried: who asks, and whether it is a dry run."""
        is_dry = self._world.dice.random() < 0.15
        return (DRY if is_dry else "ann"), is_dry

    def _some_partition(self) -> TopicPartition | None:
        name = self._world.dice.choice(sorted(self._world.mix.topics))
        topic = self._world.kafka.topics.get(name)
        return None if topic is None else (name, self._world.dice.randrange(len(topic.ends)))

    def _known_partitions(self) -> list[TopicPartition]:
        topics = self._group.topics
        return sorted((name, number) for name, (_, count) in topics.items() for number in range(count))

    def commit(self) -> bool:
        """Commit forward for a partition, which nobody owns if one such is known, or in a group without members."""
        world, group = self._world, self._group
        free = [partition for partition in self._known_partitions() if partition not in group.owners]
        group_id = world.dice.choice((GROUP, GROUP, OTHER_GROUP))
        partition = world.dice.choice(free) if free and group_id == GROUP else self._some_partition()
        if partition is None or not world.kafka.has(*partition):
            return False
        topic = world.kafka.topics[partition[0]]
        offset = world.dice.randint(topic.begins[partition[1]], topic.ends[partition[1]])
        wishes = [OffsetToCommit(*partition, offset)]
        if group_id == OTHER_GROUP and world.dice.random() < 0.7:
            # Metadata that there may be no room for, in a group whose offsets nobody needs.
            first = world.dice.randrange(1_000, 1_020)
            numbers = range(first, first + 5)
            wishes = [OffsetToCommit(partition[0], number, offset, metadata=LONG_METADATA) for number in numbers]
        self.ask(CommitOffsets(group_id, in_columns(wishes)))
        return True

    def reset(self) -> bool:
        """Set the offset of a partition, whoever owns it; of a group that is not there some make one."""
        dice = self._world.dice
        partition = self._some_partition()
        if partition is None:
            return False
        topic = self._world.kafka.topics[partition[0]]
        begin, end = topic.begins[partition[1]], topic.ends[partition[1]]
        kind = dice.choice(RESETS)
        value = {
            "offset": dice.randint(begin, end),
            "shift": dice.choice((-7, 3)),
            "timestamp": 1_000,
            "duration": 60_000,
        }
        who, is_dry = self._who()
        releases = dice.random() < 0.3
        target = ResetTarget(*partition, kind, value.get(kind))
        group_id = dice.choice((GROUP, GROUP, GROUP, OTHER_GROUP))
        new_group = NewGroup() if releases or group_id == OTHER_GROUP else None
        self.ask(ResetOffsets(group_id, (target,), who, "to try it", releases, is_dry, new_group))
        if dice.random() < 0.2:
            self._world.schedule.after(dice.choice((100, 500)), self.cancel_resets)
        return True

    def cancel_resets(self) -> bool:
        if not self._group.resets:
            return False
        who, is_dry = self._who()
        some = (self._world.dice.choice(sorted(self._group.resets)),) if self._world.dice.random() < 0.5 else None
        self.ask(CancelResets(GROUP, some, who, "second thoughts", is_dry))
        return True

    def pause_group(self) -> bool:
        """Pause the whole group, and have it run again some time later."""
        who, is_dry = self._who()
        self.ask(ChangePause(GROUP, None, True, who, "quiet", is_dry))
        after_ms = self._world.dice.choice((500, 3_000))
        self._world.schedule.after(after_ms, self.ask, ChangePause(GROUP, None, False, "ann", "", False))
        return True

    def pause_partitions(self) -> bool:
        """Pause some partitions, and have them run again some time later, or not."""
        known, dice = self._known_partitions(), self._world.dice
        if not known:
            return False
        some = tuple(sorted(dice.sample(known, min(len(known), dice.choice((1, 1, 2, 4))))))
        who, is_dry = self._who()
        self.ask(ChangePause(GROUP, some, True, who, "quiet", is_dry))
        if dice.random() < 0.8:
            after_ms = dice.choice((500, 3_000, 9_000))
            self._world.schedule.after(after_ms, self.ask, ChangePause(GROUP, some, False, "ann", "", False))
        return True

    def drain(self) -> bool:
        """Have a member hold nothing, and let it hold something again some time later, or not."""
        members, dice = sorted(self._group.facts), self._world.dice
        if not members:
            return False
        member_id = dice.choice(members)
        who, is_dry = self._who()
        self.ask(ChangeDrain(GROUP, member_id, True, who, "its host goes", is_dry))
        if dice.random() < 0.7:
            after_ms = dice.choice((500, 3_000, 9_000))
            self._world.schedule.after(after_ms, self.ask, ChangeDrain(GROUP, member_id, False, "ann", "", False))
        return True

    def delete_offsets(self) -> bool:
        """Delete offsets of partitions, which are paused for that more often than not."""
        known, dice = self._known_partitions(), self._world.dice
        if not known:
            return False
        some = (dice.choice(known),)
        who, is_dry = self._who()
        delete = DeleteOffsets(dice.choice((GROUP, GROUP, GROUP, OTHER_GROUP)), some, who, "begin anew", is_dry)
        if dice.random() < 0.3:
            self.ask(delete)
            return True
        self.ask(ChangePause(GROUP, some, True, "ann", "to delete", False))
        self._world.schedule.after(dice.choice((300, 1_500)), self.ask, delete)
        self._world.schedule.after(2_500, self.ask, ChangePause(GROUP, some, False, "ann", "", False))
        return True

    def delete_group(self) -> bool:
        who, is_dry = self._who()
        self.ask(DeleteGroup(self._world.dice.choice((GROUP, OTHER_GROUP)), who, "begin anew", is_dry))
        return True

    def release_claims(self) -> bool:
        """Let go of claims whose owners are gone, or of any others."""
        group, dice = self._group, self._world.dice
        gone = sorted(partition for partition, owner in group.owners.items() if owner.is_abandoned)
        some = (dice.choice(gone),) if gone else tuple(sorted(group.owners)[:1])
        if not some:
            return False
        who, is_dry = self._who()
        self.ask(ReleaseClaims(GROUP, some, who, "it will not come back", is_dry))
        return True

    # ---- in the end -------------------------------------------------------------------------------------------------

    def choose_what_stays_paused(self) -> None:
        """Leave some pauses in the end: those partitions must then be nobody's."""
        if self._world.dice.random() < 0.5:
            self._stay_paused = set(self._group.paused)

    def tidy(self) -> None:
        """Take back what would keep the group from coming to rest, again and again until the end."""
        self.tidy_once(gives_up=True)
        self._world.schedule.after(TIDY_EVERY_MS, self.tidy)

    def tidy_once(self, *, gives_up: bool = False) -> None:
        """Take back pauses and drains, and say where the partitions start of a group that begins nowhere by itself.

        Who gives up releases what waits for somebody who does not come back, and resets offsets that Kafka no longer
        has, both of which else wait for ever.
        """
        group = self._group
        if group.is_paused:
            self.ask(ChangePause(GROUP, None, False, "ann", "", False))
        if paused := sorted(group.paused - self._stay_paused):
            self.ask(ChangePause(GROUP, tuple(paused[:MOST_NAMED]), False, "ann", "", False))
        for member_id in sorted(group.drained):
            self.ask(ChangeDrain(GROUP, member_id, False, "ann", "", False))
        if gives_up and (left := self._left_for_good()):
            self.ask(ReleaseClaims(GROUP, tuple(left[:MOST_NAMED]), "ann", "it will not come back", False))
        policy = self._world.mix.policy
        if policy is not None and policy.kind == "none":
            self._commit_where_none(resets=gives_up or self._world.is_healing)

    def _left_for_good(self) -> list[TopicPartition]:
        """Return what is held for ever for somebody who does not come back."""
        group = self._group
        if group.claim_timeout_ms is not None:
            return []
        wanted = self._world.fleet.wanted()
        coming = {application.instance_id for application in wanted} - {None}
        return sorted(
            partition
            for partition, owner in group.owners.items()
            if group.is_held(partition) and group.instances.get(owner.member_id) not in coming
        )

    def _commit_where_none(self, *, resets: bool) -> None:
        group, kafka = self._group, self._world.kafka
        for name, topic in kafka.topics.items():
            for number, (begin, end) in enumerate(zip(topic.begins, topic.ends, strict=True)):
                committed = group.committed((name, number), topic.topic_id)
                if committed is not None and not begin <= committed <= end and resets:
                    target = ResetTarget(name, number, "earliest")
                    if (name, number) not in group.resets:
                        self.ask(ResetOffsets(GROUP, (target,), "ann", "", release_claims=True, is_dry_run=False))
                elif committed is None and (name, number) not in group.owners:
                    self.ask(CommitOffsets(GROUP, in_columns((OffsetToCommit(name, number, begin),))))
