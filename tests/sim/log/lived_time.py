"""Rules about the time that nodes ran: it passes no faster than time does, and groups are forgotten by it alone."""

from coordinator.core.groups.hard import records as r
from tests.sim.log.state import GroupModel, Log, Rule


def time_lived(log: Log, group: GroupModel, at: int, record: r.TimeLived) -> None:
    _count(log, at, record.lived_ms)


def group_emptied(log: Log, group: GroupModel, at: int, record: r.GroupEmptied) -> None:
    if group.facts:
        raise log.broken("no-such-member", at, f"{sorted(group.facts)} are members: {record}")
    _count(log, at, record.lived_ms)
    group.emptied_at = at


def group_expired(log: Log, group: GroupModel, at: int, record: r.GroupExpired) -> None:
    """See that a group was without members for its retention, by a time that no clock of the coordinator's shows."""
    if group.emptied_at is None:
        raise log.broken("forgotten-too-early", at, f"the group never was without members: {record}")
    has_offsets = any(commits[-1].offset is not None for commits in group.commits.values())
    limits = log.limits
    retention_ms = limits.offsets_retention_ms if has_offsets else limits.empty_group_retention_ms
    passed_ms = log.times_ms[at] - log.times_ms[group.emptied_at]
    if passed_ms < retention_ms:
        why = f"{passed_ms} ms after its last use, and its retention is {retention_ms} ms: {record}"
        raise log.broken("forgotten-too-early", at, why)


def _count(log: Log, at: int, lived_ms: int) -> None:
    before = log.newest_lived_at
    if before is not None:
        passed_ms = log.times_ms[at] - log.times_ms[before]
        lived_before_ms = log.records[before].lived_ms
        if not lived_before_ms <= lived_ms <= lived_before_ms + passed_ms:
            why = f"{lived_ms} ms were lived, {passed_ms} ms after they were {lived_before_ms}"
            raise log.broken("lived-time", at, why)
    log.newest_lived_at = at


RULES: dict[type, Rule] = {r.TimeLived: time_lived, r.GroupEmptied: group_emptied}
