"""The records of a log's lives: which node went on with it from where, and that it was found to have gone back.

They are part of a shard's log like those of `records`, which reads and writes them all. Positions are counted as owner
epochs are: `epochs_ahead` is by how much those are ahead of the offsets of their records.
"""

from typing import ClassVar

import msgspec


class _Record(msgspec.Struct, frozen=True, array_like=True, tag_field="type"):
    """A record; each class names its number as its tag."""


class LogOpened(_Record, frozen=True, tag=55):
    """A node goes on with this log from here; its incarnation is random, and no other's. It is of no group."""

    incarnation: str
    begin: int
    epochs_ahead: int = 0
    group_id: ClassVar[str] = ""


class LeaderBegan(_Record, frozen=True, tag=57):
    """A node leads the shard in this epoch from here, by the wall clock at `began_at_ms`. It is of no group.

    It is the first record of its epoch, so every epoch is in the log, and nothing that was decided in the epoch is said
    before this record is committed. A node that is alone begins one with each start.
    """

    leader_epoch: int
    node: int
    began_at_ms: int
    group_id: ClassVar[str] = ""


class LogWentBack(_Record, frozen=True, tag=56):
    """A member showed more of a group's log than there is: grants from before are over, and so are their claims.

    Owner epochs of whatever is granted after this record, in any group of the shard, are not below `epochs_from`, which
    is above all that was shown.
    """

    group_id: str
    epochs_from: int
    epochs_ahead: int
