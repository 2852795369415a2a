"""The way of a member into its group: the node that coordinates it is found, and the member registers there.

It is gone anew over each connection. The calls that wait for it, the claims and hints that it shows, and another
process that has the member's place are known here; what a member says and hears once it is in is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from coordinator.client.refusals import BETTER_ELSEWHERE, PASSING, Refusal, refusal_of, show_refusal
from coordinator.protocol.claim_columns import each_status
from coordinator.protocol.claim_columns import is_whole as accounts_for
from coordinator.protocol.errors import ErrorCode, LocalProtocolError
from coordinator.protocol.messages import (
    FindCoordinator,
    FindCoordinatorResponse,
    RegisterConsumer,
    RegisterConsumerResponse,
    Response,
)
from coordinator.protocol.parts import StartHint
from coordinator.protocol.text.addresses import Address, format_address
from spark_kcoord.errors import KcoordError
from spark_kcoord.member import refusals
from spark_kcoord.member.core.calls import Calls
from spark_kcoord.member.core.effects import Joined, NoticeKind
from spark_kcoord.member.core.held.holdings import Holdings
from spark_kcoord.member.core.known_log import KnownLog
from spark_kcoord.member.core.outbox import Outbox
from spark_kcoord.member.core.registration import Registration, introduce
from spark_kcoord.member.core.session.conversation import Asked
from spark_kcoord.member.core.session.lease import Lease
from spark_kcoord.member.core.session.link import Link
from spark_kcoord.member.core.session.patience import ANSWER_TIMEOUT_MS, MOST_REGISTER_MS, REGISTER_TIMEOUT_MS
from spark_kcoord.member.core.session.states import State, Step
from spark_kcoord.member.settings import MemberSettings

MAX_REDIRECTS: Final = 5


@dataclass(frozen=True, slots=True)
class TryAgain:
    """This connection does not lead into the group; another one may."""

    why: str
    is_elsewhere_better: bool


@dataclass(frozen=True, slots=True)
class GiveUp:
    """No connection leads into the group."""

    error: KcoordError


Setback: TypeAlias = TryAgain | GiveUp


class Entry:
    """The entries of one process into its group, one after the other.

    `hints` are a checkpoint's, then an option's; none are shown once all that the member is to have was granted.
    """

    __slots__ = (
        "_began_ms",
        "_calls",
        "_doubted_since_ms",
        "_holdings",
        "_in_use",
        "_in_use_since_ms",
        "_incarnation",
        "_leader_epoch",
        "_lease",
        "_link",
        "_log",
        "_outbox",
        "_pid",
        "_redirects",
        "_settings",
        "_successors",
        "_waiting",
        "hints",
        "introduction",
        "joined",
        "member_id",
    )

    def __init__(
        self,
        settings: MemberSettings,
        link: Link,
        lease: Lease,
        holdings: Holdings,
        log: KnownLog,
        outbox: Outbox,
        calls: Calls,
        *,
        incarnation: str,
        pid: int,
        member_id: str,
        hints: Sequence[StartHint],
    ) -> None:
        self.member_id = member_id
        self.hints = tuple(hints)
        self.joined: Joined | None = None
        self.introduction: Registration | None = None
        self._settings = settings
        self._link = link
        self._lease = lease
        self._holdings = holdings
        self._log = log
        self._outbox = outbox
        self._calls = calls
        self._incarnation = incarnation
        self._pid = pid
        self._began_ms: int | None = None
        self._waiting: dict[int, int] = {}
        self._redirects = 0
        self._leader_epoch: int | None = None
        """The greatest epoch of a coordinator of the group that a node has named."""
        self._doubted_since_ms: int | None = None
        """The time since when nodes name none but earlier ones."""
        self._successors: tuple[Address, ...] = ()
        """The nodes that would coordinate the group next, as the one at which the member registers has named them."""
        self._in_use_since_ms: int | None = None
        self._in_use: Refusal = (ErrorCode.MEMBER_ID_IN_USE, "")

    # ---- calls that wait to be in -----------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Number of calls that wait for the member to be in."""
        return len(self._waiting)

    def await_entry(self, call_id: int, deadline_ms: int) -> None:
        """Complete a call when the member is in."""
        self._waiting[call_id] = deadline_ms
        if self._began_ms is None:
            self._began_ms = self._link.now_ms

    def overdue(self) -> list[int]:
        """Return the calls that have waited for too long."""
        return [call_id for call_id, deadline_ms in self._waiting.items() if deadline_ms <= self._link.now_ms]

    def fail(self, call_ids: Sequence[int], error: KcoordError) -> None:
        """Fail calls that wait."""
        for call_id in call_ids:
            del self._waiting[call_id]
            self._outbox.fail(call_id, error)

    def end(self, error: KcoordError) -> None:
        """Fail every call that waits: nobody tries any more."""
        self._in_use_since_ms = None
        self.fail(list(self._waiting), error)

    def resubscribe(self, settings: MemberSettings) -> Setback | None:
        """Ask for what these settings say: at once where it is in, or else at the next registration.

        What does not fit into one request is listed on a connection that is nobody's yet, so it needs another one.
        """
        self._settings = settings
        if self._link.state is State.JOINED:
            fits = not self._introduce().before
            return self._register() if fits else TryAgain("it has too much to show", is_elsewhere_better=False)
        if self._link.state is State.REGISTERING:
            return TryAgain("the subscription has changed", is_elsewhere_better=False)
        return None

    # ---- the way in -------------------------------------------------------------------------------------------------

    def begin_anew(self) -> None:
        """Note that the connection is lost."""
        self._redirects = 0

    def find(self) -> None:
        """Ask the node, which has said hello, who coordinates the group, if not whoever did until now."""
        self._link.await_node(Step.GREETED, ANSWER_TIMEOUT_MS)
        self._link.send(FindCoordinator(self._settings.group_id, self._leader_epoch))

    def hear(self, asked: Asked, response: Response) -> Setback | None:
        """Take the response to a request of the way in."""
        refusal = refusal_of(response)
        if isinstance(response, FindCoordinatorResponse):
            self._link.nodes.learn((node.host, node.port) for node in response.nodes)
        if refusal is not None:
            return self._on_refused(refusal)
        match asked.request, response:
            case FindCoordinator(), FindCoordinatorResponse():
                return self._on_found(response)
            case RegisterConsumer(), RegisterConsumerResponse():
                return self._on_registered(asked, response)
            case _:
                return None

    def _on_found(self, response: FindCoordinatorResponse) -> Setback | None:
        nodes = self._link.nodes
        if response.coordinator is None:
            return TryAgain("it knows no coordinator of this group", is_elsewhere_better=True)
        if self._is_of_the_past(response.leader_epoch):
            why = f"it names the coordinator of epoch {response.leader_epoch}, and there is one of {self._leader_epoch}"
            return TryAgain(why, is_elsewhere_better=True)
        address = (response.coordinator.host, response.coordinator.port)
        if address == nodes.current:
            named = {node.node_id: (node.host, node.port) for node in response.nodes}
            self._successors = tuple(named[node] for node in response.successors if node in named)
            least_ms = max(REGISTER_TIMEOUT_MS, min(response.patience_ms, MOST_REGISTER_MS))
            self._link.await_node(Step.FOUND_HERE, least_ms)
            return self._register()
        self._redirects += 1
        if self._redirects > MAX_REDIRECTS:
            why = f"nodes send each other's members around; the last named {format_address(address)}"
            return TryAgain(why, is_elsewhere_better=True)
        self._link.drop("the coordinator is another node")
        nodes.choose(address)
        self._link.connect(Step.FOUND_ELSEWHERE)
        return None

    def _is_of_the_past(self, leader_epoch: int) -> bool:
        """Return whether a coordinator of this epoch has been replaced, as far as is known.

        Epochs begin anew where a coordinator has lost its disk. So one that nobody but the past knows of is forgotten:
        at once where there is one node, else when nobody has named it for a session time-out.
        """
        known, since_ms = self._leader_epoch, self._doubted_since_ms
        if known is not None and leader_epoch < known and not self._link.nodes.is_alone:
            if since_ms is None:
                since_ms = self._doubted_since_ms = self._link.now_ms
            if self._link.now_ms - since_ms < self._lease.session_timeout_ms:
                return True
        if leader_epoch != known:
            self._lease.trust()
        self._leader_epoch, self._doubted_since_ms = leader_epoch, None
        return False

    def _introduce(self) -> Registration:
        return introduce(
            self._settings,
            self._holdings,
            self.hints,
            member_id=self.member_id,
            incarnation=self._incarnation,
            pid=self._pid,
            log=self._log.position,
            is_rejoining=self.joined is not None,
            age_ms=0 if self._began_ms is None else self._link.now_ms - self._began_ms,
            is_leaving=self._calls.wants_to_leave,
        )

    def _register(self) -> Setback | None:
        self.introduction = self._introduce()
        try:
            for listed in self.introduction.before:
                self._link.send(listed)
            self._link.send(self.introduction.request)
        except LocalProtocolError as error:
            return GiveUp(refusals.call_too_large(self._settings, str(error)))
        return None

    def _on_registered(self, asked: Asked, response: RegisterConsumerResponse) -> Setback | None:
        assert self.introduction is not None
        listed = self.introduction.claims
        if not accounts_for(response.claims, len(listed)):
            return TryAgain("it did not answer for every claim", is_elsewhere_better=False)
        is_changing = self._link.state is State.JOINED
        if not is_changing:
            self._link.move(Step.REGISTERED)
            self._link.nodes.expect(self._successors)
        self._redirects = 0
        self._in_use_since_ms = None
        self._lease.begin(asked.sent_ms, response.session_timeout_ms, response.ping_interval_ms)
        self.member_id = response.member_id or self.member_id
        self._log.begin(response.log)
        self._holdings.begin_anew(response.held)
        statuses = each_status(response.claims, listed)
        self._holdings.answer_claims(listed, statuses)
        self._holdings.set_member_epoch(response.member_epoch)
        if is_changing:
            return None
        kind = NoticeKind.JOINED if self.joined is None else NoticeKind.REJOINED
        self.joined = Joined(self.member_id, response.kafka_cluster_id, response.kafka_bootstrap, statuses)
        self._outbox.notice(kind, f"member {self.member_id} at {format_address(self._link.nodes.current)}")
        for call_id in self._waiting:
            self._outbox.complete(call_id, self.joined)
        self._waiting.clear()
        return None

    def _on_refused(self, refusal: Refusal) -> Setback:
        code, message = refusal
        if code in refusals.IN_ITS_PLACE:
            if self._in_use_since_ms is None:
                self._in_use_since_ms = self._link.now_ms
                why = f"{message}; trying for {self._lease.session_timeout_ms} ms"
                self._outbox.notice(NoticeKind.ID_IN_USE, why)
            self._in_use = refusal
            return TryAgain(show_refusal(refusal), is_elsewhere_better=False)
        if code in PASSING or code in refusals.LOST_MEMBERSHIP:
            return TryAgain(show_refusal(refusal), is_elsewhere_better=code in BETTER_ELSEWHERE)
        return GiveUp(refusals.refused_for_good(self._settings, refusal))

    # ---- time -------------------------------------------------------------------------------------------------------

    @property
    def is_place_taken(self) -> bool:
        """True while another process has the member's place."""
        return self._in_use_since_ms is not None

    @property
    def deadline_ms(self) -> int | None:
        """The time at which a call, or the wait for the member's place, is over; None without either."""
        if self._in_use_since_ms is not None:
            return self._in_use_since_ms + self._lease.session_timeout_ms
        return min(self._waiting.values(), default=None)

    def check_place(self) -> GiveUp | None:
        """Give up when another process has had the member's place for a session time-out."""
        since_ms = self._in_use_since_ms
        if since_ms is None or self._link.now_ms - since_ms < self._lease.session_timeout_ms:
            return None
        self._in_use_since_ms = None
        return GiveUp(refusals.refused_for_good(self._settings, self._in_use))
