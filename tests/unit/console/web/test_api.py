"""The API as programs see it: documents, refusals, and who is answered at all."""

import asyncio
import json
from collections.abc import Callable, Iterable

import pytest
from starlette.requests import Request as HttpRequest

from coordinator.client.security import ClientSecurity, Coordinators
from coordinator.console.port.hosts import Hosts
from coordinator.console.settings import ConsoleSettings
from coordinator.console.web.guard import HEADERS, MARK
from coordinator.console.web.operations import OPERATIONS, ROOT, openapi
from coordinator.console.web.reading import Reader
from coordinator.protocol.messages import ListGroupEvents, ListGroupEventsResponse, Request, Response
from coordinator.protocol.messages.operators import DescribeControls, DescribeControlsResponse
from coordinator.protocol.parts import ControlDescription, GroupEvent
from tests.helpers.console_world import NOW_MS, ConsoleWorld, described, fill, partition
from tests.helpers.scripted_coordinator import Answer, ScriptedCoordinator

HOSTILE = '<img src=x onerror=alert(1)>"\u202e\x1b[31m'


@pytest.fixture
def world() -> ConsoleWorld:
    made = ConsoleWorld()
    fill(made.picture, described("g", partition(0, 1, 5), partition(1, 4, 6, "n")), described("a & b"))
    return made


def test_every_operation_answers_as_openapi_says_that_it_does() -> None:
    answers = {
        ListGroupEvents: ListGroupEventsResponse(events=(GroupEvent(1, NOW_MS, "rebalance", "", "m joined", 1),)),
        DescribeControls: DescribeControlsResponse(controls=(ControlDescription("group-paused", "me", "why", NOW_MS),)),
    }
    with ScriptedCoordinator(answers) as coordinator:
        world = ConsoleWorld(coordinators=(coordinator.address,))
        fill(world.picture, described("g", partition(0, 1, 5)))
        document = openapi()
        assert {f"{ROOT}{one.path}" for one in OPERATIONS} < set(document["paths"])
        for operation in OPERATIONS:
            said = world.get(f"{ROOT}{operation.path.replace('{group}', 'g').replace('{topic}', 't')}")
            assert said.status_code == 200, said.text
            schema = document["paths"][f"{ROOT}{operation.path}"]["get"]["responses"]["200"]["content"]
            reference = schema["application/json"]["schema"]
            found = said.json()
            if "$ref" in reference:
                named = document["components"]["schemas"][reference["$ref"].rpartition("/")[2]]
                assert set(found) == set(named["properties"])
            else:
                assert reference["type"] == "array"
                assert isinstance(found, list)


def test_openapi_is_served_and_names_what_rows_are_sorted_by(world: ConsoleWorld) -> None:
    document = world.get("/api/openapi.json").json()
    groups = document["paths"]["/api/v1/groups"]["get"]["parameters"]
    (sort,) = [one for one in groups if one["name"] == "sort"]
    assert {"lag", "members", "last_commit_ms"} < set(sort["schema"]["enum"])
    for parameter in sort["schema"]["enum"]:
        assert world.get(f"/api/v1/groups?sort={parameter}&order=desc").status_code == 200
    places = document["paths"]["/api/v1/groups/{group}/partitions"]["get"]["parameters"]
    (sort,) = [one for one in places if one["name"] == "sort"]
    for parameter in sort["schema"]["enum"]:
        assert world.get(f"/api/v1/groups/g/partitions?sort={parameter}").status_code == 200


def test_groups_come_in_pages_and_partitions_are_filtered_by_their_owner(world: ConsoleWorld) -> None:
    found = world.get("/api/v1/groups?sort=lag&order=desc&per_page=1").json()
    assert ([row["group"] for row in found["rows"]], found["total"], found["pages"]) == (["g"], 2, 2)
    found = world.get("/api/v1/groups/g/partitions?consumer_id=n").json()
    assert [(row["partition"], row["lag"], row["client_id"]) for row in found["rows"]] == [(1, 2, None)]
    assert world.get("/api/v1/groups/a%20%26%20b").json()["summary"]["group"] == "a & b"


