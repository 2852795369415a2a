"""The words in which a member's errors are told: those of a Spark query, or those of a plain consumer.

A member is the same for both; what its user may set, and what he is to do, is not. Texts name options of the Spark
source first, and are translated where they are made. What a coordinator says names such options too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["CONSUMER", "SPARK", "Speech"]


@dataclass(frozen=True, slots=True)
class Speech:
    """The words for one kind of user.

    `option` is what a setting is called, and `names` translates those of the Spark source. `user` is the program part
    that the member belongs to, `where` the machine that it runs on, `go_on` what to do when nothing is to be expected
    of the member any more, and `go_on_later` when its coordinator is away.
    """

    option: str
    user: str
    where: str
    go_on: str
    go_on_later: str
    closed: str
    names: tuple[tuple[str, str], ...] = ()

    def name_of(self, option: str) -> str:
        """Return what an option of the Spark source is called here."""
        return dict(self.names).get(option, option)

    def translate(self, text: str) -> str:
        """Return a text with the options of the Spark source named as they are called here."""
        for option, name in self.names:
            if option.startswith("kcoord."):
                text = text.replace(option, name)
        return text


SPARK: Final = Speech(
    option="option",
    user="query",
    where="the Spark driver's machine",
    go_on="Start the query again from its checkpoint",
    go_on_later="Nothing is lost: start the query again from its checkpoint when the coordinator is back",
    closed="the query has been stopped",
)

CONSUMER: Final = Speech(
    option="setting",
    user="consumer",
    where="this machine",
    go_on="Close the consumer and make another one",
    go_on_later="Nothing is lost: it goes on by itself when the coordinator is back",
    closed="its consumer has been closed",
    names=(
        ("kcoord.bootstrap.servers", "coordinators"),
        ("kcoord.coordinator.timeout", "coordinator_timeout_ms"),
        ("kcoord.group.id", "group_id"),
        ("kcoord.session.timeout", "session_timeout_ms"),
        ("kcoord.rebalance.timeout", "rebalance_timeout_ms"),
        ("kcoord.ping.interval", "heartbeat_interval_ms"),
        ("kcoord.assignors", "assignors"),
        ("kcoord.instance.id", "group_instance_id"),
        ("kcoord.handover", "handover"),
        ("kcoord.wait.for.topics", "wait_for_topics"),
        ("kcoord.exclude", "exclude"),
        ("startingOffsets", "auto_offset_reset"),
        ("checkpointLocation", "group_instance_id"),
        ("assign", "partitions"),
        ("subscribe", "topics"),
        ("subscribePattern", "pattern"),
    ),
)
