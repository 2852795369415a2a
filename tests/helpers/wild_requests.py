"""Requests of valid form with wild values, of every verb, from a seed: what a hostile or broken client could say.

Most values are plausible, so that requests go deep, and some are wild: numbers at every border, names that nobody may
have, lists that are empty, doubled or as long as a frame lets them be. What is plausible is learnt from the answers.
"""

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec

from coordinator.protocol.codec import decode_request, encode_message
from coordinator.protocol.ids import MAX_LIST_ITEMS, MAX_NAMED
from coordinator.protocol.messages import (
    Advance,
    CommitOffsets,
    ConfirmClaims,
    FetcherStarted,
    FetcherStopped,
    ListClaims,
    Ping,
    Push,
    RegisterConsumer,
    RegisterConsumerResponse,
    ReportOutOfRange,
    Request,
    Response,
    StartFetcher,
)
from coordinator.protocol.parts import TopicClaims, TopicOffsets

VERBS: Final = get_args(Request)
OF_MEMBERS: Final = (Advance, CommitOffsets, ConfirmClaims, FetcherStarted, FetcherStopped, Ping, ReportOutOfRange)
FRAME_BYTES: Final = 1024 * 1024 - 16
NUMBERS: Final = (
    *(0, 0, 1, 1, 2, 3, -1, -2, -3, 7, 100, 1_000, 30_000),
    *(2**15, 2**31 - 1, 2**31, 2**32, 2**40, 2**53, 2**63 - 1, 2**63, 2**64 - 1, -(2**31), -(2**63)),
)
TEXTS: Final = (
    *("", " ", ".", "..", "a/b", "\x00", "a\nb", "\x1b[2J", "\u202e", "=1+1", "x" * 249, "x" * 250, "x" * 40_000),
    *("\U0001f600" * 249, "é" * 5_000, ".*", "(", "(?=x)", "[" * 1_000, "a{1000}{1000}", "\ud7ff", "9" * 100),
)
WORDS: Final = (
    *("earliest", "latest", "timestamp", "none", "current", "offset", "duration", "shift", "takeover", "hold"),
    *("sticky", "range", "round-robin", "read_committed", "read_uncommitted"),
)
_TIMES_MS: Final = (1_000, 5_000, 10_000, 60_000)


@dataclass
class Known:
    """The subjects of requests."""

    groups: list[str]
    topics: dict[str, int]
    topic_ids: dict[str, str] = field(default_factory=dict)
    members: list[str] = field(default_factory=lambda: ["m1"])
    owned: list[tuple[str, int, int, int]] = field(default_factory=list)
    """Topic, partition, owner epoch and offset of grants."""

    def learn(self, said: Response | Push) -> None:
        """Remember what makes later requests plausible."""
        if isinstance(said, RegisterConsumerResponse) and said.member_id:
            self.members = [*self.members[-20:], said.member_id]
        if isinstance(said, StartFetcher):
            for part in said.partitions[:50]:
                self.topic_ids[part.topic] = part.topic_id
                self.owned.append((part.topic, part.partition, part.owner_epoch, part.offset))
            del self.owned[:-200]


