"""The groups that a verb is about: one by its id, those that match a glob, or all; and one view a group."""

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

import typer

from coordinator.cli.parts.exits import ExitCode, notes
from coordinator.cli.parts.surveying import every_group
from coordinator.client.operating.what_is_asked import filter_groups
from coordinator.client.request import RequestError
from coordinator.protocol.errors import LocalProtocolError
from coordinator.protocol.text.counts import counted

SomeGroup = Annotated[str | None, typer.Argument(metavar="GROUP", help="The group's id.", show_default=False)]
Match = Annotated[
    str | None, typer.Option("--match", metavar="GLOB", help="Every group whose id matches, such as 'orders-*'.")
]
AllGroups = Annotated[bool, typer.Option("--all-groups", help="Every group.")]

_Answer = TypeVar("_Answer")


def groups_meant(
    coordinator: str, group: str | None, match: str | None, timeout_s: float, *, all_groups: bool
) -> tuple[str, ...]:
    """Return the ids of the groups that are meant, sorted.

    Raises typer.BadParameter unless exactly one scope is named; exits with NOT_FOUND when no group matches, and
    with REFUSED_BY_STATE when it is not known which groups there are.
    """
    if [group is not None, match is not None, all_groups].count(True) != 1:
        raise typer.BadParameter("name a group, or groups with --match, or all of them with --all-groups")
    if group is not None:
        return (group,)
    groups, are_all = every_group(coordinator, timeout_s)
    if not are_all:
        raise typer.Exit(ExitCode.REFUSED_BY_STATE)
    known = sorted(found.group_id for found in groups)
    meant = tuple(filter_groups(known, match))
    if match is not None and not meant:
        notes.print(f"No group matches '{match}'.")
        raise typer.Exit(ExitCode.NOT_FOUND)
    if not meant:
        notes.print("There are no groups.")
    return meant


def ask_each(groups: Sequence[str], ask: Callable[[str], _Answer]) -> tuple[dict[str, _Answer], int]:
    """Ask about one group after the other; return the answers by group and the exit code of the first refusal, or 0.

    A group that is refused, which has been shown by then and is named here, does not keep the others from being asked
    about; a coordinator that does not answer, cannot be reached or lets nobody in does, and so does Ctrl-C. What has
    been answered by then is shown.
    """
    answers: dict[str, _Answer] = {}
    code = 0
    for group in groups:
        try:
            answers[group] = ask(group)
        except KeyboardInterrupt:
            notes.print(
                f"Stopped: {counted(len(answers), 'group has', 'groups have')} answered, group '{group}' may have been "
                "changed, and those after it have not been asked."
            )
            code = ExitCode.INTERRUPTED
            break
        except typer.Exit as refused:
            code = code or refused.exit_code
            if len(groups) > 1:
                notes.print(f"That was group '{group}'.")
            if refused.exit_code == ExitCode.TIMEOUT or _has_no_answer(refused):
                left = len(groups) - groups.index(group) - 1
                if left:
                    notes.print(
                        f"{counted(left, 'group')} after it {'has' if left == 1 else 'have'} not been asked about."
                    )
                break
    return answers, code


def _has_no_answer(refused: typer.Exit) -> bool:
    """Say whether the next group had no answer either; a request that cannot be sent is of its own group alone."""
    why = refused.__cause__
    return isinstance(why, RequestError) and not isinstance(why.__cause__, LocalProtocolError)
