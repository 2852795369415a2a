"""The longest step of a node that has a group of very many partitions, by what is asked of it.

    uv run python -m benchmarks.longest_hold [--partitions 100000]

The pure core in this process, with answers encoded, in processor time: what the event loop would stand still for. The
last line is for scripts; it fails when a step that decision 0024 bounds took longer than the bar.
"""

import argparse
import gc
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from coordinator.core.effects import Append, Effect, ResolveOffsets, Respond, SendPush, WakeAt
from coordinator.core.events import (
    BecameDurable,
    ConnectionOpened,
    Event,
    OffsetsResolved,
    RequestArrived,
    ResolvedOffset,
    Ticked,
    TopicMetadata,
    TopicsRead,
)
from coordinator.core.limits import Limits
from coordinator.core.node import Node
from coordinator.protocol.claim_columns import advance_of, claims_in_columns
from coordinator.protocol.codec import encode_message
from coordinator.protocol.ids import MAX_LIST_ITEMS, MAX_NAMED
from coordinator.protocol.messages import (
    CommitOffsets,
    ConfirmClaims,
    DescribeGroup,
    FetchOffsets,
    LeaveGroup,
    ListClaims,
    ListGroups,
    RegisterConsumer,
    Request,
    Response,
    StartFetcher,
)
from coordinator.protocol.operator_messages import ChangePause, DeleteGroup, DeleteOffsets, ResetOffsets
from coordinator.protocol.pages import ask_for_all
from coordinator.protocol.parts import Claim, NodeAddress, ResetTarget, StartHint, Subscription, TopicOffsets

_Piece = TypeVar("_Piece")

BAR_MS: Final = 20.0
MEMBERS: Final = 10
WALL_MS: Final = 1_700_000_000_000
GROUPS: Final = 5_000
CLAIMED: Final = 10_000
"""Partitions that one member has claims on."""
STARTS, UNKNOWN, RUNS, RETURNS, CONNECTIONS = range(MEMBERS + 1, MEMBERS + 6)
"""Connections of members that show very much, and how many there are in all."""