class WildRequests:
    """Makes requests out of what is known and chance."""

    def __init__(self, dice: Random, known: Known, *, wildness: float = 0.06) -> None:
        self._dice = dice
        self._known = known
        self._wildness = wildness

    def any(self, *, is_member: bool) -> Request:
        """Return a request of any verb that its frame can hold; members say more often what only they may."""
        dice = self._dice
        while True:
            kind = dice.choice(VERBS)
            if dice.random() < 0.5:
                kind = dice.choice(OF_MEMBERS) if is_member else RegisterConsumer
            made = self._struct(kind)
            if made is not None and len(encode_message(made)) <= FRAME_BYTES:
                return made  # type: ignore[no-any-return]

    def large(self) -> Request:
        """Return a request that fills its frame, or nearly."""
        dice, known = self._dice, self._known
        kind = dice.choice((CommitOffsets, ListClaims, *VERBS))
        made = self._struct(kind)
        while made is None:
            made = self._struct(kind)
        lists = [name for name in kind.__struct_fields__ if isinstance(getattr(made, name), tuple)]
        if not lists:
            return made  # type: ignore[no-any-return]
        name = dice.choice(lists)
        make = self._maker_of_items(kind, name)
        count = dice.choice((500, MAX_NAMED, MAX_LIST_ITEMS))
        if kind in {CommitOffsets, Ping}:
            topic = dice.choice([*known.topics, "t" * 249])
            numbers = tuple(range(count))
            epoch = dice.choice((None, 5))
            columns = TopicOffsets(topic, numbers, numbers, (epoch,) * count if epoch is not None else ())
            made = msgspec.structs.replace(made, offsets=(columns,))
        else:
            items: list[Any] = []
            room = FRAME_BYTES - 10_000
            while len(items) < count and room > 0:
                item = make()
                room -= len(msgspec.msgpack.encode(item)) if item is not None else 0
                items += [item] if item is not None else []
            made = msgspec.structs.replace(made, **{name: tuple(items)})
        data = encode_message(made)
        try:
            return decode_request(data) if len(data) <= FRAME_BYTES else self.large()
        except msgspec.DecodeError:
            return self.large()

    def _maker_of_items(self, kind: type, name: str) -> Callable[[], Any]:
        hint = _inner(next(hint for field_name, _, hint in _fields_of(kind) if field_name == name))
        if get_origin(hint) in {Union, types.UnionType}:
            hint = _inner(next(choice for choice in get_args(hint) if choice is not type(None)))
        item = get_args(hint)[0]
        return lambda: self._value(item, name.removesuffix("s"))

    def _struct(self, kind: Any) -> Any:
        """Return a value of a message or a part, None where its own rules do not allow what came."""
        values = {}
        owned = self._dice.choice(self._known.owned) if self._known.owned and self._dice.random() < 0.6 else None
        for name, has_default, hint in _fields_of(kind):
            if has_default and self._dice.random() < 0.5:
                continue
            values[name] = self._value(hint, name, owned)
        if kind is TopicOffsets:
            values = self._columns(values)
        elif kind is TopicClaims:
            values.update(self._claim_columns(owned))
        try:
            made = kind(**values)
            if kind in VERBS:
                return decode_request(encode_message(made))
        except (ValueError, TypeError, OverflowError, msgspec.MsgspecError):
            return None
        return made

    def _columns(self, values: dict[str, Any]) -> dict[str, Any]:
        dice = self._dice
        count = dice.choice((0, 1, 1, 2, 5))
        topic = values["topic"]
        numbers = tuple(self._value(int, "partition") for _ in range(count))
        columns: dict[str, Any] = {"topic": topic, "partitions": numbers}
        columns["offsets"] = tuple(self._value(int, "offset") for _ in range(count))
        if dice.random() < 0.7:
            columns["owner_epochs"] = tuple(self._value(int, "owner_epoch") for _ in range(count))
        if dice.random() < 0.2:
            columns["metadata"] = tuple(self._text("metadata") for _ in range(count))
        return columns

    def _claim_columns(self, owned: tuple[str, int, int, int] | None) -> dict[str, Any]:
        """Return columns of one length: others are no form at all, and by chance one in forty has it."""
        count = self._dice.choice((0, 1, 1, 1, 2, 3, 8))
        names = {"partitions": "partition", "owner_epochs": "owner_epoch"}
        names |= {"from_offsets": "from_offset", "until_offsets": "until_offset"}
        return {column: tuple(self._value(int, name, owned) for _ in range(count)) for column, name in names.items()}

    def _value(self, hint: Any, name: str, owned: tuple[str, int, int, int] | None = None) -> Any:
        dice = self._dice
        hint = _inner(hint)
        origin = get_origin(hint)
        if origin in {Union, types.UnionType}:
            choices = [choice for choice in get_args(hint) if choice is not type(None)]
            return None if dice.random() < 0.3 else self._value(dice.choice(choices), name, owned)
        if origin is tuple:
            items = get_args(hint)
            if items[-1] is Ellipsis:
                count = dice.choice((0, 1, 1, 1, 2, 3, 8))
                found = [self._value(items[0], name.removesuffix("s"), owned) for _ in range(count)]
                found = [item for item in found if item is not None]
                return tuple(found + found[:1]) if dice.random() < 0.1 else tuple(found)
            topic = self._text("topic") if owned is None else owned[0]
            return (topic, self._value(int, "partition", owned))
        if hint is bool:
            return dice.random() < 0.5
        if hint is int:
            return self._number(name, owned)
        if hint is str:
            return owned[0] if owned is not None and name == "topic" else self._text(name)
        made = None
        while made is None:
            made = self._struct(hint)
        return made

    def _number(self, name: str, owned: tuple[str, int, int, int] | None) -> int:
        dice = self._dice
        if dice.random() < self._wildness:
            return dice.choice(NUMBERS)
        if name == "partition":
            return owned[1] if owned is not None else dice.randrange(4)
        if name == "owner_epoch":
            return owned[2] if owned is not None else dice.randrange(60)
        if "offset" in name or name in {"position", "value"}:
            return (owned[3] if owned is not None else 0) + dice.choice((0, 0, 0, 1, 10, 100))
        if name.endswith("_ms"):
            return dice.choice(_TIMES_MS)
        return dice.choice((0, 1, 2, 3))

    def _text(self, name: str) -> str:
        dice, known = self._dice, self._known
        if dice.random() < self._wildness:
            return dice.choice(TEXTS)
        if name == "group_id":
            return dice.choice(known.groups)
        if name == "member_id":
            return dice.choice(["", *known.members])
        if name in {"topic", "exclusion"}:
            return dice.choice([*known.topics, *known.topics, "no-such-topic"])
        if name == "topic_id":
            return dice.choice(["", *known.topic_ids.values()])
        if name in {"kind", "handover", "isolation_level", "assignor"}:
            return dice.choice(WORDS)
        if name == "pattern":
            return dice.choice((".*", "t.*", "[a-z]+"))
        if name in {"instance_id", "application", "incarnation"}:
            return dice.choice(("one", "two", "three"))
        return dice.choice(("", "x", "somebody"))


@cache
def _fields_of(kind: Any) -> tuple[tuple[str, bool, Any], ...]:
    """Return the names of a message's or a part's fields, whether each has a default, and the types.

    To read the types of one takes as long as to make ten of it.
    """
    hints = get_type_hints(kind, include_extras=True)
    return tuple((info.name, not info.required, hints[info.name]) for info in msgspec.structs.fields(kind))


def _inner(hint: Any) -> Any:
    """Return a type without its bounds."""
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return hint
