"""The introduction of a member: one registration, and before it those claims and hints that do not fit into it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from coordinator.protocol.messages import ListClaims, RegisterConsumer
from coordinator.protocol.parts import Claim, LogPosition, StartHint, Subscription
from spark_kcoord.member.core.held.holdings import Holdings
from spark_kcoord.member.core.held.portions import bytes_of, portions
from spark_kcoord.member.settings import MemberSettings


@dataclass(frozen=True, slots=True)
class Registration:
    """The requests to send, in order, and the claims they name, which the response answers in order."""

    before: tuple[ListClaims, ...]
    request: RegisterConsumer
    claims: tuple[Claim, ...]


def introduce(
    settings: MemberSettings,
    holdings: Holdings,
    hints: Sequence[StartHint],
    *,
    member_id: str,
    incarnation: str,
    pid: int,
    log: LogPosition | None = None,
    is_rejoining: bool = False,
    age_ms: int = 0,
    is_leaving: bool = False,
) -> Registration:
    """Return the registration of a process that has these holdings; `hints` are a checkpoint's, then an option's.

    `is_rejoining` when this process has been the member before; it began with its checkpoint `age_ms` ago.
    With `is_leaving` it comes back for nothing but to leave.
    """
    request = RegisterConsumer(
        group_id=settings.group_id,
        member_id=member_id,
        incarnation=incarnation,
        subscription=Subscription(settings.topics, settings.pattern, settings.partitions, settings.exclusions),
        client_id=settings.client_id,
        pid=pid,
        session_timeout_ms=settings.session_timeout_ms,
        rebalance_timeout_ms=settings.rebalance_timeout_ms,
        instance_id=settings.instance_id,
        streams=settings.streams,
        assignors=settings.assignors,
        ping_interval_ms=settings.ping_interval_ms,
        auto_commit=settings.auto_commit,
        reset_policy=settings.reset_policy,
        handover=settings.handover,
        wait_for_topics=settings.wait_for_topics,
        claim_timeout_ms=settings.claim_timeout_ms,
        wants_streams=settings.wants_streams,
        application=settings.application,
        shares_application=settings.shares_application,
        commits=settings.commits,
        is_returning=bool(member_id),
        isolation_level=settings.isolation_level,
        log=log,
        is_rejoining=is_rejoining,
        age_ms=age_ms,
        is_leaving=is_leaving,
    )
    claims = holdings.open_claims()
    known = _start_hints(holdings, hints)
    named: tuple[Claim | StartHint, ...] = (*claims, *known)
    cut = tuple(portions(named, bytes_of))
    if len(cut) > 1:
        return Registration(tuple(_listed(cut)), request, claims)
    return Registration((), msgspec.structs.replace(request, claims=claims, hints=known), claims)


def _listed(cut: Sequence[tuple[Claim | StartHint, ...]]) -> Iterator[ListClaims]:
    for portion in cut:
        yield ListClaims(
            claims=tuple(piece for piece in portion if isinstance(piece, Claim)),
            hints=tuple(piece for piece in portion if isinstance(piece, StartHint)),
        )


def _start_hints(holdings: Holdings, hints: Sequence[StartHint]) -> tuple[StartHint, ...]:
    # What was read since the checkpoint counts more than what the checkpoint said.
    known = holdings.ends()
    covered = {(hint.topic, hint.topic_id, hint.partition) for hint in known}
    return (*known, *(hint for hint in hints if (hint.topic, hint.topic_id, hint.partition) not in covered))
