"""The console in a real browser: every page, narrow and wide, light and dark, with the keyboard, and every act."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from axe_playwright_python.base import AxeResults
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from coordinator.console.web.assets import ASSETS
from tests.browser.chromium import a_browser
from tests.browser.stage import HOSTILE, Stage, a_stage
from tests.helpers.processes import eventually
from tests.helpers.raw_member import RawMember

if TYPE_CHECKING:
    from coordinator.local.kafka.broker import LocalKafka
    from coordinator.local.node import LocalCoordinator

pytestmark = pytest.mark.kafka

PAGES = (
    "/",
    "/groups",
    "/groups?sort=lag&order=desc",
    f"/groups/{quote(HOSTILE, safe='')}",
    "/groups/team-flights",
    "/groups/team-flights/members",
    "/groups/team-flights/timeline",
    "/groups/team-flights/acts",
    "/topics",
    "/topics/{topic}",
    "/nodes",
    "/shards",
    "/settings",
    "/api/docs",
    "/groups/nope",
)
AXE = Axe().axe_script
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)  # five seconds by itself, which a busy machine may need for a page
WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as found:
        yield found


@pytest.fixture(scope="module")
def stage(kafka: "LocalKafka", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Return a console before a coordinator of its own: pages count and list every group that there is."""
    from coordinator.local.node import LocalCoordinator

    topics = ("flights-of-browser", "orders-of-browser")
    for name, partitions in zip(topics, (8, 4), strict=True):
        kafka.create_topic(name, partitions)
    directory = tmp_path_factory.mktemp("console")
    with (
        LocalCoordinator(kafka.bootstrap_servers, directory / "node") as node,
        a_stage(kafka.bootstrap_servers, node.address, topics, directory) as made,
    ):
        yield made


@pytest.fixture
def troubles() -> list[str]:
    """Return what the browser complains of; a test ends with an empty list."""
    return []


@pytest.fixture
def page(browser: Browser, stage: Stage, troubles: list[str]) -> Iterator[Page]:
    context = browser.new_context(base_url=stage.console.url, viewport=WIDE)  # type: ignore[arg-type]
    made = context.new_page()
    made.set_default_timeout(PATIENCE_MS)
    made.on("console", lambda said: troubles.append(said.text) if said.type in ("error", "warning") else None)
    made.on("pageerror", lambda error: troubles.append(str(error)))
    made.on("request", lambda asked: None if asked.url.startswith(stage.console.url) else troubles.append(asked.url))
    yield made
    context.close()


def in_good_order(page: Page) -> None:
    """Fail for a page that is wider than its window, or that axe-core finds fault with."""
    is_wider = page.evaluate("document.documentElement.scrollWidth > innerWidth")
    assert not is_wider, f"{page.url} is wider than {page.viewport_size}"
    if page.evaluate("typeof axe") == "undefined":  # to read it costs as much as to run it
        page.evaluate(AXE)
    found = AxeResults(page.evaluate("axe.run({resultTypes: ['violations']})"))
    assert found.violations_count == 0, f"{page.url}: {found.generate_report()}"


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_in_good_order_wide_and_narrow_light_and_dark(
    page: Page, stage: Stage, troubles: list[str], path: str
) -> None:
    page.goto(path.replace("{topic}", stage.topic), wait_until="load")
    expect(page.locator("h1")).to_have_count(1)
    in_good_order(page)
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size(NARROW)  # type: ignore[arg-type]
    in_good_order(page)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(17, 22, 28)"
    assert not [said for said in troubles if "404" not in said or path != "/groups/nope"]


def test_a_curve_that_follows_a_narrower_window_later_does_not_widen_its_page(page: Page) -> None:
    page.goto("/groups/team-flights")
    page.locator("#curve canvas").wait_for()
    page.set_viewport_size(NARROW)  # type: ignore[arg-type]
    width = "document.documentElement.scrollWidth"
    page.evaluate("document.querySelector('#curve > *').style.width = '1400px'")
    assert page.evaluate(width) <= NARROW["width"]


def test_a_page_follows_what_changes_and_does_not_run_what_names_say(
    page: Page, stage: Stage, troubles: list[str]
) -> None:
    page.goto("/groups")
    rows = page.locator("#live tbody tr")
    expect(rows.filter(has_text=HOSTILE)).to_have_count(1)
    expect(rows.filter(has_text="comes-later")).to_have_count(0)
    with RawMember(stage.node_address, "comes-later", stage.topic) as member:
        member.register()
        expect(rows.filter(has_text="comes-later")).to_have_count(1)
    assert page.locator("img").count() == 0
    assert troubles == []


