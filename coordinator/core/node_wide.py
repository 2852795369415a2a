"""The limits that hold for all shards of a node together, besides bytes: short stays, and how often each was reached.

A member that has joined and is gone soon after is a short stay. Each costs a rebalance, records and lines, and leaves
nothing; so of one principal, or one address where nobody logs in, only so many are taken, and then as many a second as
the limit says. Whoever stays costs nothing, however many come at once. It is soft: a restart begins anew.
"""

from collections import Counter

from coordinator.core.effects import Notice
from coordinator.core.limits import Limits
from coordinator.core.token_buckets import Rate, TokenBuckets

SHORT_STAYS = "group.short_stays_burst"
GROUPS_OF_PRINCIPAL = "group.principal_max_groups"
AHEAD_OF_END = "group.commit_ahead_max"
UNKNOWN_TOPICS = "group.unknown_topics_max"
"""The limits that are counted here, by their settings."""
LIMITS_OF_GROUPS = (
    SHORT_STAYS,
    GROUPS_OF_PRINCIPAL,
    AHEAD_OF_END,
    UNKNOWN_TOPICS,
    "group.group_max_bytes",
    "group.principal_max_bytes",
    "group.node_max_bytes",
    "group.groups_max",
)


class NodeWide:
    """Shared by the shards of a node."""

    __slots__ = ("_short_stays", "limits", "reached")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._short_stays = TokenBuckets(Rate(limits.short_stays_burst, limits.short_stays_per_s))
        self.reached: Counter[str] = Counter()
        """The times that each limit has refused something, by its setting."""

    def note_gone(self, owner: str, joined_ms: int | None, now_ms: int) -> None:
        """Take note that a member is gone; it joined at `joined_ms`, None for long ago."""
        if joined_ms is not None and now_ms - joined_ms < self.limits.short_stay_ms:
            self._short_stays.take(owner, now_ms)

    def why_wait(self, owner: str, now_ms: int) -> str | None:
        """Say why no new member of a principal is taken now, or return None."""
        wait_ms = self._short_stays.wait_ms(owner, now_ms)
        if not wait_ms:
            return None
        return (
            f"more than {self.limits.short_stays_burst} members of {owner} have joined and were gone within "
            f"{self.limits.short_stay_ms} ms; let them stay, or try again in {wait_ms} ms"
        )

    def note_reached(self, setting: str, host: str, why: str) -> Notice:
        """Count a refusal, and return the line for it, which names the peer."""
        self.reached[setting] += 1
        return Notice("limit-reached", why, "", "", (("host", host), ("setting", setting)), is_warning=True)
