"""The settings of the mirror: which groups Kafka's own tools see, under which names, and how soon."""

from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import AfterValidator, Field

from coordinator.config.section import LONGEST_MS, Names, Section, setting
from coordinator.core.mirror.settings import MirrorSettings

_CORE = MirrorSettings()


def _refuse_blanks(value: str) -> str:
    if value != value.strip() or not value.isprintable():
        raise ValueError("must be printable and neither begin nor end with a blank")
    return value


class MirrorSection(Section):
    """The mirror: committed offsets are written to Kafka's own groups too, where Kafka's tools see them."""

    enabled: bool = setting(False, "", "Whether they are.")
    prefix: Annotated[str, AfterValidator(_refuse_blanks), Field(max_length=100)] = setting(
        "", "", "Goes before the name of a group to make that of Kafka's. Empty: both have the same name."
    )
    groups: Names = setting(
        ("*",), "names", "The groups that are mirrored, with * for anything: orders-*, clicks.", min_length=1
    )
    exclude: Names = setting((), "names", "Those that are not, of these.")
    interval_ms: int = setting(
        _CORE.interval_ms, "ms", "The least time between two writes of one group.", ge=100, le=LONGEST_MS
    )
    groups_at_once: int = setting(
        _CORE.groups_at_once,
        "groups",
        "Groups of one shard that are written at the same time, also when much is to be caught up with.",
        ge=1,
        le=1_000,
    )
    refresh_ms: int = setting(
        _CORE.refresh_ms,
        "ms",
        "After so long all offsets of a group are written again: before Kafka forgets them (its "
        "offsets.retention.minutes, 7 days), and whoever else has changed them meanwhile.",
        ge=10_000,
        le=LONGEST_MS,
    )
    late_ms: int = setting(
        _CORE.late_ms, "ms", "From when on it is an alarm that Kafka's offsets are older.", ge=1_000, le=LONGEST_MS
    )

    def wants(self, group_id: str) -> bool:
        """Say whether a group is mirrored."""
        is_named = any(fnmatchcase(group_id, pattern) for pattern in self.groups)
        return is_named and not any(fnmatchcase(group_id, pattern) for pattern in self.exclude)

    def for_core(self, request_timeout_ms: int) -> MirrorSettings:
        """Return the numbers as the core takes them; brokers have so long to answer."""
        return MirrorSettings(
            interval_ms=self.interval_ms,
            groups_at_once=self.groups_at_once,
            refresh_ms=self.refresh_ms,
            late_ms=self.late_ms,
            settle_ms=2 * request_timeout_ms + 2_000,
        )
