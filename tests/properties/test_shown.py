"""Claims and starts that a registration shows in several requests are those that it shows in one, and stand alike."""

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.core.groups.hard.state import Grant, GroupState
from coordinator.core.groups.membership.gone_back import MOST_SHOWN
from coordinator.core.groups.membership.listed_claims import look_at_listed
from coordinator.core.groups.offsets import claims
from coordinator.core.groups.partitions.in_topics import hint_at, one_by_one
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.groups.soft.shown import Shown
from coordinator.protocol.claim_columns import claims_of, each_status, is_whole
from coordinator.protocol.parts import Claim, ClaimState, StartHint
from tests.helpers.examples import examples
from tests.helpers.groups_by_hand import ALL, group_of

EPOCHS = st.sampled_from([0, 6, 7, 8, MOST_SHOWN - 2, MOST_SHOWN - 1, MOST_SHOWN, 2**63])
CLAIMS = st.lists(
    st.builds(
        Claim,
        st.sampled_from(["t", "u", "unknown"]),
        st.sampled_from(["id", "id", "another-id"]),
        st.integers(0, 5),
        st.sampled_from([7, 7, 7, 8]) | EPOCHS,
        st.sampled_from([10, 10, 10, 12]),
        st.sampled_from([15, 15, 15, 16]),
    ),
    max_size=12,
)
HINTS = st.lists(
    st.builds(
        StartHint,
        st.sampled_from(["t", "t", "u", "bad name"]),
        st.sampled_from(["id", "id", "i" * 251]),
        st.sampled_from([0, 1, 2, -1, 2**31]),
        st.sampled_from([0, 5, 2**63 - 1, 2**63, -1, -2, -3]),
        st.booleans(),
        st.none() | EPOCHS,
    ),
    max_size=6,
)
CUTS = st.integers(1, 13)


def shown_in(pieces: int, named: list[Claim], hints: list[StartHint]) -> Shown:
    shown = Shown()
    for first in range(0, max(len(named), len(hints)), pieces):
        shown.add(named[first : first + pieces], hints[first : first + pieces])
    return shown


@settings(max_examples=examples(75, 300), deadline=None)
@given(CLAIMS, HINTS, CUTS)
def test_what_is_shown_in_several_requests_is_what_is_shown_in_one(
    named: list[Claim], hints: list[StartHint], pieces: int
) -> None:
    shown, whole = shown_in(pieces, named, hints), shown_in(100, named, hints)
    assert list(claims_of(shown.claims)) == named
    assert (shown.claims, shown.hints, shown.end) == (whole.claims, whole.hints, whole.end)
    assert (shown.claim_count, shown.hint_count, not shown.why_bad) == (len(named), len(hints), not whole.why_bad)
    epochs = [claim.owner_epoch for claim in named] + [h.owner_epoch for h in hints if h.owner_epoch is not None]
    assert shown.end == max((epoch + 1 for epoch in epochs if epoch + 1 < MOST_SHOWN), default=0)


@settings(max_examples=examples(75, 300), deadline=None)
@given(HINTS, CUTS)
def test_starts_in_columns_are_those_that_were_shown_each_in_its_order(hints: list[StartHint], pieces: int) -> None:
    shown = shown_in(pieces, [], hints)
    for columns in shown.hints:
        kind = (columns.topic, columns.topic_id, columns.from_checkpoint)
        rows = [hint_at(columns, place) for place in range(len(columns.partitions))]
        assert rows == [hint for hint in hints if (hint.topic, hint.topic_id, hint.from_checkpoint) == kind]
    assert sum(len(columns.partitions) for columns in shown.hints) == len(hints)


@settings(max_examples=examples(75, 300), deadline=None)
@given(HINTS)
def test_a_start_that_cannot_be_one_is_found_among_others(hints: list[StartHint]) -> None:
    bad = [
        hint
        for hint in hints
        if hint.topic == "bad name"
        or len(hint.topic_id) > 250
        or not 0 <= hint.partition < 2**31
        or not (-2, 0)[hint.from_checkpoint] <= hint.offset < 2**63
    ]
    assert bool(shown_in(2, [], hints).why_bad) is bool(bad)


@st.composite
def groups(draw: st.DrawFn) -> GroupState:
    """Draw a group of which m1 has most."""
    grants = st.sampled_from([Grant("m1", "id", 7), Grant("m1", "id", 8), Grant("m2", "id", 7), None])
    others = draw(st.dictionaries(st.sampled_from(ALL), grants, max_size=3))
    apart = draw(st.sets(st.sampled_from(ALL), max_size=2))
    unclaimed = draw(st.sets(st.sampled_from(ALL), max_size=2))
    committed = draw(st.dictionaries(st.sampled_from(ALL), st.sampled_from([None, 9, 12]), max_size=2))
    return group_of(others, apart, unclaimed, committed, is_running=draw(st.booleans()))


@settings(max_examples=examples(125, 500), deadline=None)
@given(groups(), CLAIMS, CUTS)
def test_claims_that_are_looked_at_in_columns_stand_as_they_do_one_by_one(
    group: GroupState, named: list[Claim], pieces: int
) -> None:
    listed = look_at_listed(group, "m1", shown_in(pieces, named, []).claims)
    assert is_whole(listed.statuses, len(named))
    found = each_status(listed.statuses, named)
    alone = claims.statuses(group, "m1", named)
    assert [(s.topic, s.partition, s.owner_epoch, s.state, s.committed, bool(s.why)) for s in found] == [
        (s.topic, s.partition, s.owner_epoch, s.state, s.committed, bool(s.why)) for s in alone
    ]
    stand = {(s.topic, s.partition) for s in alone if s.state is not ClaimState.CLOSED}
    dropped: set[TopicPartition] = {p for p in group.owned_by("m1") if p in group.claims and p not in stand}
    assert set(one_by_one(listed.dropped)) == dropped
