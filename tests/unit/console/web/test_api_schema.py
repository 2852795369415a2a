"""The API keeps to its OpenAPI, whatever is asked: no failure of its own, no answer that the description has not.

Schemathesis makes requests of the description, such as it allows and such as it does not, and compares the answers. The
coordinator is scripted and always there, so that an answer of 5xx is the console's own.
"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance
from starlette.types import ASGIApp, Receive, Scope, Send

from coordinator.console.web.operations import ACTS, CHANGES, openapi
from coordinator.protocol.messages import DescribeGroup, ListGroupEvents, ListGroupEventsResponse
from coordinator.protocol.messages.operators import DescribeControls, DescribeControlsResponse
from coordinator.protocol.parts import ControlDescription, GroupEvent
from tests.helpers.console_world import NOW_MS, ConsoleWorld, described, fill, partition
from tests.helpers.examples import examples
from tests.helpers.scripted_coordinator import ScriptedCoordinator

pytestmark = pytest.mark.hypothesis

_running: list[ASGIApp] = []


async def the_console(scope: Scope, receive: Receive, send: Send) -> None:
    """The console of the test that runs; operations are made before there is one."""
    await _running[-1](scope, receive, send)


SCHEMA = schemathesis.openapi.from_dict(openapi())
SCHEMA.app = the_console
OPERATIONS = {found.ok().label: found.ok() for found in SCHEMA.get_all_operations() if found.ok().path != CHANGES}
"""All but the stream of changes, which has no end."""
KNOWN = {"group": "g", "topic": "t"}
FOR_EACH = settings(
    max_examples=examples(6, 200),
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def world() -> Iterator[ConsoleWorld]:
    group = described("g", partition(0, 1, 5))
    answers = {
        DescribeGroup: group,
        ListGroupEvents: ListGroupEventsResponse(events=(GroupEvent(1, NOW_MS, "rebalance", "", "m joined", 1),)),
        DescribeControls: DescribeControlsResponse(controls=(ControlDescription("group-paused", "me", "why", NOW_MS),)),
    }
    with ScriptedCoordinator(answers) as coordinator:
        made = ConsoleWorld(coordinators=(coordinator.address,), allow_changes=True)
        fill(made.picture, group)
        _running.append(made.client.app)
        yield made
        _running.pop()


def keeps_to_the_description(world: ConsoleWorld, case: Any) -> None:
    answer = case.call(base_url=str(world.client.base_url))
    passed_over = []
    if any(not text for _, text in parse_qsl(urlsplit(answer.request.url).query, keep_blank_values=True)):
        passed_over.append(negative_data_rejection)  # an empty parameter of a form is one that is not given
    if case.operation.path == ACTS:
        passed_over.append(positive_data_acceptance)  # which fields an act needs is said in words
    case.validate_response(answer, excluded_checks=passed_over)


@pytest.mark.parametrize("label", OPERATIONS)
def test_what_the_description_allows_is_answered_as_it_says(world: ConsoleWorld, label: str) -> None:
    @FOR_EACH
    @given(case=OPERATIONS[label].as_strategy(generation_mode=GenerationMode.POSITIVE), is_known=st.booleans())
    def check(case: Any, is_known: bool) -> None:
        if is_known:
            case.path_parameters.update({name: word for name, word in KNOWN.items() if name in case.path_parameters})
        keeps_to_the_description(world, case)

    check()


WITH_MORE_THAN_A_NAME = [label for label, one in OPERATIONS.items() if any(True for _ in one.query) or one.body]
"""Of a name alone nothing can be wrong: any text is one."""


@pytest.mark.parametrize("label", WITH_MORE_THAN_A_NAME)
def test_what_the_description_does_not_allow_is_refused(world: ConsoleWorld, label: str) -> None:
    @FOR_EACH
    @given(case=OPERATIONS[label].as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def check(case: Any) -> None:
        keeps_to_the_description(world, case)

    check()
