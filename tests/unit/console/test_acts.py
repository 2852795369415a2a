"""Acts: what each has to say, the requests it is made of, and what is answered."""

import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.console import acts
from coordinator.console.documents import Act
from coordinator.console.known.selection import BadQueryError
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import MAX_NAMED
from coordinator.protocol.messages import DescribeGroup, DescribeGroupResponse, ErrorResponse
from coordinator.protocol.messages.operators import (
    CancelResets,
    ChangeDrain,
    ChangePause,
    ChangePauseResponse,
    DeleteGroup,
    DeleteGroupResponse,
    DeleteOffsets,
    ReleaseClaims,
    ResetOffsets,
    ResetOffsetsResponse,
)
from coordinator.protocol.parts import Claim, ClaimState, PartitionDescription, ResetResult, ResetTarget
from tests.helpers.console_world import ConsoleWorld, described, partition
from tests.helpers.scripted_coordinator import CLOSES, ScriptedCoordinator

CLAIM = Claim("t", "id", 2, 7, 5, 8)
GROUP = described(
    "g",
    partition(0, 5, 9),
    partition(1, None, 9),
    PartitionDescription("t", 2, 5, 9, "gone", 7, False, CLAIM, ClaimState.RUNNING),
    partition(0, 1, 2, topic="u"),
)


def requests(name: str, **said: Any) -> list[acts.Change]:
    act = Act(**said)
    acts.check(acts.kind_of(name), "g", act)
    return acts.requests_of(acts.kind_of(name), "g", act, GROUP, "me")


def test_every_act_is_a_dry_run_unless_it_says_otherwise() -> None:
    said: dict[str, dict[str, Any]] = {"drain": {"member": "m"}, "undrain": {"member": "m"}}
    for name in acts.KINDS:
        more = {"to": "earliest"} if name == "reset-offsets" else said.get(name, {})
        for request in requests(name, **more):
            assert request.is_dry_run is True
            assert (request.group_id, request.who) == ("g", "me")


def test_acts_are_the_requests_of_the_command_line() -> None:
    done = {"dry_run": False, "why": " w "}
    assert requests("pause", **done) == [ChangePause("g", None, True, "me", "w", False)]
    assert requests("resume", topics=["t:0,1"]) == [ChangePause("g", (("t", 0), ("t", 1)), False, "me", "", True)]
    assert requests("drain", member="m", **done) == [ChangeDrain("g", "m", True, "me", "w", False)]
    assert requests("reset-offsets", to="offset", value="3", topics=["u"], release_claims=True) == [
        ResetOffsets("g", (ResetTarget("u", 0, "offset", 3),), "me", "", True, True)
    ]
    assert requests("cancel-resets") == [CancelResets("g", None, "me", "", True)]
    assert requests("delete-offsets") == [DeleteOffsets("g", (("t", 0), ("t", 2), ("u", 0)), "me", "", True)]
    assert requests("release-claims") == [ReleaseClaims("g", (("t", 2),), "me", "", True)]
    assert requests("delete-group", confirm="g", **done) == [DeleteGroup("g", "me", "w", False)]


def test_a_topic_that_is_named_by_the_thousand_is_looked_for_once() -> None:
    large = described("g", *(partition(number, 0, 10) for number in range(2_000)))
    asked = Act(to="earliest", topics=[large.partitions[0].topic] * 2_000)
    tracemalloc.start()
    try:
        found = acts.requests_of(acts.kind_of("reset-offsets"), "g", asked, large, "me")
        assert tracemalloc.get_traced_memory()[1] < 4 * 1024 * 1024
    finally:
        tracemalloc.stop()
    assert sum(len(request.targets) for request in found if isinstance(request, ResetOffsets)) == 2_000


def test_very_many_partitions_are_asked_about_in_portions() -> None:
    large = described("g", *(partition(number, 1, 2) for number in range(MAX_NAMED + 1)))
    found = acts.requests_of(acts.kind_of("reset-offsets"), "g", Act(to="earliest"), large, "me")
    assert [len(one.targets) for one in found if isinstance(one, ResetOffsets)] == [MAX_NAMED, 1]


@pytest.mark.parametrize(
    ("to", "value", "found"),
    [
        ("earliest", "", ("earliest", None)),
        ("shift", "-5", ("shift", -5)),
        ("duration", "15m", ("duration", 900_000)),
        ("timestamp", "1970-01-01T00:00:01", ("timestamp", 1_000)),
        ("timestamp", "1970-01-01T01:00:01+01:00", ("timestamp", 1_000)),
    ],
)
def test_a_reset_leads_where_its_words_say(to: str, value: str, found: tuple[str, int | None]) -> None:
    assert acts.target_of(Act(to=to, value=value)) == found


