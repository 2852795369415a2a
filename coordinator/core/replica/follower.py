"""A replica that follows: it matches its log with the leader's, cuts what differs, and takes what is pushed.

It takes nothing before the leader of exactly its epoch has found the record before its end in its own log. So its log
is the begin of the leader's from then on, and a push belongs at its end or not at all. It never cuts below the high
watermark it knows: a leader that asks for it lacks committed records.
"""

from typing import Final

from msgspec.structs import replace

from coordinator.core.replica.effects import (
    AppendBatches,
    AskFetch,
    CommittedTo,
    Effect,
    InstallSnapshot,
    RefuseCut,
    ReportProgress,
    TruncateLog,
)
from coordinator.core.replica.epochs import ReplicaLog
from coordinator.core.replica.events import (
    BelowLogStart,
    Diverged,
    FetchAnswered,
    LogCut,
    LogSynced,
    RecordsPushed,
    SnapshotFailed,
    SnapshotInstalled,
    Streaming,
    UnknownEpoch,
)
from coordinator.core.replica.replica import Follower, FollowerPhase, Replica

LONGEST_PAUSE_MS: Final = 1_000
"""The pause before a question that was asked in vain is asked again grows up to this, unless its setting is longer."""


def follow(replica: Replica, leader: int, effects: list[Effect]) -> Replica:
    """Begin to follow a leader in the replica's epoch."""
    phase = FollowerPhase.INSTALLING if replica.is_replaced else FollowerPhase.MATCHING
    following = replace(replica, role=Follower(leader, phase))
    return following if replica.is_replaced else ask(following, effects)


def ask(replica: Replica, effects: list[Effect], pause_ms: int = 0) -> Replica:
    """Ask for a fetch of what follows the log's end, which replaces the one before, after a pause."""
    role = follower_of(replica)
    fetch = role.fetch + 1
    effects.append(
        AskFetch(replica.shard, role.leader, replica.leader_epoch, fetch, replica.log.end, replica.log.last_epoch)
    )
    return replace(replica, role=Follower(role.leader, FollowerPhase.MATCHING, fetch, pause_ms=pause_ms))


def answered(replica: Replica, event: FetchAnswered, effects: list[Effect]) -> Replica:
    """Go on as the leader says, unless the answer is to another fetch.

    A fetch that stands is answered again where the leader's log has come to begin above what was pushed.
    """
    role = follower_of(replica)
    is_awaited = role.phase is FollowerPhase.MATCHING or _is_overtaken(replica, role, event)
    if not is_current(replica, event) or not is_awaited:
        return replica
    match event.answer:
        case Streaming():
            return report(replace(replica, role=replace(role, phase=FollowerPhase.FOLLOWING)), effects)
        case Diverged():
            return _cut(replica, cut_point(replica.log, event.answer), effects)
        case BelowLogStart():
            return _install(replica, event.answer, effects)
        case UnknownEpoch():
            return asking_again(replica, role, event.now_ms)
        case _:  # Fenced: a command will say who leads
            return replica


def _is_overtaken(replica: Replica, role: Follower, event: FetchAnswered) -> bool:
    is_above = isinstance(event.answer, BelowLogStart) and event.answer.start > replica.log.end
    return is_above and role.phase is FollowerPhase.FOLLOWING


def cut_point(log: ReplicaLog, answer: Diverged) -> int:
    """Return where this log may begin to differ from the leader's: where either one's records of that epoch end."""
    return min(answer.end, log.end_of(answer.epoch)[1])


def asking_again(replica: Replica, role: Follower, now_ms: int) -> Replica:
    """Ask for another fetch a little later, and later each time: a leader may be cut off from the controller alone."""
    pause_ms = max(replica.settings.fetch_retry_ms, min(2 * role.pause_ms, LONGEST_PAUSE_MS))
    again = replace(role, phase=FollowerPhase.MATCHING, ask_again_ms=now_ms + pause_ms, pause_ms=pause_ms)
    return replace(replica, role=again)


def ask_after_pause(replica: Replica, now_ms: int, effects: list[Effect]) -> Replica:
    """Ask again if the time for it has come."""
    role = follower_of(replica)
    if role.ask_again_ms is None or now_ms < role.ask_again_ms:
        return replica
    return ask(replica, effects, role.pause_ms)


def _cut(replica: Replica, end: int, effects: list[Effect]) -> Replica:
    role = follower_of(replica)
    if end < replica.high_watermark:
        return _refuse(replica, role, effects)
    if end == replica.log.end:
        return replica  # nothing is left to cut, so the answer makes no sense; the next command mends it
    log = replica.log.cut(end)
    effects.append(TruncateLog(replica.shard, end, log.number))
    return replace(replica, log=log, role=replace(role, phase=FollowerPhase.CUTTING))


def _refuse(replica: Replica, role: Follower, effects: list[Effect]) -> Replica:
    effects.append(RefuseCut(replica.shard, role.leader, replica.leader_epoch, replica.high_watermark))
    return replace(replica, role=replace(role, phase=FollowerPhase.REFUSING))


