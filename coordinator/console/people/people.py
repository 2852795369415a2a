"""The people who are in: whose credential the coordinators have taken lately, and what they may see.

A credential is known by a keyed hash and counts for `FRESH_S`; then the next request that brings it has it looked at
again, and after a refusal nobody with it sees anything. While no coordinator answers, or none in time, whoever was in
stays for `OUTAGE_S`. Strangers wait in a short line, a few of an address, and an address from which too much was
refused has to wait: what passes on to the coordinators is less than they themselves take from one address, the
console's. Who is in is looked at beside that line. Runs on the event loop; looking is done by threads.
"""

import asyncio
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from structlog.typing import FilteringBoundLogger

from coordinator.console.known.sight import OUTAGE_S, Sight
from coordinator.console.people.credential import Credential
from coordinator.console.people.looking import NobodyAnswersError, RefusedByNodeError
from coordinator.core.security.addresses import address_of
from coordinator.core.token_buckets import Rate, TokenBuckets

FRESH_S: Final = 10.0
"""The time for which a credential that was good counts; then it is looked at again."""
STREAM_S: Final = 2 * FRESH_S
"""The time after which a stream ends if no request has had its credential looked at again."""
MOST_PEOPLE: Final = 64
"""Credentials that are known at once; past this whoever was idle for longest is looked at again when they come."""
REQUESTS_AT_ONCE: Final = 16
"""Requests of one credential that are in work, streams among them."""
STREAMS_AT_ONCE: Final = 8
ASKED_AT_ONCE: Final = 2
"""Questions of one credential that coordinators are asked at once; the rest of the places is for others."""
IN_LINE: Final = 32
IN_LINE_OF_ADDRESS: Final = 8
OF_ADDRESS: Final = Rate(10, 0.2)
"""The refusals that one address may have."""
IN_ALL: Final = Rate(50, 5)
"""Those of all: half of what a node takes from one address by its defaults (`server.failures_burst`)."""
REFUSED_S: Final = 5.0
"""The time for which a credential that was refused is refused again without asking."""
_MOST_REFUSED: Final = 1_000
_STRANGERS_AT_ONCE: Final = 4
_KNOWN_AT_ONCE: Final = 4
PATIENCE_S: Final = 1.0
"""The longest that a request of somebody who is in waits until the log-in has been looked at again."""
LONGEST_WAIT_S: Final = 15.0
"""The longest that a stranger waits."""
_AGAIN_S: Final = 2.0
"""The pause between two looks at a credential while no coordinator answers."""

Look: TypeAlias = Callable[[Credential, Sight | None, float], Sight]


class NotInError(Exception):
    """A person is not let in; the text is for them."""

    status = 401
    word = "not_logged_in"
    wait_s = 0


class TooManyError(NotInError):
    """It is too much at once, or too much was refused."""

    status = 429
    word = "too_many"

    def __init__(self, text: str, wait_s: int) -> None:
        super().__init__(text)
        self.wait_s = wait_s


class NotNowError(NotInError):
    """Nobody can say whether this person may come in."""

    status = 503
    word = "unavailable"
    wait_s = 2


@dataclass(slots=True)
class Known:
    """A credential that is good, and what is in work for it."""

    who: str
    sight: Sight = field(repr=False)
    checked_s: float
    not_before_s: float = 0.0
    is_over: bool = False
    requests: int = 0
    streams: int = 0
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(ASKED_AT_ONCE), repr=False)
    """The turns of this person among those who ask coordinators for something."""