HIDE = """() => {
  Object.defineProperty(document, "hidden", { get: () => true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_as_many_pages_as_are_open_follow_what_changes_over_one_stream(browser: Browser, stage: Stage) -> None:
    context = browser.new_context(base_url=stage.console.url)
    context.set_default_timeout(PATIENCE_MS)
    context.add_init_script("window.setInterval = () => 0")  # pages are refreshed by what they hear alone
    holders: list[Page] = []
    context.on("request", lambda asked: holders.append(asked.frame.page) if asked.url.endswith("changes") else None)
    pages = [context.new_page() for _ in range(7)]

    def all_follow(group: str, streams: int) -> None:
        assert eventually(lambda: pages[0].evaluate("true") and len(holders) >= streams)
        with RawMember(stage.node_address, group, stage.topic) as member:
            member.register()
            for each in pages:
                expect(each.locator("#live tbody tr").filter(has_text=group)).to_have_count(1)
        assert len(holders) == streams

    for each in pages:
        each.goto("/groups")
    assert pages[1].evaluate("fetch('/api/v1/overview').then((said) => said.status)") == 200
    all_follow("seen-by-seven", 1)
    pages.remove(holders[0])
    holders[0].evaluate(HIDE)
    all_follow("seen-by-six", 2)
    pages.remove(holders[1])
    holders[1].close()
    all_follow("seen-by-five", 3)
    context.close()


@pytest.fixture
def bare(browser: Browser) -> Iterator[Page]:
    """Return a page of nothing but a body that is live, whose streams and timers stand still."""
    made = browser.new_page()
    made.evaluate("""() => {
      window.streams = [];
      window.timers = new Map();
      window.htmx = { trigger: () => {} };
      window.setInterval = () => 0;
      window.setTimeout = (call, ms) => timers.set(timers.size + 1, { call, ms }) && timers.size;
      window.clearTimeout = (id) => timers.has(id) && timers.set(id, {});
      window.EventSource = class {
        static CLOSED = 2;
        constructor() { this.readyState = 0; this.heard = {}; streams.push(this); }
        addEventListener(kind, call) { this.heard[kind] = call; }
        close() { this.readyState = 2; }
        refuse() { this.readyState = 2; this.heard.error(); }
      };
      document.body.dataset.live = "yes";
    }""")
    yield made
    made.close()


def test_a_stream_that_is_refused_is_tried_once_later_however_often_its_page_was_looked_at(bare: Page) -> None:
    bare.add_script_tag(path=ASSETS / "console.js")
    tried = bare.evaluate("""() => {
      streams.at(-1).refuse();
      for (let looks = 0; looks < 3; looks++) {
        document.dispatchEvent(new Event("visibilitychange"));
        streams.at(-1).refuse();
      }
      const before = streams.length;
      [...timers.values()].filter((each) => each.ms === 15000).forEach((each) => each.call());
      return streams.length - before;
    }""")
    assert tried == 1


@pytest.mark.parametrize(
    "lacks",
    [
        "delete window.BroadcastChannel",
        "window.BroadcastChannel = class { constructor() { throw new DOMException('no', 'SecurityError'); } }",
        "navigator.locks.request = () => Promise.reject(new DOMException('no', 'SecurityError'))",
    ],
)
def test_a_browser_that_shares_nothing_between_pages_has_a_stream_for_each(bare: Page, lacks: str) -> None:
    bare.evaluate("Object.defineProperty(navigator, 'locks', { value: { request: () => new Promise(() => {}) } })")
    bare.evaluate(f"() => {{ {lacks} }}")
    bare.add_script_tag(path=ASSETS / "console.js")
    assert bare.evaluate("streams.length") == 1


def test_groups_are_found_with_the_keyboard_alone_and_the_filter_is_in_the_address(
    page: Page, troubles: list[str]
) -> None:
    page.goto("/groups")
    page.keyboard.press("/")
    page.keyboard.type("TEAM")
    expect(page.locator("#live tbody tr")).to_have_count(1)
    page.wait_for_url("**/groups?*search=TEAM*")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "team-flights":
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/groups/team-flights")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.go_back()
    expect(page.locator("#search")).to_have_value("TEAM")
    assert troubles == []


def test_the_curve_of_the_lag_is_drawn(page: Page, troubles: list[str]) -> None:
    page.goto("/groups/nightly")
    expect(page.locator("#curve canvas")).to_have_count(1)
    assert troubles == []


def test_offsets_are_reset_after_a_preview_with_a_reason_and_the_name(
    page: Page, stage: Stage, troubles: list[str]
) -> None:
    page.goto("/groups/nightly/acts")
    form = page.locator("#form-reset-offsets")
    form.get_by_label("To", exact=True).select_option("offset")
    form.get_by_label("An offset, records to shift by").fill("5")
    form.get_by_role("button").click()
    result = page.locator("#result-reset-offsets")
    expect(result).to_contain_text("Nothing has been changed yet.")
    expect(result.locator("tbody tr").first).to_contain_text("would be set")
    expect(result.locator("tbody tr").first.locator("td").nth(3)).to_have_text("-5")
    in_good_order(page)
    do = page.locator("#do-reset-offsets")
    do.get_by_label("Why?").fill("a bad deploy")
    do.get_by_label("type the group's name").fill("nightli")
    do.get_by_role("button").press("Enter")
    expect(result).to_contain_text("Not done: 'confirm' is not the group's name")
    form.get_by_role("button").click()
    do.get_by_label("Why?").fill("a bad deploy")
    do.get_by_label("type the group's name").fill("nightly")
    do.get_by_role("button").press("Enter")
    expect(result).to_contain_text("4 partitions are done.")
    page.goto("/groups/nightly/timeline")
    expect(page.locator("#live")).to_contain_text("a bad deploy")
    assert [said for said in troubles if "400" not in said] == []


ACTS: tuple[tuple[str, str, Callable[[Page], Any], str], ...] = (
    ("team-flights", "pause", lambda _: None, "partitions are concerned now"),
    ("team-flights", "resume", lambda _: None, "partitions are concerned now"),
    ("team-flights", "drain", lambda _: None, "partitions are concerned now"),
    ("team-flights", "undrain", lambda _: None, "partitions are concerned now"),
    ("billing", "cancel-resets", lambda _: None, "0 partitions are done"),
    ("billing", "release-claims", lambda _: None, "0 partitions are done"),
    (
        "billing",
        "delete-offsets",
        lambda page: page.locator("#topics-delete-offsets").fill("orders-of-browser:3"),
        "1 ",
    ),
    ("billing", "delete-group", lambda _: None, "The group has been deleted."),
)


@pytest.mark.parametrize(("group", "act", "fill", "outcome"), ACTS, ids=[act for _, act, _, _ in ACTS])
def test_every_act_is_shown_and_then_done(
    page: Page, troubles: list[str], group: str, act: str, fill: Callable[[Page], Any], outcome: str
) -> None:
    page.goto(f"/groups/{group}/acts")
    fill(page)
    page.locator(f"#form-{act} button").press("Enter")
    page.locator(f"#why-{act}").fill("to see it")
    confirm = page.locator(f"#confirm-{act}")
    if confirm.count():
        confirm.fill(group)
    page.locator(f"#do-{act} button").press("Enter")
    result = page.locator(f"#result-{act}")
    expect(page.locator(f"#do-{act}")).to_have_count(0)
    expect(result).to_contain_text(outcome)
    assert troubles == []


def test_while_the_coordinator_is_away_a_page_says_so_by_itself_and_takes_it_back(
    browser: Browser, own_coordinator: "LocalCoordinator", tmp_path: Path
) -> None:
    from coordinator.local.console import LocalConsole

    flags = ("--refresh", "0.3", "--timeout", "2")
    with (
        LocalConsole(own_coordinator.address, tmp_path / "console", flags=flags) as console,
        contextlib.closing(browser.new_context(base_url=console.url)) as context,
    ):
        page = context.new_page()
        page.goto("/groups")
        expect(page.locator("#live tbody")).to_contain_text("No group matches.")
        own_coordinator.kill()
        expect(page.locator(".banner")).to_contain_text("Nothing newer is known")
        own_coordinator.start()
        assert eventually(lambda: page.locator(".banner").count() == 0)


def test_a_page_that_is_not_in_good_order_is_found_out(page: Page) -> None:
    page.goto("/groups")
    page.evaluate("document.querySelector('label[for=search]').remove()")
    with pytest.raises(AssertionError, match="label"):
        in_good_order(page)
    page.goto("/groups")
    page.evaluate(
        "document.querySelector('h1').textContent = 'wide'; document.querySelector('h1').style.width = '2000px'"
    )
    with pytest.raises(AssertionError, match="wider"):
        in_good_order(page)
