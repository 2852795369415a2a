"""The questions that pages and API have in common, each answered by a document.

Nearly all are answered from the picture, so that however many people look, coordinators are asked by the survey alone.
A group's timeline and what operators decided about it are asked for when somebody wants to see them, a few at once.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from copy import copy
from typing import Final, TypeAlias, TypeVar

from coordinator.client.refusals import refusal_of, show_refusal
from coordinator.client.request import RequestError, ask
from coordinator.client.security import SECURITY_SETTINGS
from coordinator.console.documents import (
    Control,
    Event,
    Group,
    GroupDetails,
    LagCurve,
    Member,
    Node,
    Overview,
    Partition,
    Rebalance,
    Rows,
    Setting,
    Shard,
    Topic,
    TopicGroup,
)
from coordinator.console.known import describing, tables
from coordinator.console.known.group_seen import GroupSeen
from coordinator.console.known.picture import Heard, Picture
from coordinator.console.known.selection import Chosen, Selection
from coordinator.console.known.sight import NOT_OF_THE_CLUSTER, SeenBy
from coordinator.console.people.door import Person
from coordinator.console.settings import ConsoleSettings
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ListGroupEvents, ListGroupEventsResponse, Request, Response
from coordinator.protocol.messages.groups import AFTER_ALL
from coordinator.protocol.messages.operators import DescribeControls, DescribeControlsResponse
from coordinator.protocol.parts import GroupEvent
from coordinator.protocol.text.addresses import format_address
from coordinator.protocol.vocabulary import EventKind

Query: TypeAlias = Iterable[tuple[str, str]]
"""The parameters of an address, in its order."""

ASKED_AT_ONCE: Final = 4
LONGEST_TURN_S: Final = 1.0
"""The longest wait for others who ask: a coordinator that hangs is not to hold up every page."""
LONGEST_READ_S: Final = 8.0
"""The longest that all questions of one request may take together: a page asks up to three."""
LONGEST_WHO: Final = 200
HIDDEN: Final = "[hidden]"
_UNSET: Final = "not set"
NOT_ANSWERED: Final = f"{NOT_OF_THE_CLUSTER} now: try again, and of a change look first whether it is done"
"""The sentence in place of one that names nodes, for who may not describe the cluster."""
NOT_DESCRIBED: Final = "this group has not been described yet; that is done within some seconds"

_Expected = TypeVar("_Expected", bound=Response)


class NotKnownError(Exception):
    """A thing that there is not; the text says what."""


class NotHeardError(Exception):
    """A question that cannot be answered now; the text says why."""

    may_be_done = False
    """True of an act that a coordinator may have done all the same."""


class RefusedError(Exception):
    """An act that a coordinator refused; the text says why, and what is done all the same."""


class NotAllowedError(Exception):
    """An act that this console does not do, or a thing that this person may not see; the text says why."""


class Reader:
    """Answers questions. Its calls may block, for as long as a coordinator may take, and come from any thread."""

    def __init__(
        self,
        settings: ConsoleSettings,
        picture: Picture,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.picture: Picture | SeenBy = picture
        self.now_ms = now_ms
        self.coordinators = settings.coordinators
        self.person = ""
        """The name of who asks, where people log in."""
        self._whole = picture
        self.own_turns: tuple[threading.Semaphore, ...] = ()
        """The turns of who asks among their own questions, before those among everybody's."""
        self._asking = threading.Semaphore(ASKED_AT_ONCE)
        self._now_s = now_s
        self._until_s = math.inf

    @property
    def who(self) -> str:
        """The name under which something is changed."""
        return f"{self.person[:LONGEST_WHO]} by console" if self.person else self.settings.who

    def for_request(self, person: Person | None) -> "Reader":
        """Return what answers one request: in bounded time, and to a person by what they may see, asking as them."""
        seen = copy(self)
        seen._until_s = self._now_s() + LONGEST_READ_S
        if person is None:
            return seen
        seen.picture = SeenBy(self._whole, lambda: person.known.sight)
        seen.coordinators = person.coordinators
        seen.person = person.known.who
        seen.own_turns = (person.known.turn,)
        return seen

    @property
    def is_answered(self) -> bool:
        """Say whether coordinators answer, as far as was heard."""
        return self.picture.heard().trouble is None

    def overview(self) -> Overview:
        """Return all at once; this is answered also while nothing was ever heard."""
        return describing.overview(self.picture.heard())

    def groups(self, query: Query) -> Rows[Group]:
        """Return groups."""
        heard = self._heard()
        chosen = tables.GROUPS.choose([group.row for group in heard.groups], tables.GROUPS.read(query))
        return describing.rows_of(chosen, heard.as_of_ms, describing.trouble_of(heard))

    def group(self, name: str) -> GroupDetails:
        """Return one group by itself."""
        found, trouble = self._group(name)
        return describing.group_details(found, trouble)

    def partitions(self, name: str, query: Query) -> Rows[Partition]:
        """Return partitions of a group."""
        found, trouble = self._group(name)
        measured = found.measured
        if measured is None:
            return describing.rows_of(Chosen((), 0, 1, 1), None, trouble or NOT_DESCRIBED)
        table = tables.partition_places(measured)
        chosen = table.choose(range(len(measured.description.partitions)), table.read(query))
        shown = Chosen(describing.partitions(measured, chosen.rows), chosen.total, chosen.page, chosen.per_page)
        return describing.rows_of(shown, measured.as_of_ms, trouble)

    def members(self, name: str, query: Query) -> Rows[Member]:
        """Return members of a group."""
        found, trouble = self._group(name)
        if found.measured is None:
            return describing.rows_of(Chosen((), 0, 1, 1), None, trouble or NOT_DESCRIBED)
        chosen = tables.MEMBERS.choose(describing.members(found.measured), tables.MEMBERS.read(query))
        return describing.rows_of(chosen, found.measured.as_of_ms, trouble)

    def events(self, name: str, query: Query) -> Rows[Event]:
        """Return a group's timeline, newest first, as its coordinator tells it now.

        A node decodes what it tells of, so of thousands of entries it is asked for those alone that are shown.
        """
        selection = tables.EVENTS.read(query)
        chosen: Chosen[GroupEvent] | None = None
        if not (selection.search or selection.among or selection.sort):
            chosen = self._page_of_events(name, selection)
        if chosen is None:
            kinds = tuple(sorted(dict(selection.among).get("kind", ())))
            chosen = tables.EVENTS.choose(reversed(self._told(name, 0, kinds).events), selection)
        shown = Chosen(describing.events(chosen.rows), chosen.total, chosen.page, chosen.per_page)
        return describing.rows_of(shown, self.now_ms(), None)

    def rebalances(self, name: str) -> list[Rebalance]:
        """Return the rebalances on the timeline of a group, newest first, as its coordinator tells them now."""
        return describing.rebalances(self._told(name, 0, (EventKind.REBALANCE, EventKind.STABLE)).events)

    def _page_of_events(self, name: str, selection: Selection) -> Chosen[GroupEvent] | None:
        """Ask for a page of the newest entries; None where the node does not say which entries there are."""
        ends = self._told(name, AFTER_ALL)
        if not ends.first_sequence:
            return None
        page = selection.newest(ends.first_sequence, ends.last_sequence)
        told = self._told(name, page.after).events if page.after < page.up_to else ()
        rows = [event for event in reversed(told) if event.sequence <= page.up_to]
        return Chosen(rows, page.total, page.page, selection.per_page)

    def _told(self, name: str, after: int, kinds: tuple[str, ...] = ()) -> ListGroupEventsResponse:
        return self._ask(name, ListGroupEvents(name, after, None, kinds), ListGroupEventsResponse)

    def controls(self, name: str) -> list[Control]:
        """Return the decisions of operators about a group that stand, as its coordinator tells them now."""
        answer = self._ask(name, DescribeControls(name), DescribeControlsResponse)
        return describing.controls(answer.controls)

    def curve(self, name: str) -> LagCurve:
        """Return the lag of a group over the last hour, as far as this console has seen it."""
        self._group(name)
        return self.picture.curve(name)

    def topics(self, query: Query) -> Rows[Topic]:
        """Return the topics that groups read."""
        heard = self._heard()
        chosen = tables.TOPICS.choose(describing.topics(heard.groups), tables.TOPICS.read(query))
        return describing.rows_of(chosen, heard.as_of_ms, describing.trouble_of_topics(heard))

    def topic_groups(self, topic: str, query: Query) -> Rows[TopicGroup]:
        """Return the groups that read a topic."""
        heard = self._heard()
        selection = tables.TOPIC_GROUPS.read(query)
        found = describing.topic_groups(topic, heard.groups)
        trouble = describing.trouble_of_topics(heard)
        if not found and trouble is not None:
            raise NotHeardError(f"no group is known that reads a topic '{topic}', and perhaps one does: {trouble}")
        if not found:
            raise NotKnownError(f"No group reads a topic '{topic}'.")
        return describing.rows_of(tables.TOPIC_GROUPS.choose(found, selection), heard.as_of_ms, trouble)

    def nodes(self, query: Query) -> Rows[Node]:
        """Return the nodes."""
        self._must_see_cluster()
        heard = self._heard()
        chosen = tables.NODES.choose(describing.nodes(heard.cluster), tables.NODES.read(query))
        return describing.rows_of(chosen, heard.as_of_ms, heard.trouble)

    def shards(self, query: Query) -> Rows[Shard]:
        """Return the shards."""
        self._must_see_cluster()
        heard = self._heard()
        chosen = tables.SHARDS.choose(describing.shards(heard.cluster), tables.SHARDS.read(query))
        return describing.rows_of(chosen, heard.as_of_ms, heard.trouble)

    def in_force(self) -> list[Setting]:
        """Return the settings of this console; of a secret only whether there is one."""
        self._must_see_cluster()
        settings, security = self.settings, self.settings.coordinators.security
        values = {
            "kcoord.security.protocol": security.protocol,
            "kcoord.ssl.ca.location": security.ca_location,
            "kcoord.ssl.certificate.location": security.certificate_location,
            "kcoord.ssl.key.location": security.key_location,
            "kcoord.ssl.key.password": security.key_password,
            "kcoord.ssl.endpoint.identification.algorithm": "https" if security.checks_host else "none",
            "kcoord.sasl.mechanism": security.mechanism,
            "kcoord.sasl.username": security.username,
            "kcoord.sasl.password": HIDDEN if security.password else "",
            "kcoord.auth.token": HIDDEN if security.token else "",
        }
        own = [
            (
                "coordinator",
                ",".join(map(format_address, settings.coordinators)),
                "the coordinators that are asked first",
            ),
            ("listen", format_address(settings.listen), "the address of this console"),
            ("allow-changes", "yes" if settings.allow_changes else "no", "whether groups may be changed from here"),
            ("refresh", f"{settings.refresh_s:g} s", "how often coordinators are asked, at most"),
            ("log-in", "yes" if settings.is_log_in else "no", "whether people log in, as to the coordinators"),
            ("timeout", f"{settings.timeout_s:g} s", "how long an answer is waited for"),
            ("who", self.who, "the name under which changes are recorded"),
        ]
        return [
            *(Setting(name=name, value=value, meaning=meaning) for name, value, meaning in own),
            *(
                Setting(
                    name=one.name,
                    value=HIDDEN if one.is_secret and values[one.name] else values[one.name] or _UNSET,
                    meaning=one.meaning,
                )
                for one in SECURITY_SETTINGS
            ),
        ]

    def watched(self, name: str) -> GroupSeen:
        """Return a group as it was seen; raises NotKnownError and NotHeardError."""
        return self._group(name)[0]

    def _must_see_cluster(self) -> None:
        if isinstance(self.picture, SeenBy) and not self.picture.sees_cluster:
            raise NotAllowedError("the coordinators do not let you describe the cluster, which this is of")

    def _heard(self) -> Heard:
        heard = self.picture.heard()
        if heard.as_of_ms is None:
            raise NotHeardError(heard.trouble or "No coordinator has been asked yet; that is done within some seconds")
        return heard

    def _group(self, name: str) -> tuple[GroupSeen, str | None]:
        heard = self._heard()
        found = self.picture.group(name)
        if found is None:
            raise self._not_found(name, heard.trouble)
        self.picture.watch(name, self.now_ms())
        return found, heard.trouble

    def _not_found(self, name: str, trouble: str | None) -> NotKnownError | NotHeardError:
        """Return that there is no such group, or that nobody says whether there is: its shard is not listed."""
        if trouble is not None:
            return NotHeardError(trouble)
        if self.picture.is_unlisted(name):
            return NotHeardError(f"nobody says whether there is a group '{name}': no node serves its shard now")
        return NotKnownError(_no_group(name))

    def _ask(self, name: str, request: Request, expected: type[_Expected]) -> _Expected:
        trouble = self.picture.heard().trouble
        if trouble is not None:  # whoever asks now would wait for nothing, and keep others from asking
            raise NotHeardError(trouble)
        if isinstance(self.picture, SeenBy) and self.picture.group(name) is None:
            raise self._not_found(name, None)  # asking would tell no more, and each refusal is audited
        return self.answer_of(self._asking, name, request, expected)

    def answer_of(self, turn: threading.Semaphore, name: str, request: Request, expected: type[_Expected]) -> _Expected:
        """Ask a coordinator about a group in turn; raises NotKnownError, and NotHeardError with the reason."""
        try:
            with in_turn(
                (*self.own_turns, turn),
                LONGEST_TURN_S,
                "too many questions are being asked of the coordinators now; try again",
            ):
                left_s = min(self.settings.timeout_s, self._until_s - self._now_s())
                if left_s <= 0:
                    raise NotHeardError(f"the coordinators took more than {LONGEST_READ_S:g} s to answer; try again")
                answer = self.asked(name, request, left_s)
        except RefusedError as error:
            raise NotHeardError(str(error)) from error
        if not isinstance(answer, expected):
            raise NotHeardError(f"the coordinator answered with {type(answer).__name__}; is it of another release?")
        return answer

    def asked(self, name: str, request: Request, timeout_s: float) -> Response:
        """Ask a coordinator something of a group, or that it does something.

        Raises NotKnownError, RefusedError, and NotHeardError with the reason.
        """
        try:
            answer = ask(self.coordinators, request, timeout_s)
        except RequestError as error:
            sees_nodes = not isinstance(self.picture, SeenBy) or self.picture.sees_cluster
            failure = NotHeardError(str(error) if sees_nodes else NOT_ANSWERED)
            failure.may_be_done = error.may_be_done
            raise failure from error
        refusal = refusal_of(answer)
        if refusal is not None and refusal[0] is ErrorCode.GROUP_ID_NOT_FOUND:
            raise NotKnownError(_no_group(name))
        if refusal is not None:
            raise RefusedError(f"The coordinator refused: {show_refusal(refusal)}")
        return answer


def _no_group(name: str) -> str:
    return f"Consumer group '{name}' does not exist."


@contextmanager
def in_turn(turns: Iterable[threading.Semaphore], longest_s: float, why_not: str) -> Iterator[None]:
    """Wait for a turn of each, in their order, and let go of them at the end; raises NotHeardError."""
    with ExitStack() as held:
        for turn in turns:
            if not turn.acquire(timeout=longest_s):
                raise NotHeardError(why_not)
            held.callback(turn.release)
        yield
