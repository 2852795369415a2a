"""Pushes that leave the node: grants, stops and ends that are on disk, said to whom they are about."""

from typing import assert_never

from coordinator.core.groups.hard.records import Granted
from coordinator.protocol.messages import ClaimsFinished, Fenced, FetcherTaken, Probe, Push, StartFetcher, StopFetcher
from coordinator.protocol.parts import StartPartition
from tests.sim.log.state import GroupModel, ViolationError
from tests.sim.said.state import Said


def check_push(said: Said, connection_id: int, push: Push, shard: int) -> None:
    """Check a push that leaves the node."""
    bound, removed = said.life.bound.get(connection_id), said.life.removed.get(connection_id)
    if bound is not None:
        member = bound
    elif removed is not None and removed[1] > said.forgotten_at.get(removed[0][0], -1):
        member = removed[0]
    else:
        said.coverage["excuse a push reaches nobody's connection"] += 1
        return
    group = said.group(member[0], shard)
    match push:
        case StartFetcher():
            said.group_epoch_seen(member[0], push.group_epoch)
            for part in push.partitions:
                partition = (part.topic, part.partition)
                at = said.logs[shard].places.get(part.owner_epoch)
                if at is None:
                    raise ViolationError("phantom-grant", f"{part} is said to {member[1]}, and nobody granted it")
                said.must_be_durable(shard, at, f"grant of {partition} to {member[1]}")
                granted = said.logs[shard].records[at]
                process = said.life.processes.get(connection_id, "")
                number = said.logs[shard].numbers[at]
                said.epochs.told(process, (part.topic_id, part.partition), part.owner_epoch, number)
                numbers = getattr(granted, "partitions", (getattr(granted, "partition", None),))
                if getattr(granted, "member_id", None) != member[1] or part.partition not in numbers:
                    raise ViolationError("phantom-grant", f"{part} is said to {member[1]}, the log says {granted}")
                if getattr(granted, "is_read_only", False):
                    _is_start_of_reader(said, group, granted, part)
                    continue
                said.facts.reach(part.topic_id, part.partition, part.offset)
                possible = [commit for commit in group.commits.get(partition, ()) if commit.offset == part.offset]
                if not possible:
                    raise ViolationError("phantom-commit", f"{part} starts where nobody ever committed")
                said.must_be_durable(shard, possible[0].at, f"start of {partition}")
        case StopFetcher():
            for owned in push.partitions:
                partition = (owned.topic, owned.partition)
                said.must_be_durable(shard, group.stopped[partition, owned.owner_epoch], f"stop of {partition}")
        case ClaimsFinished():
            for claim in push.claims:
                commits = group.commits.get((claim.topic, claim.partition), ())
                fitting = [each.at for each in commits if each.owner_epoch == claim.owner_epoch]
                if not fitting:
                    raise ViolationError("phantom-commit", f"{claim} is said to be committed: {commits}")
                said.must_be_durable(shard, fitting[0], f"commit of {claim}")
        case FetcherTaken():
            for owned in push.partitions:
                partition = (owned.topic, owned.partition)
                said.must_be_durable(shard, group.ended[partition, owned.owner_epoch], f"end of {partition}")
        case Fenced():
            said.counts.fenced += 1
            if removed is not None:
                said.must_be_durable(shard, removed[1], f"removal of {member[1]}")
        case Probe():
            pass  # it says nothing of the group
        case _:
            assert_never(push)


def _is_start_of_reader(said: Said, group: GroupModel, granted: Granted, part: StartPartition) -> None:
    """Check where a member that commits nothing is told to start: there, or at the group's offset."""
    starts = granted.starts
    if starts is not None:
        possible = {starts.position_of(part.partition)[0]}
    else:
        possible = {commit.offset for commit in group.commits.get((part.topic, part.partition), ())}
    if part.offset not in possible:
        raise ViolationError("phantom-commit", f"{part} starts where nobody decided: {granted}")
