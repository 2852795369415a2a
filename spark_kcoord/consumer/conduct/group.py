"""The member that a consumer is of its group: made when something is subscribed to, and again after it was left alone.

Nothing here waits: calls give futures, and what changes rings a bell. Errors are the consumer's own.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.parts import FinalOffset, LostPosition, ResetPolicy
from coordinator.protocol.text.addresses import Address
from coordinator.protocol.vocabulary import Handover, IsolationLevel
from spark_kcoord.consumer.errors import CoordinatorUnavailableError, translated
from spark_kcoord.consumer.settings import Settings
from spark_kcoord.consumer.subscription import Subscription
from spark_kcoord.errors import KcoordError, MemberClosedError
from spark_kcoord.member.client import MemberClient
from spark_kcoord.member.core.effects import Joined
from spark_kcoord.member.core.events import AnyCall, CommitCall, JoinCall, LeaveCall, ReportCall
from spark_kcoord.member.core.held.holdings import Assignment
from spark_kcoord.member.core.held.portions import bytes_of, portions
from spark_kcoord.member.settings import MemberSettings
from spark_kcoord.member.speech import CONSUMER

__all__ = ["Group", "MakeMember", "MemberPort"]

_log = logging.getLogger(__name__)

_NOTHING: Final = Assignment()


class MemberPort(Protocol):
    """The member client as a consumer needs it; every call may raise KcoordError, and none waits but `close`."""

    @property
    def is_left_alone(self) -> bool:
        """True once it has left because it was not polled."""

    @property
    def coordinators(self) -> tuple[Address, ...]:
        """The nodes that it knows by now, its own first."""

    def ask(self, call: AnyCall, timeout_ms: int | None = None) -> Future[Any]:
        """Make a call; a JoinCall starts the member."""

    def assignment(self) -> Assignment:
        """Return what the member owns now."""

    def note_positions(self, offsets: Sequence[OffsetToCommit]) -> None:
        """Say up to where partitions are done."""

    def release(self, finals: Sequence[FinalOffset]) -> None:
        """Let go of partitions."""

    def polled(self) -> None:
        """Say that the program goes on."""

    def resubscribe(self, settings: MemberSettings) -> None:
        """Read something else from now on."""

    def close(self) -> None:
        """Close the connection: no leave, no commit."""


MakeMember = Callable[[MemberSettings, Callable[[], None]], MemberPort]


def make_member(settings: MemberSettings, on_change: Callable[[], None]) -> MemberPort:
    """Return a real member, which connects when it is asked to join."""
    return MemberClient(settings, on_change=on_change)


@dataclass(slots=True)
class _Place:
    """One member from when it is made until it is forgotten, and its call to join."""

    member: MemberPort | None = None
    joining: Future[Joined] | None = None

    def drop(self) -> None:
        """Close the member's connection and forget it."""
        member = self.member
        if member is not None:
            member.close()
        self.member = None


