"""Owner epochs as members see them: of a partition they never go down, and none is that of two grants.

Grants are numbered by when they were written, whatever disk they were on. A member that still has an old grant in mind
takes a new one under the same epoch for it, and goes on where it was.
"""

from spark_kcoord.member.core.held.holdings import Assignment
from tests.sim.log.state import ViolationError

_Partition = tuple[str, int]
"""Topic id and number."""


class ToldEpochs:
    """Grants as each process was told of them and has heard of them."""

    def __init__(self) -> None:
        self._heard: dict[tuple[str, _Partition], tuple[int, int]] = {}
        self._told: dict[tuple[str, _Partition, int], int] = {}

    def told(self, process: str, partition: _Partition, epoch: int, grant: int) -> None:
        """Check a grant that is told to a process, against what it has heard."""
        heard = self._heard.get((process, partition))
        if heard is not None:
            before, its_grant = heard
            if epoch < before:
                raise ViolationError("epoch-regress", f"{process} has heard of {partition} under {before}: {epoch}")
            if epoch == before and grant != its_grant:
                raise ViolationError("epoch-reuse", f"{process} knows another grant of {partition} under {epoch}")
        self._told[process, partition, epoch] = grant

    def heard(self, process: str, assignment: Assignment) -> None:
        """Note what a process has now."""
        for part in assignment.partitions:
            partition = (part.topic_id, part.partition)
            grant = self._told.get((process, partition, part.owner_epoch))
            if grant is not None:
                self._heard[process, partition] = (part.owner_epoch, grant)
