"""Whole micro-batches are advanced and begun as they would have been partition by partition, and never more."""

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from coordinator.core.groups.hard.records import ClaimsRunning, CommittedPart, TopicCommit, encode_record
from coordinator.core.groups.hard.replay.changes import own
from coordinator.core.groups.hard.replay.replay import replay
from coordinator.core.groups.hard.state import Grant, GroupState, ShardState
from coordinator.core.groups.hard.tables.claim_table import ClaimTable, OpenClaim, OpenClaims, Owner
from coordinator.core.groups.offsets.claims import advance_one_by_one, statuses
from coordinator.core.groups.offsets.claims_together import advance_together, begin_together
from coordinator.core.groups.partitions.in_topics import by_topic
from coordinator.core.groups.partitions.partition_set import PartitionSet
from coordinator.core.groups.partitions.partition_table import PartitionTable, TopicPartition
from coordinator.protocol.claim_columns import claims_in_columns, claims_of, count_of
from coordinator.protocol.messages import Advance, AdvanceResponse
from coordinator.protocol.parts import Claim, ClaimState, FinalOffset, Outcomes, TopicClaims
from tests.helpers.examples import examples

ALL: tuple[TopicPartition, ...] = (*[("t", number) for number in range(5)], ("u", 0), ("u", 1))
AT_MS = 9
MINE = Grant("m1", "id", 7)
OTHER_GRANTS: dict[str, Grant | None] = {
    "granted apart": Grant("m1", "id", 7),
    "granted again": Grant("m1", "id", 8),
    "granted to another": Grant("m2", "id", 7),
    "another topic's": Grant("m1", "another-id", 7),
    "to be let go": Grant("m1", "id", 7, stop_why="the target has changed"),
    "nobody's": None,
}
ODD = st.tuples(
    st.sampled_from(ALL), st.sampled_from([*OTHER_GRANTS, "committed", "closed", "claimed", "runs", "forgotten"])
)
"""One thing about a group that is not as usual."""
WRONG = ("epoch", "id", "begin", "end", "empty")


def usual_group(how: str = "together", *, is_running: bool = True) -> GroupState:
    """Return a group in which all is m1's, committed at 10 and claimed up to 15, or so."""
    group = GroupState("g", grants=PartitionTable(), claims=ClaimTable(), owned={"m1": PartitionSet(ALL)}, stopping={})
    for partition in ALL:
        group.grants[partition] = MINE
    for topic, numbers in (("t", (0, 1, 2, 3, 4)), ("u", (0, 1))):
        group.offsets.write_together(TopicCommit(topic, "id", 1, numbers, (10,) * len(numbers)))
        sizes = {"together": len(numbers), "in two": len(numbers) - 1, "alone": 1}
        for begin in range(0, len(numbers), sizes[how]):
            of_piece = numbers[begin : begin + sizes[how]]
            count = len(of_piece)
            owner = Owner(group.grants.changes, "m1", "id", (7,) * count)
            group.claims.open(topic, OpenClaims(of_piece, (10,) * count, (15,) * count, is_running), owner)
    return group


@st.composite
def groups(draw: st.DrawFn) -> GroupState:
    how = draw(st.sampled_from(["together", "together", "together", "in two", "alone"]))
    group = usual_group(how, is_running=draw(st.sampled_from([True, True, False])))
    for partition, what in draw(st.lists(ODD, max_size=2)):
        topic, number = partition
        if what in OTHER_GRANTS:
            _grant(group, partition, OTHER_GRANTS[what])
        elif what in {"claimed", "runs"}:
            if partition in group.grants and partition in group.offsets:
                begin = group.offsets[partition].offset
                grant = group.grants[partition]
                owner = Owner(group.grants.changes, grant.member_id, grant.topic_id, (grant.owner_epoch,))
                group.claims.open(topic, OpenClaims((number,), (begin,), (begin + 4,), what == "runs"), owner)
        else:
            group.claims.close(partition)
            if what == "forgotten" and partition in group.offsets:
                del group.offsets[partition]
            elif what == "committed":
                topic_id = draw(st.sampled_from(["id", "", "another-id"]))
                offset = draw(st.sampled_from([9, 12, 15]))
                group.offsets.write(CommittedPart(topic, topic_id, number, offset, None, "", 1, 7))
    return group


def _grant(group: GroupState, partition: TopicPartition, grant: Grant | None) -> None:
    if partition in group.grants:
        del group.grants[partition]
    for owned in group.owned.values():
        owned.discard_all(partition[0], partition[1:])
    for stopping in group.stopping.values():
        stopping.discard(partition)
    if grant is None:
        group.claims.close(partition)
    else:
        group.grants[partition] = grant
        own(group, grant.member_id, partition[0], partition[1:])
        if grant.is_stopping:
            group.stopping.setdefault(grant.member_id, set()).add(partition)


