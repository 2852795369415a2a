"""The one connection of a member: its state, the node at its other end, and how long that may be silent.

Every state of a member is one of its connection, so the table of legal moves is held here. What is said over the
connection, and what a loss means to the member, is decided by who uses it.
"""

from collections.abc import Callable
from typing import Final

from coordinator.client.nodes import Nodes
from coordinator.protocol.messages import Request
from spark_kcoord.member.core.effects import Connect, Disconnect, Send
from spark_kcoord.member.core.outbox import Outbox
from spark_kcoord.member.core.session.conversation import Conversation
from spark_kcoord.member.core.session.lease import Lease
from spark_kcoord.member.core.session.patience import CONNECT_TIMEOUT_MS, HELLO_TIMEOUT_MS
from spark_kcoord.member.core.session.states import TRANSITIONS, State, Step

_CONNECTED_STATES: Final = frozenset({State.GREETING, State.FINDING, State.REGISTERING, State.JOINED})


class Link:
    """The connection that there is or is to be; `now_ms` is the time of the step that is under way."""

    __slots__ = (
        "_jitter",
        "_lease",
        "_outbox",
        "connection_id",
        "conversation",
        "deadline_ms",
        "nodes",
        "now_ms",
        "state",
        "waits_ms",
    )

    def __init__(self, nodes: Nodes, lease: Lease, outbox: Outbox, jitter: Callable[[], float]) -> None:
        self.nodes = nodes
        self.state = State.NEW
        self.conversation: Conversation | None = None
        self.connection_id = 0
        self.deadline_ms = 0
        """Until when the state may last, unless it is one that lasts."""
        self.waits_ms = 0
        """The time that the node at the other end has for what was last awaited of it."""
        self.now_ms = 0
        self._lease = lease
        self._outbox = outbox
        self._jitter = jitter

    @property
    def is_wanted(self) -> bool:
        """True while there is a connection, or one is being opened."""
        return self.state in _CONNECTED_STATES or self.state is State.CONNECTING

    @property
    def open_conversation(self) -> Conversation:
        """The conversation, where there must be one."""
        assert self.conversation is not None
        return self.conversation

    def move(self, step: Step, *, wait_ms: int | None = None) -> None:
        """Go to the state that a step leads to, which may last for `wait_ms`."""
        following = TRANSITIONS[self.state].get(step)
        assert following is not None, f"{step.value} while {self.state.value}"
        self.state = following
        if wait_ms is not None:
            self.deadline_ms = self.now_ms + wait_ms

    def await_node(self, step: Step, least_ms: int) -> None:
        """Go to a state in which the node at the other end is waited for: `least_ms`, more if it was silent before."""
        self.waits_ms = self.nodes.patience_ms(least_ms)
        self.move(step, wait_ms=self.waits_ms)

    def connect(self, step: Step) -> None:
        """Open a connection to the current node, as a step wants it."""
        self.await_node(step, CONNECT_TIMEOUT_MS)
        self.connection_id += 1
        host, port = self.nodes.current
        self._outbox.effects.append(Connect(self.connection_id, host, port, self.waits_ms))

    def greet(self) -> None:
        """Say hello on the connection that is open now."""
        self.await_node(Step.CONNECTED, HELLO_TIMEOUT_MS)
        self.conversation = Conversation(self.now_ms)
        self._outbox.effects.append(Send(self.connection_id, self.conversation.greet()))

    def send(self, request: Request) -> None:
        """Send a request; raises LocalProtocolError when it cannot be sent."""
        data = self.open_conversation.ask(request, self.now_ms)
        self._lease.note_sent(self.now_ms, self._jitter())
        self._outbox.effects.append(Send(self.connection_id, data))

    def put_ping_off(self) -> None:
        """Have the next ping come later, as if something had been sent."""
        self._lease.note_sent(self.now_ms, self._jitter())

    def drop(self, why: str, *, is_gone: bool = False) -> None:
        """Close the connection, unless it `is_gone` already."""
        if self.is_wanted and not is_gone:
            self._outbox.effects.append(Disconnect(self.connection_id, why))
        self.conversation = None

    def lose(self, why: str, *, is_elsewhere_better: bool, is_gone: bool, was_silent: bool) -> None:
        """Give up the connection and wait out a backoff before the next.

        Whoever was served and knows other nodes goes to one of them at once.
        """
        departs = self.state is State.JOINED and is_elsewhere_better and not self.nodes.is_alone
        self.drop(why, is_gone=is_gone)
        self.nodes.note_trouble(why, is_elsewhere_better=is_elsewhere_better, was_silent=was_silent)
        self.move(Step.LOST, wait_ms=self.nodes.departure_ms() if departs else self.nodes.next_backoff_ms())
