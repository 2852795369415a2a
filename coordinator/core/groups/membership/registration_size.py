"""The limit of a registration: the size that it would have in the log, measured before anything is decided.

A member's registration is one record, which is never cut: half of what a checkpoint shows would have the group start
partitions where nobody was. Names of topics by pattern are counted where they are matched.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from coordinator.core.groups.partitions.in_topics import TopicHints
from coordinator.core.groups.soft.shown import Shown
from coordinator.protocol.ids import MAX_ID_LENGTH
from coordinator.protocol.messages import ListClaims, RegisterConsumer
from coordinator.protocol.parts import Claim, StartHint

MAX_REGISTRATION_BYTES: Final = 4 * 1024 * 1024
"""The largest facts of a member, as they are laid in the log; with the topics that its pattern matches
the record still fits a frame."""

MAX_LISTED_BYTES: Final = 64 * 1024 * 1024
"""Names in the claims and hints that a connection has listed and not registered with."""

MAX_ASSIGNORS: Final = 20
"""Assignors that a member names."""

_FEW: Final = 1_000
"""So many hints and partitions of good names are never too large."""

_MOST_OF_PARTITION: Final = 5
_MOST_OF_NUMBER: Final = 9
_MOST_OF_HEADS: Final = 32
"""Bytes that MessagePack takes at most: for a partition, for another number, for what goes before names and lists."""

_encoder = msgspec.msgpack.Encoder()


def why_too_large(request: RegisterConsumer, shown: Shown) -> str | None:
    """Say how much too large a registration with good names would be in the log, or return None."""
    subscription = request.subscription
    names = len(subscription.topics) + len(subscription.partitions) + len(subscription.exclusions)
    if shown.hint_count <= _FEW and names <= _FEW:
        return None
    said = len(_encoder.encode(subscription))
    if said + sum(map(_most_bytes_of, shown.hints)) <= MAX_REGISTRATION_BYTES:
        return None
    size = said + len(_encoder.encode(shown.hints))
    if size <= MAX_REGISTRATION_BYTES:
        return None
    return (
        f"the subscription and the {shown.hint_count} starts that it comes with are {size} bytes in the log and at "
        f"most {MAX_REGISTRATION_BYTES} may be; spread the partitions over more members"
    )


def _most_bytes_of(each: TopicHints) -> int:
    """Return how many bytes starts have at most in the log: to encode very many takes as long as much else."""
    of_each = _MOST_OF_PARTITION + _MOST_OF_NUMBER + (_MOST_OF_NUMBER if each.owner_epochs else 0)
    return _MOST_OF_HEADS + len(each.topic.encode()) + len(each.topic_id.encode()) + of_each * len(each.partitions)


def why_bad_assignors(names: tuple[str, ...]) -> str | None:
    """Say why assignors cannot be named so, or return None."""
    if len(names) > MAX_ASSIGNORS:
        return f"{len(names)} assignors are named and at most {MAX_ASSIGNORS} may be"
    if any(len(name) > MAX_ID_LENGTH for name in names):
        return f"the name of an assignor has more than {MAX_ID_LENGTH} characters"
    return None


def listed_bytes(listed: ListClaims) -> int:
    """Return about how much memory the names in listed claims and hints take."""
    return _names(listed.claims) + _names(listed.hints)


def _names(pieces: Iterable[Claim | StartHint]) -> int:
    return sum([64 + len(piece.topic) + len(piece.topic_id) for piece in pieces])
