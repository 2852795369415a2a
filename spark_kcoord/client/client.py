"""A client that looks at groups and operates them: the acts, refusals and dry runs of `kcoord group`, as values.

Each call opens the connections that it needs and closes them, so that a client holds none: it may be used by several
threads at once, and after a fork. A call is over within the client's time-out, but for the look-up of a host name,
which is the operating system's. What changes something is recorded with `user@host` of this process and the reason.

Calls that may lose a position (`reset_offsets`, `delete_offsets`, `delete`) are a dry run unless `execute=True` is
said. Those that are taken back by their opposite (`pause`, `drain`) are done unless `execute=False` is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Final, Self

from coordinator.client.cluster_view import ClusterView, view
from coordinator.client.configuration.contexts import contexts_of_user
from coordinator.client.every_node import GroupsListed, find_nodes, list_groups
from coordinator.client.operating.author import who_asks
from coordinator.client.operating.waiting import Wait, WaitRefusedError, Wanted
from coordinator.client.operating.waiting import WaitTimeoutError as TimeIsOverError
from coordinator.client.operating.what_is_asked import filter_groups
from coordinator.client.request import LogInFailedError, RequestError
from coordinator.client.security import Coordinators, SecurityError, security_of_options
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.messages import (
    DescribeGroupResponse,
    FetchOffsets,
    FetchOffsetsResponse,
    ListGroupEvents,
    ListGroupEventsResponse,
    ListGroupsResponse,
)
from coordinator.protocol.messages.operators import (
    ChangeDrain,
    ChangeDrainResponse,
    ChangePause,
    ChangePauseResponse,
    DeleteGroup,
    DeleteGroupResponse,
    DeleteOffsets,
    DeleteOffsetsResponse,
    ResetOffsets,
    ResetOffsetsResponse,
)
from coordinator.protocol.parts import ResetTarget
from coordinator.protocol.text.addresses import format_address, parse_addresses
from spark_kcoord.client import arguments, told, values
from spark_kcoord.client.arguments import Duration, Partitions, ResetTo
from spark_kcoord.client.call import Call, in_parts
from spark_kcoord.client.errors import (
    ClientClosedError,
    CoordinatorUnavailableError,
    PartitionsRefusedError,
    SettingError,
    WaitTimeoutError,
    no_answer,
    refused,
)

DEFAULT_TIMEOUT_S: Final = 10.0
_MOST_NAMED: Final = 5


class Client:
    """A client of the coordinators at `HOST:PORT[,...]`, of which one that answers is enough.

    `timeout` is that of each call but `wait`, from 0.1 s to 10 m. `security` has settings by the names that
    `--command-config` has, such as `kcoord.security.protocol`; what is not given there comes from the environment
    (KCOORD_SECURITY_PROTOCOL). Raises SettingError; every call raises ClientError. No secret is in its representation.
    """

    def __init__(
        self,
        coordinators: str,
        *,
        timeout: Duration = DEFAULT_TIMEOUT_S,
        security: Mapping[str, str] | None = None,
    ) -> None:
        self.timeout_s: Final = arguments.seconds_of_client(timeout)
        """The time-out of each call, in seconds."""
        self._is_closed = False
        try:
            self._coordinators = Coordinators(parse_addresses(coordinators), security_of_options(security or {}))
        except SecurityError as error:
            raise SettingError(f"'security' cannot be used: {error}.") from None
        except ValueError as error:
            raise SettingError(f"'coordinators' cannot be used: {error}.") from None

    @classmethod
    def from_context(cls, name: str | None = None, *, timeout: Duration = DEFAULT_TIMEOUT_S) -> Self:
        """Return a client of a cluster by its name in `~/.config/kcoord/config.toml`; without one, of its current one.

        Raises SettingError, which names the nearest context there is; also for an empty name.
        """
        if name == "":
            raise SettingError("The name of the context is empty: name a cluster, or give None for the current one.")
        try:
            contexts = contexts_of_user(os.environ)
            meant = contexts.current if name is None else name
            if not meant:
                raise SettingError(f"{contexts.path} names no current context: give a name.")
            found = contexts.named(meant)
        except SecurityError as error:
            raise SettingError(f"The context cannot be used: {error}.") from None
        return cls(found.coordinator, timeout=timeout, security=found.settings)

    def __repr__(self) -> str:
        """Show addresses and time-out, and no setting that may be a secret."""
        addresses = ",".join(map(format_address, self._coordinators))
        return f"{type(self).__name__}({addresses!r}, timeout={self.timeout_s:g})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Have every later call fail with ClientClosedError; one that is under way ends as it would have."""
        self._is_closed = True

    def groups(self, match: str | None = None, states: str | Iterable[str] | None = None) -> tuple[values.Group, ...]:
        """Return the groups of all nodes by id, or those that a glob such as `orders-*` matches and in these states.

        Raises CoordinatorUnavailableError, with those that are known as its `result`, where no node serves some shard.
        """
        wanted = arguments.states_of_groups(states)
        call = self._call()
        try:
            listed = list_groups(call.coordinators, call.left_s())
        except RequestError as error:
            raise no_answer(error, is_change=False) from error
        if not isinstance(listed, GroupsListed):
            listed = GroupsListed(call.accepted(listed, ListGroupsResponse).groups)
        meant = frozenset(filter_groups([group.group_id for group in listed.groups], match))
        found = tuple(
            told.group_of(group)
            for group in listed.groups
            if group.group_id in meant and (not wanted or group.state in wanted)
        )
        if listed.unlisted:
            raise CoordinatorUnavailableError(
                f"Groups of shards {', '.join(map(str, listed.unlisted))} are not known, for no node serves them now: "
                "ask again; shards() says how they are.",
                result=found,
            )
        return found

    def describe(self, group: str) -> values.GroupDescription:
        """Return a group with its members, partitions and what operators decided about it."""
        call = self._call(group)
        return told.described(call.describe(), call.controls())

    def members(self, group: str) -> tuple[values.Member, ...]:
        """Return the members of a group, by id."""
        call = self._call(group)
        return told.members_of(call.describe(), call.controls())

    def partitions(self, group: str) -> tuple[values.Partition, ...]:
        """Return the partitions of a group by topic and number, with offsets, lag and owners."""
        return tuple(map(told.partition_of, self._call(group).describe().partitions))

    def lag(self, group: str) -> values.GroupLag:
        """Return the lag of a group in records a topic, to the high watermark."""
        return told.lag_told(group, self._call(group).describe().partitions)

    def committed(self, group: str) -> dict[TopicPartition, values.CommittedOffset]:
        """Return the committed offsets of a group by partition; one without an offset is absent."""
        return told.committed_of(self._call(group).ask(FetchOffsets(group), FetchOffsetsResponse).offsets)

    def events(
        self,
        group: str,
        since: str | datetime | timedelta | None = None,
        kinds: str | Iterable[str] | None = None,
        *,
        after: int = 0,
    ) -> tuple[values.Event, ...]:
        """Return a group's timeline, oldest first: since a time or of the last while, of these kinds, after a sequence.

        A text is a duration such as `15m` or a time of ISO 8601; a datetime has a time zone.
        """
        now_ms = time.time_ns() // 1_000_000
        after_sequence = arguments.at_least("after", after, 0) or 0
        asked = ListGroupEvents(
            group, after_sequence, arguments.since_ms(since, now_ms), arguments.kinds_of_events(kinds)
        )
        return tuple(map(told.event_of, self._call(group).ask(asked, ListGroupEventsResponse).events))

    def nodes(self) -> tuple[values.Node, ...]:
        """Return the nodes of the cluster by id, also those that do not answer."""
        return tuple(map(told.node_of, self._cluster().nodes))

    def shards(self) -> tuple[values.Shard, ...]:
        """Return the shards of the cluster by number."""
        return tuple(map(told.shard_of, self._cluster().shards))

    def wait(
        self,
        group: str,
        *,
        lag_below: int | None = None,
        state: str | None = None,
        members: int | None = None,
        timeout: Duration = "5m",
        every: Duration = 0.5,
    ) -> values.Group:
        """Wait until everything that is named holds at one moment, and return the group as it is then.

        `lag_below=1` is caught up, of a lag that is known; `members` is the least number. A group that does not exist
        is Empty, and returned with no state. A coordinator that is away is asked again. Raises WaitTimeoutError.
        """
        wait = self.waiting(group, lag_below=lag_below, state=state, members=members, timeout=timeout, every=every)
        while (found := look(wait, group)) is None:
            time.sleep(wait.pause_s)
        return told.group_waited_for(found)

    def waiting(
        self,
        group: str,
        *,
        lag_below: int | None,
        state: str | None,
        members: int | None,
        timeout: Duration,
        every: Duration,
    ) -> Wait:
        """Return a wait that has not looked yet; it is for `wait` and that of AsyncClient."""
        wanted = Wanted(
            arguments.state_of_group(state),
            arguments.at_least("members", members, 0),
            arguments.at_least("lag_below", lag_below, 1),
        )
        conditions = wanted.conditions()
        if not conditions:
            raise SettingError("Nothing is waited for: name 'lag_below', 'state' or 'members'.")
        every_s = max(0.01, arguments.seconds("every", every))
        timeout_s = arguments.seconds("timeout", timeout)
        return Wait(self._call(group).coordinators, group, conditions, timeout_s, every_s)

    def pause(
        self, group: str, partitions: Partitions | None = None, *, reason: str = "", execute: bool = True
    ) -> values.MovedPartitions:
        """Pause partitions, or the whole group: owners let go, and nobody gets them until `resume`."""
        return self._change_pause(group, partitions, reason, is_paused=True, execute=execute)

    def resume(
        self, group: str, partitions: Partitions | None = None, *, reason: str = "", execute: bool = True
    ) -> values.MovedPartitions:
        """End the pause of partitions, or that of the whole group; each ends only by itself."""
        return self._change_pause(group, partitions, reason, is_paused=False, execute=execute)

    def drain(self, group: str, member: str, *, reason: str = "", execute: bool = True) -> values.MovedPartitions:
        """Move a member's partitions away and give it none, until `undrain` or its end; `member` is its whole id."""
        return self._change_drain(group, member, reason, is_drained=True, execute=execute)

    def undrain(self, group: str, member: str, *, reason: str = "", execute: bool = True) -> values.MovedPartitions:
        """Let a drained member have partitions again; those that are returned are what it has now."""
        return self._change_drain(group, member, reason, is_drained=False, execute=execute)

    def reset_offsets(
        self,
        group: str,
        to: ResetTo | None = None,
        partitions: Partitions | None = None,
        *,
        shift_by: int | None = None,
        execute: bool = False,
        reason: str = "",
        release_claims: bool = False,
    ) -> values.Reset:
        """Set committed offsets, also of a group that runs: where a member owns the partition, once it has let go.

        `to` is `earliest`, `latest`, `current`, an offset, a datetime (the first record since then), a timedelta (the
        first record of the last while), or a mapping of partitions to offsets; `shift_by` so many records on, or back.
        Nothing changes without `execute`. `release_claims` passes over running claims whose owner is gone. Raises
        PartitionsRefusedError when some are refused, NotFoundError for a group or a topic that there is not.
        """
        where = arguments.reset_to(to, shift_by)
        named = arguments.scopes(partitions)
        call = self._call(group)
        if isinstance(where, Mapping):
            if named is not None:
                raise SettingError("'to' names the partitions: leave out 'partitions'.")
            targets = arguments.targets_by_partition(where)
        else:
            targets = tuple(ResetTarget(topic, number, *where) for topic, number in call.partitions_meant(named))

        def ask(some: tuple[ResetTarget, ...]) -> ResetOffsetsResponse:
            request = ResetOffsets(group, some, who_asks(), reason, release_claims, not execute)
            return call.ask(request, ResetOffsetsResponse, is_change=execute)

        answers = in_parts(targets, ask, is_change=execute)
        reset = told.reset_told(group, (result for answer in answers for result in answer.results), dry=not execute)
        _must_not_be_refused(reset.partitions, reset)
        return reset

    def delete_offsets(
        self, group: str, partitions: Partitions | None = None, *, execute: bool = False, reason: str = ""
    ) -> values.DeletedOffsets:
        """Delete the committed offsets of partitions that nobody owns; nothing changes without `execute`.

        Raises PartitionsRefusedError when some are refused.
        """
        named = arguments.scopes(partitions)
        call = self._call(group)

        def ask(some: tuple[TopicPartition, ...]) -> DeleteOffsetsResponse:
            request = DeleteOffsets(group, some, who_asks(), reason, not execute)
            return call.ask(request, DeleteOffsetsResponse, is_change=execute)

        meant = call.partitions_meant(named, lambda found: found.committed is not None)
        answers = in_parts(meant, ask, is_change=execute)
        deleted = told.deleted_told(group, (result for answer in answers for result in answer.results), dry=not execute)
        _must_not_be_refused(deleted.partitions, deleted)
        return deleted

    def delete(self, group: str, *, execute: bool = False, reason: str = "") -> values.DeletedGroup:
        """Delete a group that has no members, with its offsets; nothing changes without `execute`.

        Raises RefusedByStateError while it has members.
        """
        request = DeleteGroup(group, who_asks(), reason, not execute)
        self._call(group).ask(request, DeleteGroupResponse, is_change=execute)
        return values.DeletedGroup(group, not execute)

    def _call(self, group: str | None = None) -> Call:
        if self._is_closed:
            raise ClientClosedError("The client is closed: make another one.")
        return Call(self._coordinators, self.timeout_s, "" if group is None else arguments.group_id(group))

    def _cluster(self) -> ClusterView:
        call = self._call()
        try:
            return view(find_nodes(call.coordinators, call.left_s()))
        except RequestError as error:
            raise no_answer(error, is_change=False) from error

    def _change_pause(
        self, group: str, partitions: Partitions | None, reason: str, *, is_paused: bool, execute: bool
    ) -> values.MovedPartitions:
        named = arguments.scopes(partitions)
        call = self._call(group)

        def ask(some: tuple[TopicPartition, ...] | None) -> ChangePauseResponse:
            request = ChangePause(group, some, is_paused, who_asks(), reason, not execute)
            return call.ask(request, ChangePauseResponse, is_change=execute)

        answers = [ask(None)] if named is None else in_parts(call.partitions_meant(named), ask, is_change=execute)
        moved = tuple(partition for answer in answers for partition in answer.partitions)
        count = sum(max(answer.partition_count, len(answer.partitions)) for answer in answers)
        return values.MovedPartitions(group, not execute, moved, count)

    def _change_drain(
        self, group: str, member: str, reason: str, *, is_drained: bool, execute: bool
    ) -> values.MovedPartitions:
        request = ChangeDrain(group, member, is_drained, who_asks(), reason, not execute)
        moved = self._call(group).ask(request, ChangeDrainResponse, is_change=execute).partitions
        return values.MovedPartitions(group, not execute, moved, len(moved))


