"""Writing committed offsets to Kafka's groups, as whoever is no member of them.

A commit names no member and no generation: Kafka takes it for a group that has no members, makes one where there is
none, and refuses it for a group that has some. So nothing has to be looked at before. The protocol's own requests are
used, since the library's admin client finds the coordinator of a group anew for each.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from kafka.errors import KafkaError, for_code
from kafka.protocol.consumer.group import OffsetCommitRequest, OffsetDeleteRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from coordinator.core.effects import MirrorOffsets
from coordinator.core.mirror.events import Outcome
from coordinator.runtime.kafka.access import PLAIN_ACCESS, KafkaAccess
from coordinator.runtime.kafka.client import KafkaClient
from coordinator.runtime.kafka.failures import say_failure, say_not_taken

_AT_ONCE: Final = 4
"""Requests that are sent before the first is answered; the library takes five on one connection."""
_MOST_COORDINATORS: Final = 100_000
_UNKNOWN_TOPIC_OR_PARTITION: Final = 3
_MEMBERS: Final = frozenset({22, 25, 27, 68, 86, 110, 113})
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, NON_EMPTY_GROUP, GROUP_SUBSCRIBED_TO_TOPIC,
FENCED_MEMBER_EPOCH, STALE_MEMBER_EPOCH: each of them because there are members."""
_LATER: Final = frozenset({7, 14, 15, 16})
"""REQUEST_TIMED_OUT, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""
_OF_THE_GROUP: Final = frozenset({24, 30})
"""INVALID_GROUP_ID, GROUP_AUTHORIZATION_FAILED."""
_GROUP_ID_NOT_FOUND: Final = 69


@dataclass(frozen=True, slots=True)
class Written:
    """Kafka's answer to one write, as MirrorAnswered has it."""

    outcome: Outcome
    why: str = ""
    refused: tuple[tuple[str, int, str], ...] = ()
    unknown: tuple[tuple[str, int], ...] = ()


_Result: TypeAlias = Written | Exception | None
_NOTHING: Final = Written(Outcome.DONE)


@dataclass(slots=True)
class GroupWrite:
    """A write to Kafka's group of this name; `is_wanted` is asked right before it is sent."""

    group: str
    wanted: MirrorOffsets
    is_wanted: Callable[[], bool] = lambda: True


class GroupClient(KafkaClient):
    """A connected client that writes offsets; raises KafkaAwayError like any other.

    After a write that met a broken connection, or a bug, it `is_worn`: close it and make another.
    """

    def __init__(
        self,
        bootstrap: Sequence[str],
        request_timeout_ms: int,
        connect_timeout_ms: int,
        access: KafkaAccess = PLAIN_ACCESS,
    ) -> None:
        super().__init__(bootstrap, request_timeout_ms, connect_timeout_ms, access)
        self.is_worn = False
        self._is_broken = False
        self._coordinators: dict[str, int] = {}

    def write(self, writes: Sequence[GroupWrite]) -> list[Written | None]:
        """Write offsets, in the order given where the group is the same; None for what was not wanted any more.

        Raises KafkaAwayError when no broker answers to any of them.
        """
        if len(self._coordinators) > _MOST_COORDINATORS:
            self._coordinators.clear()
        results: list[_Result] = self._open_manager.run(self._write_all, writes)
        faults = [result for result in results if isinstance(result, Exception)]
        self.is_worn = bool(faults) or self._is_broken
        if faults and len(faults) == len(results):
            raise self._away(faults[0])
        return [
            Written(Outcome.LATER, say_failure(result, self._request_timeout_ms))
            if isinstance(result, Exception)
            else result
            for result in results
        ]

    async def _write_all(self, writes: Sequence[GroupWrite]) -> list[_Result]:
        """Write all, a few at once; runs in the library's loop."""
        results: list[_Result] = []
        for begin in range(0, len(writes), _AT_ONCE):
            results += await self._write_some(writes[begin : begin + _AT_ONCE])
        return results

    async def _write_some(self, writes: Sequence[GroupWrite]) -> list[_Result]:
        found = await self._find([write.group for write in writes])
        sent = [self._send(known, _commit_request, write) for known, write in zip(found, writes, strict=True)]
        results = [await _answered(answer, _commit_answer, write) for answer, write in zip(sent, writes, strict=True)]
        for at, (known, write) in enumerate(zip(found, writes, strict=True)):
            before = results[at]
            if write.wanted.deleted and isinstance(before, Written) and before.outcome is Outcome.DONE:
                after = await _answered(self._send(known, _delete_request, write), _delete_answer, write)
                results[at] = _both(before, after) if isinstance(after, Written) else after
            result = results[at]
            if isinstance(result, Exception) or (result is not None and result.outcome is Outcome.LATER):
                self._coordinators.pop(write.group, None)
        return results

    def _send(self, known: int | Written | Exception, request: Callable[[GroupWrite], Any], write: GroupWrite) -> Any:
        """Send a request to the coordinator of a group; returns a future, or what is known without an answer."""
        if not isinstance(known, int):
            return known
        if not write.is_wanted():
            return None
        try:
            made = request(write)
            return _NOTHING if made is None else self._connection(known).send_request(made)
        except KafkaError as error:
            return error
        except Exception as error:  # noqa: BLE001 - a question that cannot be asked costs its group alone
            self._is_broken = True
            why = f"it cannot be asked, by a bug of the coordinator's ({type(error).__name__})"
            return Written(Outcome.REFUSED, why)

    async def _find(self, groups: Sequence[str]) -> list[int | Written | Exception]:
        """Return the broker that coordinates each group, or why it is not known."""
        asked: dict[str, Any] = {}
        found: dict[str, int | Written | Exception] = {}
        for group in dict.fromkeys(groups):
            if group in self._coordinators:
                found[group] = self._coordinators[group]
                continue
            try:
                connection = self._connection(self._open_manager.least_loaded_node())
                request = FindCoordinatorRequest(key=group, key_type=0, max_version=3)
                asked[group] = connection.send_request(request)
            except KafkaError as error:
                found[group] = error
        for group, answer in asked.items():
            try:
                response = await answer
            except (KafkaError, OSError) as error:
                found[group] = error
                continue
            if response.error_code:
                found[group] = _of_the_group(response.error_code, group) or _refused(response.error_code, group)
            else:
                found[group] = self._coordinators[group] = response.node_id
        return [found[group] for group in groups]


