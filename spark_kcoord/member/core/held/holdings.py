"""The holdings of a member: granted partitions, which of them it is asked to give back, and the claims still open.

Pure bookkeeping of what the coordinator has said; the coordinator alone decides. A partition is released once it is
being stopped, has no running claim under its owner epoch and no call in flight that touches it. What was held before a
registration is held until all that follows it has been told, and what was not among that is not held any more; a
partition granted again under the same owner epoch keeps its position. A partition has at most one open claim.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Final

from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.messages import (
    Advance,
    ClaimsFinished,
    FetcherTaken,
    StartFetcher,
    StopFetcher,
)
from coordinator.protocol.parts import (
    Claim,
    ClaimState,
    ClaimStatus,
    FinalOffset,
    LostPosition,
    OwnedPartition,
    PartitionResult,
    StartHint,
    StartPartition,
)

RELEASED_WITH_ADVANCE: Final = 1_000
MOST_NOTES: Final = 20


@dataclass(frozen=True, slots=True)
class AssignedPartition:
    """One partition a member owns under `owner_epoch`.

    `start` is the offset it was granted at; `position` the next offset to claim: `start`, or the `until` of the last
    range that was finished or is claimed. A partition that is stopping must not be claimed any more. `stream` says
    which of the member's streams reads it, when the coordinator spreads them.
    """

    topic: str
    topic_id: str
    partition: int
    owner_epoch: int
    start: int
    position: int
    is_stopping: bool
    has_claim: bool
    stream: int | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """A member's partitions by topic and number; `is_complete` when they are its whole target, which may be empty."""

    partitions: tuple[AssignedPartition, ...] = ()
    is_complete: bool = False
    member_epoch: int = 0
    finished: tuple[Claim, ...] = ()
    """The claims that were committed by somebody who saw their micro-batch end; the last of each partition."""
    notes: tuple[str, ...] = ()
    """Sentences about partitions that were granted without a committed offset: where they start and why; the last."""
    last_grants: Mapping[str, int] = field(default_factory=dict, compare=False)
    """The owner epoch of the last grant of each topic; it is also there when its partitions have left again."""
    withheld: tuple[PartitionResult, ...] = ()
    """The partitions of its target that it does not get because nobody knows where they start, and why."""

    def at(self, now_ms: int, ends_ms: int) -> "Assignment":
        """Return what is owned at a time: no partition once the session has ended, whether that was noticed or not."""
        if now_ms < ends_ms or not self.partitions:
            return self
        return replace(self, partitions=(), is_complete=False)

    def is_awaited(self, *, complete: bool) -> bool:
        """True when it ends a wait for any partition, or with `complete` for the whole target, which may be empty."""
        return self.is_complete or (bool(self.partitions) and not complete)


@dataclass(frozen=True, slots=True)
class _Grant:
    topic_id: str
    owner_epoch: int
    start: int
    committed: int
    is_stopping: bool = False
    stream: int | None = None


@dataclass(frozen=True, slots=True)
class _OpenClaim:
    claim: Claim
    is_running: bool


def partition_of(
    part: Claim | LostPosition | OwnedPartition | StartPartition | PartitionResult | FinalOffset | OffsetToCommit,
) -> TopicPartition:
    """Return the topic and number of the partition something speaks of."""
    return (part.topic, part.partition)


def starts_anew(result: PartitionResult) -> bool:
    """Say whether a reported partition was given up for a new grant; if not, its grant is as it was."""
    return result.error is ErrorCode.NONE and result.committed is None