@pytest.mark.parametrize(
    ("path", "status", "error", "sentence"),
    [
        ("groups/nope", 404, "not_found", "Consumer group 'nope' does not exist."),
        ("groups/nope/partitions", 404, "not_found", "Consumer group 'nope' does not exist."),
        ("groups/x%E2%80%AEy%1B", 404, "not_found", "Consumer group 'x\\u202ey\\x1b' does not exist."),
        ("topics/nope/groups", 404, "not_found", "No group reads a topic 'nope'."),
        ("groups?sort=lga", 400, "bad_query", "rows are not sorted by 'lga'; is 'lag' meant?"),
        ("overview?sort=lag", 400, "bad_query", "this takes no parameters, and 'sort' is given"),
        ("nix", 404, "not_found", "there is no /api/v1/nix; /api/docs lists what there is"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused_with_a_sentence(
    world: ConsoleWorld, path: str, status: int, error: str, sentence: str
) -> None:
    said = world.get(f"/api/v1/{path}")
    assert (said.status_code, said.json()) == (status, {"error": error, "message": sentence})


def test_before_anybody_answers_the_api_says_why_and_the_overview_is_there() -> None:
    world = ConsoleWorld()
    assert world.get("/api/v1/groups").status_code == 503
    world.picture.see_trouble("the coordinator at 127.0.0.1:1 cannot be reached")
    said = world.get("/api/v1/groups")
    assert (said.status_code, said.json()["message"]) == (503, "the coordinator at 127.0.0.1:1 cannot be reached")
    overview = world.get("/api/v1/overview")
    assert (overview.status_code, overview.json()["trouble"]) == (200, said.json()["message"])


def test_while_nobody_answers_what_was_heard_is_shown_with_its_age(world: ConsoleWorld) -> None:
    world.picture.see_trouble("gone")
    found = world.get("/api/v1/groups").json()
    assert (found["total"], found["as_of_ms"], found["trouble"]) == (2, NOW_MS, "gone")
    assert world.get("/api/v1/groups/g/events").status_code == 503  # asked now, of a port where nobody listens


def test_a_group_that_is_listed_and_not_described_yet_says_so() -> None:
    world = ConsoleWorld()
    fill(world.picture)
    from tests.helpers.console_world import summary

    world.picture.see_list({"g": (summary("g"), 1)}, ())
    for part in ("partitions", "members"):
        found = world.get(f"/api/v1/groups/g/{part}").json()
        assert (found["rows"], found["as_of_ms"]) == ([], None)
        assert found["trouble"].startswith("this group has not been described yet")


def test_what_nobody_has_told_yet_is_not_said_to_be_missing(world: ConsoleWorld) -> None:
    from tests.helpers.console_world import summary

    groups = {"g": (summary("g"), 1), "a & b": (summary("a & b"), 1)}
    world.picture.see_list(groups, (1,), 2)  # "c" would be of shard 1, "b" of shard 0
    for path in ("groups/c", "groups/c/partitions", "groups/c/lag"):
        said = world.get(f"/api/v1/{path}")
        assert (said.status_code, said.json()["error"]) == (503, "unavailable")
        assert "nobody says whether there is a group 'c'" in said.json()["message"]
    assert world.get("/api/v1/groups/b").status_code == 404
    assert world.get("/api/v1/groups").json()["trouble"].startswith("groups of shard 1 may be missing")
    assert world.get("/api/v1/topics/nope/groups").status_code == 503
    page = world.get("/groups").text
    assert ("Not all is known." in page, "Nothing newer is known." in page, "Heard" in page) == (True, False, True)

    world.picture.see_list({**groups, "new": (summary("new"), 1)}, (), 2)
    assert world.get("/api/v1/groups").json()["trouble"] is None
    assert "1 group that" in world.get("/api/v1/topics").json()["trouble"]
    assert world.get("/api/v1/topics/nope/groups").status_code == 503
    world.picture.see_trouble("gone")
    assert world.get("/api/v1/groups/b").json() == {"error": "unavailable", "message": "gone"}


def test_every_answer_that_is_a_refusal_is_in_openapi(world: ConsoleWorld) -> None:
    paths = openapi()["paths"]
    for operation in OPERATIONS:
        path = operation.path.replace("{group}", "g").replace("{topic}", "t")
        status = world.get(f"{ROOT}{path}?nix=1").status_code
        assert (status, str(status) in paths[f"{ROOT}{operation.path}"]["get"]["responses"]) == (400, True)


def test_names_that_nobody_can_read_are_escapes_in_json_and_mean_the_same() -> None:
    world = ConsoleWorld()
    fill(world.picture, described(HOSTILE, partition(0, 1, 5)))
    said = world.get("/api/v1/groups")
    assert said.text.isascii()
    assert json.loads(said.text)["rows"][0]["group"] == HOSTILE


def test_every_answer_has_the_headers_of_a_page_that_takes_nothing_from_elsewhere(world: ConsoleWorld) -> None:
    for path in ("/api/v1/overview", "/api/v1/nix", "/api/openapi.json"):
        said = world.get(path)
        assert {name: said.headers[name] for name in HEADERS} == HEADERS
        assert "set-cookie" not in said.headers
        assert not [name for name in said.headers if name.startswith("access-control")]
    assert "unsafe" not in HEADERS["content-security-policy"]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[::1", "10.0.0.1", "localhost.evil"])
def test_a_name_that_somebody_pointed_to_this_machine_is_not_answered(world: ConsoleWorld, host: str) -> None:
    assert Hosts().why_not(host) is not None
    assert world.get("/api/v1/overview", Host=host).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1:7480", "localhost:1", "localhost", "[::1]:7480", "127.1.2.3"])
def test_the_names_of_loopback_are_answered(host: str) -> None:
    assert Hosts().why_not(host) is None


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {MARK: "x", "Origin": "https://evil.example"},
        {MARK: "x", "Origin": "null"},
        {MARK: "x", "Origin": "http://127.0.0.1:1"},
        {MARK: "x", "Sec-Fetch-Site": "cross-site"},
        {MARK: "x", "Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_site_cannot_change_anything(world: ConsoleWorld, headers: dict[str, str]) -> None:
    said = world.client.post("/api/v1/groups/g/acts/pause", json={}, headers=headers)
    assert (said.status_code, said.json()["error"]) == (403, "not_allowed")
    assert world.client.post("/groups/g/acts/pause", data={}, headers=headers).status_code == 403


def test_other_methods_and_large_bodies_are_refused(world: ConsoleWorld) -> None:
    assert world.client.request("DELETE", "/api/v1/groups/g").status_code == 405
    assert world.client.request("OPTIONS", "/api/v1/groups/g").status_code == 405
    large = world.client.post("/api/v1/groups/g/acts/pause", content=b"x" * 1_048_577, headers={MARK: "x"})
    assert large.status_code == 413
    # A server reads on as long as chunks come, whatever length was said beside them.
    both = {MARK: "x", "Content-Length": "2", "Transfer-Encoding": "chunked"}
    chunked = world.client.post("/api/v1/groups/g/acts/pause", content=b"x" * 1_048_577, headers=both)
    assert chunked.status_code == 413


def test_settings_show_whether_there_is_a_secret_and_never_which() -> None:
    security = ClientSecurity("SSL", key_password="hunter2", certificate_location="/c.pem")
    reader = Reader(ConsoleSettings(Coordinators([("h", 1)], security), ("127.0.0.1", 1)), ConsoleWorld().picture)
    found = {one.name: one.value for one in reader.in_force()}
    assert (found["kcoord.ssl.key.password"], found["coordinator"]) == ("[hidden]", "h:1")
    assert found["kcoord.ssl.ca.location"] == "not set"
    assert "hunter2" not in repr(reader.in_force()) + repr(reader.settings)


@pytest.mark.parametrize("heard", [b"0", b"99999"], ids=["of this console", "of the one before it"])
def test_a_stream_says_what_changed_since_the_version_that_was_heard(world: ConsoleWorld, heard: bytes) -> None:
    async def first_messages() -> list[str]:
        headers = [(b"last-event-id", heard)]
        said = await world.changes.endpoint(HttpRequest({"type": "http", "headers": headers, "method": "GET"}))
        messages = []
        async for message in said.body_iterator:  # type: ignore[attr-defined]
            messages.append(str(message))
            if "data:" in messages[-1]:
                world.changes.close()
        return messages

    retry, change = asyncio.run(first_messages())
    assert retry == "retry: 2000\n\n"
    kind, number, data = change.strip().split("\n")
    assert (kind, number) == ("event: change", f"id: {world.picture.heard().version}")
    assert json.loads(data.removeprefix("data: "))["groups"] == ["a & b", "g"]


def test_the_head_of_a_stream_ends_and_takes_no_place_of_a_stream(world: ConsoleWorld) -> None:
    said = world.client.head("/api/v1/changes")
    assert (said.status_code, said.headers["content-type"].split(";")[0]) == (200, "text/event-stream")
    assert world.changes.open == 0


def timeline_of(count: int, first_sequence: int) -> Callable[[Request], Response]:
    """Answer as a node does that has so many entries; it says which is the first, or 0 as one from before does."""
    entries = [
        GroupEvent(number, NOW_MS, "rebalance" if number % 10 == 0 else "granted", f"m{number}", "why", 1)
        for number in range(1, count + 1)
    ]

    def answer(request: Request) -> Response:
        assert isinstance(request, ListGroupEvents)
        told = [one for one in entries[request.after_sequence :] if not request.kinds or one.kind in request.kinds]
        return ListGroupEventsResponse(events=tuple(told), last_sequence=count, first_sequence=first_sequence)

    return answer


@pytest.mark.parametrize("first", [1, 0], ids=["first is told", "first is not told"])
@pytest.mark.parametrize(
    ("query", "total", "numbers"),
    [
        ("", 1_000, range(1_000, 900, -1)),
        ("?per_page=5&page=3", 1_000, range(990, 985, -1)),
        ("?per_page=300&page=4", 1_000, range(100, 0, -1)),
        ("?per_page=300&page=5", 1_000, ()),
        ("?kind=rebalance&per_page=3", 100, (1_000, 990, 980)),
        ("?search=m77&per_page=3", 11, (779, 778, 777)),
        ("?sort=sequence&per_page=2", 1_000, (1, 2)),
    ],
)
def test_page_of_a_timeline_is_of_all_that_is_chosen(
    first: int, query: str, total: int, numbers: Iterable[int]
) -> None:
    with ScriptedCoordinator({ListGroupEvents: timeline_of(1_000, first)}) as coordinator:
        world = ConsoleWorld(coordinators=(coordinator.address,))
        fill(world.picture, described("g"))
        found = world.get(f"/api/v1/groups/g/events{query}").json()
    assert (found["total"], [row["sequence"] for row in found["rows"]]) == (total, list(numbers))


def test_newest_page_of_a_timeline_asks_for_no_more_than_it_shows() -> None:
    answers: dict[type[Request], Answer | list[Answer]] = {
        ListGroupEvents: timeline_of(1_000, 1),
        DescribeControls: DescribeControlsResponse(),
    }
    with ScriptedCoordinator(answers) as coordinator:
        world = ConsoleWorld(coordinators=(coordinator.address,))
        fill(world.picture, described("g"))
        assert world.get("/groups/g/timeline").status_code == 200
        asked = [one for one in coordinator.asked if isinstance(one, ListGroupEvents)]
    ends, page, rebalances = asked
    assert ends.after_sequence > 1_000, "the ends of the timeline are asked for, without an entry"
    assert page == ListGroupEvents("g", 900)
    assert rebalances == ListGroupEvents("g", kinds=("rebalance", "stable"))
