"""Known mistakes after an unclean election: of the leader that lacks records, and of the replicas that have them."""

from typing import Any

from coordinator.core.groups.hard.journal import Journal
from coordinator.core.replica import step

Patches = list[tuple[Any, str, Any]]


def goes_on() -> Patches:
    """The leader grants owner epochs from where its log ends."""
    rightly = Journal.open
    return [(Journal, "open", lambda journal, incarnation, unclean_epoch=0: rightly(journal, incarnation))]


def keeps_log() -> Patches:
    """A replica that comes back is cut to what it knows to be committed, which was given up."""
    return [(step, "is_void", lambda replica, command: False)]
