"""`kcoord group events` as people and scripts see it: what is chosen, how it is written, and what comes meanwhile."""

import json

import pytest
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.cli.parts.tables import OngoingFormat
from coordinator.cli.verbs.looking import events
from coordinator.cli.verbs.looking.events import EVENT_COLUMNS
from coordinator.client.operating.what_is_asked import parse_since
from coordinator.client.request import LogInFailedError
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ErrorResponse, ListGroupEvents, ListGroupEventsResponse
from coordinator.protocol.parts import GroupEvent
from tests.helpers.scripted_coordinator import ScriptedCoordinator
from tests.helpers.skipped_time import SkippedTime

EVENT = GroupEvent(17, 1_700_000_000_123, "taken-over", "m1", "it left", 12, (("a", 3), ("a", 4), ("b", 0)), 90)
JOIN = GroupEvent(18, 1_700_000_001_000, "member-joined", "m2", "it joined", 13)
MANY = GroupEvent(19, 1_700_000_002_000, "member-left", "a-longer-name", "12 like this", 13, (), None, 30)
AT_MS = 1_700_000_000_123


@pytest.fixture
def run(monkeypatch):
    """Run `kcoord group events team` with arguments against a coordinator that answers as given."""

    def run(arguments, answer):
        with ScriptedCoordinator({ListGroupEvents: answer}) as coordinator:
            host, port = coordinator.address
            monkeypatch.setenv("KCOORD_COORDINATOR", f"{host}:{port}")
            return CliRunner().invoke(app, ["group", "events", "team", *arguments])

    return run


@pytest.fixture
def interrupt(monkeypatch):
    """Have the wait between two questions of who follows be none, and Ctrl-C come instead of the last one.

    A list is returned whose only element is how many of the waits are to come.
    """

    def interrupt(waits):
        left = [waits]

        def sleep(seconds):
            assert seconds == events.FOLLOW_EVERY_S
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1

        monkeypatch.setattr(events, "sleep", sleep)
        return left

    return interrupt


def test_timeline_comes_as_a_table(run):
    header, first, second, third = run([], ListGroupEventsResponse(events=(EVENT, JOIN, MANY))).stdout.splitlines()
    assert header.split() == list(EVENT_COLUMNS)
    assert first.split(maxsplit=8) == [
        "17", "2023-11-14T22:13:20.123Z", "taken-over", "m1", "12", "a:3,4", "b:0", "90", "it left",
    ]  # fmt: skip
    assert second.split(maxsplit=7) == [
        "18", "2023-11-14T22:13:21.000Z", "member-joined", "m2", "13", "-", "-", "it joined",
    ]  # fmt: skip
    assert third.split(maxsplit=7)[5:] == ["30", "-", "12 like this"]
    words = ((header, "WHY"), (first, "it left"), (second, "it joined"), (third, "12 like"))
    assert {line.index(word) for line, word in words} == {header.index("WHY")}


def test_timeline_comes_as_json_after_a_sequence_number(run):
    def answer(request):
        assert request == ListGroupEvents("team", 16)
        return ListGroupEventsResponse(events=(EVENT,))

    result = run(["--after", "16", "-o", "json"], answer)
    (event,) = json.loads(result.stdout)
    assert event["time"] == "2023-11-14T22:13:20.123Z"
    assert event["partitions"][2] == {"topic": "b", "partition": 0}
    assert event["duration_ms"] == 90


def test_timeline_comes_as_a_document_a_line_and_as_csv(run):
    response = ListGroupEventsResponse(events=(EVENT, JOIN))
    lines = run(["-o", "jsonl"], response).stdout.splitlines()
    assert [json.loads(line)["sequence"] for line in lines] == [17, 18]
    header, first, _ = run(["-o", "csv"], response).stdout.splitlines()
    assert (header, first.split(",")[:3]) == (
        ",".join(EVENT_COLUMNS), ["17", "2023-11-14T22:13:20.123Z", "taken-over"],
    )  # fmt: skip


def test_kinds_and_time_are_asked_of_the_coordinator(run, monkeypatch):
    monkeypatch.setattr(events, "time_ns", lambda: AT_MS * 1_000_000)
    asked = []

    def answer(request):
        asked.append(request)
        return ListGroupEventsResponse(events=(EVENT,))

    assert run(["--since", "15m", "--kind", "taken-over", "--kind", "Rebalance"], answer).exit_code == 0
    assert asked == [ListGroupEvents("team", 0, AT_MS - 900_000, ("taken-over", "rebalance"))]


