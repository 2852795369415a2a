"""What is committed at once is what would have been committed partition by partition, and never more."""

from hypothesis import example, given
from hypothesis import strategies as st

from coordinator.core.groups.hard.records import CommittedPart, TopicCommit
from coordinator.core.groups.hard.state import Grant, GroupState
from coordinator.core.groups.hard.tables.claim_table import ClaimTable, OpenClaims, Owner
from coordinator.core.groups.offsets.committed_offsets import commit_by_owner, commit_together, owned_topic_id
from coordinator.core.groups.partitions.partition_table import PartitionTable
from coordinator.protocol.columns import one_by_one
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import TopicOffsets
from tests.helpers.committed_parts import in_parts

NUMBERS = range(5)
AT_MS = 9
MINE = Grant("m1", "id", 7)
GRANTS = st.sampled_from(
    [
        *[MINE] * 6,
        Grant("m1", "id", 7),
        Grant("m1", "id", 8),
        Grant("m2", "id", 7),
        Grant("m1", "another-id", 7),
        Grant("m1", "id", 7, stop_why="the target has changed"),
        None,
    ]
)
COMMITTED = st.sampled_from(
    [
        *[TopicCommit("t", "id", 1, tuple(NUMBERS), (3,) * 5, (7,) * 5)] * 3,
        TopicCommit("t", "id", 1, (1, 2, 3), (2, 3, 4)),
        TopicCommit("t", "another-id", 1, (0, 4), (9, 9)),
        None,
    ]
)


@st.composite
def commits(draw: st.DrawFn) -> TopicOffsets:
    numbers = draw(st.just(tuple(NUMBERS)) | st.lists(st.integers(-1, 5), max_size=6).map(tuple))
    count = len(numbers)

    def column(usual: int, others: list[int | None]) -> tuple:
        return draw(st.just((usual,) * count) | st.tuples(*[st.sampled_from([*[usual] * 6, *others])] * count))

    return TopicOffsets(
        "t",
        numbers,
        column(5, [-1, 0, 2, 3, 4, 2**64 - 1]),
        draw(st.sampled_from([(), column(7, [None, 8, -1])])) if draw(st.booleans()) else (7,) * count,
        draw(st.sampled_from([(), column(1, [None])])),
        ("note",) * count if draw(st.integers(0, 9)) == 0 else (),
    )


@given(
    st.tuples(*[GRANTS] * 5),
    st.tuples(*[COMMITTED] * 5),
    st.lists(st.builds(lambda n: CommittedPart("t", "id", n, 4, None, "", 1, 7), st.sampled_from(NUMBERS)), max_size=2),
    st.just(frozenset()) | st.frozensets(st.sampled_from(NUMBERS), max_size=1),
    commits(),
)
@example((MINE,) * 5, (None,) * 5, [], frozenset(), TopicOffsets("t", tuple(NUMBERS), (5,) * 5, (7, 7, 7, 7, 8)))
@example((MINE,) * 5, (None,) * 5, [], frozenset(), TopicOffsets("t", (0, 1, 1), (5, 6, 5), (7, 7, 7)))
def test_what_is_taken_together_is_what_is_taken_one_by_one(
    grants: tuple[Grant | None, ...],
    committed: tuple[TopicCommit | None, ...],
    alone: list[CommittedPart],
    claimed: frozenset[int],
    asked: TopicOffsets,
) -> None:
    group = GroupState("g", grants=PartitionTable(), claims=ClaimTable())
    for number, grant in zip(NUMBERS, grants, strict=True):
        if grant is not None:
            group.grants["t", number] = grant
    for together in committed:
        if together is not None:
            group.offsets.write_together(together)
    for part in alone:
        group.offsets.write(part)
    for number in claimed:
        group.claims.open("t", OpenClaims((number,), (0,), (5,)), Owner(0, "m1", "id", ()))
    topic_id = owned_topic_id(group, "m1", asked)
    pieces = commit_together(group, topic_id, asked, AT_MS) if topic_id is not None else None
    parts, results = commit_by_owner(group, "m1", one_by_one((asked,)), AT_MS)
    is_all_accepted = all(result.error is ErrorCode.NONE for result in results)
    if pieces is not None:
        assert is_all_accepted
        assert tuple(part for piece in pieces for part in in_parts(piece)) == parts
    else:
        numbers = list(asked.partitions)
        is_plain = bool(numbers) and numbers == sorted(set(numbers)) and not asked.metadata
        topic_ids = {part.topic_id for part in parts}
        is_anew = any(
            (known := group.offsets.get(("t", part.partition))) is not None and part.offset < known.offset
            for part in parts
        )
        assert not is_all_accepted or not is_plain or len(topic_ids) > 1 or is_anew, "it could have been taken at once"