class Group:
    """A consumer's place in its group, from one subscription to the next."""

    def __init__(self, settings: Settings, on_change: Callable[[], None], make: MakeMember = make_member) -> None:
        self._settings = settings
        self._on_change = on_change
        self._make = make
        self._place = _Place()
        self._subscription = Subscription()
        self.kafka_bootstrap: tuple[str, ...] = ()
        """Kafka's addresses as the coordinator told them, empty before the first join."""

    @property
    def coordinators(self) -> tuple[Address, ...]:
        """The nodes to be asked beside the member: all that it knows, or those of the settings where there is none."""
        member = self._place.member
        return self._settings.coordinators if member is None else member.coordinators

    def subscribe(self, subscription: Subscription) -> None:
        """Read this from now on; the first time that makes the member."""
        self._subscription = subscription
        member = self._place.member
        if member is None:
            self._start()
            return
        try:
            member.resubscribe(member_settings(self._settings, subscription))
        except KcoordError:
            # It was refused for good, or has left: another one asks anew.
            self.drop()
            self._start()

    def _start(self) -> MemberPort:
        """Begin to join, unless that is under way: the member tries on when a call to join was given up."""
        place, member = self._place, self._place.member
        if member is None:
            member = self._make(member_settings(self._settings, self._subscription), self._on_change)
            place = self._place = _Place(member)
        if place.joining is None or (place.joining.done() and place.joining.exception() is not None):
            place.joining = member.ask(JoinCall())
        return member

    def look(self) -> Assignment | None:
        """Return what is owned now, None after it was left alone and has left; raises why it cannot be a member.

        Without a member it begins to join.
        """
        member = self._place.member
        try:
            member = self._start()
            member.polled()
            assignment = member.assignment()
        except MemberClosedError as error:
            if member is None or not member.is_left_alone:
                raise translated(error) from error
            _log.warning("%s It joins again.", error)
            return None
        except KcoordError as error:
            raise translated(error) from error
        joining = self._place.joining
        if joining is None or not joining.done() or joining.exception() is not None:
            return _NOTHING  # nothing that is granted can be read before it is known where Kafka is
        self.kafka_bootstrap = joining.result().kafka_bootstrap
        return assignment

    @property
    def granted(self) -> Assignment:
        """The partitions that the member knows now as its own, none where there is no member; nothing is raised."""
        member = self._place.member
        try:
            return _NOTHING if member is None else member.assignment()
        except KcoordError:
            return _NOTHING

    def note(self, offsets: Sequence[OffsetToCommit]) -> None:
        """Say up to where partitions are done."""
        member = self._place.member
        if offsets and member is not None:
            with _over_when_closed():
                member.note_positions(offsets)

    def release(self, finals: Sequence[FinalOffset]) -> None:
        """Let go of partitions."""
        member = self._place.member
        if finals and member is not None:
            with _over_when_closed():
                for portion in portions(finals, bytes_of):
                    member.release(portion)

    def commit(self, offsets: Sequence[OffsetToCommit], timeout_ms: int | None = None) -> list[Future[Any]]:
        """Commit offsets; the answers come in portions, in order."""
        member = self._joined()
        return [member.ask(CommitCall(portion), timeout_ms) for portion in portions(offsets, bytes_of)]

    def report(self, positions: Sequence[LostPosition]) -> Future[Any]:
        """Say that Kafka does not have positions."""
        return self._joined().ask(ReportCall(tuple(positions)))

    def _joined(self) -> MemberPort:
        member = self._place.member
        if member is None:
            raise CoordinatorUnavailableError("The consumer is not in its group now: the next poll joins it again.")
        return member

    def leave(self, finals: Sequence[FinalOffset], timeout_ms: int) -> Future[Any] | None:
        """Leave the group with final offsets; the future is done when that is answered. `drop` goes after it."""
        member = self._place.member
        if member is None:
            return None
        try:
            return member.ask(LeaveCall(tuple(finals)), timeout_ms)
        except KcoordError:
            return None

    @property
    def drop(self) -> Callable[[], None]:
        """The call that closes the connection of the member that there is now, and forgets that one.

        It may be made on another thread, and end when the group has another member already.
        """
        return self._place.drop

    def abandon(self) -> None:
        """Have the member leave without waiting for it, or close its connection alone if it keeps its place."""
        member = self._place.member
        if member is not None and self._settings["group_instance_id"] is not None:
            threading.Thread(target=self.drop, name="kcoord-drop", daemon=True).start()
        elif member is not None:
            with _over_when_closed():
                member.ask(LeaveCall())


@contextmanager
def _over_when_closed() -> Iterator[None]:
    """Let pass that the member has ended meanwhile: what it was told then counts for nothing."""
    try:
        yield
    except KcoordError as error:
        _log.debug("not told to the coordinator: %s", error)


def member_settings(settings: Settings, subscription: Subscription) -> MemberSettings:
    """Return the settings of the member that a consumer is while it reads this."""
    policy = settings["auto_offset_reset"]
    return MemberSettings(
        coordinators=settings.coordinators,
        group_id=settings.group_id or "",
        client_id=settings.client_id,
        topics=subscription.topics,
        pattern=subscription.pattern,
        partitions=subscription.partitions,
        exclusions=tuple(dict.fromkeys((*settings["exclude"], *subscription.exclude))),
        instance_id=settings["group_instance_id"],
        streams=settings["streams"],
        wants_streams=settings["streams"] > 1,
        assignors=settings["assignors"],
        session_timeout_ms=settings["session_timeout_ms"],
        rebalance_timeout_ms=settings["rebalance_timeout_ms"],
        ping_interval_ms=settings.ping_interval_ms,
        reset_policy=None if policy is None else ResetPolicy(policy),
        wait_for_topics=settings["wait_for_topics"],
        coordinator_timeout_ms=settings["coordinator_timeout_ms"],
        join_timeout_ms=settings["coordinator_timeout_ms"],
        handover=None if settings["handover"] is None else Handover(settings["handover"]),
        auto_commit=settings.auto_commits,
        lets_go_itself=False,
        isolation_level=IsolationLevel(settings["isolation_level"]),
        keeps_trying=True,
        max_poll_interval_ms=settings["max_poll_interval_ms"],
        speech=CONSUMER,
    )
