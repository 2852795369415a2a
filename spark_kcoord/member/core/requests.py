"""The requests of a member that is in its group: its next call, the partitions that it lets go of, and pings.

Calls go one at a time, in the order in which they were made; a partition that a call speaks of is let go of after it.
"""

from collections.abc import Sequence

import msgspec

from coordinator.protocol.claim_columns import claims_of
from coordinator.protocol.columns import in_columns
from coordinator.protocol.errors import ErrorCode, LocalProtocolError
from coordinator.protocol.messages import Advance, FetcherStopped, LeaveGroup, Ping
from coordinator.protocol.parts import FinalOffset
from spark_kcoord.member import refusals
from spark_kcoord.member.core.answers import show_partitions
from spark_kcoord.member.core.calls import Call, Calls
from spark_kcoord.member.core.effects import NoticeKind
from spark_kcoord.member.core.held.holdings import Holdings, partition_of
from spark_kcoord.member.core.held.portions import bytes_of, portions
from spark_kcoord.member.core.outbox import Outbox
from spark_kcoord.member.core.session.link import Link
from spark_kcoord.member.settings import MemberSettings


class Requests:
    """The requests that a member makes over its connection while it is in."""

    __slots__ = ("_calls", "_holdings", "_link", "_outbox", "_pinged_up_to", "_settings")

    def __init__(self, settings: MemberSettings, link: Link, holdings: Holdings, calls: Calls, outbox: Outbox) -> None:
        self._settings = settings
        self._link = link
        self._holdings = holdings
        self._calls = calls
        self._outbox = outbox
        self._pinged_up_to = ("", -1)

    def flush(self) -> None:
        """Send what waits to be sent, now that the event is dealt with."""
        self._send_next_call()
        conversation = self._link.open_conversation
        if self._settings.lets_go_itself:
            self.release(
                self._holdings.release_idle(conversation.busy_partitions(), drops_offered=self._settings.plans_itself)
            )
        while (request := conversation.next_queued()) is not None:
            self._link.send(request)

    def release(self, parts: Sequence[FinalOffset]) -> None:
        """Let go of partitions."""
        self._link.open_conversation.release(parts)
        if parts:
            self._outbox.notice(NoticeKind.RELEASED, show_partitions(parts))

    def ping(self, unpolled_ms: int | None) -> None:
        """Ping, with offsets that are to be committed by themselves, and for how long the member was not polled.

        While too much is out it is put off: what is there to be heard has been said, and an answer is waited for.
        """
        if self._link.open_conversation.is_full:
            self._link.put_ping_off()
            return
        waiting = self._holdings.uncommitted(self._pinged_up_to) if self._settings.auto_commit else ()
        offsets = next(portions(waiting, bytes_of), ())
        if offsets:
            self._pinged_up_to = partition_of(offsets[-1])
        self._link.send(Ping(self._holdings.member_epoch, in_columns(offsets), unpolled_ms))

    def _send_next_call(self) -> None:
        conversation = self._link.open_conversation
        while not conversation.is_full and (call := self._calls.next_to_send()) is not None:
            if not call.was_sent:
                self._complete(call)
            call.was_sent = True
            for release in conversation.releases_before(call.request):
                self._link.send(release)
            for finals in call.before:
                self._link.send(FetcherStopped(finals))
            try:
                self._link.send(call.request)
            except LocalProtocolError as error:
                if error.code is not ErrorCode.FRAME_TOO_LARGE:
                    raise
                self._calls.finish()
                self._outbox.fail(call.call_id, refusals.call_too_large(self._settings, str(error)))
            else:
                return

    def _complete(self, call: Call) -> None:
        """Give a call what is known only when it is sent first; a leave may hold very many partitions, and is cut."""
        if isinstance(call.request, Advance):
            call.request = self._with_releases(call.request)
        elif isinstance(call.request, LeaveGroup):
            *before, last = tuple(portions(call.request.partitions, bytes_of)) or ((),)
            call.before, call.request = tuple(before), LeaveGroup(last)

    def _with_releases(self, request: Advance) -> Advance:
        released = self._holdings.release_finished(tuple(claims_of(request.finished)), tuple(claims_of(request.claims)))
        if released:
            self._outbox.notice(NoticeKind.RELEASED, show_partitions(released))
        return msgspec.structs.replace(request, released=released)