class People:
    """Lets people in."""

    def __init__(self, look: Look, log: FilteringBoundLogger, now_s: Callable[[], float] = time.monotonic) -> None:
        self._look = look
        self._log = log
        self.now_s = now_s
        self._pepper = secrets.token_bytes(32)
        self._known: dict[bytes, Known] = {}
        """In the order of their use."""
        self._refused: dict[bytes, tuple[float, str]] = {}
        self._going: dict[bytes, asyncio.Task[Known]] = {}
        self._in_line: Counter[str] = Counter()
        self._by_address = TokenBuckets(OF_ADDRESS)
        self._in_all = TokenBuckets(IN_ALL)
        self._strangers = asyncio.Semaphore(_STRANGERS_AT_ONCE)
        self._again = asyncio.Semaphore(_KNOWN_AT_ONCE)
        self._pool = ThreadPoolExecutor(_STRANGERS_AT_ONCE + _KNOWN_AT_ONCE, thread_name_prefix="kcoord-console-log-in")

    def close(self) -> None:
        """Let go of the threads; one that asks ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def inside(self) -> list[Known]:
        """Return whose credentials are known."""
        return list(self._known.values())

    def is_good(self, known: Known) -> bool:
        """Say whether a stream of this person may go on."""
        return not known.is_over and self.now_s() - max(known.checked_s, known.not_before_s) < STREAM_S

    async def let_in(self, credential: Credential, host: str) -> Known:
        """Return who comes from an address with a credential; raises NotInError."""
        key, now_s = credential.key(self._pepper), self.now_s()
        known = self._known.get(key)
        if known is not None:
            self._known[key] = self._known.pop(key)
            if now_s - known.checked_s < FRESH_S or now_s < known.not_before_s:
                return known
        refused = self._refused.get(key)
        if refused is not None and now_s - refused[0] < REFUSED_S:
            raise NotInError(refused[1])
        going = self._going.get(key)
        if going is None:
            if known is None:
                self._must_not_wait(address_of(host))
            going = asyncio.get_running_loop().create_task(self._check(key, credential, known, address_of(host)))
            self._going[key] = going
            going.add_done_callback(lambda task: self._done(key, task))
        if known is not None and now_s - known.checked_s < OUTAGE_S:
            return await self._while_looked_at(going, known)
        done, _ = await asyncio.wait([going], timeout=LONGEST_WAIT_S)
        if not done:
            raise NotNowError("the coordinators take long to say whether this log-in is good: try again")
        return going.result()

    async def _while_looked_at(self, going: "asyncio.Task[Known]", known: Known) -> Known:
        """Wait for a look at somebody who is in, but not long: a coordinator that hangs is not to hold up pages."""
        done, _ = await asyncio.wait([going], timeout=PATIENCE_S)
        if done:
            return going.result()
        known.not_before_s = self.now_s() + _AGAIN_S
        return known

    def _done(self, key: bytes, task: "asyncio.Task[Known]") -> None:
        self._going.pop(key, None)
        if not task.cancelled():
            task.exception()  # whoever waited may be gone

    def _must_not_wait(self, address: str) -> None:
        wait_s = self._wait_s(address)
        if wait_s:
            raise TooManyError(f"too many log-ins were refused lately: try again in {wait_s} s", wait_s)
        if self._in_line[address] >= IN_LINE_OF_ADDRESS or self._in_line.total() >= IN_LINE:
            raise TooManyError("too many people are logging in at this moment: try again in 2 s", 2)

    def _wait_s(self, address: str) -> int:
        now_ms = round(self.now_s() * 1000)
        return -(-max(self._by_address.wait_ms(address, now_ms), self._in_all.wait_ms("", now_ms)) // 1000)

    async def _check(self, key: bytes, credential: Credential, known: Known | None, address: str) -> Known:
        if known is not None:
            async with self._again:
                return await self._check_now(key, credential, known, address)
        self._in_line[address] += 1
        try:
            async with self._strangers:
                wait_s = self._wait_s(address)  # others may have been refused while this one was in the line
                if wait_s:
                    raise TooManyError(f"too many log-ins were refused lately: try again in {wait_s} s", wait_s)
                return await self._check_now(key, credential, None, address)
        finally:
            self._in_line[address] -= 1
            if not self._in_line[address]:
                del self._in_line[address]

    async def _check_now(self, key: bytes, credential: Credential, known: Known | None, address: str) -> Known:
        began_s = self.now_s()
        old = None if known is None else known.sight
        try:
            sight = await asyncio.get_running_loop().run_in_executor(self._pool, self._look, credential, old, began_s)
        except RefusedByNodeError as error:
            raise self._refuse(key, credential, known, address, error) from None
        except NobodyAnswersError as error:
            now_s = self.now_s()
            if known is not None and now_s - known.checked_s < OUTAGE_S:
                known.not_before_s = now_s + _AGAIN_S
                return known
            self._log.warning("log-in-unanswered", why=str(error), address=address, who=credential.who)
            if known is not None:
                self._forget(key, known)
            raise NotNowError("no coordinator says whether this log-in is good: try again") from None
        if known is None:
            known = Known(credential.who, sight, began_s)
            self._log.info("logged-in", why="the coordinators take this log-in", address=address, who=credential.who)
        known.sight, known.checked_s, known.not_before_s = sight, began_s, 0.0
        self._known.pop(key, None)
        self._known[key] = known
        self._keep_in_bounds()
        return known

    def _refuse(
        self, key: bytes, credential: Credential, known: Known | None, address: str, error: RefusedByNodeError
    ) -> NotInError:
        now_s = self.now_s()
        if known is not None:
            self._forget(key, known)
        self._by_address.take(address, round(now_s * 1000))
        self._in_all.take("", round(now_s * 1000))
        self._refused.pop(key, None)
        self._refused[key] = (now_s, error.told)
        while len(self._refused) > _MOST_REFUSED:
            del self._refused[next(iter(self._refused))]
        self._log.warning("log-in-refused", why=str(error), address=address, who=credential.who)
        return NotInError(error.told)

    def _forget(self, key: bytes, known: Known) -> None:
        known.is_over = True
        self._known.pop(key, None)

    def _keep_in_bounds(self) -> None:
        while len(self._known) > MOST_PEOPLE:
            del self._known[next(iter(self._known))]
