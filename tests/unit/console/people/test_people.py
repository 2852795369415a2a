"""Who is let in, for how long, and how much of a flood passes on to the coordinators. Looking is a fake; so is time."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
import structlog

from coordinator.console.known.sight import OUTAGE_S, Sight
from coordinator.console.people import people as module
from coordinator.console.people.credential import Credential
from coordinator.console.people.looking import NobodyAnswersError, RefusedByNodeError
from coordinator.console.people.people import (
    FRESH_S,
    IN_ALL,
    IN_LINE_OF_ADDRESS,
    MOST_PEOPLE,
    OF_ADDRESS,
    REFUSED_S,
    STREAM_S,
    Known,
    NotInError,
    NotNowError,
    People,
    TooManyError,
)

ALICE = Credential("alice", "s3cret")
SIGHT = Sight(frozenset("g"), sees_cluster=False)


@dataclass
class Coordinators:
    """Says what the coordinators would; counts how often it was asked."""

    now_s: float = 1_000.0
    bad: set[str] = field(default_factory=set)
    are_away: bool = False
    sight: Sight = SIGHT
    asked: list[str] = field(default_factory=list)
    hold: threading.Event | None = None

    def look(self, credential: Credential, old: Sight | None, now_s: float) -> Sight:
        self.asked.append(credential.name)
        if self.hold is not None:
            assert self.hold.wait(30)
        if self.are_away:
            raise NobodyAnswersError("the coordinator at h:1 cannot be reached")
        if credential.secret in self.bad:
            raise RefusedByNodeError(("h", 1), "refused the log-in: no")
        return self.sight


def with_people(play: Callable[[People, Coordinators], Awaitable[None]]) -> list[dict[str, object]]:
    """Run a play on an event loop; return the lines of the log."""
    coordinators = Coordinators()

    async def run() -> None:
        people = People(coordinators.look, structlog.get_logger(), lambda: coordinators.now_s)
        try:
            await play(people, coordinators)
        finally:
            people.close()

    with structlog.testing.capture_logs() as lines:
        asyncio.run(run())
    return [dict(line) for line in lines]


async def refused(people: People, credential: Credential, host: str = "10.0.0.1") -> NotInError:
    with pytest.raises(NotInError) as caught:
        await people.let_in(credential, host)
    return caught.value


def test_a_good_log_in_counts_for_a_while_and_is_then_looked_at_again() -> None:
    async def play(people: People, at: Coordinators) -> None:
        known = await people.let_in(ALICE, "h")
        at.now_s += FRESH_S - 1
        assert await people.let_in(ALICE, "h") is known
        assert at.asked == ["alice"]
        at.now_s += 1
        at.sight = Sight(frozenset("ab"), sees_cluster=True)
        assert (await people.let_in(ALICE, "h")).sight is at.sight
        assert at.asked == ["alice", "alice"]

    with_people(play)


def test_who_is_taken_off_sees_nothing_from_the_next_look_on_and_streams_end() -> None:
    async def play(people: People, at: Coordinators) -> None:
        known = await people.let_in(ALICE, "h")
        at.bad.add("s3cret")
        at.now_s += FRESH_S
        assert (await refused(people, ALICE)).status == 401
        assert known.is_over
        assert not people.is_good(known)
        at.bad.clear()  # taken back, and a moment later a new look is allowed
        assert (await refused(people, ALICE)).status == 401
        at.now_s += REFUSED_S
        await people.let_in(ALICE, "h")

    lines = with_people(play)
    assert [line["event"] for line in lines] == ["logged-in", "log-in-refused", "logged-in"]
    assert "s3cret" not in repr(lines)


def test_a_stream_that_nobody_has_looked_at_again_ends() -> None:
    async def play(people: People, at: Coordinators) -> None:
        known = await people.let_in(ALICE, "h")
        at.now_s += STREAM_S - 1
        assert people.is_good(known)
        at.now_s += 1
        assert not people.is_good(known)

    with_people(play)


def test_while_no_coordinator_answers_who_was_in_stays_for_a_while_and_nobody_else_comes_in() -> None:
    async def play(people: People, at: Coordinators) -> None:
        known = await people.let_in(ALICE, "h")
        at.are_away = True
        assert isinstance(await refused(people, Credential("bob", "x")), NotNowError)
        at.now_s += FRESH_S
        for _ in range(5):  # not each request waits for a coordinator that is away
            assert await people.let_in(ALICE, "h") is known
        assert at.asked == ["alice", "bob", "alice"]
        at.now_s += OUTAGE_S - FRESH_S - 1
        assert await people.let_in(ALICE, "h") is known
        assert people.is_good(known)
        at.now_s += 3
        assert isinstance(await refused(people, ALICE), NotNowError)
        assert not people.is_good(known)

    with_people(play)


def test_a_coordinator_that_hangs_holds_up_nobody_who_is_in_and_its_refusal_counts_when_it_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play(people: People, at: Coordinators) -> None:
        known = await people.let_in(ALICE, "h")
        at.hold = threading.Event()
        monkeypatch.setattr(module, "PATIENCE_S", 0.05)
        monkeypatch.setattr(module, "LONGEST_WAIT_S", 0.1)
        at.bad.add("s3cret")
        at.now_s += FRESH_S
        assert await people.let_in(ALICE, "h") is known
        assert isinstance(await refused(people, Credential("bob", "x")), NotNowError)
        at.hold.set()
        while not known.is_over:
            await asyncio.sleep(0.01)
        monkeypatch.undo()
        assert (await refused(people, ALICE)).status == 401

    with_people(play)


def test_many_requests_with_one_new_log_in_are_one_look() -> None:
    async def play(people: People, at: Coordinators) -> None:
        at.hold = threading.Event()
        asking = [asyncio.create_task(people.let_in(ALICE, "h")) for _ in range(50)]
        await asyncio.sleep(0)
        at.hold.set()
        found: list[Known] = await asyncio.gather(*asking)
        assert len({id(known) for known in found}) == 1
        assert at.asked == ["alice"]

    with_people(play)


def test_an_address_that_tries_passwords_has_to_wait_and_others_do_not() -> None:
    async def play(people: People, at: Coordinators) -> None:
        at.bad = {f"guess {number}" for number in range(1_000)}
        await people.let_in(ALICE, "10.0.0.1")
        found = [await refused(people, Credential("root", guess), "10.0.0.1") for guess in sorted(at.bad)[:30]]
        assert [error.status for error in found] == [401] * OF_ADDRESS.burst + [429] * (30 - OF_ADDRESS.burst)
        assert at.asked.count("root") == OF_ADDRESS.burst
        assert 0 < found[-1].wait_s <= 5
        await people.let_in(ALICE, "10.0.0.1")  # who is in stays in, from the same address too
        at.now_s += FRESH_S
        await people.let_in(ALICE, "10.0.0.1")
        await people.let_in(Credential("bob", "good"), "10.0.0.2")

    with_people(play)


def test_a_flood_from_everywhere_passes_on_less_than_a_node_takes_from_one_address() -> None:
    async def play(people: People, at: Coordinators) -> None:
        at.bad = {str(number) for number in range(1_000)}
        tries = (people.let_in(Credential("root", guess), f"10.0.{guess}.1") for guess in sorted(at.bad)[:300])
        for attempt in tries:
            with pytest.raises(NotInError):
                await attempt
        assert len(at.asked) == IN_ALL.burst
        assert isinstance(await refused(people, Credential("bob", "good")), TooManyError)
        at.now_s += 1
        await people.let_in(Credential("bob", "good"), "h")

    with_people(play)


def test_strangers_wait_in_a_short_line_of_which_one_address_has_a_part_and_who_is_in_passes_it_by() -> None:
    async def play(people: People, at: Coordinators) -> None:
        await people.let_in(ALICE, "10.0.0.1")
        at.hold = threading.Event()
        line = [
            asyncio.create_task(people.let_in(Credential(f"u{number}", "x"), "10.0.0.1"))
            for number in range(IN_LINE_OF_ADDRESS)
        ]
        await asyncio.sleep(0.01)
        assert isinstance(await refused(people, Credential("late", "x"), "10.0.0.1"), TooManyError)
        other = asyncio.create_task(people.let_in(Credential("other", "x"), "10.0.0.2"))
        at.now_s += FRESH_S
        again = asyncio.create_task(people.let_in(ALICE, "10.0.0.1"))
        await asyncio.sleep(0.05)
        while at.asked.count("alice") < 2:
            await asyncio.sleep(0.01)
        assert "other" not in at.asked
        at.hold.set()
        await asyncio.gather(*line, other, again)

    with_people(play)


def test_of_too_many_people_the_one_who_was_idle_for_longest_is_looked_at_again() -> None:
    async def play(people: People, at: Coordinators) -> None:
        everybody = [Credential(f"u{number}", "x") for number in range(MOST_PEOPLE + 1)]
        for person in everybody[:-1]:
            await people.let_in(person, person.name)
        await people.let_in(everybody[0], "u0")
        await people.let_in(everybody[-1], "late")
        asked = len(at.asked)
        await people.let_in(everybody[0], "u0")
        assert len(at.asked) == asked
        await people.let_in(everybody[1], "u1")
        assert len(at.asked) == asked + 1

    with_people(play)
