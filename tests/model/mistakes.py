"""Known mistakes in the replication of a shard, planted one at a time, each of which the small model has to find.

A mistake replaces named functions of the product while it is planted; the product knows nothing of it. `scope` is
about the smallest in which it shows, `breaks` are the invariants of which it breaks one, and those that take more than
seconds to be found are not quick: `make model` looks for them.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final
from unittest.mock import patch

from msgspec.structs import replace

from coordinator.core.replica import doubt, follower, isr_changes, leader, step
from coordinator.core.replica import effects as o
from coordinator.core.replica import events as i
from coordinator.core.replica.epochs import ReplicaLog
from coordinator.core.replica.isr import Isr
from coordinator.core.replica.replica import NOT_MATCHED, Leader, Replica, StandingFetch
from tests.model.state import Scope

Patches = list[tuple[Any, str, Any]]


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake: where it is planted, in which scope it shows, and as what."""

    plant: Callable[[], Patches]
    scope: Scope
    breaks: tuple[str, ...]
    forgets: bool = True
    is_quick: bool = True


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Make one mistake for as long as the context lasts."""
    with ExitStack() as stack:
        for where, attribute, instead in MISTAKES[name].plant():
            stack.enter_context(patch.object(where, attribute, instead))
        yield


def _cut_to_high_watermark() -> Patches:
    """A follower begins by cutting its log to the high watermark it knows, as Kafka did before KIP-101."""
    rightly = follower.follow

    def follow(replica: Replica, whom: int, effects: list[o.Effect]) -> Replica:
        if replica.log.end > replica.high_watermark:
            log = replica.log.cut(replica.high_watermark)
            effects.append(o.TruncateLog(replica.shard, log.end, log.number))
            replica = replace(replica, log=log)
        return rightly(replica, whom, effects)

    return [(follower, "follow", follow)]


def _fetch_without_epoch() -> Patches:
    """A leader looks at the end of a follower's log only."""

    def answer_to(log: ReplicaLog, event: i.FetchAsked) -> i.FetchAnswer:
        return i.Streaming() if event.end <= log.end else i.Diverged(event.last_epoch, log.end)

    return [(leader, "answer_to", answer_to)]


def _last_epoch_alone() -> Patches:
    """Only the epoch of the last record is compared: not the leader epochs of those who talk, nor that of a command."""

    def asked(replica: Replica, event: i.FetchAsked, effects: list[o.Effect]) -> Replica:
        return leader.asked(replica, event, effects) if isinstance(replica.role, Leader) else replica

    def is_current(replica: Replica, event: i.FetchAnswered | i.RecordsPushed) -> bool:
        return event.fetch == follower.follower_of(replica).fetch

    def is_of_fetch(replica: Replica, fetch: StandingFetch, event: i.ProgressMade) -> bool:
        return event.fetch == fetch.fetch and fetch.is_open

    return [
        (step, "_asked", asked),
        (step, "is_older_than", lambda log, command: False),
        (follower, "is_current", is_current),
        (leader, "_is_current", is_of_fetch),
    ]


def _own_disk_not_counted() -> Patches:
    """A leader takes what it has appended for durable at home."""
    return [(leader, "own_durable_end", lambda replica: replica.log.end)]


def _pending_isr_ignored() -> Patches:
    """A change of the ISR counts for nothing until it is known to be done."""
    return [(Isr, "maximal", property(lambda isr: isr.members))]


def _unknown_outcome_read() -> Patches:
    """After a lost outcome a leader reads the ISR, and believes that what it does not see will not come."""

    def unknown(replica: Replica, role: Leader, effects: list[o.Effect]) -> Leader:
        effects.append(o.ReadIsr(replica.shard, role.isr.version - 1))
        return replace(role, isr=role.isr.refused())

    return [
        (isr_changes, "unknown", unknown),
        (Isr, "is_settled_by", lambda isr, version: version >= isr.version),
    ]


def _expand_before_epoch() -> Patches:
    """A follower joins when it has what this leader knows to be committed, as Kafka had it before KAFKA-6361."""

    def may_join(replica: Replica, role: Leader, fetch: StandingFetch) -> bool:
        return fetch.is_open and fetch.durable_end >= replica.high_watermark

    return [(isr_changes, "may_join", may_join)]


def _isr_without_version() -> Patches:
    """The ISR is written whatever the version is."""
    rightly = isr_changes.write_of
    whatever: Any = None
    return [(isr_changes, "write_of", lambda replica, isr: replace(rightly(replica, isr), expected_version=whatever))]


def _min_isr_ignored() -> Patches:
    """An ISR shrinks to its leader."""
    return [(isr_changes, "least_members", lambda replica: 1)]


def _no_round() -> Patches:
    """A reply leaves when the records it was decided upon are committed."""
    return [(leader, "round_of_all", lambda replica, role: leader.NOBODY_ELSE)]


def _alone_for_ever() -> Patches:
    """A leader that was its whole ISR once needs no round for the rest of its epoch."""
    return [(leader, "has_others", lambda replica, role: True)]