@pytest.mark.parametrize(
    ("name", "said", "sentence"),
    [
        ("puase", {}, "there is no act 'puase'; is 'pause' meant?"),
        ("drain", {}, "'drain' needs the id of a member"),
        ("pause", {"member": "m"}, "'pause' takes no member"),
        ("drain", {"member": "m", "topics": ["t"]}, "'drain' takes no topics"),
        ("pause", {"to": "latest"}, "'pause' leads nowhere: leave out 'to', 'value' and 'release_claims'"),
        ("pause", {"topics": ["t:x"]}, "'t:x' is not TOPIC or TOPIC:0,1,2"),
        (
            "reset-offsets",
            {"topics": ["zz"], "to": "latest"},
            "group 'g' knows no partition of topic 'zz'; correct the",
        ),
        ("reset-offsets", {}, "'to' is '' and has to be one of earliest, latest"),
        ("reset-offsets", {"to": "latest", "value": "3"}, "'latest' takes no value"),
        ("reset-offsets", {"to": "offset", "value": "-3"}, "'value': '-3' is not a number"),
        ("reset-offsets", {"to": "offset", "value": str(2**63)}, "'value': '9223372036854775808' is not a number"),
        ("reset-offsets", {"to": "shift", "value": "²"}, "'value': '²' is not a number of records"),
        ("reset-offsets", {"to": "timestamp", "value": "soon"}, "'value': 'soon' is not a time such as"),
        ("reset-offsets", {"to": "duration", "value": "15"}, "'value': '15' has no unit"),
        ("reset-offsets", {"to": "duration", "value": "999999999999d"}, "'value': '999999999999d' is longer than"),
        ("pause", {"dry_run": False}, "'why' is missing: say the reason"),
        ("pause", {"dry_run": False, "why": " "}, "'why' is missing: say the reason"),
        ("pause", {"why": "a\nb"}, "'why' is one line of at most 1000 printable characters"),
        ("delete-group", {"dry_run": False, "why": "w"}, "'confirm' is not the group's name: type it"),
        ("delete-group", {"dry_run": False, "why": "w", "confirm": "G"}, "'confirm' is not the group's name"),
        ("delete-offsets", {"dry_run": False, "why": "w"}, "'confirm' is not the group's name"),
        ("reset-offsets", {"dry_run": False, "why": "w", "to": "latest"}, "'confirm' is not the group's name"),
    ],
)
def test_an_act_that_says_too_little_or_too_much_is_refused_before_anybody_is_asked(
    name: str, said: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(BadQueryError) as refused:
        requests(name, **said)
    assert str(refused.value).startswith(sentence)


def test_a_preview_shows_old_new_and_delta_and_what_is_refused() -> None:
    answer = ResetOffsetsResponse(
        results=(
            ResetResult("t", 0, old_offset=9, new_offset=4),
            ResetResult("t", 1, old_offset=None, new_offset=4, is_pending=True),
            ResetResult("t", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such partition"),
        )
    )
    found = acts.result_of(acts.kind_of("reset-offsets"), "g", Act(to="earliest"), [answer])
    assert [(row.old_offset, row.new_offset, row.delta, row.state) for row in found.rows] == [
        (9, 4, -5, "would be set"),
        (None, 4, None, "would wait for the owner"),
        (None, None, None, "refused"),
    ]
    assert found.summary == "2 partitions would change; 1 is refused. Nothing has been changed yet."


def shown(name: str, *partitions: PartitionDescription, **said: Any) -> str:
    return acts.shown_of(acts.kind_of(name), Act(**said), described("g", *partitions))


def test_what_is_shown_is_another_thing_once_a_partition_has_moved_come_or_another_owner() -> None:
    to: dict[str, Any] = {"to": "earliest", "topics": ["t"]}
    at = shown("reset-offsets", partition(0, 5, 9, None), **to)
    assert at == shown("reset-offsets", partition(0, 5, 99, None), partition(0, 1, 2, topic="u"), **to)
    for others in (
        [partition(0, 6, 9, None)],
        [partition(0, 5, 9)],
        [partition(0, 5, 9, None), partition(1, None, 9, None)],
    ):
        assert shown("reset-offsets", *others, **to) != at


@pytest.mark.parametrize("name", [kind.name for kind in acts.KINDS.values() if kind.loses_position])
def test_what_is_shown_is_another_thing_once_a_topic_was_made_again(name: str) -> None:
    def shown_with(topic_id: str) -> str:
        found = replace(GROUP, topic_ids=(("t", "id"), ("u", topic_id)))
        return acts.shown_of(acts.kind_of(name), Act(to="latest"), found)

    assert shown_with("a") == shown_with("a")
    assert shown_with("a") != shown_with("b")


def test_a_reset_that_was_shown_is_of_the_topics_that_were_shown() -> None:
    found = replace(GROUP, topic_ids=(("u", "id-u"),))
    act = Act(to="offset", value="3", topics=["t:0", "u"], shown="as it was")
    asked = acts.requests_of(acts.kind_of("reset-offsets"), "g", act, found, "me")
    targets = (ResetTarget("t", 0, "offset", 3), ResetTarget("u", 0, "offset", 3, "id-u"))
    assert asked == [ResetOffsets("g", targets, "me", "", False, True)]


def test_an_owner_that_reads_on_is_no_change_but_for_a_shift() -> None:
    before, after = partition(0, 5, 9), partition(0, 6, 9)
    again = PartitionDescription("t", 0, 5, 9, "m", 8)
    assert shown("reset-offsets", before, to="latest") == shown("reset-offsets", after, to="latest")
    assert shown("reset-offsets", before, to="latest") != shown("reset-offsets", again, to="latest")
    assert shown("reset-offsets", before, to="shift") != shown("reset-offsets", after, to="shift")
    assert shown("delete-offsets", before) != shown("delete-offsets", after)
    assert shown("delete-group", before) != shown("delete-group", after)


class TestByHttp:
    ACTS = "/api/v1/groups/g/acts"

    def test_without_allow_changes_nothing_is_asked(self) -> None:
        with ScriptedCoordinator({}) as coordinator:
            world = ConsoleWorld(coordinators=(coordinator.address,))
            said = world.post(f"{self.ACTS}/pause", {"dry_run": False, "why": "w"})
            assert (said.status_code, said.json()["error"]) == (403, "not_allowed")
            assert "--allow-changes" in said.json()["message"]
            page = world.client.post(
                "/groups/g/acts/pause", content=b"step=execute&why=w", headers={"x-kcoord-console": "1"}
            )
            assert (page.status_code, coordinator.asked) == (403, [])

    def test_an_act_is_shown_and_then_done_and_says_who_and_why(self) -> None:
        answers = {ChangePause: ChangePauseResponse(partitions=(("t", 0),), partition_count=41)}
        with ScriptedCoordinator(answers) as coordinator:
            world = ConsoleWorld(coordinators=(coordinator.address,), allow_changes=True)
            shown = world.post(f"{self.ACTS}/pause", {}).json()
            assert (shown["is_dry_run"], shown["left_out"], shown["rows"][0]["state"]) == (True, 40, "would: let go")
            done = world.post(f"{self.ACTS}/pause", {"dry_run": False, "why": "a deploy"})
            assert (done.status_code, done.json()["is_dry_run"]) == (200, False)
            assert coordinator.asked == [
                ChangePause("g", None, True, "test", "", True),
                ChangePause("g", None, True, "test", "a deploy", False),
            ]

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            (b"", "the body is no act"),
            (b"[]", "the body is no act"),
            (b'{"dryrun": false}', "unknown field `dryrun`"),
            (b'{"why": 3}', "the body is no act"),
            (b"\xff", "the body is no act"),
            (b'{"dry_run": "false"}', "the body is no act"),
        ],
    )
    def test_a_body_that_is_no_act_is_refused(self, body: bytes, words: str) -> None:
        world = ConsoleWorld(allow_changes=True)
        said = world.client.post(f"{self.ACTS}/pause", content=body, headers={"x-kcoord-console": "1"})
        assert (said.status_code, said.json()["error"]) == (400, "bad_query")
        assert words in said.json()["message"]

    def test_what_a_coordinator_refuses_is_said_with_what_is_done_all_the_same(self) -> None:
        large = described("g", *(partition(number, 1, 2) for number in range(MAX_NAMED + 1)))
        refused = ErrorResponse(ErrorCode.STATE_LIMIT_REACHED, "the group is full")
        done = ResetOffsetsResponse(
            results=(
                *(ResetResult("t", n, old_offset=1, new_offset=0) for n in range(1_900)),
                *(ResetResult("t", n, ErrorCode.PARTITION_OWNED, "owned") for n in range(1_900, 2_000)),
            )
        )
        answers: dict[Any, Any] = {DescribeGroup: large, ResetOffsets: [done, refused]}
        with ScriptedCoordinator(answers) as coordinator:
            world = ConsoleWorld(coordinators=(coordinator.address,), allow_changes=True)
            act = {"to": "earliest", "dry_run": False, "why": "w", "confirm": "g"}
            said = world.post(f"{self.ACTS}/reset-offsets", act)
        assert said.status_code == 409
        assert said.json()["message"].endswith("; 1900 partitions are done all the same")
        assert "the group is full" in said.json()["message"]

    def test_a_group_that_is_gone_and_a_coordinator_that_is_away_are_told_apart(self) -> None:
        gone = DescribeGroupResponse(ErrorCode.GROUP_ID_NOT_FOUND, "no group")
        with ScriptedCoordinator({DescribeGroup: gone}) as coordinator:
            world = ConsoleWorld(coordinators=(coordinator.address,), allow_changes=True)
            assert world.post(f"{self.ACTS}/delete-group", {}).status_code == 404
        assert ConsoleWorld(allow_changes=True).post(f"{self.ACTS}/pause", {}).status_code == 503

    def test_an_act_that_is_not_answered_may_be_done_and_says_so(self) -> None:
        refused = ErrorResponse(ErrorCode.STATE_LIMIT_REACHED, "the group is full")
        with ScriptedCoordinator({ChangePause: [CLOSES, CLOSES, CLOSES, refused]}) as coordinator:
            world = ConsoleWorld(coordinators=(coordinator.address,), allow_changes=True)
            done = {"dry_run": False, "why": "w"}
            said = world.post(f"{self.ACTS}/pause", done)
            assert (said.status_code, said.json()["error"]) == (503, "perhaps_done")
            assert "it may be done all the same" in said.json()["message"]
            mark = {"x-kcoord-console": "page"}
            page = world.client.post("/groups/g/acts/pause", content="step=execute&why=w", headers=mark)
            assert (page.status_code, "Not done" in page.text) == (503, False)
            assert "it may be done all the same" in page.text
            shown = world.client.post("/groups/g/acts/pause", content="", headers=mark)  # a dry run does nothing
            assert (shown.status_code, "may be done" in shown.text) == (503, False)
            said = world.post(f"{self.ACTS}/pause", done)
            assert (said.status_code, "may be done" in said.text) == (409, False)

    def test_of_a_large_act_the_rest_may_be_done_and_what_is_done_is_counted(self) -> None:
        large = described("g", *(partition(number, 1, 2) for number in range(MAX_NAMED + 1)))
        some = ResetOffsetsResponse(
            results=tuple(ResetResult("t", n, old_offset=1, new_offset=0) for n in range(1_900))
        )
        with ScriptedCoordinator({DescribeGroup: large, ResetOffsets: [some, CLOSES]}) as coordinator:
            world = ConsoleWorld(coordinators=(coordinator.address,), allow_changes=True)
            act = {"to": "earliest", "dry_run": False, "why": "w", "confirm": "g"}
            said = world.post(f"{self.ACTS}/reset-offsets", act).json()
        assert said["error"] == "perhaps_done"
        assert said["message"].startswith("the rest may be done all the same: ")
        assert said["message"].endswith("; 1900 partitions are done all the same")

    def test_a_form_shows_what_would_be_done_and_then_asks_why_and_for_the_name(self) -> None:
        answers: dict[Any, Any] = {
            DescribeGroup: GROUP,
            ResetOffsets: ResetOffsetsResponse(results=(ResetResult("t", 0, old_offset=9, new_offset=4),)),
        }
        mark = {"x-kcoord-console": "page"}
        with ScriptedCoordinator(answers) as coordinator:
            world = ConsoleWorld(coordinators=(coordinator.address,), allow_changes=True)
            form = "topics=t%3A0+u&to=earliest&value="
            shown = world.client.post("/groups/g/acts/reset-offsets", content=form, headers=mark)
            assert shown.status_code == 200
            for words in ("would be set", 'name="why"', 'name="confirm"', 'value="t:0 u"', ">-5<"):
                assert words in shown.text
            again = world.client.post(
                "/groups/g/acts/reset-offsets", content=f"{form}&step=execute&why=w&confirm=g", headers=mark
            )
            assert "1 partition is done" in again.text
            assert 'name="why"' not in again.text
            bad = world.client.post("/groups/g/acts/reset-offsets", content=f"{form}&step=execute", headers=mark)
            assert (bad.status_code, "&#39;why&#39; is missing" in bad.text) == (400, True)
            asked = [one for one in coordinator.asked if isinstance(one, ResetOffsets)]
            assert [one.is_dry_run for one in asked] == [True, False]
            unread = world.client.post("/groups/g/acts/pause", content=b"topics=%ff\xff", headers=mark)
            assert (unread.status_code, "cannot be read" in unread.text) == (400, True)

    def test_an_act_that_moves_positions_is_done_once_as_it_was_shown(self) -> None:
        before, after = (described("g", partition(0, at, 9, None)) for at in (5, 3))
        answers: dict[Any, Any] = {
            DescribeGroup: [before, before, after],
            ResetOffsets: ResetOffsetsResponse(results=(ResetResult("t", 0, old_offset=5, new_offset=3),)),
        }
        act: dict[str, Any] = {"to": "shift", "value": "-2"}
        done = {**act, "dry_run": False, "why": "w", "confirm": "g"}
        with ScriptedCoordinator(answers) as coordinator:
            world = ConsoleWorld(coordinators=(coordinator.address,), allow_changes=True)
            done["shown"] = world.post(f"{self.ACTS}/reset-offsets", act).json()["shown"]
            assert world.post(f"{self.ACTS}/reset-offsets", done).status_code == 200
            said = world.post(f"{self.ACTS}/reset-offsets", done)
            assert (said.status_code, said.json()["error"]) == (409, "changed")
            assert "positions or owners of the partitions have changed since this was shown" in said.json()["message"]
            form = f"to=shift&value=-2&step=execute&why=w&confirm=g&shown={done['shown']}"
            page = world.client.post("/groups/g/acts/reset-offsets", content=form, headers={"x-kcoord-console": "page"})
            assert page.status_code == 409
            now = acts.shown_of(acts.kind_of("reset-offsets"), Act(**act), after)
            for words in ("Not done: nothing is changed", "would be set", f'name="shown" value="{now}"'):
                assert words in page.text
            asked = [one.is_dry_run for one in coordinator.asked if isinstance(one, ResetOffsets)]
            assert asked == [True, False, True]

    def test_a_group_is_deleted_as_it_was_shown(self) -> None:
        before, after = (described("g", partition(0, at, 9, None)) for at in (5, 6))
        answers: dict[Any, Any] = {DescribeGroup: [before, after], DeleteGroup: DeleteGroupResponse()}
        with ScriptedCoordinator(answers) as coordinator:
            world = ConsoleWorld(coordinators=(coordinator.address,), allow_changes=True)
            done = {"dry_run": False, "why": "w", "confirm": "g"}
            done["shown"] = world.post(f"{self.ACTS}/delete-group", {}).json()["shown"]
            assert world.post(f"{self.ACTS}/delete-group", done).json()["error"] == "changed"

    def test_what_changes_while_the_dry_run_is_answered_is_not_taken_for_what_was_shown(self) -> None:
        before, after = (described("g", partition(0, at, 9, None)) for at in (5, 6))
        moved = threading.Event()

        def answer(_: object) -> DeleteGroupResponse:
            moved.set()
            return DeleteGroupResponse()

        answers: dict[Any, Any] = {DescribeGroup: lambda _: after if moved.is_set() else before, DeleteGroup: answer}
        with ScriptedCoordinator(answers) as coordinator:
            world = ConsoleWorld(coordinators=(coordinator.address,), allow_changes=True)
            shown = world.post(f"{self.ACTS}/delete-group", {}).json()["shown"]
            done = {"dry_run": False, "why": "w", "confirm": "g", "shown": shown}
            assert world.post(f"{self.ACTS}/delete-group", done).json()["error"] == "changed"

    def test_a_second_act_that_moves_positions_is_refused_while_the_first_is_under_way(self) -> None:
        begun, goes_on = threading.Event(), threading.Event()

        def answer(_: object) -> ResetOffsetsResponse:
            begun.set()
            assert goes_on.wait(30)
            return ResetOffsetsResponse(results=(ResetResult("t", 0, old_offset=9, new_offset=4),))

        act = {"to": "earliest", "dry_run": False, "why": "w", "confirm": "g"}
        with (
            ScriptedCoordinator({DescribeGroup: GROUP, ResetOffsets: answer}) as coordinator,
            ThreadPoolExecutor() as pool,
        ):
            world = ConsoleWorld(coordinators=(coordinator.address,), allow_changes=True, timeout_s=30)
            first = pool.submit(world.post, f"{self.ACTS}/reset-offsets", act)
            assert begun.wait(30)
            second = world.post(f"{self.ACTS}/reset-offsets", act)
            goes_on.set()
            assert first.result(30).status_code == 200
        assert (second.status_code, second.json()["error"]) == (409, "refused")
        assert "another act moves positions of this group now" in second.json()["message"]