class Held:
    """A node, and the longest step since it was last asked about."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.longest_ms = 0.0
        self._node = Node(Limits(), 8, NodeAddress(1, "h", 1), ("k:1",))
        self._now_ms = 1_000
        self._due: deque[Event] = deque()
        self._answers: dict[int, Response] = {}
        self._asked = 0
        self._perform(self._node.start(self._now_ms, WALL_MS, "bench"))
        self.granted: dict[int, int] = {}
        """The owner epoch of each partition that was told last."""
        for connection_id in range(CONNECTIONS):
            self._happen(ConnectionOpened(self._now_ms, connection_id, "h"))

    def ask(self, request: Request, connection_id: int = 0) -> Response:
        """Ask one thing and let everything happen that follows at once."""
        self._asked += 1
        self._happen(RequestArrived(self._now_ms, connection_id, self._asked, request, f"m{self._asked}"))
        return self._answers.pop(self._asked)

    def ask_for_all(self, request: Request) -> None:
        """Ask for all pages."""
        ask_for_all(self.ask, request)

    def advance(self, ms: int) -> None:
        """Let time pass."""
        for _ in range(ms // 50):
            self._now_ms += 50
            self._happen(Ticked(self._now_ms, WALL_MS + self._now_ms))

    def register(self, request: RegisterConsumer, connection_id: int) -> None:
        """Register a member, which may wait until Kafka has been asked about the topic."""
        self._asked += 1
        self._happen(RequestArrived(self._now_ms, connection_id, self._asked, request, f"m{self._asked}"))
        self.read_topic()
        _done(self._answers.pop(self._asked))

    def pass_time(self, ms: int) -> None:
        """Let much time pass at once."""
        self._now_ms += ms
        self.advance(1_000)

    def read_topic(self) -> None:
        """Have Kafka say how many partitions there are."""
        topic = TopicMetadata("t", "id", (1,) * self.partitions)
        self._happen(TopicsRead(self._now_ms, {"t": topic}, frozenset(), {}, {1: ("b", 1)}, "c"))

    def _happen(self, event: Event) -> None:
        self._due.append(event)
        while self._due:
            next_event = self._due.popleft()
            began_s = time.process_time()
            effects = self._node.step(next_event)
            for effect in effects:
                if isinstance(effect, Respond):
                    encode_message(effect.response)
                elif isinstance(effect, SendPush):
                    encode_message(effect.push)
            self.longest_ms = max(self.longest_ms, (time.process_time() - began_s) * 1000)
            self._perform(effects)

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Respond(_, correlation_id, response):
                    self._answers[correlation_id] = response
                case Append(shard, base_offset, _, records):
                    self._due.append(BecameDurable(self._now_ms, shard, base_offset + len(records)))
                case SendPush(_, StartFetcher(partitions)):
                    self.granted.update((part.partition, part.owner_epoch) for part in partitions)
                case WakeAt():
                    self._due.append(Ticked(self._now_ms, WALL_MS + self._now_ms))
                case ResolveOffsets(lookup_id, asked):
                    found = tuple(ResolvedOffset(one.topic, one.partition, 3) for one in asked)
                    self._due.append(OffsetsResolved(self._now_ms, lookup_id, found))
                case _:
                    pass


def commit(held: Held) -> None:
    """Commit the offsets of a topic that Kafka does not have, as an operator."""
    for begin in range(0, held.partitions, MAX_NAMED):
        numbers = tuple(range(begin, begin + MAX_NAMED))
        held.ask(CommitOffsets("offsets", (TopicOffsets("gone", numbers, numbers),)))


def show(held: Held, connection_id: int, name: str, reads: int, *lists: ListClaims) -> None:
    """List what does not fit into a registration, and register with it for so many partitions."""
    for listed in lists:
        _done(held.ask(listed, connection_id))
    subscription = Subscription((), None, tuple(("t", number) for number in range(reads)))
    request = RegisterConsumer(f"shown-{name}", "m", name, subscription, "c", 1, 600_000, 60_000)
    held.register(request, connection_id)
    held.advance(2_000)


def show_starts(held: Held) -> None:
    """Register with starts of a checkpoint."""
    hints = [StartHint("t", "id", number, 5, from_checkpoint=True) for number in range(held.partitions)]
    show(held, STARTS, "starts", 1, *[ListClaims(hints=tuple(some)) for some in _portions(hints)])


def show_unknown_claims(held: Held) -> None:
    """Register with claims of which nothing is known."""
    claims = [Claim("t", "id", number, 7, 0, 5) for number in range(held.partitions)]
    show(held, UNKNOWN, "unknown", 1, *[ListClaims(claims=tuple(some)) for some in _portions(claims)])


def run_claims(held: Held) -> None:
    """Have a member claim all it gets and begin to read it."""
    held.granted.clear()
    show(held, RUNS, "running", CLAIMED)
    for some in _portions(_running(held), MAX_NAMED):
        _done(held.ask(advance_of((), some, keeps_offered=True), RUNS))
        _done(held.ask(ConfirmClaims(claims_in_columns(some)), RUNS))


def show_running_claims(held: Held) -> None:
    """Have it come back with all of that."""
    show(held, RETURNS, "running", CLAIMED, *[ListClaims(claims=tuple(some)) for some in _portions(_running(held))])


def _running(held: Held) -> list[Claim]:
    return [Claim("t", "id", number, held.granted[number], 3, 5) for number in range(CLAIMED)]


def _portions(pieces: list[_Piece], most: int = MAX_LIST_ITEMS) -> Iterator[list[_Piece]]:
    for begin in range(0, len(pieces), most):
        yield pieces[begin : begin + most]


def reset(held: Held) -> None:
    """Reset as many offsets as one request may."""
    targets = tuple(ResetTarget("gone", number, "offset", 3) for number in range(MAX_NAMED))
    held.ask(ResetOffsets("offsets", targets, "ann", is_dry_run=False))


def delete_offsets(held: Held) -> None:
    """Delete as many offsets as one request may."""
    named = tuple(("gone", number) for number in range(MAX_NAMED))
    held.ask(DeleteOffsets("offsets", named, "ann", is_dry_run=False))


def delete_group(held: Held) -> None:
    """Delete the group of the offsets."""
    _done(held.ask(DeleteGroup("offsets", "ann", is_dry_run=False)))


def leave(held: Held) -> None:
    """Have one member leave."""
    _done(held.ask(LeaveGroup(()), 1))
    held.advance(1_000)


def join(held: Held) -> None:
    """Have members join and be given everything."""
    for connection_id in range(1, MEMBERS + 1):
        name = f"m{connection_id}"
        request = RegisterConsumer("members", name, name, Subscription(("t",)), "c", 1, 600_000, 60_000)
        held.register(request, connection_id)
    held.advance(2_000)


def pause(held: Held, *, is_paused: bool) -> None:
    """Pause or resume the whole group."""
    held.ask(ChangePause("members", None, is_paused, "ann", is_dry_run=False))


def commit_in_many(held: Held) -> None:
    """Commit in many groups."""
    for number in range(GROUPS):
        held.ask(CommitOffsets(f"small-{number}", (TopicOffsets("gone", (0,), (1,)),)))


def forget_many(held: Held) -> None:
    """Have many groups be forgotten at the same time."""
    held.pass_time(Limits().offsets_retention_ms)


CASES: Final[dict[str, tuple[Callable[[Held], None], bool]]] = {
    "commits of an operator": (commit, True),
    "description of offsets": (lambda held: held.ask_for_all(DescribeGroup("offsets")), True),
    "all offsets": (lambda held: held.ask_for_all(FetchOffsets("offsets")), True),
    "reset": (reset, True),
    "deletion of offsets": (delete_offsets, True),
    "deletion of a group": (delete_group, True),
    "members join": (join, False),
    "description of members": (lambda held: held.ask_for_all(DescribeGroup("members")), True),
    "pause": (lambda held: pause(held, is_paused=True), True),
    "resume": (lambda held: pause(held, is_paused=False), True),
    "a member leaves": (leave, False),
    "commits in many groups": (commit_in_many, True),
    "list": (lambda held: held.ask_for_all(ListGroups()), True),
    "all fall silent": (lambda held: held.pass_time(700_000), False),
    "many groups are forgotten": (forget_many, True),
    "many starts are shown": (show_starts, True),
    "unknown claims are shown": (show_unknown_claims, True),
    "a member claims all": (run_claims, False),
    "running claims are shown": (show_running_claims, False),
}
"""The cases, in this order, and whether decision 0024 bounds their steps."""


def _done(response: Response) -> None:
    assert not getattr(response, "error", 0), response


def main() -> int:
    """Measure, and end with one line for scripts; the exit code is 1 when a bounded step was over the bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=100_000)
    held = Held(parser.parse_args().partitions // MAX_NAMED * MAX_NAMED)
    longest = {True: 0.0, False: 0.0}
    for name, (case, is_bounded) in CASES.items():
        gc.collect()
        gc.disable()
        held.longest_ms = 0.0
        case(held)
        gc.enable()
        longest[is_bounded] = max(longest[is_bounded], held.longest_ms)
        print(f"{name:<28} {held.longest_ms:8.1f} ms{'' if is_bounded else '  (not bounded)'}")
    is_ok = longest[True] <= BAR_MS
    print(
        f"bench-hold: {'OK' if is_ok else 'FAILED'} partitions={held.partitions} bounded_ms={longest[True]:.1f} "
        f"others_ms={longest[False]:.1f}"
    )
    return 0 if is_ok else 1


if __name__ == "__main__":
    sys.exit(main())
