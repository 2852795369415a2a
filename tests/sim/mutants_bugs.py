"""Known mistakes in what a bug costs; `mutants` has them beside its own."""

from collections.abc import Callable
from typing import Any

from coordinator.core.effects import BugMet
from coordinator.core.shards.shard_rack import ShardRack
from tests.helpers.planted_bugs import PlantedBugError


def state_kept_after_a_bug() -> list[tuple[Any, str, Any]]:
    def contain(self: ShardRack, error: Exception, event: Any) -> None:
        # What a state that is half changed makes of later steps is part of the mistake, and no catch by itself.
        self.direct.append(BugMet("a bug", PlantedBugError(repr(error))))
        if self.working is not None:
            self.shards[self.working].desk.sends.clear()
        self.working = None

    return [(ShardRack, "contain", contain)]


MISTAKES: dict[str, tuple[str, Callable[[], list[tuple[Any, str, Any]]]]] = {
    "state-kept-after-a-bug": ("what a bug left half done is gone on with", state_kept_after_a_bug),
}