def look(wait: Wait, group: str) -> DescribeGroupResponse | None:
    """Look at a group that is waited for; raises WaitTimeoutError, and what any call does for a refusal."""
    try:
        return wait.look()
    except TimeIsOverError as error:
        text = str(error)
        raise WaitTimeoutError(f"{text[:1].upper()}{text[1:]}.") from None
    except WaitRefusedError as error:
        raise refused(error.refusal, group, is_change=False) from None
    except LogInFailedError as error:
        raise no_answer(error, is_change=False) from error


def _must_not_be_refused(
    rows: Sequence[values.PartitionReset | values.DeletedOffset], result: values.Reset | values.DeletedOffsets
) -> None:
    """Raise PartitionsRefusedError when some rows were refused."""
    those = [row for row in rows if row.error is not None]
    if not those:
        return
    shown = "; ".join(f"{row.topic}-{row.partition}: {row.remark} ({row.error})" for row in those[:_MOST_NAMED])
    more = f"; and {len(those) - _MOST_NAMED} more" if len(those) > _MOST_NAMED else ""
    others = "nothing has been changed" if result.is_dry_run else "the others are done"
    raise PartitionsRefusedError(
        f"The coordinator refused {len(those)} of {len(rows)} partitions of group '{result.group}', and {others}: "
        f"{shown}{more}.",
        those[0].error or "",
        result=result,
        partitions=[(row.topic, row.partition) for row in those],
    )
