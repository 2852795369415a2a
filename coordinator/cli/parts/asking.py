"""The arguments that the verbs about groups share, and a request to the coordinator with its errors as text."""

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

import typer

from coordinator.cli.parts.addressing.command_config import command_config_in_force
from coordinator.cli.parts.addressing.contexts import addresses_in_force, settings_in_force
from coordinator.cli.parts.exits import ExitCode, must_not_be_refused, notes, tool_errors_as_text
from coordinator.cli.parts.notes import DocCode
from coordinator.cli.parts.tables import OutputFormat
from coordinator.client.configuration.command_config import read_command_config
from coordinator.client.operating.partitions_meant import in_portions
from coordinator.client.operating.what_is_asked import parse_timeout_s
from coordinator.client.refusals import refusal_of
from coordinator.client.request import ask
from coordinator.client.security import Coordinators, SecurityError, security_of_options
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import DescribeGroup, DescribeGroupResponse, Request, Response
from coordinator.protocol.text.addresses import parse_addresses


def must_be_addresses(text: str) -> str:
    """Return addresses as they are; raises typer.BadParameter when one is none."""
    try:
        parse_addresses(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    return text


def take_addresses(context: typer.Context, parameter: typer.CallbackParam, given: str | None) -> str | None:
    """Return the addresses that are in force, None for none; raises typer.BadParameter when one is no address."""
    text = addresses_in_force(context, parameter, given)
    return None if text is None else must_be_addresses(text)


def parse_timeout(text: str | float) -> float:
    """Read a time-out of 0.1 s to 10 m in seconds, which a number without a unit is; raises typer.BadParameter."""
    try:
        return parse_timeout_s(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group's id.")]
Coordinator = Annotated[
    str,
    typer.Option(
        callback=take_addresses,
        metavar="HOST:PORT[,...]",
        envvar="KCOORD_COORDINATOR",
        help="Coordinator nodes, of which one that answers is enough.",
    ),
]
Output = Annotated[OutputFormat, typer.Option("--output", "-o", help="How to write it.")]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        parser=parse_timeout,
        metavar="DURATION",
        help="How long to wait for the coordinator, such as 30s; a number is seconds.",
    ),
]

_Expected = TypeVar("_Expected", bound=Response)
_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


_spoken_to: dict[str, Coordinators] = {}
"""The coordinators of this process by their addresses."""


def coordinators_of(text: str) -> Coordinators:
    """Return the coordinators at these addresses, with TLS where that is said; ends the program with a usage error.

    They are the same ones each time, which know who answered last: a verb of many requests waits once for a node that
    stands still.
    """
    path = command_config_in_force()
    try:
        given = {} if path is None else read_command_config(path)
        security = security_of_options({**settings_in_force(text), **given})
    except SecurityError as error:
        notes.error(str(error), DocCode.INPUT)
        raise typer.Exit(ExitCode.USAGE) from None
    known = _spoken_to.get(text)
    if known is None or known.security != security:
        known = _spoken_to[text] = Coordinators(parse_addresses(text), security)
    return known


def ask_for(
    coordinator: str, request: Request, timeout_s: float, expected: type[_Expected], group_id: str = ""
) -> _Expected:
    """Return the response to a request; a refusal or a failure is shown and ends the program with its exit code."""
    with tool_errors_as_text():
        response = ask(coordinators_of(coordinator), request, timeout_s)
    must_not_be_refused(response, group_id)
    return _of_kind(response, expected)


def ask_if_there(coordinator: str, request: Request, timeout_s: float, expected: type[_Expected]) -> _Expected | None:
    """Return the response to a request about a group, None where there is none; else as `ask_for`."""
    with tool_errors_as_text():
        response = ask(coordinators_of(coordinator), request, timeout_s)
    refusal = refusal_of(response)
    if refusal is not None and refusal[0] is ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    must_not_be_refused(response)
    return _of_kind(response, expected)


def _of_kind(response: Response, expected: type[_Expected]) -> _Expected:
    if not isinstance(response, expected):
        notes.error(
            f"the coordinator answered with {type(response).__name__}; is it of another release?", DocCode.OTHER_RELEASE
        )
        raise typer.Exit(ExitCode.ERROR)
    return response


def ask_in_portions(
    group: str, named: Sequence[_Item], ask: Callable[[tuple[_Item, ...]], _Answer], *, dry: bool
) -> list[_Answer]:
    """Ask about the partitions that are named, as many at once as one request may name, and return the answers.

    Where nothing is named, that is asked. A request that fails ends the program, and so does Ctrl-C; what is done by
    then is said, and what may be.
    """
    answers: list[_Answer] = []
    done = 0
    for some in list(in_portions(named)) or [()]:
        try:
            answers.append(ask(some))
        except (typer.Exit, KeyboardInterrupt) as error:
            if done and not dry:
                is_unknown = isinstance(error, KeyboardInterrupt)
                perhaps = f", and whether the next {len(some)} are was not answered" if is_unknown else ""
                notes.print(
                    f"The first {done} of {len(named)} partitions of group '{group}' are done all the same{perhaps}; "
                    "`kcoord group describe` shows how they are. Name the others when you ask again."
                )
            raise
        done += len(some)
    return answers


def describe_group(coordinator: str, group: str, timeout_s: float) -> DescribeGroupResponse:
    """Return what the coordinator says of a group."""
    return ask_for(coordinator, DescribeGroup(group), timeout_s, DescribeGroupResponse, group)
