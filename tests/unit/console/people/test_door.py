"""The application behind its door: who is answered, as whom, and in which words others are not."""

import asyncio
import base64
from collections.abc import Iterator

import pytest
import structlog
from starlette.requests import Request

from coordinator.client.security import ClientSecurity, Coordinators, Secret
from coordinator.console.known.sight import Sight
from coordinator.console.people.credential import Credential
from coordinator.console.people.door import BASIC, BEARER, Person
from coordinator.console.people.looking import NobodyAnswersError, RefusedByNodeError
from coordinator.console.people.people import ASKED_AT_ONCE, REQUESTS_AT_ONCE, STREAMS_AT_ONCE, Known, People
from coordinator.console.web import changes as changes_module
from coordinator.console.web.app import Front
from coordinator.console.web.changes import Changes
from coordinator.console.web.guard import HEADERS, MARK
from coordinator.console.web.operations import OPERATIONS, ROOT
from coordinator.console.web.reading import ASKED_AT_ONCE as ASKED_OF_ALL
from tests.helpers.console_world import NOW_MS, ConsoleWorld, described, fill, partition

SIGHTS = {
    "alice": Sight(frozenset({"a"}), sees_cluster=False),
    "ops": Sight(frozenset({"a", "b"}), sees_cluster=True),
}
OWN = ClientSecurity("SASL_PLAINTEXT", mechanism="SCRAM-SHA-512", username="console", password=Secret("own s3cret"))
EVERYWHERE = ("/", "/groups", "/groups/a", "/nodes", "/nope", "/assets/console.js", "/api/docs", "/api/openapi.json")


def look(credential: Credential, old: Sight | None, now_s: float) -> Sight:
    if credential.name == "away":
        raise NobodyAnswersError("the coordinator at 10.0.0.7:9292 cannot be reached")
    if credential.is_token and credential.secret == "t0ken":
        return SIGHTS["ops"]
    if credential.secret != "s3cret" or credential.name not in SIGHTS:
        raise RefusedByNodeError(("10.0.0.7", 9292), "refused the log-in: user name and password do not fit")
    return SIGHTS[credential.name]


class DoorWorld(ConsoleWorld):
    """A console where people log in; `came` are the addresses from which somebody was let in."""

    def __init__(self) -> None:
        self.came: list[str] = []
        self.people = People(look, structlog.get_logger(), lambda: 1_000.0)
        super().__init__(
            coordinators=Coordinators([("127.0.0.1", 1)], OWN),
            allow_changes=True,
            front=Front(people=self.people, came_in=self.came.append),
        )
        fill(self.picture, described("a", partition(0, 1, 5)), described("b", partition(0, 1, 9, topic="hidden")))


@pytest.fixture
def world() -> Iterator[DoorWorld]:
    made = DoorWorld()
    yield made
    made.people.close()


def by(name: str, password: str = "s3cret") -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"}


def test_nobody_is_answered_without_a_log_in_wherever_they_ask(world: DoorWorld) -> None:
    for path in (*EVERYWHERE, *(f"{ROOT}{one.path}" for one in OPERATIONS), f"{ROOT}/changes"):
        said = world.get(path)
        assert said.status_code == 401, path
        assert {name: said.headers[name] for name in HEADERS} == HEADERS
        is_api = path.startswith("/api/")
        assert said.headers.get_list("www-authenticate") == ([BASIC, BEARER] if is_api else [BASIC])
        assert not is_api or said.json()["error"] == "not_logged_in"
    for path in ("/groups/a/acts/pause", f"{ROOT}/groups/a/acts/pause"):
        assert world.post(path, {}).status_code == 401
    assert world.came == []


@pytest.mark.parametrize(
    "headers",
    [by("alice", "wrong"), by("nobody"), {"Authorization": "Bearer wrong"}, {"Authorization": "Basic czNjcmV0"}],
)
def test_a_log_in_that_is_not_good_is_refused_without_a_word_of_it(world: DoorWorld, headers: dict[str, str]) -> None:
    with structlog.testing.capture_logs() as lines:
        said = world.get("/api/v1/overview", **headers)
    assert said.status_code == 401
    assert "10.0.0.7" not in said.text
    for secret in ("wrong", "s3cret", "czNjcmV0"):
        assert secret not in said.text + repr(lines)


