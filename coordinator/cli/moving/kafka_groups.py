"""Kafka's own consumer groups as the tools read and write them, through kafka-python's admin client.

A group is read with its committed offsets and whether it has members, of the classic protocol as of KIP-848's. Offsets
are written as a commit of somebody who is no member, which Kafka takes while the group has none; that is looked at
first, and Kafka refuses it too. Within one time-out a broker is asked again while it says that it is getting ready, or
that offsets wait for the end of a transaction.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

from kafka import KafkaAdminClient
from kafka.errors import KafkaError, UnstableOffsetCommitError, for_code
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as KafkaPartition

from coordinator.client.configuration.command_config import read_named_values
from coordinator.client.security import SecurityError
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.text.counts import counted
from coordinator.runtime.kafka.access import KafkaAccess
from coordinator.runtime.kafka.client import KafkaAwayError, KafkaClient
from coordinator.runtime.kafka.failures import say_failure
from spark_kcoord.errors import OptionError
from spark_kcoord.options.kafka_settings import (
    KAFKA_OPTIONS,
    KAFKA_WITHOUT_EFFECT,
    REFUSED_KAFKA_OPTIONS,
    parse_kafka_options,
)

_PREFIX: Final = "kafka."
_OF_ACCESS: Final = ("security_protocol", "sasl_", "ssl_")
_AGAIN_S: Final = 0.2
_GETTING_READY: Final = ("[Error 14]", "[Error 15]", "[Error 16]")
"""Beginnings of an error of a group that passes: it loads, has no coordinator yet, or another one."""
_LEFT_OUT: Final = "Kafka has not said whether it took it: look at the group, and ask again"
_MOST_BYTES: Final = 256 * 1024
"""Bytes of the records of one commit. Kafka writes these as one batch of its own topic, whose batches have by default
1 MiB at most, and refuses all of a commit that is larger."""
_STABLE_VERSION: Final = 7
"""The version of OffsetFetch, of Kafka 2.5, from which offsets in a transaction are refused where that is wished."""
_RECORD_BYTES: Final = 64
"""Bytes of a record besides its texts."""
NO_SUCH_GROUP: Final = frozenset({"", "Dead"})
WITHOUT_MEMBERS: Final = frozenset({"Empty", *NO_SUCH_GROUP})

_Answer = TypeVar("_Answer")


class KafkaGroupError(Exception):
    """Kafka could not be asked or did not do it; the text says what was asked and why not."""


class UnstableOffsetsError(KafkaGroupError):
    """Offsets of a group are in a transaction that is not over; which ones will count nobody knows yet."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed offset of a group, with what was committed beside it."""

    offset: int
    leader_epoch: int | None = None
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class KafkaGroup:
    """A group as Kafka has it; `members` is None where Kafka does not say how many there are."""

    group_id: str
    state: str
    kind: str
    members: int | None
    offsets: Mapping[TopicPartition, Committed]

    @property
    def exists(self) -> bool:
        """Say whether Kafka knows the group."""
        return self.state not in NO_SUCH_GROUP or bool(self.offsets)

    @property
    def has_members(self) -> bool:
        """Say whether somebody is in it, or is on the way in or out."""
        return self.state not in WITHOUT_MEMBERS

    def say_members(self) -> str:
        """Say who is in it, for people."""
        many = "members" if self.members is None else counted(self.members, "member")
        return f"Kafka's group '{self.group_id}' has {many} and is {self.state}"


def read_kafka_config(path: Path | None) -> dict[str, str]:
    """Return the options of a file with Kafka's names, as its tools take it; raises SecurityError."""
    if path is None:
        return {}
    known = {option.name: option for option in KAFKA_OPTIONS}
    secrets = [name.removeprefix(_PREFIX) for name, option in known.items() if option.kind.is_secret]
    given = read_named_values(path, secrets)
    options: dict[str, str] = {}
    for short, value in given.items():
        name = short if short.startswith(_PREFIX) else _PREFIX + short
        if name in REFUSED_KAFKA_OPTIONS:
            raise SecurityError(f"{path}: {short} cannot be used here: {REFUSED_KAFKA_OPTIONS[name]}")
        if name in KAFKA_WITHOUT_EFFECT:
            continue
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0].removeprefix(_PREFIX)}?" if near else ""
            raise SecurityError(f"{path}: {short} is not known{hint}")
        options[name] = value
    return options


class _StableAdmin(KafkaAdminClient):  # type: ignore[misc]
    """An admin client that has Kafka refuse offsets for as long as a transaction may put others in their place."""

    def _list_group_offsets_requests(self, group_specs: Any) -> Iterator[Any]:
        is_known = self._manager.broker_version_data.api_version(OffsetFetchRequest) >= _STABLE_VERSION
        for group_id, request in super()._list_group_offsets_requests(group_specs):
            request.require_stable = is_known
            yield group_id, request


@contextmanager
def kafka_groups(servers: Sequence[str], options: Mapping[str, str], timeout_s: float) -> Iterator["KafkaGroups"]:
    """Yield the groups of a Kafka cluster; raises KafkaGroupError when it cannot be reached."""
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # what goes wrong is told once, by us
    try:
        settings = parse_kafka_options(options)
    except OptionError as error:
        raise KafkaGroupError(str(error)) from error
    timeout_ms = int(timeout_s * 1000)
    client = {"request_timeout_ms": timeout_ms, **dict(settings.client)}
    named = servers or settings.servers
    try:
        # The library tries again and again, and keeps to itself why it does not get in; this one tells it at once.
        KafkaClient(named, timeout_ms, timeout_ms, _access_of(client)).close()
    except (KafkaAwayError, ValueError) as error:
        raise KafkaGroupError(str(error)) from error
    try:
        admin = _StableAdmin(bootstrap_servers=list(named), bootstrap_timeout_ms=timeout_ms, **client)
    except (KafkaError, OSError, ValueError) as error:
        why = say_failure(error, timeout_ms)
        raise KafkaGroupError(f"Kafka at {', '.join(named)} cannot be reached: {why}") from error
    try:
        yield KafkaGroups(admin, timeout_s)
    finally:
        admin.close()


