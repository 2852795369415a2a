"""A source's report of itself in Spark's progress reports, in the place of its latest offset.

Spark hands it on unread, as JSON of nested objects: the ends of the partitions at the brokers, as last asked, and what
the member has gone through in this run. Whoever reads it takes an absent value as not known. Pure, stdlib only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

__all__ = ["SourceReport"]

REPORT_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class SourceReport:
    """`commit_ms` is how long the coordinator took to acknowledge the last commit; None before the first one."""

    group: str
    member: str
    ends: Mapping[tuple[str, int], int]
    commits: int
    commit_ms: int | None
    rebalances: int

    def to_json(self) -> dict[str, Any]:
        """Return the form for Spark."""
        ends: dict[str, dict[str, int]] = {}
        for (topic, partition), end in sorted(self.ends.items()):
            ends.setdefault(topic, {})[str(partition)] = end
        document: dict[str, Any] = {
            "report": REPORT_VERSION,
            "group": self.group,
            "member": self.member,
            "ends": ends,
            "commits": self.commits,
            "rebalances": self.rebalances,
        }
        return document if self.commit_ms is None else document | {"commitMs": self.commit_ms}

    @classmethod
    def from_progress(cls, text: str | None) -> Self | None:
        """Read what `to_json` made as Spark gives it on; None for anything else, or nothing."""
        document = json.loads(text) if isinstance(text, str) and text.startswith("{") else {}
        if document.get("report") != REPORT_VERSION:
            return None
        return cls(
            group=document["group"],
            member=document["member"],
            ends={
                (topic, int(partition)): end
                for topic, parts in document["ends"].items()
                for partition, end in parts.items()
            },
            commits=document["commits"],
            commit_ms=document.get("commitMs"),
            rebalances=document["rebalances"],
        )
