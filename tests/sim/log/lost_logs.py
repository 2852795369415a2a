"""Claims that an old copy of the disk brings back, though those who had them are done with them.

A copy has a claim as it ran. Somebody took it over since, its query left it out of its last micro-batch, whose
checkpoint shows it as done, and the query's process ended. The next process knows no more than the checkpoint, and
commits the claim. Members that were told more of the log could say so, and where one is back first every grant is over.

This alone excuses the commit of what nobody read. A claim that still ran in the log that was lost was left out by
nobody, and a process that lived through the loss lists only what it still has, and says what it was told.
"""

from collections.abc import Set

from tests.sim.log.state import ClaimEntry, ClaimKey, GroupModel, Log, LostLog


def lose(log: Log, kept: int, told: Set[str]) -> None:
    """Note what a log shows that is lost but for its beginning; `told` are processes that live and have heard of it."""
    open_claims = frozenset(
        _key(group_id, owner.claim)
        for group_id, group in log.groups.items()
        for owner in group.owners.values()
        if owner.claim is not None
    )
    log.lost = [each._replace(kept=min(each.kept, kept)) for each in log.lost]
    log.lost.append(LostLog(kept, open_claims, frozenset(told)))


def is_of_old_copy(log: Log, group_id: str, group: GroupModel, at: int, claim: ClaimEntry) -> bool:
    """Say whether a claim came back with an old copy, was over by then, and is committed by who cannot know that."""
    running_at, key = claim.running_at, _key(group_id, claim)
    if running_at is None or not any(running_at < each.kept and key not in each.open_claims for each in log.lost):
        return False
    processes = {name: places for (name_of, name), places in group.joined_at.items() if name_of == claim.member_id}
    newest = max(processes, key=lambda name: max(processes[name]), default=None)
    if newest is None or any(newest in each.told for each in log.lost):
        return False
    return log.lost[-1].kept <= min(processes[newest]) < at


def _key(group_id: str, claim: ClaimEntry) -> ClaimKey:
    return group_id, claim.partition, claim.member_id, claim.owner_epoch, claim.range
