"""Known mistakes about the room of a full node, and of timelines; `mutants` has them beside its own."""

from collections.abc import Callable, Mapping
from typing import Any

from coordinator.core.groups.bounds import allowance
from coordinator.core.groups.hard import snapshot
from coordinator.core.groups.hard.account import Usage
from coordinator.core.groups.hard.tables.committed_table import OFFSET_BYTES, bytes_of_metadata
from coordinator.core.groups.hard.tables.timeline import Timeline
from coordinator.core.groups.membership import registration as membership
from coordinator.core.groups.membership.registration import Membership
from coordinator.core.groups.offsets import committed_offsets
from coordinator.core.security.principal import ANONYMOUS
from coordinator.protocol.errors import ErrorCode

Patches = list[tuple[Any, str, Any]]


def refusal_leaves_half() -> Patches:
    refuse = Membership._refuse

    def refuse_too_late(self: Membership, registration: Any, error: ErrorCode, why: str) -> None:
        if error is ErrorCode.STATE_LIMIT_REACHED:
            topics = self.topics.standing_for(
                registration.request.group_id, registration.request.subscription, None, ANONYMOUS
            )
            self._settle_group(registration, str(ANONYMOUS), topics, "")
        refuse(self, registration, error, why)

    return [(Membership, "_refuse", refuse_too_late)]


def room_counted_twice() -> Patches:
    of = Usage.of

    def of_twice(self: Usage, principal: str) -> tuple[int, int]:
        of_principal, total = of(self, principal)
        return 2 * of_principal, 2 * total

    return [(Usage, "of", of_twice)]


def room_never_freed() -> Patches:
    of = Usage.of
    most: dict[int, tuple[tuple[int, int], Usage]] = {}  # each is kept, so that no other one has its id

    def of_ever(self: Usage, principal: str) -> tuple[int, int]:
        found = of(self, principal)
        most[id(self)] = max(found, most.get(id(self), (found, self))[0]), self
        return most[id(self)][0]

    return [(Usage, "of", of_ever)]


def none_kept() -> Patches:
    why_no_room = allowance.why_no_room

    def why(desk: Any, group: Any, more: int, *, may_use_reserve: bool = False, **owner: Any) -> Any:
        del may_use_reserve
        return why_no_room(desk, group, more, **owner)

    return [(membership, "why_no_room", why)]


def commit_counted_as_new() -> Patches:
    def growth(_: Any, parts: Any) -> int:
        return sum(OFFSET_BYTES + bytes_of_metadata(part.metadata) for part in parts)

    return [(committed_offsets, "commit_together", lambda *_: None), (allowance, "growth_of_offsets", growth)]


def timeline_left_out_of_snapshots() -> Patches:
    return [(snapshot, "_records_of_timeline", lambda _: iter(()))]


def timeline_dropped_at_the_wrong_end() -> Patches:
    def take(self: Timeline, first: int, entries: Any, dropped: int) -> None:
        del self.entries[len(self.entries) - dropped :]
        self.entries += entries
        self.last_sequence = first + len(entries) - 1

    return [(Timeline, "take", take)]


MISTAKES: Mapping[str, tuple[str, Callable[[], Patches]]] = {
    "refusal-leaves-half": ("a registration without room leaves its group behind", refusal_leaves_half),
    "room-counted-twice": ("what groups take is counted twice against the limit", room_counted_twice),
    "room-never-freed": ("what was in use once stays so for the limit", room_never_freed),
    "none-kept": ("a full node keeps no room for members that come back", none_kept),
    "timeline-left-behind": ("a timeline is not part of a snapshot", timeline_left_out_of_snapshots),
    "newest-entries-dropped": ("the newest entries make room, not the oldest", timeline_dropped_at_the_wrong_end),
    "commit-counted-as-new": ("an offset that takes no more is held against the limit", commit_counted_as_new),
}