@pytest.mark.parametrize(
    ("text", "since_ms"),
    [
        ("15m", AT_MS - 900_000),
        ("PT1H", AT_MS - 3_600_000),
        ("2023-11-14T22:00:00Z", 1_699_999_200_000),
        ("2023-11-14T23:00:00+01:00", 1_699_999_200_000),
        ("2023-11-14", 1_699_920_000_000),
        ("100000d", 0),
    ],
)
def test_since_is_a_duration_or_a_time(text, since_ms):
    assert parse_since(text, AT_MS) == since_ms


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--since", "yesterday"], "neither a duration such as 15m nor a time such as 2026-01-31T06:30:00Z"),
        (["--since", "15"], "neither a duration"),
        (["--kind", "rebalanced"], "is 'rebalance' meant?"),
        (["--kind", "xyzzy"], "known: member-joined"),
        (["--follow", "-o", "json"], "take -o jsonl"),
        (["--follow", "-o", "yaml"], "take -o jsonl"),
    ],
)
def test_bad_input_is_told_with_what_is_allowed(run, words, said):
    result = run(words, ListGroupEventsResponse())
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "remembers no events of group 'team'.\n"),
        (["--after", "9"], "of group 'team' after 9.\n"),
        (["--since", "15m", "--kind", "paused"], "of group 'team' since 15m of these kinds.\n"),
    ],
)
def test_timeline_with_nothing_in_it_is_told(run, words, said):
    result = run(words, ListGroupEventsResponse())
    assert (result.exit_code, result.stdout, result.stderr.endswith(said)) == (0, "", True)


def test_following_asks_for_what_is_new_until_it_is_interrupted_and_ends_well(run, interrupt):
    interrupt(3)
    answers = [
        ListGroupEventsResponse(events=(EVENT,), last_sequence=20),
        ListGroupEventsResponse(last_sequence=20),
        ListGroupEventsResponse(events=(MANY,), last_sequence=21),
        ListGroupEventsResponse(last_sequence=21),
    ]
    asked = []

    def answer(request):
        asked.append(request)
        return answers[len(asked) - 1]

    result = run(["--follow", "--since", "15m", "--kind", "taken-over"], answer)
    assert (result.exit_code, result.stderr) == (0, "")
    header, first, second = result.stdout.splitlines()
    assert (header.split()[0], first.split()[0], second.split()[0]) == ("SEQUENCE", "17", "19")
    assert asked[1:] == [ListGroupEvents("team", number, None, ("taken-over",)) for number in (20, 20, 21)]


def test_following_waits_for_a_coordinator_that_is_away_and_says_so_once(run, interrupt, monkeypatch):
    monkeypatch.setattr("coordinator.client.request.time", SkippedTime(10))
    left = interrupt(3)
    away = ErrorResponse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "shard 1 is being loaded; try again")
    back = ListGroupEventsResponse(events=(JOIN,), last_sequence=18)
    first = [ListGroupEventsResponse(events=(EVENT,), last_sequence=17)]

    def answer(_):
        return first.pop() if first else away if left[0] else back

    result = run(["-f", "-o", "jsonl", "--timeout", "30"], answer)
    assert result.exit_code == 0
    assert result.stderr.count("trying again until Ctrl-C") == 1
    assert [json.loads(line)["sequence"] for line in result.stdout.splitlines()] in ([17], [17, 18])


def test_following_goes_on_with_a_timeline_that_began_anew(run, interrupt):
    interrupt(2)
    asked = []

    def answer(request):
        asked.append(request.after_sequence)
        if len(asked) == 1:
            return ListGroupEventsResponse(events=(EVENT,), last_sequence=17)
        one = GroupEvent(1, AT_MS, "member-joined", "m2", "again", 1)
        return ListGroupEventsResponse(events=() if request.after_sequence else (one,), last_sequence=1)

    result = run(["-f"], answer)
    assert asked == [0, 17, 0]
    assert "has begun anew" in result.stderr
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["SEQUENCE", "17", "1"]


def test_following_a_group_that_is_deleted_ends_with_its_code(run, interrupt):
    interrupt(2)
    answers = iter(
        [
            ListGroupEventsResponse(events=(EVENT,), last_sequence=17),
            ListGroupEventsResponse(error=ErrorCode.GROUP_ID_NOT_FOUND, message="there is no group 'team'"),
        ]
    )
    result = run(["-f"], lambda _: next(answers))
    assert (result.exit_code, result.stderr) == (3, "Consumer group 'team' does not exist.\n")


def test_following_ends_where_no_coordinator_lets_it_log_in_any_more(run, interrupt, monkeypatch):
    """A password that was taken back is not tried each second for ever."""
    interrupt(3)

    def refused(*_):
        raise LogInFailedError("the coordinator at c:1 does not let 'ann' log in")

    monkeypatch.setattr(events, "ask", refused)
    result = run(["-f"], ListGroupEventsResponse(events=(EVENT,), last_sequence=17))
    assert result.exit_code == 5
    assert result.stderr.startswith("error: the coordinator at c:1 does not let 'ann' log in")


def test_ctrl_c_before_anything_is_shown_is_no_success(run):
    def answer(_):
        raise AssertionError("nothing is asked")

    def interrupted(*_):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "ask_for", interrupted)
        assert run([], answer).exit_code not in {0, 2}


def test_names_that_would_move_a_cursor_are_escaped_in_each_form(run):
    odd = GroupEvent(17, AT_MS, "paused", "m\x1b[2J\n", "by \u202eann\r\n=1+1", 1, (("t\x07", 0),))
    response = ListGroupEventsResponse(events=(odd,), last_sequence=17)
    for form in OngoingFormat:
        text = run(["-o", form], response).stdout
        assert not {char for char in "\x1b\x07\r\u202e" if char in text}, form
        assert form.is_document or len(text.splitlines()) == (1 if form is OngoingFormat.JSONL else 2), form