def _wrong(claim: Claim, what: str) -> Claim:
    match what:
        case "epoch":
            return replace(claim, owner_epoch=8)
        case "id":
            return replace(claim, topic_id="another-id")
        case "begin":
            return replace(claim, from_offset=claim.from_offset + 1)
        case "end":
            return replace(claim, until_offset=claim.until_offset - 1)
        case _:
            return replace(claim, from_offset=claim.until_offset)


@st.composite
def columns(draw: st.DrawFn, begin: int, until: int) -> tuple[TopicClaims, ...]:
    """Draw claims as a member would say them, and now and then something else in one of them."""
    others = [
        ALL[:5],
        ALL[5:],
        ALL[::-1],
        (*ALL, ALL[0]),
        (*ALL, ALL[6]),
        ALL[1:],
        (*ALL, *ALL[:5]),
        (ALL[0], ALL[5], *ALL[1:5]),
    ]
    partitions = draw(
        st.sampled_from([*[ALL] * 7, *others]) | st.just(ALL) | st.lists(st.sampled_from(ALL), max_size=6).map(tuple)
    )
    claims = [Claim(topic, "id", number, 7, begin, until) for topic, number in partitions]
    for at, what in draw(st.lists(st.tuples(st.sampled_from(range(7)), st.sampled_from(WRONG)), max_size=1)):
        if at < len(claims):
            claims[at] = _wrong(claims[at], what)
    return claims_in_columns(claims)


def _all_claimed(begin: int, until: int) -> tuple[TopicClaims, ...]:
    return claims_in_columns([Claim(topic, "id", number, 7, begin, until) for topic, number in ALL])


WHOLE = Advance(_all_claimed(10, 15), _all_claimed(15, 21))
ADVANCES = st.sampled_from(
    [WHOLE, WHOLE, Advance(WHOLE.finished, ()), Advance((), WHOLE.finished), Advance((), WHOLE.claims, (), True)]
) | st.builds(
    Advance,
    columns(10, 15) | st.just(WHOLE.finished),
    columns(15, 21) | columns(10, 15) | st.just(()),
    st.sampled_from([(), (), (), (FinalOffset("t", 0, 7),)]),
    st.booleans(),
)


@settings(max_examples=examples(75, 300), deadline=None)
@given(groups(), ADVANCES)
@example(usual_group(), WHOLE)
@example(usual_group("in two"), WHOLE)
@example(usual_group(), Advance(WHOLE.finished + WHOLE.finished[:1], ()))
@example(usual_group(), Advance((), WHOLE.claims + WHOLE.claims[:1]))
@example(usual_group(is_running=False), WHOLE)
def test_what_is_advanced_together_is_what_is_advanced_one_by_one(group: GroupState, asked: Advance) -> None:
    together = advance_together(group, "m1", asked, AT_MS)
    if together is None:
        return
    each = advance_one_by_one(group, "m1", asked, AT_MS)
    assert each.record is not None
    assert encode_record(each.record) == encode_record(together)
    counted = AdvanceResponse(finished=Outcomes(count_of(asked.finished)), claims=Outcomes(count_of(asked.claims)))
    assert (each.response, each.skipped) == (counted, ())


@settings(max_examples=examples(75, 300), deadline=None)
@given(groups(), columns(10, 15) | st.just(WHOLE.finished))
@example(usual_group(is_running=False), WHOLE.finished)
@example(usual_group("alone", is_running=False), (TopicClaims("t", "another-id", (0,), (7,), (10,), (15,)),))
def test_what_is_begun_together_is_what_is_begun_one_by_one(group: GroupState, asked: tuple[TopicClaims, ...]) -> None:
    together = begin_together(group, "m1", asked)
    if together is None:
        return
    found = statuses(group, "m1", tuple(claims_of(asked)))
    assert {(status.state, status.committed) for status in found} == {(ClaimState.OFFERED, 10)}
    assert by_topic((status.topic, status.partition) for status in found) == tuple(sorted(together, key=str))


def test_whole_micro_batches_are_decided_together() -> None:
    """The property above would hold of a way that takes nothing."""
    group, state = usual_group(), ShardState()
    state.groups["g"] = group
    for begin, middle, end in ((10, 15, 21), (15, 21, 22), (21, 22, 40)):
        finished, offered = _all_claimed(begin, middle), _all_claimed(middle, end)
        record = advance_together(group, "m1", Advance(finished, offered), AT_MS)
        assert record is not None
        replay(state, record, None)
        assert {partition: part.offset for partition, part in group.offsets.items()} == dict.fromkeys(ALL, middle)
        begun = begin_together(group, "m1", offered)
        assert begun is not None
        replay(state, ClaimsRunning("g", begun), None)
        assert dict(group.claims.items()) == dict.fromkeys(ALL, OpenClaim(middle, end, is_running=True))
