"""A node that is started over a wrong directory, the parent of the real one or an empty one."""

from coordinator.local.errors import LocalServiceError
from coordinator.local.node import LocalCoordinator
from tests.promises.place import Place
from tests.promises.schedule import BrokenError, Schedule, must


def parent_of_the_data(place: Place) -> None:
    """Start a node whose --data is the folder above the one that it had before."""
    folder = place.folder("parent")
    servers = place.kafka.bootstrap_servers
    with LocalCoordinator(servers, folder / "data"):
        pass
    wrong = LocalCoordinator(servers, folder)
    try:
        with wrong:
            raise BrokenError("lost", f"the node took {folder / 'data'} for a new cluster's")
    except LocalServiceError as error:
        said = str(error)
    must(
        f"{folder / 'data' / 'data'} does: is it the one that was meant?" in said, f"the right one is not named: {said}"
    )


def empty_directory(place: Place) -> None:
    """Start a node over an empty directory, as when the volume was not mounted."""
    with LocalCoordinator(place.kafka.bootstrap_servers, place.folder("empty")) as node:
        said = node.log_path.read_text()
    warned = [line for line in said.splitlines() if "was empty: no group is known" in line]
    must(len(warned) == 1, f"the node begins empty without a word: {said}")


SCHEDULES = [
    Schedule(
        "directory-parent",
        "a directory that is not empty and not a node's is refused, and the one that was meant is named",
        parent_of_the_data,
    ),
    Schedule("directory-empty", "a node that begins with no groups says so", empty_directory),
]
