"""The states of a member, and what moves it on; the table is the whole truth about legal moves.

Two things hold in every state and are not repeated below. Time alone can take partitions away: when no request sent
within the last session time-out has been answered, the member owns nothing until it is granted again. And what an
abandoned connection still brings is dropped. Times of silence are those at a node that was not silent before.
"""

from enum import Enum
from typing import Final


class State(Enum):
    """The state of a member."""

    NEW = "new"
    """Nobody has asked it to join. A JoinCall leads to CONNECTING; other calls are refused; it wants no connection."""
    CONNECTING = "connecting"
    """A connection has been asked for. Connected leads to GREETING; failure or 3 s of silence to WAITING, and the next
    node is tried; a refused log-in to FAILED unless it has been a member. Calls wait."""
    GREETING = "greeting"
    """Our hello is out. Theirs leads to FINDING; a broken rule, a lost connection or 3 s of silence to WAITING, and the
    next node is tried. Calls wait."""
    FINDING = "finding"
    """FindCoordinator is out. The node we are connected to leads to REGISTERING, another one to CONNECTING to it; a
    refusal that may pass, one of an earlier epoch, a lost connection or 6 s of silence to WAITING; a final refusal to
    FAILED. Calls wait."""
    REGISTERING = "registering"
    """RegisterConsumer is out, naming what is owned and claimed. Acceptance leads to JOINED; a refusal that may pass
    (also a place that is taken, for one session time-out), a lost connection or 10 s of silence (more where the
    node has asked for it) to WAITING; a final refusal to FAILED. Calls wait."""
    JOINED = "joined"
    """A member with a coordinator: pings go out, pushes are obeyed, calls are sent one at a time. A lost connection,
    two thirds of the session time-out without an answer (a fifth where other nodes are known), being fenced or a
    coordinator that moved leads to WAITING; a leave that is answered to CLOSED."""
    WAITING = "waiting"
    """Waiting out the backoff, without a connection. Time leads to CONNECTING. Calls wait, until their deadlines."""
    CLOSED = "closed"
    """Closed by its owner. It owns nothing; every call is refused; nothing leads out."""
    FAILED = "failed"
    """It cannot be a member, for a reason every call is answered with. Only CloseAsked leads out."""


class Step(Enum):
    """The steps that move a member from one state to another."""

    JOIN = "join asked"
    CONNECTED = "connected"
    GREETED = "hello came"
    FOUND_HERE = "coordinator found here"
    FOUND_ELSEWHERE = "coordinator found elsewhere"
    REGISTERED = "registered"
    LOST = "coordinator lost"
    RETRY = "backoff over"
    REFUSED = "refused for good"
    CLOSE = "closed"


_ALWAYS: Final = {Step.REFUSED: State.FAILED, Step.CLOSE: State.CLOSED}

TRANSITIONS: Final[dict[State, dict[Step, State]]] = {
    State.NEW: {Step.JOIN: State.CONNECTING, Step.CLOSE: State.CLOSED},
    State.CONNECTING: {Step.CONNECTED: State.GREETING, Step.LOST: State.WAITING, **_ALWAYS},
    State.GREETING: {Step.GREETED: State.FINDING, Step.LOST: State.WAITING, **_ALWAYS},
    State.FINDING: {
        Step.FOUND_HERE: State.REGISTERING,
        Step.FOUND_ELSEWHERE: State.CONNECTING,
        Step.LOST: State.WAITING,
        **_ALWAYS,
    },
    State.REGISTERING: {Step.REGISTERED: State.JOINED, Step.LOST: State.WAITING, **_ALWAYS},
    State.JOINED: {Step.LOST: State.WAITING, **_ALWAYS},
    State.WAITING: {Step.RETRY: State.CONNECTING, **_ALWAYS},
    State.CLOSED: {Step.CLOSE: State.CLOSED},
    State.FAILED: {Step.CLOSE: State.CLOSED},
}
"""Every legal step."""
