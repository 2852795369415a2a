"""Replay of the records of a log's lives; part of `replay`."""

from collections.abc import Callable
from typing import Any, Final

from coordinator.core.groups.hard.life_records import LeaderBegan, LogOpened, LogWentBack
from coordinator.core.groups.hard.replay.changes import release
from coordinator.core.groups.hard.state import GroupState, ShardState

MOST_LIVES: Final = 1_000
"""Lives of a log that are remembered; of a member that shows an older one less is known."""


def _log_opened(state: ShardState, record: LogOpened) -> None:
    state.lives[record.incarnation] = record.begin
    state.epochs_ahead = record.epochs_ahead
    while len(state.lives) > MOST_LIVES:
        del state.lives[next(iter(state.lives))]


def _leader_began(state: ShardState, record: LeaderBegan) -> None:
    """Change nothing: whoever leads, the groups are what they were."""
    del state, record


def _log_went_back(state: ShardState, record: LogWentBack) -> None:
    group = state.groups.get(record.group_id)
    if group is None:
        group = state.groups[record.group_id] = GroupState(record.group_id)
    state.epochs_ahead = record.epochs_ahead
    group.epochs_from = record.epochs_from
    for partition in list(group.grants):
        release(group, partition)


LIFE_REPLAY: Final[dict[type, Callable[[ShardState, Any], None]]] = {
    LeaderBegan: _leader_began,
    LogOpened: _log_opened,
    LogWentBack: _log_went_back,
}
