"""Known mistakes, planted one at a time, each of which the simulator has to find by chance within 1,000 seeds.

A mutant replaces named functions of the product while it is planted; the product knows nothing of it.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from msgspec.structs import replace

from coordinator.core import effects as e
from coordinator.core.events import OffsetsResolved
from coordinator.core.groups.assignment import targets
from coordinator.core.groups.bounds.claim_watch import ClaimWatch
from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard import journal
from coordinator.core.groups.hard.records import CommittedPart, Granted, MemberEpochsAdvanced, OffsetsCommitted, Record
from coordinator.core.groups.hard.state import GroupState, ShardState
from coordinator.core.groups.hard.tables.committed_table import CommittedTable
from coordinator.core.groups.membership.listed_claims import Look
from coordinator.core.groups.membership.registration import Membership
from coordinator.core.groups.offsets import claims
from coordinator.core.groups.offsets.committed_offsets import committed_part
from coordinator.core.groups.operators.resets import Resets
from coordinator.core.groups.operators.verbs import Operators
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.groups.reconciliation import grants, reconciler
from coordinator.core.groups.reconciliation.grants import Grants
from coordinator.core.groups.reconciliation.reconciler import Reconciler
from coordinator.core.groups.shard import Shard
from coordinator.core.groups.soft.sessions import Connection, Registration
from coordinator.core.shards.gates import Gates
from coordinator.protocol.messages import StartFetcher
from coordinator.protocol.parts import Claim, ClaimState, ClaimStatus, PartitionResult
from spark_kcoord.consumer.core import telling
from spark_kcoord.consumer.core.machine import ConsumerMachine
from spark_kcoord.consumer.iteration import Iteration
from tests.sim import (
    mutants_bounds,
    mutants_bugs,
    mutants_come_back,
    mutants_consumer,
    mutants_gone_back,
    mutants_isolation,
    mutants_late,
    mutants_leading,
    mutants_outputs,
    mutants_reading,
    mutants_room,
    mutants_runs,
    mutants_together,
    mutants_turns,
    mutants_unread,
    mutants_words,
)
from tests.sim.by_hand import mutants as by_hand
from tests.sim.mix import Mix, draw_mix
from tests.sim.mutants_registration import (
    hints_of_a_reader_count,
    last_list_alone,
    one_says_that_both_share,
    probe_timed_when_asked,
    second_member_accepted,
    start_of_a_reader_written,
)
from tests.sim.mutants_retention import clock_counts_while_no_node_ran, never_forgotten, retention_by_wall_clock
from tests.sim.mutants_starts import (
    added_topic_by_policy,
    first_member_back_gets_latest,
    hints_for_ever,
    nobody_is_waited_for,
    offset_of_any_topic,
)
from tests.sim.run import Outcome, run_seed

SEEDS_A_MUTANT = 1_000


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake: what is wrong then, and where it is planted."""

    what: str
    plant: Callable[[], "Patches"]
    world: Callable[[Random], Mix] = draw_mix
    """Draws the worlds in which it is hunted: for most any world, for some one in which what it takes is frequent."""