def _install(replica: Replica, answer: BelowLogStart, effects: list[Effect]) -> Replica:
    """Have the log replaced, unless that takes what is committed.

    Whoever knows of committed records above the leader's start has them in its log, so that the logs do not differ
    below them unless the leader lacks them.
    """
    role = follower_of(replica)
    if replica.high_watermark > answer.start:
        return _refuse(replica, role, effects)
    effects.append(InstallSnapshot(replica.shard, role.leader, replica.leader_epoch, replica.log.number + 1))
    return replace(replica, is_replaced=True, role=replace(role, phase=FollowerPhase.INSTALLING))


def was_cut(replica: Replica, event: LogCut, effects: list[Effect]) -> Replica:
    """Match again, now that what was cut cannot come back."""
    role = follower_of(replica)
    if event.log_number != replica.log.number or role.phase is not FollowerPhase.CUTTING:
        return replica
    return ask(replica, effects)


def was_installed(replica: Replica, event: SnapshotInstalled, effects: list[Effect]) -> Replica:
    """Go on from the end of the leader's snapshot, all of which was committed."""
    if not _is_of_install(replica, event):
        return replica
    log = ReplicaLog(event.end, event.end, event.end, epochs=((event.last_epoch, event.end - 1),))
    log = log.renumbered(event.log_number)
    installed = replace(replica, log=log, is_replaced=False)
    installed = _committed_to(installed, event.end, effects)
    return ask(installed, effects) if isinstance(installed.role, Follower) else installed


def was_not_installed(replica: Replica, event: SnapshotFailed) -> Replica:
    """Keep the log there was, and ask again a little later whoever leads then."""
    if not _is_of_install(replica, event):
        return replica
    kept = replace(replica, is_replaced=False)
    return asking_again(kept, kept.role, event.now_ms) if isinstance(kept.role, Follower) else kept


def _is_of_install(replica: Replica, event: SnapshotInstalled | SnapshotFailed) -> bool:
    return replica.is_replaced and event.log_number == replica.log.number + 1


def pushed(replica: Replica, event: RecordsPushed, effects: list[Effect]) -> Replica:
    """Take records that continue the log; what is missing before them makes the fetch begin again."""
    role = follower_of(replica)
    if not is_current(replica, event) or role.phase is not FollowerPhase.FOLLOWING:
        return replica
    if event.batches:
        first, last = event.batches[0], event.batches[-1]
        if last.end <= replica.log.end:
            return _told(replica, event, effects)  # pushed twice
        if first.base_offset != replica.log.end:
            return ask(replica, effects)
        if first.leader_epoch < replica.log.last_epoch:
            return replica  # no log goes on like that, so it makes no sense; the next command mends it
        log = replica.log
        for batch in event.batches:
            log = log.appended(batch.leader_epoch, batch.end)
        effects.append(AppendBatches(replica.shard, log.number, event.batches))
        replica = replace(replica, log=log)
    return _told(replica, event, effects)


def _told(replica: Replica, event: RecordsPushed, effects: list[Effect]) -> Replica:
    replica = _committed_to(replica, event.high_watermark, effects)
    if replica.is_in_doubt and _proves(replica, event.high_watermark):
        return replace(replica, is_in_doubt=False)
    return replica


def _proves(replica: Replica, high_watermark: int) -> bool:
    """Return whether this log has all that its leader has committed, some of it in the leader's epoch."""
    is_whole = 0 < high_watermark <= replica.log.end
    return is_whole and replica.log.epoch_before(high_watermark) == replica.leader_epoch


def _committed_to(replica: Replica, high_watermark: int, effects: list[Effect]) -> Replica:
    known = min(high_watermark, replica.log.end)
    if known <= replica.high_watermark:
        return replica
    effects.append(CommittedTo(replica.shard, known))
    return replace(replica, high_watermark=known)


def synced(replica: Replica, event: LogSynced, effects: list[Effect]) -> Replica:
    """Take note of what is on disk here, and tell the leader if that is the begin of its log."""
    after = with_synced(replica, event)
    is_told = after is not replica and follower_of(after).phase is FollowerPhase.FOLLOWING
    return report(after, effects) if is_told else after


def with_synced(replica: Replica, event: LogSynced) -> Replica:
    """Take note of what is on disk here, unless it was said of a log that has been cut or replaced since."""
    if event.log_number != replica.log.number:
        return replica
    log = replica.log.synced(event.end)
    return replica if log is replica.log else replace(replica, log=log)


def report(replica: Replica, effects: list[Effect]) -> Replica:
    """Tell the leader what is on disk here."""
    role = follower_of(replica)
    effects.append(
        ReportProgress(replica.shard, role.leader, replica.leader_epoch, role.fetch, replica.log.durable_end)
    )
    return replica


def is_current(replica: Replica, event: FetchAnswered | RecordsPushed) -> bool:
    """Return whether a leader's word belongs to the fetch that stands."""
    return event.leader_epoch == replica.leader_epoch and event.fetch == follower_of(replica).fetch


def follower_of(replica: Replica) -> Follower:
    """Return the role of a replica that follows."""
    assert isinstance(replica.role, Follower), "only a follower is asked this"
    return replica.role
