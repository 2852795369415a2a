"""The member that a verb is about: by its id, or by a beginning of it that no other member's id has."""

from typing import Annotated

import typer

from coordinator.cli.parts.asking import describe_group
from coordinator.cli.parts.exits import notes
from coordinator.protocol.text.escaping import one_line

Member = Annotated[
    str,
    typer.Argument(
        metavar="MEMBER", help="The member's id, as `kcoord group members` shows it, or the beginning of just one."
    ),
]
_MOST_NAMED = 5


def member_meant(coordinator: str, group: str, typed: str, timeout_s: float) -> str:
    """Return the id of the member that is meant; what is none stays as it is, for the coordinator to refuse.

    Raises typer.BadParameter when several members' ids begin so.
    """
    ids = [member.member_id for member in describe_group(coordinator, group, timeout_s).members]
    found = [member_id for member_id in ids if typed and member_id.startswith(typed)]
    if typed in ids or not found:
        return typed
    if len(found) > 1:
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        names = ", ".join(one_line(member_id) for member_id in sorted(found)[:_MOST_NAMED])
        raise typer.BadParameter(f"the ids of several members begin with '{typed}': {names}{more}; type more of one")
    notes.print(f"'{typed}' is member '{found[0]}'.")
    return found[0]
