"""The assignors of a node: its own, and those installed under the entry-point group `kcoord.assignors`.

An installed assignor is somebody else's code inside the node, so it is not trusted: one that raises, or whose answer
leaves a partition out, gives one away twice or to a member that does not subscribe to it, is answered for by `sticky`,
and the log says so. It should be as pure and as quick as ours, since it runs on the event loop.
"""

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from structlog.typing import FilteringBoundLogger

from coordinator.core.groups.assignment.assignors import (
    ASSIGNORS,
    DEFAULT_ASSIGNOR,
    Assignor,
    AssignorInput,
    Partitions,
)
from coordinator.protocol.ids import why_bad_id

ENTRY_POINT_GROUP: Final = "kcoord.assignors"


class AssignorError(Exception):
    """An installed assignor cannot be used; the text says which, why and what to do."""


def load_assignors(log: FilteringBoundLogger, installed: Iterable[EntryPoint] | None = None) -> dict[str, Assignor]:
    """Return our assignors and the installed ones by name; raises AssignorError for one that cannot be loaded."""
    assignors = dict(ASSIGNORS)
    found = entry_points(group=ENTRY_POINT_GROUP) if installed is None else installed
    for entry in sorted(found, key=lambda entry: entry.name):
        where = f"the assignor {entry.name!r} ({entry.value}, installed under {ENTRY_POINT_GROUP})"
        if why := why_bad_id(entry.name):
            raise AssignorError(f"{where} has a name that is not allowed: {why}; rename or uninstall it")
        if entry.name in assignors:
            raise AssignorError(f"{where} has the name of another one; rename or uninstall it")
        try:
            assign = entry.load()
        except (ImportError, AttributeError) as error:
            raise AssignorError(f"{where} cannot be loaded: {error}; repair or uninstall it") from error
        if not callable(assign):
            raise AssignorError(f"{where} is no function; repair or uninstall it")
        assignors[entry.name] = InstalledAssignor(entry.name, assign, log)
        log.info("assignor-installed", name=entry.name, source=entry.value)
    return assignors


class InstalledAssignor:
    """Somebody else's assignor, held to what every assignor promises."""

    def __init__(self, name: str, assign: Assignor, log: FilteringBoundLogger) -> None:
        self._name = name
        self._assign = assign
        self._log = log

    def __call__(self, given: AssignorInput) -> Mapping[str, Partitions]:
        """Return its answer, or that of `sticky` when it has none or a wrong one."""
        try:
            answer = {member_id: frozenset(mine) for member_id, mine in self._assign(given).items()}
            why = why_wrong(given, answer)
        except Exception as error:  # noqa: BLE001 - whatever somebody else's code does must not stop the node
            why = f"it raised {error!r}"
        if why is None:
            return answer
        self._log.error("assignor-failed", name=self._name, why=f"{why}; {DEFAULT_ASSIGNOR} is used instead")
        return ASSIGNORS[DEFAULT_ASSIGNOR](given)


def why_wrong(given: AssignorInput, answer: Mapping[str, Partitions]) -> str | None:
    """Say what is wrong with an assignment, or return None."""
    members = {member.member_id: member.topics for member in given.members}
    if set(answer) != set(members):
        return "its answer is not about exactly the members"
    wanted = {
        (topic, partition)
        for topic in frozenset().union(*members.values())
        for partition in range(given.partitions.get(topic, 0))
    }
    for member_id, mine in answer.items():
        for topic, partition in mine:
            if topic not in members[member_id]:
                return f"it gave {topic}-{partition} to {member_id}, which does not subscribe to the topic"
            if (topic, partition) not in wanted:
                return f"it gave {topic}-{partition} away twice, or the partition does not exist"
            wanted.discard((topic, partition))
    return f"it left out {len(wanted)} partitions, such as {'-'.join(map(str, min(wanted)))}" if wanted else None