def _sends_outlive_deposition() -> Patches:
    """A leader that is deposed keeps what it has not said yet."""

    def leave(replica: Replica, effects: list[o.Effect]) -> None:
        pass

    return [(step, "_leave", leave)]


def _older_leader_followed() -> Patches:
    """A command is obeyed whatever epoch it is of."""
    rightly = step._commanded

    def commanded(replica: Replica, command: i.LeaderAndIsr, effects: list[o.Effect]) -> Replica:
        is_new = command.leader_epoch != replica.leader_epoch
        return rightly(replace(replica, leader_epoch=-1) if is_new else replica, command, effects)

    return [(step, "_commanded", commanded)]


def _reported_before_sync() -> Patches:
    """A follower reports what it has written, on disk or not."""

    rightly = follower.pushed

    def pushed(replica: Replica, event: i.RecordsPushed, effects: list[o.Effect]) -> Replica:
        after = rightly(replica, event, effects)
        role, end = follower.follower_of(after), after.log.end
        effects.append(o.ReportProgress(after.shard, role.leader, after.leader_epoch, role.fetch, end))
        return after

    return [(follower, "pushed", pushed)]


def _asked_is_durable() -> Patches:
    """A leader takes the end that a follower asks from for durable there, as soon as it matches."""
    rightly = leader.with_fetch

    def with_fetch(role: Leader, changed: StandingFetch) -> Leader:
        is_matched = changed.is_open and changed.durable_end == NOT_MATCHED
        return rightly(role, replace(changed, durable_end=changed.sent_end) if is_matched else changed)

    return [(leader, "with_fetch", with_fetch)]


def _acknowledged_at_own_disk() -> Patches:
    """A leader takes for committed what is on its own disk."""
    return [(leader, "committed_end", lambda replica, role: replica.log.durable_end)]


def _late_outcome_believed() -> Patches:
    """The end of any write of the ISR is taken for that of the one under way."""
    rightly = step._isr_written

    def isr_written(replica: Replica, role: Leader, event: i.IsrWritten, effects: list[o.Effect]) -> Replica:
        return rightly(replica, role, replace(event, request=role.isr.requests), effects)

    return [(step, "_isr_written", isr_written)]


def _joins_in_any_life() -> Patches:
    """A follower is taken into the ISR whether or not it is registered as it was when it fetched."""
    rightly = isr_changes.write_of
    return [(isr_changes, "write_of", lambda replica, isr: replace(rightly(replica, isr), joining=()))]


def _progress_of_former_life() -> Patches:
    """What a node reported before it was started anew counts for the fetch that it asks afterwards."""

    def is_current(replica: Replica, fetch: StandingFetch, event: i.ProgressMade) -> bool:
        return event.fetch == fetch.fetch and fetch.is_open and event.leader_epoch == replica.leader_epoch

    return [(leader, "_is_current", is_current)]


def _cut_and_silent() -> Patches:
    """A follower that has cut its log does not ask again."""
    return [(follower, "was_cut", lambda replica, event, effects: replica)]


def _refused_fetch_closed() -> Patches:
    """The fetch of a follower that may not join is pushed nothing more, and nobody tells the follower."""
    rightly = isr_changes.not_registered

    def not_registered(role: Leader, now_ms: int) -> Leader:
        after = rightly(role, now_ms)
        fetches = (replace(fetch, is_open=fetch.is_open and fetch.refused_ms is None) for fetch in after.fetches)
        return replace(after, fetches=tuple(fetches))

    return [(isr_changes, "not_registered", not_registered)]


def _refused_is_settled() -> Patches:
    """A write that met another version is given up without looking what was written."""

    def refused(replica: Replica, role: Leader, effects: list[o.Effect]) -> Leader:
        return replace(role, isr=role.isr.given_up())

    return [(isr_changes, "refused", refused)]


def _confirms_while_leading() -> Patches:
    """A node confirms the rounds of anybody."""
    return [(Replica, "confirms", lambda replica, whom, epoch: True)]


def _reported_after_cut() -> Patches:
    """A report about records that were cut counts for those that came after."""

    def with_synced(replica: Replica, event: i.LogSynced) -> Replica:
        return replace(replica, log=replica.log.synced(event.end))

    return [(follower, "with_synced", with_synced)]


def _copy_leads() -> Patches:
    """A node leads at once with the log that it was started with."""
    return [(doubt, "_is_enough", lambda replica, command, heard: True)]


def _longer_log_ignored() -> Patches:
    """Others are heard, and it is not looked at how far their logs reach."""
    return [(doubt, "reaches_further", lambda log, event: False)]