async def _answered(answer: Any, read: Callable[[Any, GroupWrite], Written], write: GroupWrite) -> _Result:
    """Return the end of a request, once it is there."""
    if answer is None or isinstance(answer, Written | Exception):
        return answer
    try:
        return read(await answer, write)
    except (KafkaError, OSError) as error:
        return error


def _commit_request(write: GroupWrite) -> Any:
    if not write.wanted.topics:
        return None
    topic_class = OffsetCommitRequest.OffsetCommitRequestTopic
    part_class = topic_class.OffsetCommitRequestPartition
    return OffsetCommitRequest(
        group_id=write.group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        retention_time_ms=-1,
        topics=[
            topic_class(
                name=each.topic,
                partitions=[
                    part_class(
                        partition_index=number,
                        committed_offset=offset,
                        committed_leader_epoch=-1 if leader_epoch is None else leader_epoch,
                        committed_metadata=metadata,
                    )
                    for number, offset, leader_epoch, metadata in zip(
                        each.partitions, each.offsets, each.leader_epochs, each.metadata, strict=True
                    )
                ],
            )
            for each in write.wanted.topics
        ],
        max_version=9,  # from 10 on topics are named by their ids
    )


def _delete_request(write: GroupWrite) -> Any:
    topic_class = OffsetDeleteRequest.OffsetDeleteRequestTopic
    part_class = topic_class.OffsetDeleteRequestPartition
    return OffsetDeleteRequest(
        group_id=write.group,
        topics=[
            topic_class(name=topic, partitions=[part_class(partition_index=number) for number in numbers])
            for topic, numbers in write.wanted.deleted
        ],
    )


def _commit_answer(response: Any, write: GroupWrite) -> Written:
    return _answer(response, write.group, deletes=False)


def _delete_answer(response: Any, write: GroupWrite) -> Written:
    code = response.error_code
    if code in (0, _GROUP_ID_NOT_FOUND):
        return _answer(response, write.group, deletes=True)
    told = _of_the_group(code, write.group)
    if told is not None and told.outcome is not Outcome.REFUSED:
        return told
    # An offset too many in Kafka is no reason to keep the others from it.
    why = say_not_taken(for_code(code), write.group, deletes=True)
    return Written(Outcome.DONE, "", tuple((topic, numbers[0], why) for topic, numbers in write.wanted.deleted))


def _answer(response: Any, group: str, *, deletes: bool) -> Written:
    """Return what the codes of the partitions say together: one about the group is the same in all of them."""
    refused, unknown = [], []
    for topic in response.topics:
        for part in topic.partitions:
            told = _of_the_group(part.error_code, group)
            if told is not None:
                return told
            if part.error_code == _UNKNOWN_TOPIC_OR_PARTITION:
                if not deletes:
                    unknown.append((topic.name, part.partition_index))
            elif part.error_code:
                why = say_not_taken(for_code(part.error_code), group, deletes=deletes)
                refused.append((topic.name, part.partition_index, why))
    return Written(Outcome.DONE, "", tuple(refused), tuple(unknown))


def _of_the_group(code: int, group: str) -> Written | None:
    """Return what a code says of a whole group; None for one that is about a partition, or for none."""
    if code in _MEMBERS:
        return Written(Outcome.HAS_MEMBERS, for_code(code).__name__)
    if code in _LATER:
        return Written(Outcome.LATER, f"the coordinator of group {group!r} in Kafka says {for_code(code).__name__}")
    return _refused(code, group) if code in _OF_THE_GROUP else None


def _refused(code: int, group: str) -> Written:
    return Written(Outcome.REFUSED, say_not_taken(for_code(code), group, deletes=False))


def _both(first: Written, second: Written) -> Written:
    """Return what the answers to a commit that was taken and to a deletion say of one write."""
    return Written(second.outcome, second.why, (*first.refused, *second.refused), first.unknown)
