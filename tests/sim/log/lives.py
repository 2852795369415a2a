"""Rules about a log's lives and epochs: each life has a name of its own, epochs grow, and owner epochs after a loss."""

from coordinator.core.groups.hard import life_records as r
from tests.sim.log.ownership import end_grant
from tests.sim.log.state import GroupModel, Log, Rule


def log_opened(log: Log, group: GroupModel, at: int, record: r.LogOpened) -> None:
    del group
    if record.incarnation in log.lives or record.begin != at + log.epochs_ahead:
        raise log.broken("phantom-life", at, f"there were {log.lives}: {record}")
    log.lives.append(record.incarnation)


def log_went_back(log: Log, group: GroupModel, at: int, record: r.LogWentBack) -> None:
    """End every grant of a group whose members know more; what is known of its topics is not all there was."""
    if not log.lost and not log.is_reading_again:
        raise log.broken("gone-back-unfounded", at, f"no disk was lost or restored: {record}")
    epoch = at + 1 + record.epochs_ahead
    if record.epochs_ahead < log.epochs_ahead or record.epochs_from != epoch:
        raise log.broken("epoch-reuse", at, f"epochs are ahead by {log.epochs_ahead}: {record}")
    log.epochs_ahead = record.epochs_ahead
    for partition in list(group.owners):
        end_grant(group, at, partition)
    if group.has_begun:
        group.was_forgotten = True
        group.never_by_policy.update(group.looked_at)


def leader_began(log: Log, group: GroupModel, at: int, record: r.LeaderBegan) -> None:
    """See that epochs grow, and that each is led by the one node that there is."""
    del group
    if record.leader_epoch <= log.leader_epoch:
        raise log.broken("epoch-regress", at, f"epoch {log.leader_epoch} was led before: {record}")
    log.leader_epoch = record.leader_epoch


RULES: dict[type, Rule] = {r.LeaderBegan: leader_began, r.LogOpened: log_opened, r.LogWentBack: log_went_back}
