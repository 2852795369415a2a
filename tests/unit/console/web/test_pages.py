"""Pages as a browser without scripts sees them: all there, everything of others escaped, nothing from elsewhere."""

import asyncio
import hashlib
import re
from html.parser import HTMLParser

import pytest
from starlette.types import Message

from coordinator.client.request import RequestTimeoutError
from coordinator.console.known.assignment_map import MOST_CELLS, assignment_map
from coordinator.console.known.group_seen import Trail, measure
from coordinator.console.web import reading, templates
from coordinator.console.web.assets import ASSETS, ROOM, files_of_others
from coordinator.protocol.messages import ListGroupEvents, ListGroupEventsResponse, Request, Response
from coordinator.protocol.messages.operators import DescribeControls, DescribeControlsResponse
from coordinator.protocol.parts import ControlDescription, GroupEvent
from tests.helpers.console_world import NOW_MS, ConsoleWorld, described, fill, member, partition
from tests.helpers.scripted_coordinator import ScriptedCoordinator

HOSTILE = "<img src=x onerror=alert(1)>\"'&amp;\u202egpj\x1b[31m\nnew"
SHOWN = "&lt;img src=x onerror=alert(1)&gt;&#34;&#39;&amp;amp;\\u202egpj\\x1b[31m\\nnew"
FIRST_PAGE_BYTES = 300 * 1024


