"""Things that are asked of a node with very large groups, of which the longest step is measured."""

from collections.abc import Iterator
from typing import Final, TypeVar

from benchmarks.hold_node import Held, case, must_be_done
from coordinator.core.limits import Limits
from coordinator.protocol.claim_columns import advance_of, claims_in_columns
from coordinator.protocol.ids import MAX_LIST_ITEMS, MAX_METADATA_BYTES, MAX_NAMED, MAX_TOPIC_LENGTH
from coordinator.protocol.messages import (
    CommitOffsets,
    ConfirmClaims,
    DescribeGroup,
    FetchOffsets,
    LeaveGroup,
    ListClaims,
    ListGroupEvents,
    ListGroups,
    RegisterConsumer,
)
from coordinator.protocol.messages.operators import (
    CancelResets,
    ChangePause,
    DeleteGroup,
    DeleteOffsets,
    DescribeControls,
    ResetOffsets,
)
from coordinator.protocol.parts import Claim, FinalOffset, ResetTarget, StartHint, Subscription, TopicOffsets

_Piece = TypeVar("_Piece")

MEMBERS: Final = 10
CROWD: Final = 2_000
GROUPS: Final = 5_000
CLAIMED: Final = 10_000
"""Partitions that one member names, each for itself, and has claims on."""
NOTED: Final = 20_000
"""Offsets that have as much metadata as they may."""
STARTS, UNKNOWN, RUNS, ALONE = range(MEMBERS + 1, MEMBERS + 5)
"""Connections of members that show or have very much."""
FIRST_OF_CROWD: Final = MEMBERS + 5
CONNECTIONS: Final = FIRST_OF_CROWD + CROWD


def show(held: Held, connection_id: int, name: str, reads: int, *lists: ListClaims, incarnation: str = "first") -> None:
    """List what does not fit into a registration, and register with it for so many partitions."""
    for listed in lists:
        must_be_done(held.ask(listed, connection_id))
    subscription = Subscription((), None, tuple(("t", number) for number in range(reads)))
    request = RegisterConsumer(f"shown-{name}", "m", incarnation, subscription, "c", 1, 600_000, 60_000)
    held.register(request, connection_id)
    held.advance(2_000)


def _running(held: Held) -> list[Claim]:
    return [Claim("t", "id", number, held.granted[number], 3, 5) for number in range(CLAIMED)]


def portions(pieces: list[_Piece], most: int = MAX_LIST_ITEMS) -> Iterator[list[_Piece]]:
    """Yield things in portions of at most so many."""
    for begin in range(0, len(pieces), most):
        yield pieces[begin : begin + most]


@case("commits of an operator")
def commit(held: Held) -> None:
    """Commit the offsets of a topic that Kafka does not have, as an operator."""
    for begin in range(0, held.partitions, MAX_NAMED):
        numbers = tuple(range(begin, begin + MAX_NAMED))
        held.ask(CommitOffsets("offsets", (TopicOffsets("gone", numbers, numbers),)))


@case("description of offsets")
def describe_offsets(held: Held) -> None:
    """Describe the group of the offsets."""
    held.ask_for_all(DescribeGroup("offsets"))


@case("all offsets")
def fetch_offsets(held: Held) -> None:
    """Ask for all the offsets."""
    held.ask_for_all(FetchOffsets("offsets"))


@case("reset")
def reset(held: Held) -> None:
    """Reset as many offsets as one request may."""
    targets = tuple(ResetTarget("gone", number, "offset", 3) for number in range(MAX_NAMED))
    held.ask(ResetOffsets("offsets", targets, "ann", is_dry_run=False))


@case("deletion of offsets")
def delete_offsets(held: Held) -> None:
    """Delete as many offsets as one request may."""
    named = tuple(("gone", number) for number in range(MAX_NAMED))
    held.ask(DeleteOffsets("offsets", named, "ann", is_dry_run=False))


@case("deletion of a group")
def delete_group(held: Held) -> None:
    """Delete the group of the offsets."""
    must_be_done(held.ask(DeleteGroup("offsets", "ann", is_dry_run=False)))