@dataclass(frozen=True, slots=True, eq=False)
class _AccessByOptions(KafkaAccess):
    """The settings of a file, as the library takes them."""

    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def for_library(self) -> dict[str, Any]:
        """Return those of the log-in and of TLS."""
        return {name: value for name, value in self.settings.items() if name.startswith(_OF_ACCESS)}


def _access_of(client: Mapping[str, Any]) -> KafkaAccess:
    mechanism, username = client.get("sasl_mechanism", ""), client.get("sasl_plain_username", "")
    return _AccessByOptions(mechanism=mechanism, username=username, settings=client)


class KafkaGroups:
    """The groups of one Kafka cluster. Blocking."""

    def __init__(self, admin: Any, timeout_s: float) -> None:
        self._admin = admin
        self._timeout_s = timeout_s

    def read(self, group_id: str) -> KafkaGroup:
        """Return a group as it is, also one that there is not; raises KafkaGroupError."""
        told = self._until_ready(group_id, lambda: self._describe(group_id))
        found = self._until_ready(group_id, lambda: self._admin.list_group_offsets(group_id))[group_id]
        offsets = {
            (partition.topic, partition.partition): Committed(
                each.offset,
                None if each.leader_epoch is None or each.leader_epoch < 0 else each.leader_epoch,
                each.metadata or "",
            )
            for partition, each in found.items()
            if each.offset >= 0
        }
        state, kind, members = told["group_state"], "classic", len(told["members"])
        if state not in NO_SUCH_GROUP:
            return KafkaGroup(group_id, state, kind, members, dict(sorted(offsets.items())))
        # Brokers describe a group of KIP-848's protocol as one that is dead, and list it as it is.
        listed = self._until_ready(group_id, self._admin.list_groups)
        one: dict[str, Any] = next((each for each in listed if each["group_id"] == group_id), {})
        state, kind = one.get("group_state", "") or state, one.get("group_type", kind)
        return KafkaGroup(group_id, state, kind, None, dict(sorted(offsets.items())))

    def write(self, group_id: str, offsets: Mapping[TopicPartition, Committed]) -> dict[TopicPartition, str]:
        """Commit offsets for a group without members; return why a partition was refused, empty where it was not.

        Very many go in several commits. Raises KafkaGroupError when the first of them fails; after another one that
        is the reason of its partitions and of those behind it.
        """
        refused: dict[TopicPartition, str] = {}
        for some in _in_parts(group_id, offsets):
            try:
                refused |= self._write_some(group_id, some)
            except KafkaGroupError as error:
                if not refused:
                    raise
                return {partition: refused.get(partition, str(error)) for partition in offsets}
        return refused

    def _write_some(self, group_id: str, offsets: Mapping[TopicPartition, Committed]) -> Mapping[TopicPartition, str]:
        wanted = {
            KafkaPartition(*partition): OffsetAndMetadata(each.offset, each.metadata, each.leader_epoch)
            for partition, each in offsets.items()
        }
        answers = self._until_ready(group_id, lambda: self._admin.alter_group_offsets(group_id, wanted))
        told = {(partition.topic, partition.partition): _why(kind) for partition, kind in answers.items()}
        return {partition: told.get(partition, _LEFT_OUT) for partition in offsets}

    def _describe(self, group_id: str) -> Any:
        told = self._admin.describe_groups([group_id])[group_id]
        if (told["error"] or "").startswith(_GETTING_READY):
            raise for_code(15)(told["error"])
        return told

    def _until_ready(self, group_id: str, ask: Callable[[], _Answer]) -> _Answer:
        deadline_s = time.monotonic() + self._timeout_s
        while True:
            try:
                return ask()
            except (KafkaError, OSError) as error:
                is_passing = isinstance(error, KafkaError) and error.retriable
                if not is_passing or time.monotonic() + _AGAIN_S > deadline_s:
                    if isinstance(error, UnstableOffsetCommitError):
                        raise UnstableOffsetsError(
                            f"Kafka's group '{group_id}' has offsets in a transaction that is not over yet; nothing "
                            "was changed: end or abort that transaction, or wait for its time-out, and ask again"
                        ) from error
                    why = say_failure(error, int(self._timeout_s * 1000))
                    raise KafkaGroupError(f"Kafka's group '{group_id}' could not be asked about: {why}") from error
            time.sleep(_AGAIN_S)


def _in_parts(
    group_id: str, offsets: Mapping[TopicPartition, Committed]
) -> Iterator[Mapping[TopicPartition, Committed]]:
    """Yield offsets, as many at a time as one commit has room for."""
    some: dict[TopicPartition, Committed] = {}
    taken = 0
    for partition, each in offsets.items():
        texts = (group_id, partition[0], each.metadata)
        size = _RECORD_BYTES + sum(len(text.encode()) for text in texts)
        if some and taken + size > _MOST_BYTES:
            yield some
            some, taken = {}, 0
        some[partition] = each
        taken += size
    if some:
        yield some


def _why(kind: type[KafkaError]) -> str:
    """Say why a partition was refused; empty for one that was not."""
    code = getattr(kind, "errno", 0)
    if code == 0:
        return ""
    if code == 25:
        return "the group has members by now"
    return f"{kind.__name__}: {getattr(kind, 'description', '')}".rstrip(": ")
