"""Facts that the node gives out: nobody is declared dead before its time, and nobody leaves unasked."""

from collections import deque

from coordinator.core.effects import Notice
from coordinator.protocol.messages import LeaveGroup, RegisterConsumer
from tests.sim.log.state import ViolationError
from tests.sim.said.state import Said, Session

ACCEPTED = frozenset({"member-joined", "member-returned", "member-replaced"})


def check_notice(said: Said, notice: Notice, shard: int, now_ms: int) -> None:
    """Check what the node gives out as a fact."""
    said.coverage[f"notice {notice.kind}"] += 1
    if notice.kind == "taken-over":
        said.counts.takeovers += 1
    member = (notice.group_id, notice.member_id)
    if notice.kind in ACCEPTED:
        said.unbind(member, said.logs[shard].end - 1)
        said.life.sessions[member] = Session(now_ms)
        said.life.accepted.setdefault(member, deque()).append(said.logs[shard].end)
    if notice.kind == "member-left" and not _has_asked_to_leave(said, member):
        raise ViolationError("put-out", f"{member} never asked to leave: {notice.why}")
    if notice.kind != "member-expired":
        return
    session = said.life.sessions.get(member)
    timeout_ms = _session_timeout_ms(said, member, shard)
    heard_ms = session.heard_ms if session is not None else said.life.started_ms
    if notice.why.startswith("its connection closed"):
        if session is not None and session.closed_ms is not None:
            if _keeps_its_place(said, member, shard) and now_ms - heard_ms < timeout_ms:
                raise ViolationError("static-put-out", f"{member} may come back for {timeout_ms} ms: {notice.why}")
            return
        if not _one_closed_while_registering(said):
            raise ViolationError("expired-too-early", f"{member} never closed a connection: {notice.why}")
        said.coverage["excuse a member expires whose connection closed while it registered"] += 1
    elif now_ms - heard_ms < timeout_ms:
        if session is None or not session.is_closed_by_node:
            raise ViolationError(
                "expired-too-early",
                f"{member} was heard {now_ms - heard_ms} ms ago, its time-out is {timeout_ms} ms: {notice.why}",
            )
        said.coverage["excuse a member expires early whose connection the node closed"] += 1


def _has_asked_to_leave(said: Said, member: tuple[str, str]) -> bool:
    """True when a leave of it is under way, also one sent behind a registration that was not answered yet."""
    life = said.life
    for (connection_id, _), asked in life.asked.items():
        removed, _ = life.removed.get(connection_id, (None, 0))
        if isinstance(asked.request, LeaveGroup) and member in (asked.member, removed):
            return True
    return False


def _keeps_its_place(said: Said, member: tuple[str, str], shard: int) -> bool:
    """True for a static member of a group that does not hold its running claims for it anyway."""
    group = said.logs[shard].groups.get(member[0])
    return group is not None and group.instances.get(member[1]) is not None and group.handover != "hold"


def _one_closed_while_registering(said: Said) -> bool:
    return any(
        connection_id in said.life.gone
        for (connection_id, _), asked in said.life.asked.items()
        if isinstance(asked.request, RegisterConsumer)
    )


def _session_timeout_ms(said: Said, member: tuple[str, str], shard: int) -> int:
    for record in reversed(said.logs[shard].records):
        facts = getattr(record, "facts", None)
        if facts is not None and (record.group_id, facts.member_id) == member:
            return int(facts.session_timeout_ms)
    raise ViolationError("no-such-member", f"{member} expires and never joined")