Patches = list[tuple[Any, str, Any]]


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Make one mistake for as long as the context lasts."""
    with ExitStack() as stack:
        for owner, attribute, value in ALL[name].plant():
            stack.enter_context(_replaced(owner, attribute, value))
        yield


@contextmanager
def _replaced(owner: Any, attribute: str, value: Any) -> Iterator[None]:
    before = getattr(owner, attribute)
    setattr(owner, attribute, value)
    try:
        yield
    finally:
        setattr(owner, attribute, before)


def hunt(name: str, seeds: int = SEEDS_A_MUTANT, first: int = 0) -> tuple[Outcome | None, int]:
    """Run seeds with a mistake planted until one is found; return how it was and the events of all runs until then.

    Seeds are gone through from 0 on, after the one that is tried first.

    An exception that is no broken promise is a patch that no longer fits, and no catch: it raises RuntimeError.
    """
    events = 0
    with planted(name):
        for seed in dict.fromkeys((first, *range(seeds))):
            outcome = run_seed(seed, draw=ALL[name].world)
            events += outcome.events
            if outcome.broken is None:
                continue
            if outcome.broken.name == "bug":
                raise RuntimeError(f"{name} does not fit the code any more: plant it anew\n{outcome.broken.shown}")
            return outcome, events
    return None, events


# ---- commits and claims ---------------------------------------------------------------------------------------------


def _commit_without_owner_check() -> Patches:
    finish = claims._finish

    def finish_for_anybody(draft: Any, claim: Claim) -> PartitionResult:
        partition = (claim.topic, claim.partition)
        grant = draft.group.grants.get(partition)
        if grant is None or partition in draft.finished or claim.from_offset == claim.until_offset:
            return finish(draft, claim)
        if draft.committed(partition, grant.topic_id) != claim.from_offset:
            return finish(draft, claim)
        draft.finished[partition] = committed_part(grant, partition, claim.until_offset, draft.commit_ms)
        return PartitionResult(claim.topic, claim.partition, committed=claim.until_offset)

    return [(claims, "_finish", finish_for_anybody)]


def _commit_left_out_range() -> Patches:
    finish = claims._finish

    def finish_what_was_left_out(draft: Any, claim: Claim) -> PartitionResult:
        partition = (claim.topic, claim.partition)
        grant = draft.group.grants.get(partition)
        is_owner = grant is not None and grant.member_id == draft.member_id
        is_next = grant is not None and draft.committed(partition, grant.topic_id) == claim.from_offset
        if not is_owner or not is_next or partition in draft.finished or claim.from_offset == claim.until_offset:
            return finish(draft, claim)
        draft.finished[partition] = committed_part(grant, partition, claim.until_offset, draft.commit_ms)
        return PartitionResult(claim.topic, claim.partition, committed=claim.until_offset)

    return [(claims, "_finish", finish_what_was_left_out)]


def _resume_after_takeover() -> Patches:
    status = claims._status

    def still_running(group: GroupState, member_id: str, claim: Claim) -> ClaimStatus:
        said = status(group, member_id, claim)
        if group.grant_of(claim.topic, claim.partition, member_id, claim.owner_epoch) is not None:
            return said
        return ClaimStatus(
            claim.topic, claim.partition, claim.owner_epoch, ClaimState.RUNNING, committed=said.committed
        )

    return [(claims, "_status", still_running)]


def _reset_overwritten() -> Patches:
    def write_at_once(self: Resets, group: GroupState, request: Any, planned: Mapping[TopicPartition, Any]) -> None:
        """Write the offsets and let the owners go on, whose next commit overwrites them."""
        parts = tuple(
            CommittedPart(each.topic, each.topic_id, each.partition, each.offset, each.leader_epoch, "", 0, None)
            for each in planned.values()
        )
        self._desk.journal.decide(OffsetsCommitted(group.group_id, parts))

    return [(Resets, "_carry_out", write_at_once)]


def _hold_expires_with_session() -> Patches:
    return [
        (reconciler, "is_held", lambda *_: False),
        (targets, "held_columns", lambda _: []),
    ]


# ---- grants and starts ----------------------------------------------------------------------------------------------


def _grant_before_revoke() -> Patches:
    look_at = Reconciler._look_at

    def grant_at_once(self: Reconciler, turn: Any, topic: str, partitions: Iterable[TopicPartition], why: str) -> None:
        for partition in partitions:
            wanted_by = turn.group.target_owners.get(partition)
            grant = turn.group.grants.get(partition)
            if grant is not None and wanted_by is not None and grant.member_id != wanted_by and not grant.is_stopping:
                self._grants.note(turn, topic, [(partition, wanted_by, grant)])
            else:
                look_at(self, turn, topic, [partition], why)

    return [(Reconciler, "_look_at", grant_at_once)]


def _re_resolve_latest() -> Patches:
    note = Grants.note

    def resolve_again(self: Grants, *arguments: Any) -> None:
        with _replaced(CommittedTable, "rows", lambda *_: {}):
            note(self, *arguments)

    return [(Grants, "note", resolve_again)]


def _zero_for_unknown() -> Patches:
    handle_resolved = Reconciler.handle_resolved

    def take_zero(self: Reconciler, event: OffsetsResolved) -> None:
        offsets = tuple(answer if answer.offset is not None else replace(answer, offset=0) for answer in event.offsets)
        handle_resolved(self, replace(event, offsets=offsets))

    return [(Reconciler, "handle_resolved", take_zero)]


def _owner_epoch_reuse() -> Patches:
    decide, replay = Grants.decide, journal.replay

    def grant_again(self: Grants, turn: Any) -> None:
        """Let who takes over go on under the owner epoch of who is gone."""

        def granted(*fields: Any) -> Granted:
            record = Granted(*fields)
            before = turn.group.grants.rows(record.topic)
            taken = [before[number].owner_epoch for number in record.partitions if number in before]
            return replace(record, owner_epoch=taken[0]) if taken else record

        with _replaced(grants, "Granted", granted):
            decide(self, turn)

    def replay_any_epoch(state: ShardState, record: Record, offset: int | None) -> None:
        replay(state, record, None if isinstance(record, Granted) else offset)

    return [(Grants, "decide", grant_again), (journal, "replay", replay_any_epoch)]


# ---- consumers ------------------------------------------------------------------------------------------------------


def _ping_commits_position() -> Patches:
    mark = ConsumerMachine.mark_returned

    def mark_as_done(self: ConsumerMachine, pieces: Any) -> None:
        mark(self, pieces)
        self.settle()
        for held in self:
            held.done = held.position

    return [(ConsumerMachine, "mark_returned", mark_as_done)]


def _buffered_counts_as_returned() -> Patches:
    begin_call = ConsumerMachine.begin_call

    def count_all(self: ConsumerMachine) -> Any:
        if not begin_call(self):
            return ()
        for held in self:
            held.done = held.fetch_at if held.position is not None else None
        return tuple(held.to_commit(held.done) for held in self if held.done is not None)

    return [(ConsumerMachine, "begin_call", count_all)]


def _exception_loses_rows() -> Patches:
    return [(ConsumerMachine, "take_back", lambda _: None)]


def _iteration_commits_the_batch() -> Patches:
    return [(Iteration, "given", lambda self: list(self._pieces))]


def _listener_error_strands() -> Patches:
    def strand(machine: ConsumerMachine, tell: Callable[[Any], Any]) -> Iterator[Any]:
        while (owed := machine.next_owed()) is not None:
            machine.begin_telling(owed)
            try:
                yield from tell(owed)
            except BaseException:
                machine._owed.pop(0)
                raise
            machine.end_telling(owed)

    return [(telling, "tell_all", strand)]


def _rows_of_an_old_epoch() -> Patches:
    adopt = ConsumerMachine.adopt

    def adopt_in_place(self: ConsumerMachine, assignment: Any) -> None:
        for part in assignment.partitions:
            held = self.held((part.topic, part.partition))
            if held is not None:
                held.grant = dataclasses.replace(held.grant, owner_epoch=part.owner_epoch)
        adopt(self, assignment)

    return [(ConsumerMachine, "adopt", adopt_in_place)]


# ---- operators ------------------------------------------------------------------------------------------------------


def _paused_partition_granted() -> Patches:
    return [(GroupState, "wanted_owner", lambda group, partition: group.target_owners.get(partition))]


def _drained_member_granted() -> Patches:
    given = targets._given

    def give_to_all(group: GroupState) -> Any:
        with _replaced(group.controls, "drained", {}):
            return given(group)

    return [(targets, "_given", give_to_all)]


def _delete_ignores_owner() -> Patches:
    delete_offsets = Operators._delete_offsets

    def delete_any(self: Operators, group: GroupState, request: Any) -> Any:
        with _replaced(group, "grants", {}):
            return delete_offsets(self, group, request)

    return [(Operators, "_delete_offsets", delete_any)]


def _claim_timeout_ignored() -> Patches:
    return [(ClaimWatch, "timeout_is_due", lambda *_: ())]


def _dry_run_done() -> Patches:
    handle = Operators.handle

    def do_it(self: Operators, connection_id: int, correlation_id: int, request: Any) -> None:
        if hasattr(request, "is_dry_run"):
            request = replace(request, is_dry_run=False)
        handle(self, connection_id, correlation_id, request)

    return [(Operators, "handle", do_it)]


# ---- durability -----------------------------------------------------------------------------------------------------


def _release_early(is_early: Callable[[e.Effect, Sequence[e.Effect]], bool]) -> Patches:
    """Let some of what waits leave at once; it is shown what waits before it."""
    release = Gates.release

    def release_too_early(self: Gates[e.Effect]) -> list[e.Effect]:
        early: list[e.Effect] = []
        for gate in self._gates.values():
            kept: list[Any] = []
            for entry in gate.waiting:
                if is_early(entry[2], [other[2] for other in kept]):
                    early.append(entry[2])
                else:
                    kept.append(entry)
            gate.waiting.clear()
            gate.waiting.extend(kept)
        return [*early, *release(self)]

    return [(Gates, "release", release_too_early)]


def _grant_before_durable() -> Patches:
    def is_early(effect: e.Effect, before: Sequence[e.Effect]) -> bool:
        if not isinstance(effect, e.SendPush) or not isinstance(effect.push, StartFetcher):
            return False
        return all(getattr(other, "connection_id", None) != effect.connection_id for other in before)

    return _release_early(is_early)


def _acknowledge_before_durable() -> Patches:
    return _release_early(lambda effect, _: isinstance(effect, e.Respond))


def _replay_skips_a_record() -> Patches:
    take_batch = journal.Journal.take_batch

    def take_without(self: journal.Journal, base_offset: int, records: Any) -> None:
        """Leave out which epochs members have reached, which no later record needs."""
        with _replaced(journal, "replay", _replay_all_but(MemberEpochsAdvanced)):
            take_batch(self, base_offset, records)

    return [(journal.Journal, "take_batch", take_without)]


def _replay_all_but(kind: type) -> Callable[[ShardState, Record, int | None], None]:
    replay = journal.replay

    def replay_others(state: ShardState, record: Record, offset: int | None) -> None:
        if not isinstance(record, kind):
            replay(state, record, offset)

    return replay_others


# ---- time -----------------------------------------------------------------------------------------------------------


def _expire_all_after_restart() -> Patches:
    start = Shard.start

    def start_with_old_deadlines(self: Shard, incarnation: str, unclean_epoch: int = 0) -> Iterator[int]:
        yield from start(self, incarnation, unclean_epoch)
        for group_id, group in self.desk.journal.state.groups.items():
            for member_id in group.members:
                session = self.desk.soft[group_id].sessions[member_id]
                session.last_heard_ms -= session.timeout_ms
                self.desk.sessions.set((group_id, member_id), session.ends_ms)

    return [(Shard, "start", start_with_old_deadlines)]


def _wall_clock_session() -> Patches:
    start, accept, heard = Shard.start, Membership._accept, Membership.heard
    end = Shard._end_silent_sessions

    def note(desk: Desk, group_id: str, member_id: str) -> None:
        session = desk.soft[group_id].sessions[member_id]
        session.last_heard_ms = desk.clock.wall_ms
        desk.sessions.set((group_id, member_id), session.ends_ms)

    def start_by_wall_clock(self: Shard, incarnation: str, unclean_epoch: int = 0) -> Iterator[int]:
        yield from start(self, incarnation, unclean_epoch)
        for group_id, soft in self.desk.soft.items():
            for member_id in soft.sessions:
                self.desk.sessions.cancel((group_id, member_id))
                note(self.desk, group_id, member_id)

    def accept_by_wall_clock(
        self: Membership, registration: Registration, connection: Connection, member_id: str, look: Look
    ) -> None:
        accept(self, registration, connection, member_id, look)
        if member_id in self._desk.soft[registration.request.group_id].sessions:
            note(self._desk, registration.request.group_id, member_id)

    def heard_by_wall_clock(self: Membership, connection: Connection) -> None:
        heard(self, connection)
        if connection.group_id is not None and connection.member_id is not None:
            note(self._desk, connection.group_id, connection.member_id)

    return [
        (Shard, "start", start_by_wall_clock),
        (Membership, "_accept", accept_by_wall_clock),
        (Membership, "heard", heard_by_wall_clock),
        (Shard, "_end_silent_sessions", lambda self, _: end(self, self.desk.clock.wall_ms)),
    ]


MUTANTS: Mapping[str, Mutant] = {
    "commit-without-owner-check": Mutant("anybody's finished range is committed", _commit_without_owner_check),
    "commit-left-out-range": Mutant("a closed range is committed when its member owns again", _commit_left_out_range),
    "resume-after-takeover": Mutant("a claim that was taken over is said to run", _resume_after_takeover),
    "grant-before-revoke": Mutant("the new owner is granted without the old one's release", _grant_before_revoke),
    "grant-before-durable": Mutant("a grant is said before its record is on disk", _grant_before_durable),
    "acknowledge-before-durable": Mutant("answers leave before their records are on disk", _acknowledge_before_durable),
    "re-resolve-latest": Mutant("a start is resolved although an offset is committed", _re_resolve_latest),
    "zero-for-unknown": Mutant("an offset Kafka cannot say is taken for 0", _zero_for_unknown),
    "owner-epoch-reuse": Mutant("who takes over goes on under the old owner epoch", _owner_epoch_reuse),
    "reset-overwritten": Mutant("a reset is written while the owner goes on", _reset_overwritten),
    "hold-expires-with-session": Mutant(
        "what is held is given away with its owner's session", _hold_expires_with_session
    ),
    "ping-commits-position": Mutant("what the latest poll returned counts as done", _ping_commits_position),
    "expire-all-after-restart": Mutant("no new session time-out after a restart", _expire_all_after_restart),
    "wall-clock-session": Mutant("sessions are counted by the wall clock", _wall_clock_session),
    "replay-skips-a-record": Mutant("members' epochs are not read back from the log", _replay_skips_a_record),
}

OWN: Mapping[str, Mutant] = {
    "buffered-counts-as-returned": Mutant("what is fetched counts as returned", _buffered_counts_as_returned),
    "exception-loses-rows": Mutant("rows that a broken poll took are not returned again", _exception_loses_rows),
    "iteration-commits-the-batch": Mutant(
        "an iteration that is left in the middle has returned all", _iteration_commits_the_batch
    ),
    "listener-error-strands": Mutant("what a listener that raises was to give back is kept", _listener_error_strands),
    "rows-of-an-old-epoch": Mutant("rows of a former grant are returned under the next", _rows_of_an_old_epoch),
    "paused-partition-granted": Mutant("what is paused is granted all the same", _paused_partition_granted),
    "drained-member-granted": Mutant("a drained member gets partitions", _drained_member_granted),
    "delete-ignores-owner": Mutant("offsets are deleted under their owner's feet", _delete_ignores_owner),
    "claim-timeout-ignored": Mutant("a held claim is never given up", _claim_timeout_ignored),
    "dry-run-done": Mutant("what was only to be tried is done", _dry_run_done),
    "first-member-back-gets-latest": Mutant(
        "a group that was forgotten is taken for a new one", first_member_back_gets_latest
    ),
    "nobody-is-waited-for": Mutant("a forgotten group starts before others can come back", nobody_is_waited_for),
    "added-topic-by-policy": Mutant("a topic that a query adds starts by the policy", added_topic_by_policy),
    "hints-for-ever": Mutant("a deleted offset starts where a query's process began", hints_for_ever),
    "offset-of-any-topic": Mutant("an offset counts for a topic that is made again", offset_of_any_topic),
    "second-member-accepted": Mutant("a second member of a program is let in", second_member_accepted),
    "one-says-that-both-share": Mutant("a program's members share when the newcomer says so", one_says_that_both_share),
    "probe-timed-when-asked": Mutant("a probe's time begins before it leaves", probe_timed_when_asked),
    "last-list-alone": Mutant("claims that were listed in several requests are taken from the last", last_list_alone),
    "start-of-a-reader-written": Mutant("the start of who commits nothing is committed", start_of_a_reader_written),
    "hints-of-a-reader-count": Mutant("who commits nothing says where others start", hints_of_a_reader_count),
    "never-forgotten": Mutant("a group that nobody uses is kept for ever", never_forgotten),
    "retention-by-wall-clock": Mutant("a wall clock that is ahead forgets groups", retention_by_wall_clock),
    "clock-counts-while-no-node-ran": Mutant(
        "what the wall clock says between two starts counts as lived", clock_counts_while_no_node_ran
    ),
    **{name: Mutant(*mistake) for name, mistake in mutants_reading.MISTAKES.items()},
    **{name: Mutant(*mistake) for name, mistake in mutants_unread.MISTAKES.items()},
    **{name: Mutant(*mistake) for name, mistake in mutants_runs.MISTAKES.items()},
    **{name: Mutant(*mistake) for name, mistake in mutants_together.MISTAKES.items()},
    **{name: Mutant(*mistake) for name, mistake in mutants_outputs.MISTAKES.items()},
    **{name: Mutant(*mistake) for name, mistake in mutants_late.MISTAKES.items()},
    **{name: Mutant(*mistake) for name, mistake in mutants_isolation.MISTAKES.items()},
    **{name: Mutant(*mistake) for name, mistake in mutants_bounds.MISTAKES.items()},
    **{name: Mutant(*mistake) for name, mistake in mutants_words.MISTAKES.items()},
    **{name: Mutant(*mistake) for name, mistake in mutants_bugs.MISTAKES.items()},
    **{name: Mutant(*mistake) for name, mistake in mutants_room.MISTAKES.items()},
    **{name: Mutant(*mistake) for name, mistake in mutants_leading.MISTAKES.items()},
    **{name: Mutant(*mistake) for name, mistake in mutants_gone_back.MISTAKES.items()},
    **{name: Mutant(*mistake) for name, mistake in mutants_come_back.MISTAKES.items()},
    **{name: Mutant(*mistake) for name, mistake in mutants_turns.MISTAKES.items()},
    **{name: Mutant(*mistake) for name, mistake in mutants_consumer.MISTAKES.items()},
    **{name: Mutant(*mistake) for name, mistake in by_hand.MISTAKES.items()},
}
"""Mistakes beside the fifteen that were known from the start: in what operators do, and in what is decided at once."""

ALL: Mapping[str, Mutant] = {**MUTANTS, **OWN}

RARE = frozenset(
    {
        "added-topic-by-policy",
        "commit-counted-as-new",
        "epochs-within-reach",
        "first-member-back-gets-latest",
        "gone-back-unnoticed",
        "grants-outlive-what-was-lost",
        "hints-for-ever",
        "hints-of-a-reader-count",
        "latest-beyond-transactions",
        "loss-told-at-once",
        "offered-claim-waits",
        "old-end-believed",
        "one-says-that-both-share",
        "probe-timed-when-asked",
        "readable-end-taken-for-the-end",
        "report-believed",
        "topics-of-grants-alone",
        "unread-batch-committed",
    }
)
"""Those that sixty seeds may not show: too much has to come together."""
