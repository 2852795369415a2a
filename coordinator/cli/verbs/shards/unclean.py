"""The replica that is to lead a shard which nobody in sync can lead, and what that may lose, in numbers for a person.

Every replica that answers says how far its log reaches; the furthest one is chosen. Of two logs, the one whose last
record is of a later leader epoch has all that was committed before that; of the same epoch, the longer one. What
replicas had that do not answer is not known, so nothing is said to be safe.
"""

from collections.abc import Sequence

import typer

from coordinator.cli.parts.exits import ExitCode, notes
from coordinator.cli.parts.notes import DocCode
from coordinator.client.cluster_view import ClusterView, ShardView
from coordinator.protocol.parts import ShardDescription, UncleanLeader
from coordinator.protocol.text.counts import counted


def choose_unclean(cluster: ClusterView, shards: Sequence[int]) -> tuple[UncleanLeader, ...]:
    """Return whom to elect for each shard, having said what may be lost; exits where a shard has nobody to choose."""
    by_number = {each.shard: each for each in cluster.shards}
    chosen = []
    for shard in (by_number[number] for number in shards):
        copies = {node: copy for node, copy in shard.copies.items() if copy.log_end is not None}
        if not copies:
            notes.error(
                f"no replica of shard {shard.shard} answers, so there is nobody to elect", DocCode.NOT_KNOWN_NOW
            )
            raise typer.Exit(ExitCode.REFUSED_BY_STATE)
        node = max(sorted(copies), key=lambda each: _reach(copies[each]))
        _say(shard, node, copies)
        chosen.append(UncleanLeader(shard.shard, node, shard.leader_epoch))
    return tuple(chosen)


def _reach(copy: ShardDescription) -> tuple[int, int]:
    return copy.last_epoch or 0, copy.log_end or 0


def _say(shard: ShardView, node: int, copies: dict[int, ShardDescription]) -> None:
    for other, copy in sorted(copies.items()):
        notes.print(
            f"Shard {shard.shard} on node {other}: {counted(copy.log_end or 0, 'record')}, the last of leader epoch "
            f"{copy.last_epoch}; it knows that {copy.high_watermark} are committed."
        )
    silent = ", ".join(str(each) for each in shard.replicas if each not in copies) or "none"
    in_sync = ", ".join(map(str, shard.isr)) or "none that is known"
    known = max(copy.high_watermark or 0 for copy in copies.values())
    end = copies[node].log_end or 0
    notes.print(f"Shard {shard.shard}: replicas that do not answer: {silent}; in sync: {in_sync}.")
    if known > end:
        lost = counted(known - end, "record")
        notes.print(f"Warning: {lost} known to be committed will be lost.")
    notes.print(
        f"Warning: whatever was acknowledged from record {end} of shard {shard.shard} on, and was in leader epochs up "
        f"to {shard.leader_epoch}, is lost, and the logs of the other replicas are moved aside when they come back."
    )