def test_each_person_sees_what_the_coordinators_list_to_them(world: DoorWorld) -> None:
    for headers, groups, topics in (
        (by("alice"), ["a"], ["t"]),
        (by("ops"), ["a", "b"], ["hidden", "t"]),
        ({"Authorization": "Bearer t0ken"}, ["a", "b"], ["hidden", "t"]),
    ):
        assert [row["group"] for row in world.get("/api/v1/groups", **headers).json()["rows"]] == groups
        assert [row["topic"] for row in world.get("/api/v1/topics", **headers).json()["rows"]] == topics
        assert world.get("/api/v1/overview", **headers).json()["groups"] == len(groups)
    assert world.came
    views = ("", "/partitions", "/members", "/lag", "/events", "/rebalances", "/controls")
    for path in (*(f"groups/b{view}" for view in views), "topics/hidden/groups"):
        hidden, missing = (
            world.get(f"/api/v1/{one}", **by("alice"))
            for one in (path, path.replace("/b", "/x").replace("hidden", "xidden"))
        )
        assert hidden.status_code == 404, path
        assert hidden.text.replace("'b'", "'x'").replace("'hidden'", "'xidden'") == missing.text
    for path in ("/groups/b", "/groups/b/members", "/groups/b/timeline", "/groups/b/acts", "/topics/hidden"):
        said = world.get(path, **by("alice"))
        assert said.status_code == 404, path
    everything = "".join(world.get(path, **by("alice")).text for path in ("/", "/groups", "/topics", "/groups/a"))
    assert "hidden" not in everything
    assert "logged in as alice" in everything


def test_nodes_shards_and_settings_are_for_who_may_describe_the_cluster(world: DoorWorld) -> None:
    for path in ("nodes", "shards", "settings"):
        said = world.get(f"/api/v1/{path}", **by("alice"))
        assert (said.status_code, said.json()["error"]) == (403, "not_allowed")
        assert world.get(f"/{path}", **by("alice")).status_code == 403
        assert world.get(f"/api/v1/{path}", **by("ops")).status_code == 200
    overview = world.get("/api/v1/overview", **by("alice")).json()
    assert (overview["nodes"], overview["shards"]) == (None, None)
    page = world.get("/", **by("alice")).text
    assert "You may not describe the cluster" in page
    assert not [
        words for words in ("Every shard is served", "one node alone", '/shards">') if words in page.split("<h1>")[1]
    ]
    assert "own s3cret" not in world.get("/api/v1/settings", **by("ops")).text


def test_while_no_coordinator_answers_nobody_new_is_let_in_and_no_address_is_told(world: DoorWorld) -> None:
    said = world.get("/api/v1/overview", **by("away"))
    assert (said.status_code, said.json()["error"]) == (503, "unavailable")
    assert "retry-after" in said.headers
    assert "www-authenticate" not in said.headers  # a browser would ask its user for another password
    assert "10.0.0.7" not in said.text


def test_an_address_that_tries_passwords_is_told_to_wait(world: DoorWorld) -> None:
    found = [world.get("/", **by("root", f"guess {number}")).status_code for number in range(20)]
    assert found == [401] * 10 + [429] * 10
    assert "retry-after" in world.get("/", **by("root", "guess 99")).headers


def test_a_page_of_another_site_gets_nothing_by_the_log_in_that_a_browser_brings_along(world: DoorWorld) -> None:
    for site in ("cross-site", "same-site"):
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", **by("alice")}
        assert world.get("/api/v1/changes", **headers).status_code == 403
        assert world.get("/groups/a", **headers | {"Sec-Fetch-Mode": "navigate"}).status_code == 200
    for origin in ("https://evil.example", "null", "http://[", "http://a]b", ""):  # some browsers say no more than this
        told = {"Origin": origin, **by("alice")}
        for path in ("/", "/api/v1/changes", "/api/v1/groups"):
            assert world.get(path, **told).status_code == 403, origin
        assert world.post(f"{ROOT}/groups/a/acts/pause", {}, **told).status_code == 403, origin
    assert world.get("/api/v1/groups", **by("alice"), Origin="http://127.0.0.1:7480").status_code == 200
    told = {"Origin": "https://evil.example", **by("alice")}
    assert world.post(f"{ROOT}/groups/a/acts/pause", {}, **told).status_code == 403
    unmarked = world.client.post(f"{ROOT}/groups/a/acts/pause", json={}, headers=by("alice"))
    assert (unmarked.status_code, MARK in unmarked.text) == (403, True)