class Holdings:
    """The partitions and claims of one member."""

    def __init__(self, claims: Iterable[Claim] = ()) -> None:
        self._grants: dict[TopicPartition, _Grant] = {}
        self._remembered: dict[TopicPartition, _Grant] = {}
        self._doubtful: set[TopicPartition] = set()
        """The partitions that were held before the last registration and have not been told since."""
        self._to_be_told = 0
        self._withheld: tuple[PartitionResult, ...] = ()
        self._claims = {partition_of(claim): _OpenClaim(claim, is_running=False) for claim in claims}
        self._noted: dict[TopicPartition, OffsetToCommit] = {}
        self._finished: dict[TopicPartition, Claim] = {}
        self._notes: deque[str] = deque(maxlen=MOST_NOTES)
        self._last_grants: dict[str, int] = {}
        self._is_complete = False
        self._member_epoch = 0
        self._assignment: Assignment | None = None

    # ---- what is held -----------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """True when no partition is owned."""
        return not self._grants

    @property
    def member_epoch(self) -> int:
        """The member epoch the coordinator named last."""
        return self._member_epoch

    @property
    def assignment(self) -> Assignment:
        """The partitions owned now; the same value until something changes."""
        if self._assignment is None:
            self._assignment = Assignment(
                tuple(self._assigned(key, grant) for key, grant in sorted(self._grants.items())),
                self._is_complete,
                self._member_epoch,
                tuple(self._finished[key] for key in sorted(self._finished)),
                tuple(self._notes),
                dict(self._last_grants),
                tuple(one for one in self._withheld if partition_of(one) not in self._grants),
            )
        return self._assignment

    def _assigned(self, key: TopicPartition, grant: _Grant) -> AssignedPartition:
        claim = self._claim_under(key, grant.owner_epoch)
        return AssignedPartition(
            topic=key[0],
            topic_id=grant.topic_id,
            partition=key[1],
            owner_epoch=grant.owner_epoch,
            start=grant.start,
            position=grant.committed if claim is None else claim.until_offset,
            is_stopping=grant.is_stopping,
            has_claim=claim is not None,
            stream=grant.stream,
        )

    def open_claims(self) -> tuple[Claim, ...]:
        """Return every claim not known to be closed, whether its partition is granted now or not."""
        return tuple(self._claims[key].claim for key in sorted(self._claims))

    def ends(self) -> tuple[StartHint, ...]:
        """Return where each partition ever held goes on as far as this member knows, for a group that lost it."""
        return tuple(
            StartHint(key[0], grant.topic_id, key[1], grant.committed, True, grant.owner_epoch)
            for key, grant in sorted((self._remembered | self._grants).items())
        )

    def _claim_under(self, key: TopicPartition, owner_epoch: int) -> Claim | None:
        held = self._claims.get(key)
        return held.claim if held is not None and held.claim.owner_epoch == owner_epoch else None

    def _is_kept(self, key: TopicPartition, owner_epoch: int, *, drops_offered: bool) -> bool:
        is_open = self._claim_under(key, owner_epoch) is not None
        return is_open and (self._claims[key].is_running or not drops_offered)

    # ---- what the coordinator says ----------------------------------------------------------------------------------

    def set_member_epoch(self, member_epoch: int) -> None:
        """Take the member epoch the coordinator named."""
        if member_epoch != self._member_epoch:
            self._member_epoch = member_epoch
            self._assignment = None

    def begin_anew(self, held: int | None) -> None:
        """Take that so many partitions are told next, which are all that the member has; None where nobody says.

        Until they have come, it goes on with those that it had: mostly they are the same. None of them is let go of
        meanwhile; what is still wanted back is asked for again.
        """
        if not held:
            self.forget_grants()
            return
        self._to_be_told, self._doubtful = held, set(self._grants)
        self._grants = {key: replace(grant, is_stopping=False) for key, grant in self._grants.items()}
        self._is_complete = False
        self._assignment = None

    def end_doubts(self) -> None:
        """Hold no longer what was held before the registration and has not been told since."""
        for key in self._doubtful & self._grants.keys():
            self._release(key)
        self._to_be_told = 0
        self._doubtful.clear()

    def withhold(self, partitions: tuple[PartitionResult, ...]) -> None:
        """Take which partitions of its target the member does not get, and why."""
        if partitions != self._withheld:
            self._withheld = partitions
            self._assignment = None

    def start(self, push: StartFetcher) -> None:
        """Take over granted partitions; one that is held under the same owner epoch stays as it is."""
        self._take_over(push)
        if self._to_be_told:
            left = self._to_be_told - len(push.partitions) if push.to_follow is None else push.to_follow
            self._to_be_told = max(0, left)
            if not self._to_be_told:
                self.end_doubts()

    def _take_over(self, push: StartFetcher) -> None:
        for part in push.partitions:
            key = partition_of(part)
            self._doubtful.discard(key)
            current = self._grants.get(key)
            if current is not None and current.owner_epoch == part.owner_epoch:
                self._grants[key] = replace(current, stream=part.stream)
                continue
            known = self._remembered.pop(key, None)
            committed = part.offset
            if known is not None and known.owner_epoch == part.owner_epoch:
                committed = max(committed, known.committed)
            self._grants[key] = _Grant(part.topic_id, part.owner_epoch, part.offset, committed, stream=part.stream)
            self._last_grants[part.topic] = part.owner_epoch
            claim = self._claims.get(key)
            if claim is not None and claim.claim.owner_epoch != part.owner_epoch:
                del self._claims[key]
        self._notes.extend(push.notes)
        self._is_complete = push.is_complete
        self._member_epoch = push.member_epoch
        self._assignment = None

    def stop(self, push: StopFetcher) -> tuple[OwnedPartition, ...]:
        """Mark partitions as stopping; return those that are not held, which can be released without more ado."""
        not_held = []
        for part in push.partitions:
            key = partition_of(part)
            grant = self._grants.get(key)
            if grant is None or grant.owner_epoch != part.owner_epoch:
                not_held.append(part)
            else:
                self._grants[key] = replace(grant, is_stopping=True)
        self._is_complete = False
        self._assignment = None
        return tuple(not_held)

    def take(self, push: FetcherTaken) -> None:
        """Own partitions no more that were taken for being late, with the claims on them."""
        for part in push.partitions:
            key = partition_of(part)
            grant, held = self._grants.get(key), self._claims.get(key)
            if grant is not None and grant.owner_epoch == part.owner_epoch:
                self._release(key)
            if held is not None and held.claim.owner_epoch == part.owner_epoch:
                del self._claims[key]
        self._is_complete = False
        self._assignment = None

    def forget_grants(self) -> None:
        """Own nothing until it is granted again; positions are kept for grants under the same owner epoch."""
        self._remembered.update(self._grants)
        self._grants.clear()
        self._doubtful.clear()
        self._to_be_told = 0
        self._is_complete = False
        self._assignment = None

    def answer_claims(
        self, claims: Sequence[Claim], statuses: Sequence[ClaimStatus]
    ) -> list[tuple[Claim, ClaimStatus]]:
        """Take what the coordinator says about claims, in the order asked; return those that are closed."""
        closed = []
        for claim, status in zip(claims, statuses, strict=True):
            key = partition_of(claim)
            if status.state is not ClaimState.CLOSED:
                self._claims[key] = _OpenClaim(claim, is_running=status.state is ClaimState.RUNNING)
                continue
            self._drop_claim(claim)
            closed.append((claim, status))
            if status.committed is not None:
                self._raise_committed(key, claim.owner_epoch, status.committed)
        self._assignment = None
        return closed

    def finish(self, push: ClaimsFinished) -> None:
        """Close claims that were committed for this member."""
        for claim in push.claims:
            self._drop_claim(claim)
            self._finished[partition_of(claim)] = claim
            self._raise_committed(partition_of(claim), claim.owner_epoch, claim.until_offset)
        self._assignment = None

    def answer_advance(
        self,
        request: Advance,
        done: Sequence[Claim],
        finished: Sequence[PartitionResult],
        wanted: Sequence[Claim],
        offered: Sequence[PartitionResult],
    ) -> tuple[Claim, ...]:
        """Take the results of an Advance for the claims it names; return the claims that stand.

        Offered claims that it did not renew are dropped, as the coordinator drops them; a further portion drops none.
        """
        for claim, result in zip(done, finished, strict=True):
            self._drop_claim(claim)
            committed = claim.until_offset if result.error is ErrorCode.NONE else result.committed
            if committed is not None:
                self._raise_committed(partition_of(claim), claim.owner_epoch, committed)
        if not request.keeps_offered:
            self._claims = {key: held for key, held in self._claims.items() if held.is_running}
        claimed = tuple(claim for claim, result in zip(wanted, offered, strict=True) if result.error is ErrorCode.NONE)
        if claimed:
            self._finished.clear()
        for claim in claimed:
            self._claims[partition_of(claim)] = _OpenClaim(claim, is_running=False)
        for final in request.released:
            grant = self._grants.get(partition_of(final))
            if grant is not None and grant.owner_epoch == final.owner_epoch:
                # It was granted again between two tries of this Advance, and is given back now.
                self._release(partition_of(final))
        self._assignment = None
        return claimed

    def answer_commit(self, offsets: Sequence[OffsetToCommit], results: Sequence[PartitionResult]) -> None:
        """Take the results of a commit."""
        for asked, result in zip(offsets, results, strict=True):
            key = partition_of(asked)
            if result.error is ErrorCode.NONE and asked.owner_epoch is not None:
                self._raise_committed(key, asked.owner_epoch, asked.offset)
            elif self._noted.get(key) == asked:
                # It is refused for good: the position is not this member's to commit, or does not go forward.
                del self._noted[key]

    def answer_report(self, partitions: Sequence[LostPosition], results: Sequence[PartitionResult]) -> None:
        """Take the results of a report that positions are out of range: what starts anew is owned no more."""
        for part, result in zip(partitions, results, strict=True):
            key = partition_of(part)
            grant = self._grants.get(key)
            if not starts_anew(result):
                continue
            if grant is not None and grant.owner_epoch == part.owner_epoch:
                self._release(key)
                del self._remembered[key]
                self._claims.pop(key, None)
                self._is_complete = False

    # ---- positions of members that do not claim ---------------------------------------------------------------------

    def note_positions(self, offsets: Sequence[OffsetToCommit]) -> None:
        """Remember up to where partitions are done."""
        self._noted.update((partition_of(noted), noted) for noted in offsets)

    def tell_committed(self) -> None:
        """Have the assignment show what is committed by now: whoever asked for none of that is to know it."""
        self._assignment = None

    def uncommitted(self, after: TopicPartition) -> tuple[OffsetToCommit, ...]:
        """Return the noted positions that are ahead of what is committed, of partitions held as they were noted.

        They are in order, those behind `after` first: who says some of them at a time gets to all.
        """
        waiting = sorted(self._noted.items())
        begin = bisect_right(waiting, after, key=itemgetter(0))
        return tuple(
            noted
            for key, noted in (*waiting[begin:], *waiting[:begin])
            if (grant := self._grants.get(key)) is not None
            and grant.owner_epoch == noted.owner_epoch
            and grant.committed < noted.offset
        )

    def finals(self, *, with_offsets: bool) -> tuple[FinalOffset, ...]:
        """Return how to let go of all that is held, with up to where it is done or without."""
        noted = {(key, one.owner_epoch): one for key, one in self._noted.items()} if with_offsets else {}
        return tuple(
            FinalOffset(*key, grant.owner_epoch, one.offset, one.leader_epoch, one.metadata)
            if (one := noted.get((key, grant.owner_epoch))) is not None and one.offset > grant.start
            else FinalOffset(*key, grant.owner_epoch)
            for key, grant in sorted(self._grants.items())
        )

    def _drop_claim(self, claim: Claim) -> None:
        held = self._claims.get(partition_of(claim))
        if held is not None and held.claim == claim:
            del self._claims[partition_of(claim)]

    def _raise_committed(self, key: TopicPartition, owner_epoch: int, committed: int) -> None:
        for grants in (self._grants, self._remembered):
            grant = grants.get(key)
            if grant is not None and grant.owner_epoch == owner_epoch and grant.committed < committed:
                grants[key] = replace(grant, committed=committed)

    # ---- letting go -------------------------------------------------------------------------------------------------

    def release_idle(self, busy: Collection[TopicPartition], *, drops_offered: bool) -> tuple[FinalOffset, ...]:
        """Let go of stopping partitions that nobody reads, but those in `busy`, and return them.

        With `drops_offered` a claim that is only offered goes too: when its micro-batch is planned, it is found closed.
        """
        idle = [
            (key, grant)
            for key, grant in sorted(self._grants.items())
            if grant.is_stopping
            and key not in busy
            and not self._is_kept(key, grant.owner_epoch, drops_offered=drops_offered)
        ]
        for key, grant in idle:
            self._release(key)
            if self._claim_under(key, grant.owner_epoch) is not None:
                del self._claims[key]
        return tuple(FinalOffset(key[0], key[1], grant.owner_epoch) for key, grant in idle)

    def release(self, finals: Sequence[FinalOffset]) -> tuple[FinalOffset, ...]:
        """Let go of partitions, and return those that were held."""
        held = tuple(
            final
            for final in finals
            if (grant := self._grants.get(partition_of(final))) is not None
            and grant.owner_epoch == final.owner_epoch
            and partition_of(final) not in self._doubtful
        )
        for final in held:
            self._release(partition_of(final))
        return held

    def release_finished(self, finished: Sequence[Claim], claims: Sequence[Claim]) -> tuple[FinalOffset, ...]:
        """Let go of stopping partitions that hold no claim once `finished` is answered, and return them.

        They are a bounded number, so that they fit into the same request.
        """
        done = {(partition_of(claim), claim.owner_epoch) for claim in finished}
        wanted = {partition_of(claim) for claim in claims}
        released: list[FinalOffset] = []
        for key, grant in sorted(self._grants.items()):
            claim = self._claim_under(key, grant.owner_epoch)
            is_free = claim is None or (key, grant.owner_epoch) in done
            if grant.is_stopping and is_free and key not in wanted and len(released) < RELEASED_WITH_ADVANCE:
                released.append(FinalOffset(key[0], key[1], grant.owner_epoch))
        for final in released:
            self._release(partition_of(final))
        return tuple(released)

    def _release(self, key: TopicPartition) -> None:
        self._remembered[key] = self._grants.pop(key)
        self._assignment = None