class Elements(HTMLParser):
    """The elements of a page, with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture
def world():
    events = (
        GroupEvent(1, NOW_MS - 9_000, "rebalance", "", HOSTILE, 1, (("t", 0),)),
        GroupEvent(2, NOW_MS - 8_000, "stable", HOSTILE, "all hold it", 1, (), 1_500),
    )
    control = ControlDescription("member-drained", HOSTILE, HOSTILE, NOW_MS, member_id=HOSTILE)
    answers = {
        ListGroupEvents: ListGroupEventsResponse(events=events),
        DescribeControls: DescribeControlsResponse(controls=(control,)),
    }
    with ScriptedCoordinator(answers) as coordinator:
        made = ConsoleWorld(coordinators=(coordinator.address,))
        group = described(
            "g",
            partition(0, 1, 1_234_567, "m"),
            partition(1, None, None, None),
            members=(member("m", HOSTILE),),
        )
        fill(made.picture, group, described(HOSTILE))
        yield made


PAGES = (
    "/",
    "/groups",
    "/groups?sort=lag&order=desc&search=g",
    "/groups/g",
    "/groups/g?consumer_id=m",
    "/groups/g/members",
    "/groups/g/timeline",
    "/topics",
    "/topics/t",
    "/nodes",
    "/shards",
    "/settings",
    "/api/docs",
)


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_there_takes_nothing_from_elsewhere_and_says_what_it_is(world: ConsoleWorld, path: str) -> None:
    said = world.get(path)
    assert said.status_code == 200, said.text
    elements = Elements(said.text).found
    kinds = [tag for tag, _ in elements]
    assert (kinds.count("h1"), kinds.count("main"), kinds.count("img")) == (1, 1, 0)
    for tag, attributes in elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], (tag, attributes)
        for name in ("src", "href", "action", "hx-get"):
            address = attributes.get(name)
            assert address is None or address.startswith(("/", "?", "#")), (tag, attributes)
            assert address is None or not address.startswith("//")
    assert not re.search(r"<script(?![^>]*\bsrc=)", said.text)
    ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("path", ["/groups", "/groups/g", "/groups/g/members", "/groups/g/timeline", "/topics/t"])
def test_names_and_reasons_of_others_are_one_line_of_printable_text(world: ConsoleWorld, path: str) -> None:
    page = world.get(path).text
    if path != "/topics/t":
        assert SHOWN in page
    assert not [letter for letter in page if not letter.isprintable() and letter != "\n"]
    assert "<img" not in page
    assert HOSTILE not in page


def test_a_link_leads_to_the_group_whatever_its_name(world: ConsoleWorld) -> None:
    names = ["a & b?c=d#e", "100%", "+ +", 'q"uote', "ü—名"]
    fill(world.picture, *(described(name) for name in names))
    page = Elements(world.get("/groups").text).found
    links = [attributes["href"] for _, attributes in page if str(attributes.get("id", "")).startswith("row-")]
    assert len(links) == len(names)
    for link, name in zip(links, sorted(names), strict=True):
        said = world.get(str(link))
        assert said.status_code == 200
        assert said.text.count("<h1>") == 1
        assert templates.Markup.escape(f"Group {name}") in said.text


def test_a_page_asks_for_itself_again_whatever_its_name(world: ConsoleWorld) -> None:
    """A name may hold what an address has for another letter; the page of that other group came in its place."""
    fill(world.picture, described("a%41"), described("aA"))
    said: list[Message] = []

    async def receive() -> Message:
        raise AssertionError("a page reads no body")

    async def send(message: Message) -> None:
        said.append(message)

    headers = [(b"host", b"127.0.0.1")]
    scope = {"type": "http", "method": "GET", "path": "/groups/a%41", "query_string": b"sort=lag", "headers": headers}
    asyncio.run(world.client.app(scope, receive, send))  # Starlette's client decodes a path twice
    page = said[1]["body"].decode()
    assert "<h1>Group a%41</h1>" in page
    assert 'id="live" hx-get="/groups/a%2541?sort=lag"' in page


def test_links_of_a_page_keep_every_filter(world: ConsoleWorld) -> None:
    fill(world.picture, *(described(f"g{number}") for number in range(3)))
    page = Elements(world.get("/groups?state=Stable&state=Empty&per_page=2").text).found
    links = [str(attributes["href"]) for _, attributes in page if attributes.get("id") in ("next", "sort-lag")]
    assert links == [
        "?state=Stable&state=Empty&per_page=2&sort=lag&order=desc",
        "?state=Stable&state=Empty&per_page=2&page=2",
    ]


def test_a_page_beyond_the_last_is_the_last_one_for_people_and_has_no_rows_in_the_api(world: ConsoleWorld) -> None:
    fill(world.picture, *(described(f"g{number}") for number in range(3)))
    beyond = world.get("/api/v1/groups?per_page=2&page=40").json()
    assert (beyond["rows"], beyond["total"], beyond["page"], beyond["pages"]) == ([], 3, 40, 2)
    page = world.get("/groups?per_page=2&page=40").text
    assert [f'href="/groups/g{number}"' in page for number in range(3)] == [False, False, True]
    assert "page=40" not in page.split("<tbody", 1)[1], "links lead on from the page that is shown"


def test_what_operators_decided_is_not_said_to_be_nothing_where_nobody_tells_it() -> None:
    world = ConsoleWorld()
    fill(world.picture, described("g", partition(0, 1, 2), partition(1, None, 2)))
    page = world.get("/groups/g").text
    assert "What operators have decided about the group is not known now: the coordinator at 127.0.0.1:1" in page
    assert '<dd>1 <span class="soft">(1 not known)</span></dd>' in page, "the lag is that of one partition of two"


def test_a_rebalance_that_goes_on_is_not_said_to_be_overtaken() -> None:
    events = tuple(GroupEvent(at, NOW_MS, "rebalance", "", f"cause {at}", at) for at in (1, 2))
    answers = {
        ListGroupEvents: ListGroupEventsResponse(events=events, first_sequence=1, last_sequence=2),
        DescribeControls: DescribeControlsResponse(),
    }
    with ScriptedCoordinator(answers) as coordinator:
        world = ConsoleWorld(coordinators=(coordinator.address,))
        fill(world.picture, described("g"))
        page = world.get("/groups/g/timeline").text
    assert page.index("cause 2") < page.index("not yet") < page.index("cause 1") < page.index("until the next one")


def test_an_overview_does_not_say_that_all_is_well_while_nobody_answers(world: ConsoleWorld) -> None:
    assert "Every shard is served and every node answers." in world.get("/").text
    world.picture.see_trouble("gone")
    assert "Every shard is served" not in world.get("/").text


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/groups/nope%3Cb%3E", 404, "Consumer group &#39;nope&lt;b&gt;&#39; does not exist."),
        ("/groups?sort=lga", 400, "rows are not sorted by &#39;lga&#39;; is &#39;lag&#39; meant?"),
        ("/nix", 404, "There is no page /nix."),
        ("/?x=1", 400, "this page takes no parameters"),
    ],
)
def test_what_cannot_be_shown_is_a_page_with_a_sentence(
    world: ConsoleWorld, path: str, status: int, words: str
) -> None:
    said = world.get(path)
    assert (said.status_code, said.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert words in said.text


def test_without_a_coordinator_pages_say_so_and_try_again() -> None:
    world = ConsoleWorld()
    world.picture.see_trouble("the coordinator at 127.0.0.1:1 cannot be reached: Connection refused")
    for path, status in (("/", 200), ("/groups", 503), ("/groups/g", 503)):
        said = world.get(path)
        assert said.status_code == status
        assert "127.0.0.1:1 cannot be reached: Connection refused" in said.text
        assert "every 3s" in said.text
    assert world.get("/settings").status_code == 200
    fill(world.picture, described("g", partition(0, 1, 2)))
    world.picture.see_trouble("gone")
    world.now_ms += 90_000
    page = world.get("/groups").text
    assert "Nothing newer is known." in page
    assert "1 min 30 s ago" in page


@pytest.mark.parametrize(
    "path",
    [
        "..%2fserver.py",
        "%2e%2e/%2e%2e/server.py",
        "%2e%2e%2f%2e%2e%2f%2e%2e%2f%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "..%5cserver.py",
        "%2fetc%2fpasswd",
        "console.css%00.js",
        "%00",
        "",
        "x" * 5_000,
    ],
)
def test_no_file_but_those_of_the_console_is_served(world: ConsoleWorld, path: str) -> None:
    said = world.get(f"/assets/{path}")
    assert said.status_code == 404
    assert "def " not in said.text
    assert "root:" not in said.text


@pytest.mark.parametrize("path", ["/groups/g", "/groups/g/timeline", "/api/v1/groups/g/events?per_page=1"])
@pytest.mark.parametrize("hangs", [True, False])
def test_a_coordinator_that_takes_long_keeps_nobody_waiting_for_ten_seconds(
    path: str, hangs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 0.0

    def ask(_: object, request: Request, timeout_s: float) -> Response:
        nonlocal now_s
        now_s += timeout_s if hangs else min(timeout_s, 3.9)
        if hangs:
            raise RequestTimeoutError("did not answer in time", "", None)
        if isinstance(request, DescribeControls):
            return DescribeControlsResponse()
        event = GroupEvent(1, NOW_MS, "rebalance", "", "it began", 1)
        return ListGroupEventsResponse(events=(event,), first_sequence=1, last_sequence=1)

    monkeypatch.setattr(reading, "ask", ask)
    world = ConsoleWorld(timeout_s=10, now_s=lambda: now_s)
    fill(world.picture, described("g", partition(0, 1, 2)))
    for _ in range(2):  # each request has its own time
        now_s, began_s = now_s + 60, now_s + 60
        status = world.get(path).status_code
        assert status == 200 or (status, path != "/groups/g") == (503, True)
        assert 0 < now_s - began_s < 9


def test_files_of_others_are_those_that_the_list_says_with_their_licences() -> None:
    listed = files_of_others()
    own = {"console.css", "console.js", "icon.svg", "LICENSES.md", "htmx.LICENSE.txt", "uPlot.LICENSE.txt"}
    assert {file.name for file in ASSETS.iterdir()} == own | set(listed)
    for name, digest in listed.items():
        assert hashlib.sha256((ASSETS / name).read_bytes()).hexdigest() == digest


def test_a_first_page_with_all_its_files_is_small(world: ConsoleWorld) -> None:
    fill(world.picture, *(described(f"group-{number:05}", partition(0, 1, 5)) for number in range(10_000)))
    page = world.get("/groups?sort=lag&order=desc")
    files = {str(a.get("src") or a.get("href")) for tag, a in Elements(page.text).found if tag in ("script", "link")}
    assert files == {"/assets/htmx.min.js", "/assets/console.js", "/assets/console.css", "/assets/icon.svg"}
    sizes = [len(world.get(file).content) for file in files]
    assert len(page.content) + sum(sizes) + (ASSETS / "uPlot.min.js").stat().st_size < FIRST_PAGE_BYTES
    assert page.text.count("<tr>") == 101  # its head, and a hundred of 10,000


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\u2013"),
        (0.0, "0 ms"),
        (0.25, "250 ms"),
        (5.04, "5.0 s"),
        (59, "59 s"),
        (61, "1 min 1 s"),
        (7_200, "2 h"),
        (7_260, "2 h 1 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_durations_are_written_for_people(value: float | None, text: str) -> None:
    assert templates.seconds(value) == text


def test_a_time_that_no_calendar_has_is_shown_as_its_number() -> None:
    assert templates.moment(2**62) == f"{2**62} ms"


def test_the_map_of_a_large_group_draws_some_and_counts_the_others() -> None:
    group = described("g", *(partition(number, 1, 2, "m") for number in range(MOST_CELLS + 7)))
    drawn = assignment_map(measure(group, (), Trail(), NOW_MS))
    assert (drawn.owners, drawn.left_out, len(drawn.topics[0][1])) == ((("client", "o0"),), 7, MOST_CELLS)
    assert drawn.topics[0][1][0] == (0, "o0", "client")


def test_very_many_decisions_of_operators_are_counted_and_not_all_shown() -> None:
    said = tuple(ControlDescription("partition-paused", "me", "why", NOW_MS, "t", number) for number in range(500))
    with ScriptedCoordinator({DescribeControls: DescribeControlsResponse(controls=said)}) as coordinator:
        world = ConsoleWorld(coordinators=(coordinator.address,))
        fill(world.picture, described("g", partition(0, 1, 2)))
        page = world.get("/groups/g").text
        assert (page.count("is paused, by me"), "480 decisions of operators more" in page) == (20, True)
        assert len(world.get("/api/v1/groups/g/controls").json()) == 500


def test_what_is_sent_to_be_done_is_not_sent_again_while_it_is_under_way() -> None:
    """Of two clicks the second one is passed over: it would wait, and shift offsets again where the first fails."""
    folder = ROOM / "templates"
    sending = [
        form for path in folder.glob("*.html") for form in re.findall(r"<form [^>]*hx-post[^>]*>", path.read_text())
    ]
    assert len(sending) == 2
    assert all('hx-sync="this:drop"' in form for form in sending)