@case("commits with metadata")
def commit_notes(held: Held) -> None:
    """Commit offsets with as much metadata as they may have."""
    note = "x" * MAX_METADATA_BYTES
    for some in portions(list(range(NOTED)), MAX_NAMED // 4):
        numbers = tuple(some)
        held.ask(CommitOffsets("noted", (TopicOffsets("gone", numbers, numbers, (), (), (note,) * len(numbers)),)))


@case("offsets with metadata")
def fetch_notes(held: Held) -> None:
    """Ask for them all by name."""
    held.ask_for_all(FetchOffsets("noted", tuple(("gone", number) for number in range(NOTED))))


@case("members join")
def join(held: Held) -> None:
    """Have members join and be given everything."""
    for connection_id in range(1, MEMBERS + 1):
        name = f"m{connection_id}"
        request = RegisterConsumer("members", name, name, Subscription(("t",)), "c", 1, 600_000, 60_000)
        held.register(request, connection_id)
    held.advance(2_000)


@case("description of members")
def describe_members(held: Held) -> None:
    """Describe the group of the members."""
    held.ask_for_all(DescribeGroup("members"))


@case("pause")
def pause(held: Held) -> None:
    """Pause the whole group."""
    held.ask(ChangePause("members", None, True, "ann", is_dry_run=False))


@case("resume")
def resume(held: Held) -> None:
    """Resume the whole group."""
    held.ask(ChangePause("members", None, False, "ann", is_dry_run=False))


@case("a member leaves")
def leave(held: Held) -> None:
    """Have one member leave."""
    must_be_done(held.ask(LeaveGroup(()), 1))
    held.advance(1_000)


@case("a member leaves with offsets")
def leave_with_offsets(held: Held) -> None:
    """Have one member leave and say where it has come to in each partition."""
    finals = [FinalOffset("t", number, held.granted[number], 7) for number in sorted(held.told[2])]
    must_be_done(held.ask(LeaveGroup(tuple(finals[:MAX_NAMED])), 2))
    held.advance(1_000)


@case("commits in many groups")
def commit_in_many(held: Held) -> None:
    """Commit in many groups."""
    for number in range(GROUPS):
        held.ask(CommitOffsets(f"small-{number}", (TopicOffsets("gone", (0,), (1,)),)))


@case("list")
def list_groups(held: Held) -> None:
    """List very many groups."""
    held.ask_for_all(ListGroups())


@case("all fall silent")
def fall_silent(held: Held) -> None:
    """Have all members fall silent."""
    held.pass_time(700_000)


@case("many groups are forgotten")
def forget_many(held: Held) -> None:
    """Have many groups be forgotten at the same time."""
    held.pass_time(Limits().offsets_retention_ms)


@case("many starts are shown")
def show_starts(held: Held) -> None:
    """Register with starts of a checkpoint."""
    hints = [StartHint("t", "id", number, 5, from_checkpoint=True) for number in range(held.partitions)]
    show(held, STARTS, "starts", 1, *[ListClaims(hints=tuple(some)) for some in portions(hints)])


@case("unknown claims are shown")
def show_unknown_claims(held: Held) -> None:
    """Register with claims of which nothing is known."""
    claims = [Claim("t", "id", number, 7, 0, 5) for number in range(held.partitions)]
    show(held, UNKNOWN, "unknown", 1, *[ListClaims(claims=tuple(some)) for some in portions(claims)])


@case("a member claims all")
def run_claims(held: Held) -> None:
    """Have a member claim all it gets and begin to read it."""
    held.granted.clear()
    show(held, RUNS, "running", CLAIMED)
    for some in portions(_running(held), MAX_NAMED):
        must_be_done(held.ask(advance_of((), some, keeps_offered=True), RUNS))
        must_be_done(held.ask(ConfirmClaims(claims_in_columns(some)), RUNS))


@case("running claims are shown")
def show_running_claims(held: Held) -> None:
    """Have another process come back with all of that, after the connection was lost."""
    held.lose(RUNS)
    lists = [ListClaims(claims=tuple(some)) for some in portions(_running(held))]
    show(held, RUNS, "running", CLAIMED, *lists, incarnation="second")


@case("2,000 claims are refused")
def refuse_micro_batch(held: Held) -> None:
    """Have a member name claims of a long topic that it does not have."""
    claims = [Claim("x" * MAX_TOPIC_LENGTH, "id", number, 7, 0, 5) for number in range(MAX_NAMED)]
    held.ask(advance_of(claims, (), keeps_offered=True), RUNS)


@case("thousands of members join")
def join_crowd(held: Held) -> None:
    """Have members by the thousand join one group."""
    for number in range(CROWD):
        name = f"m{number}"
        request = RegisterConsumer("crowd", name, name, Subscription(("t",)), "c", 1, 600_000, 60_000)
        must_be_done(held.ask(request, FIRST_OF_CROWD + number))
    held.advance(5_000)


@case("one of thousands leaves")
def leave_crowd(held: Held) -> None:
    """Have one of them leave."""
    must_be_done(held.ask(LeaveGroup(()), FIRST_OF_CROWD))
    held.advance(1_000)


@case("their shard is resigned")
def resign_crowd(held: Held) -> None:
    """Lead the shard of thousands of members no longer."""
    held.resign("crowd")


@case("their shard is led again")
def lead_crowd(held: Held) -> None:
    """Lead that shard again, all of its log."""
    held.lead("crowd")
    held.advance(1_000)


@case("a member joins alone")
def join_alone(held: Held) -> None:
    """Have one member join a group and be given everything."""
    held.register(RegisterConsumer("alone", "m", "m", Subscription(("t",)), "c", 1, 600_000, 60_000), ALONE)
    held.advance(5_000)


@case("resets are planned")
def plan_resets(held: Held) -> None:
    """Reset every partition while its owner has it."""
    for some in portions(list(range(held.partitions)), MAX_NAMED):
        targets = tuple(ResetTarget("t", number, "offset", 3) for number in some)
        held.ask(ResetOffsets("alone", targets, "ann", is_dry_run=False))
        held.advance(50)


@case("all resets are cancelled")
def cancel_resets(held: Held) -> None:
    """Cancel them all."""
    held.ask_for_all(CancelResets("alone", None, "ann", is_dry_run=False))


@case("pauses with long reasons")
def pause_each(held: Held) -> None:
    """Pause very many partitions, each with a long reason."""
    for some in portions([("t", number) for number in range(NOTED)], MAX_NAMED):
        held.ask(ChangePause("alone", tuple(some), True, "ann", "x" * 1_000, is_dry_run=False))
        held.advance(50)


@case("what operators decided")
def describe_controls(held: Held) -> None:
    """Ask for all that operators decided."""
    held.ask_for_all(DescribeControls("alone"))


@case("a timeline")
def list_events(held: Held) -> None:
    """Ask for the whole timeline."""
    held.ask_for_all(ListGroupEvents("alone"))
