"""What is shown, from what the coordinator answers."""

import io

import pytest
from rich.console import Console

from coordinator.demo.screen.dashboard import Dashboard, PartitionRow, Picture
from coordinator.demo.screen.view import PlainView, TerminalView, draw, progress_line
from coordinator.protocol.messages import DescribeGroupResponse
from coordinator.protocol.parts import Claim, ClaimState, MemberDescription, PartitionDescription


def member(member_id: str, name: str, owned: int = 1) -> MemberDescription:
    return MemberDescription(
        member_id=member_id,
        instance_id=None,
        client_id=name,
        host="127.0.0.1",
        pid=1,
        state="STABLE",
        member_epoch=3,
        streams=1,
        connected=True,
        owned=owned,
        target=1,
    )


def group(*partitions: PartitionDescription, members: tuple[MemberDescription, ...] = ()) -> DescribeGroupResponse:
    return DescribeGroupResponse(group_id="g", state="Stable", group_epoch=3, members=members, partitions=partitions)


def partition(number: int, owner: str | None, committed: int | None, end: int | None) -> PartitionDescription:
    return PartitionDescription("t", number, committed=committed, end_offset=end, member_id=owner)


def test_owners_are_named_also_after_their_death() -> None:
    dashboard = Dashboard(total=10)
    dashboard.picture(0.0, "act", 0, group(members=(member("m-1", "first"),)))
    picture = dashboard.picture(1.0, "act", 0, group(partition(0, "m-1", 3, 5), partition(1, None, None, 5)))
    assert picture.partitions == (PartitionRow(0, "first", 3, 5, 2, ""), PartitionRow(1, "", None, 5, None, ""))
    assert picture.members == ()
    assert dashboard.names == {"m-1": "first"}


def test_an_unknown_lag_is_not_zero() -> None:
    dashboard = Dashboard(total=10)
    assert dashboard.picture(0.0, "", 0, group(partition(0, None, 5, 5), partition(1, None, None, 5))).lag is None
    assert dashboard.picture(0.0, "", 0, group(partition(0, None, 5, 5), partition(1, None, 3, 5))).lag == 2
    assert dashboard.picture(0.0, "", 0, None).lag is None


def test_an_end_older_than_the_commit_is_no_negative_lag() -> None:
    assert Dashboard(total=10).picture(0.0, "", 0, group(partition(0, None, 7, 5))).partitions[0].lag == 0


def test_rates_are_over_the_last_seconds_only() -> None:
    dashboard = Dashboard(total=1000)
    for second in range(11):
        committed = 0 if second <= 5 else (second - 5) * 20
        picture = dashboard.picture(float(second), "", second * 100, group(partition(0, "m", committed, 1000)))
    assert (picture.produced_rate, picture.committed_rate) == (100.0, 20.0)


def test_the_first_picture_has_no_rate() -> None:
    picture = Dashboard(total=1000).picture(3.0, "", 500, None)
    assert (picture.produced_rate, picture.committed_rate) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("state", "is_stopping", "text"),
    [
        (ClaimState.RUNNING, False, "reading [3, 9)"),
        (ClaimState.RUNNING, True, "reading [3, 9), then stops"),
        (ClaimState.OFFERED, False, "offered [3, 9)"),
    ],
)
def test_a_claim_is_shown(state: ClaimState, is_stopping: bool, text: str) -> None:
    claimed = PartitionDescription(
        "t", 0, member_id="m", is_stopping=is_stopping, claim=Claim("t", "id", 0, 1, 3, 9), claim_state=state
    )
    assert Dashboard(total=1).picture(0.0, "", 0, group(claimed)).partitions[0].activity == text


def test_a_stop_without_a_claim_is_shown() -> None:
    stopping = PartitionDescription("t", 0, member_id="m", is_stopping=True)
    assert Dashboard(total=1).picture(0.0, "", 0, group(stopping)).partitions[0].activity == "stopping"


def a_picture(elapsed_s: float = 7.0) -> Picture:
    dashboard = Dashboard(total=4000)
    members = (member("m-1", "first"), member("m-2", "second"))
    return dashboard.picture(
        elapsed_s,
        "both read",
        2000,
        group(partition(0, "m-1", 700, 900), partition(1, "m-2", 800, 1100), members=members),
    )


def test_a_progress_line_says_how_things_stand() -> None:
    assert progress_line(a_picture()) == (
        "… group Stable: first owns 1, second owns 1; produced 2,000 of 4,000 (0/s), committed 1,500 (0/s), lag 500"
    )


def test_a_group_that_is_not_there_yet_is_said_to_be_so() -> None:
    assert progress_line(Dashboard(total=10).picture(0.0, "act", 0, None)) == "… the group does not exist yet"


def test_the_terminal_shows_who_owns_what_and_how_far() -> None:
    console = Console(file=io.StringIO(), width=100)
    console.print(draw(a_picture()))
    lines = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert "0 first 700 900 200" in lines
    assert "1 second 800 1,100 300" in lines
    assert any(line.startswith("members first stable, 1 of 1 partitions second stable") for line in lines)
    assert any(line.endswith("1,500 0/s") for line in lines)


def test_plain_output_tells_events_at_once_and_progress_now_and_then() -> None:
    output = io.StringIO()
    with PlainView(Console(file=output, width=40)) as view:
        for tenth in range(60):
            view.show(a_picture(tenth / 10))
        view.say(6.0, "second joined")
    lines = output.getvalue().splitlines()
    assert [line[:9] for line in lines] == ["   0.0 s ", "   5.0 s ", "   6.0 s "]
    assert lines[-1] == "   6.0 s  second joined"


def test_a_terminal_is_left_with_the_events_alone() -> None:
    output = io.StringIO()
    with TerminalView(Console(file=output, width=100, force_terminal=True, color_system=None)) as view:
        view.show(a_picture())
        view.say(4.0, "second joined")
    after = output.getvalue().rpartition("second joined")[2]
    assert "4.0 s  second joined" in output.getvalue()
    assert after.rstrip("\n").endswith("\x1b[2K")