def _begun_in_doubt() -> Patches:
    """An epoch is begun in the log before anybody was heard, and left to whoever has more."""

    def elected(replica: Replica, command: i.LeaderAndIsr, effects: list[o.Effect]) -> Replica:
        return leader.lead(replica, command, effects)

    rightly = leader.asked

    def asked(replica: Replica, event: i.FetchAsked, effects: list[o.Effect]) -> Replica:
        role = leader.leader_of(replica)
        is_behind = (event.last_epoch, event.end) > (replica.log.epoch_before(role.epoch_start), role.epoch_start)
        if replica.is_in_doubt and event.last_epoch < event.leader_epoch and is_behind:
            effects.append(o.Resign(replica.shard, replica.leader_epoch))
            return leader.decline(replica, "another log reaches further", 0, effects, successor=event.follower)
        return rightly(replica, event, effects)

    return [(doubt, "elected", elected), (leader, "asked", asked)]


MISTAKES: Final[dict[str, Mistake]] = {
    "cut-to-high-watermark": Mistake(_cut_to_high_watermark, Scope(2, 0, 0, 0, changes=0), ("StrongIsr",)),
    "fetch-without-epoch": Mistake(
        _fetch_without_epoch, Scope(2, 1, 0, 0, changes=0), ("LogMatching", "StrongIsr", "ValidHighWatermark")
    ),
    "last-epoch-alone": Mistake(
        _last_epoch_alone,
        Scope(3, 0, 0, 0, changes=0, warm=2),
        ("StrongIsr", "NoCutBelowHighWatermark", "NoBug"),
        is_quick=False,
    ),
    "own-disk-not-counted": Mistake(_own_disk_not_counted, Scope(1, 1, 0, 0, changes=0), ("StrongIsr",)),
    "pending-isr-ignored": Mistake(_pending_isr_ignored, Scope(1, 1, 0, 0, changes=2), ("StrongIsr",)),
    "unknown-outcome-read": Mistake(_unknown_outcome_read, Scope(1, 1, 1, 0, changes=2), ("StrongIsr",)),
    "expand-before-epoch": Mistake(_expand_before_epoch, Scope(2, 1, 0, 0, changes=2), ("StrongIsr",), is_quick=False),
    "isr-without-version": Mistake(_isr_without_version, Scope(2, 1, 0, 0, changes=1), ("LeaderInIsr", "StrongIsr")),
    "min-isr-ignored": Mistake(_min_isr_ignored, Scope(1, 1, 0, 0, changes=2), ("IsrNotBelowMin",)),
    "no-round": Mistake(_no_round, Scope(2, 0, 0, 1, changes=0), ("FreshRead",)),
    "alone-for-ever": Mistake(
        _alone_for_ever, Scope(2, 1, 0, 1, changes=2, min_insync=1), ("FreshRead",), is_quick=False
    ),
    "sends-outlive-deposition": Mistake(_sends_outlive_deposition, Scope(2, 0, 0, 0, changes=0), ("SentIsDropped",)),
    "older-leader-followed": Mistake(
        _older_leader_followed, Scope(2, 0, 0, 0, changes=0, warm=0), ("MonotonicEpochs",)
    ),
    "reported-before-sync": Mistake(_reported_before_sync, Scope(1, 1, 0, 0, changes=0), ("StrongIsr",)),
    "asked-is-durable": Mistake(_asked_is_durable, Scope(2, 1, 0, 0, changes=0), ("StrongIsr",)),
    "acknowledged-at-own-disk": Mistake(_acknowledged_at_own_disk, Scope(1, 1, 0, 0, changes=0), ("StrongIsr",)),
    "late-outcome-believed": Mistake(_late_outcome_believed, Scope(1, 2, 0, 0, changes=3), ("StrongIsr", "NoBug")),
    "joins-in-any-life": Mistake(_joins_in_any_life, Scope(1, 1, 0, 0, changes=2, wiped=1), ("StrongIsr",)),
    "progress-of-former-life": Mistake(_progress_of_former_life, Scope(1, 1, 0, 0, changes=2, wiped=1), ("StrongIsr",)),
    "cut-and-silent": Mistake(_cut_and_silent, Scope(2, 1, 0, 0, changes=0), ("ComesToRest",)),
    "refused-fetch-closed": Mistake(_refused_fetch_closed, Scope(1, 1, 0, 0, changes=2, wiped=1), ("ComesToRest",)),
    "refused-is-settled": Mistake(_refused_is_settled, Scope(1, 1, 1, 0, changes=3), ("StrongIsr", "LeaderInIsr")),
    "confirms-while-leading": Mistake(_confirms_while_leading, Scope(2, 0, 0, 1, changes=0), ("FreshRead",)),
    "reported-after-cut": Mistake(_reported_after_cut, Scope(2, 1, 0, 0, changes=0), ("StrongIsr",), forgets=False),
    "copy-leads": Mistake(_copy_leads, Scope(2, 0, 0, 0, changes=0, put_back=1), ("CommittedForEver",)),
    "longer-log-ignored": Mistake(_longer_log_ignored, Scope(2, 0, 0, 0, changes=0, put_back=1), ("StrongIsr",)),
    "begun-in-doubt": Mistake(_begun_in_doubt, Scope(2, 0, 0, 0, changes=0, put_back=1), ("CommittedForEver",)),
}
