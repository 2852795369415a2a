"""The deadlines of groups: what is due when one of them is, and of whom. They are soft: a restart sets them anew."""

from enum import Enum

import msgspec


class TimerKind(Enum):
    """The work that is due when a timer is."""

    GRACE = "grace"
    """A member without a connection has not come back."""
    PROBE = "probe"
    """The old connection of a member that two processes claim to be did not answer."""
    STOP = "stop"
    """A member has not let go of a partition in time."""
    WINDOW = "window"
    """The changes gathered so far become one rebalance."""
    SLICE = "slice"
    """More of the group is to be looked at."""
    LOOK = "look"
    """More of what a registration lists is to be looked at; `subject` is the connection."""
    TELL = "tell"
    """A member that has registered is to be told more of what it has."""
    REST = "rest"
    """More registrations are to be looked at, or members to be removed; of no group."""
    LEFT_OUT = "left out"
    """Events that came too fast for the timeline are to be told together."""
    LOOKUP = "lookup"
    """Partitions without a known start are looked at again."""
    CLAIM_AGE = "claim age"
    """Some claim of the group may have run for long."""
    CLAIM_TIMEOUT = "claim time-out"
    """Some owner that is gone may have been waited for long enough."""
    EXPIRY = "expiry"
    """A group may have been without members for long enough to be forgotten."""
    LIVED = "lived"
    """The time for which nodes ran is to be written down; of no group."""
    RECOVERY = "recovery"
    """A group that was forgotten has waited long enough for the checkpoints of its members."""
    REGISTRATION = "registration"
    """Kafka did not say in time whether a member's topics exist; `subject` is the connection."""


class Timer(msgspec.Struct, frozen=True, gc=False):
    """The key of one deadline; `subject` is a member id or, for a registration and a look, a connection id."""

    kind: TimerKind
    group_id: str
    subject: str | int = ""
