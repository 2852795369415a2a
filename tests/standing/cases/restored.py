"""An old copy of the data directory that is put back under members that have gone on since."""

import shutil
from collections.abc import Callable, Iterable
from functools import partial

from kcoord import Consumer
from tests.helpers.group_view import GroupView
from tests.helpers.processes import eventually
from tests.standing.case import Case, must
from tests.standing.load import wait
from tests.standing.trial import PARTITIONS, Trial


def poll_until(consumers: Iterable[Consumer], holds: Callable[[], bool], why_not: str) -> None:
    """Have members poll until something is so."""

    def turn() -> bool:
        for consumer in consumers:
            consumer.poll(50)
        return holds()

    must(eventually(turn, 30), why_not)


def put_back(trial: Trial) -> None:
    """Copy the directory, have partitions change hands, kill the node, put the copy back, and see what it says."""
    node = trial.start()
    topic = f"restored-{trial.name}"
    trial.kafka.create_topic(topic, PARTITIONS)
    settings = {"coordinators": trial.address, "group_id": "restored", "session_timeout_ms": 3_000}
    a_consumer = partial(Consumer, topic, auto_offset_reset="earliest", **settings)
    view = GroupView(trial.address, "restored")

    def epochs() -> dict[int, int]:
        parts = view.describe().partitions
        return {part.partition: part.owner_epoch for part in parts if part.owner_epoch is not None}

    with a_consumer() as one:
        poll_until([one], lambda: len(epochs()) == PARTITIONS, "nothing is granted")
        trial.kill()
        copy = trial.folder / "copy"
        shutil.copytree(node.data_dir, copy)
        node = trial.start()
        with a_consumer() as other:
            poll_until([one, other], lambda: sorted(view.owners().values()) == [2, 2], "no second member")
        poll_until([one], lambda: sorted(view.owners().values()) == [PARTITIONS], "the second member does not go")
        before = epochs()
        trial.kill()
        shutil.rmtree(node.data_dir)
        copy.rename(node.data_dir)
        node = trial.start()
        trial.beside()
        poll_until([one], lambda: '"log-went-back"' in node.said, "no line says that the log went back")
        poll_until([one], lambda: len(epochs()) == PARTITIONS, "nothing is granted after the copy was put back")
        after = epochs()
        again = {number: (before[number], after[number]) for number in before if after[number] <= before[number]}
        must(not again, f"owner epochs are granted again, before and after: {again}")
    wait(1)


CASES = [
    Case("directory-restored", "a log that went back is said, and no owner epoch is granted again", put_back, 90),
]