def test_one_person_leaves_turns_to_others_who_ask_the_coordinators(world: DoorWorld) -> None:
    world.get("/api/v1/overview", **by("alice"))
    (known,) = world.people.inside()
    for _ in range(ASKED_AT_ONCE):
        known.turn.acquire()
    said = world.get("/api/v1/groups/a/events", **by("alice"))
    assert (said.status_code, "too many questions" in said.text) == (503, True)
    assert "cannot be reached" in world.get("/api/v1/groups/a/events", **by("ops")).text
    assert ASKED_AT_ONCE < ASKED_OF_ALL
    known.turn.release()
    assert "no coordinator answers" in world.get("/api/v1/groups/a/events", **by("alice")).text


def test_who_may_not_describe_the_cluster_is_told_of_no_node_when_none_answers(world: DoorWorld) -> None:
    def said(name: str) -> str:
        act = {"to": "earliest"}
        acts = ("groups/a/acts/pause", f"{ROOT}/groups/a/acts/pause", f"{ROOT}/groups/a/acts/reset-offsets")
        answers = [world.get(path, **by(name)) for path in (f"{ROOT}/groups/a/events", "/groups/a/timeline")]
        answers += [world.post(path, act if "reset" in path else {}, **by(name)) for path in acts]
        assert [one.status_code for one in answers] == [503] * len(answers)
        return "".join(one.text for one in answers)

    assert "127.0.0.1:1" in said("ops")
    assert "127.0.0.1" not in said("alice")


def test_who_leaves_in_the_middle_of_a_request_is_no_failure_of_the_console(world: DoorWorld) -> None:
    sent: list[object] = []

    async def leave() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def send(message: object) -> None:
        sent.append(message)

    headers = {"host": "localhost", MARK: "x", "content-length": "9", "authorization": by("alice")["Authorization"]}
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/v1/groups/a/acts/pause",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    asyncio.run(world.client.app(scope, leave, send))  # type: ignore[arg-type]
    assert len(sent) == 2


def test_one_log_in_has_so_many_requests_and_streams_and_no_more(world: DoorWorld) -> None:
    world.get("/api/v1/overview", **by("alice"))
    (known,) = world.people.inside()
    known.requests = REQUESTS_AT_ONCE
    assert world.get("/api/v1/overview", **by("alice")).status_code == 429
    assert world.get("/api/v1/overview", **by("ops")).status_code == 200
    known.requests, known.streams = 0, STREAMS_AT_ONCE
    said = world.get("/api/v1/changes", **by("alice"))
    assert (said.status_code, said.json()["error"]) == (429, "too_many_streams")
    assert known.requests == 0


def test_a_stream_tells_a_person_of_their_groups_and_ends_with_their_log_in(
    world: DoorWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes_module, "LOOK_S", 0.01)

    def looks() -> Iterator[bool]:
        yield True
        world.picture.see_described(described("b", partition(0, 1, 99, topic="hidden")), [], NOW_MS + 1)
        yield True
        yield True
        yield False

    known, answers = Known("alice", SIGHTS["alice"], 0.0), looks()
    person = Person(known, Coordinators([("127.0.0.1", 1)]), lambda: next(answers))

    async def messages() -> list[str]:
        changes = Changes(world.picture)
        headers = [(b"last-event-id", b"0")]
        scope = {"type": "http", "headers": headers, "method": "GET", "kcoord.person": person}
        said = await changes.endpoint(Request(scope))
        return [str(message) async for message in said.body_iterator]  # type: ignore[attr-defined]

    retry, change = asyncio.run(messages())
    assert retry.startswith("retry:")
    assert '"groups":["a"]' in change
    assert '"b"' not in change
