"""Known mistakes about what nobody has read: planted by `mutants.py`."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from coordinator.core.groups.offsets import claims
from coordinator.core.groups.offsets.committed_offsets import committed_part
from coordinator.core.groups.shard import Shard
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import BeginClaims
from coordinator.protocol.parts import Claim, PartitionResult
from spark_kcoord.microbatch import planner

Patches = list[tuple[Any, str, Any]]


def _unread_is_committed() -> Patches:
    finish = claims._finish

    def finish_what_was_offered(draft: Any, claim: Claim) -> PartitionResult:
        said = finish(draft, claim)
        if said.error is not ErrorCode.CLAIM_NOT_RUNNING:
            return said
        partition = (claim.topic, claim.partition)
        grant = draft.grant_of(partition, claim.owner_epoch)
        draft.finished[partition] = committed_part(grant, partition, claim.until_offset, draft.commit_ms)
        return PartitionResult(claim.topic, claim.partition, committed=claim.until_offset)

    return [(claims, "_finish", finish_what_was_offered)]


def _question_makes_it_run() -> Patches:
    handle_begin = Shard.handle_begin

    def begin_always(self: Shard, connection: Any, correlation_id: int, request: BeginClaims) -> None:
        handle_begin(self, connection, correlation_id, replace(request, is_question=False))

    return [(Shard, "handle_begin", begin_always)]


def _place_forgotten() -> Patches:
    return [(planner, "with_those_away", lambda latest, *_: latest)]


MISTAKES: Mapping[str, tuple[str, Callable[[], Patches]]] = {
    "unread-batch-committed": ("a micro-batch that nobody planned to read is committed", _unread_is_committed),
    "question-makes-it-run": ("to ask whether a batch was planned makes it so", _question_makes_it_run),
    "place-forgotten": ("a checkpoint that is the only position leaves out what is away", _place_forgotten),
}
