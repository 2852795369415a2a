"""Transcripts: a command a line, and under it what the node did about it.

Commands drive a `NodeWorld`; the effects are written short, in their order, with the bookkeeping (appends, wake-ups)
left out. A transcript is checked by running its commands and comparing; with KCOORD_RECORD=1 it is written anew.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, assert_never

from coordinator.core.effects import (
    Append,
    Audited,
    BugMet,
    CloseConnection,
    Effect,
    Halt,
    LoadShard,
    MirrorEnded,
    MirrorOffsets,
    Notice,
    ResolveOffsets,
    Respond,
    SendPush,
    WakeAt,
    WatchTopics,
    WriteSnapshot,
)
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    AdvanceResponse,
    ClaimsFinished,
    CommitOffsets,
    CommitOffsetsResponse,
    ConfirmClaimsResponse,
    ErrorResponse,
    Fenced,
    FetcherStoppedResponse,
    FetcherTaken,
    FetchOffsets,
    FetchOffsetsResponse,
    LeaveGroupResponse,
    PingResponse,
    Probe,
    Push,
    RegisterConsumerResponse,
    Response,
    StartFetcher,
    StopFetcher,
)
from coordinator.protocol.messages.operators import (
    CancelResets,
    CancelResetsResponse,
    ChangeDrain,
    ChangeDrainResponse,
    ChangePause,
    ChangePauseResponse,
    DeleteOffsets,
    DeleteOffsetsResponse,
    DescribeControls,
    DescribeControlsResponse,
    OperatorRequest,
    ResetOffsets,
    ResetOffsetsResponse,
)
from coordinator.protocol.parts import (
    Claim,
    ClaimStatus,
    ClaimStatuses,
    ControlDescription,
    FinalOffset,
    Outcomes,
    PartitionResult,
    ResetResult,
    ResetTarget,
    Subscription,
)
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld, replace_registration

OPERATOR = "ann@ops"


@dataclass
class Transcript:
    """Runs the commands of one scenario and says what happened."""

    world: NodeWorld = field(default_factory=NodeWorld)
    members: dict[str, Member] = field(default_factory=dict)
    claims: dict[str, list[Claim]] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    def run(self, script: str) -> str:
        """Return the script with the effects it has now; comments and empty lines stay where they are."""
        lines: list[str] = []
        for line in script.splitlines():
            if line.startswith("    "):
                continue
            lines.append(line)
            if line and not line.startswith("#"):
                lines.extend(f"    {said}" for said in self._obey(shlex.split(line)))
        return "\n".join(lines) + "\n"

    def _obey(self, words: Sequence[str]) -> Iterable[str]:
        command, *arguments = words
        before = len(self.world.effects)
        verb: Callable[..., None] = getattr(self, f"do_{command}")
        verb(*arguments)
        return [said for effect in self.world.effects[before:] for said in self._say(effect)] or ["(nothing)"]

    # ---- commands ----

    def do_topic(self, name: str, partitions: str) -> None:
        self.world.kafka.topics[name] = int(partitions)
        if name in self.world.watched or self.world.lists_all:
            self.world.poll_topics()

    def do_again(self, name: str) -> None:
        """Delete a topic and make it again, as large as it was; Kafka is asked after that."""
        self.world.kafka.ids[name] = f"{self.world.kafka.topic_id(name)}-again"
        self.world.poll_topics()

    def do_join(self, name: str, incarnation: str = "first") -> None:
        self._join(name, incarnation, {})

    def do_hold(self, name: str, instance_id: str, incarnation: str = "first") -> None:
        """Join, as whichever process, a group whose hand-over is hold."""
        self.members.pop(name, None)
        self._join(name, incarnation, {"handover": "hold", "instance_id": instance_id, "claim_timeout_ms": 5_000})

    def _join(self, name: str, incarnation: str, facts: dict[str, Any]) -> None:
        member = self.world.joining(name, incarnation=incarnation, claims=self.claims.get(name, ()), **facts)
        if name not in self.members or incarnation == "first":
            self.members[name] = member
            self.names[member.connection_id] = name
        else:
            self.names[member.connection_id] = f"{name}'s {incarnation}"
            self.members[f"{name}'s {incarnation}"] = member
        assert member.registration is not None
        member.send(member.registration)

    def do_restart(self, name: str, incarnation: str = "second") -> None:
        """Start a member again as another process, with the member id and the claims of its checkpoint."""
        self.members.pop(name, None)
        self._join(name, incarnation, {})

    def do_match(self, name: str, pattern: str) -> None:
        """Join by a pattern."""
        self._join(name, "first", {"subscription": Subscription(pattern=pattern)})

    def do_own(self, name: str, *numbers: str) -> None:
        """Join for explicit partitions of t."""
        self._join(name, "first", {"subscription": Subscription(partitions=tuple(("t", int(n)) for n in numbers))})

    def do_claim(self, name: str, *ranges: str) -> None:
        """Finish what is claimed and claim ranges written as 0:100-110."""
        member = self.members[name]
        finished = self.claims.get(name, [])
        claims = []
        for text in ranges:
            number, _, rest = text.partition(":")
            begin, _, end = rest.partition("-")
            claims.append(member.claim(("t", int(number)), int(begin), int(end)))
        self.claims[name] = claims
        member.advance(finished, claims)

    def do_run(self, name: str) -> None:
        self.members[name].confirm(*self.claims[name])

    def do_stopped(self, name: str) -> None:
        self.members[name].stop_all()

    def do_finish(self, name: str) -> None:
        """Finish what is claimed and let go of what is asked back."""
        member = self.members[name]
        finals = [FinalOffset(*partition, member.epoch(partition)) for partition in sorted(member.stopping)]
        member.advance(self.claims.pop(name, ()), (), finals)
        for final in finals:
            partition = (final.topic, final.partition)
            if member.epoch(partition) == final.owner_epoch:
                del member.owned[partition]
        member.stopping.clear()

    def do_commit(self, name: str, number: str, offset: str) -> None:
        self.members[name].commit(("t", int(number)), int(offset))

    def do_ping(self, name: str) -> None:
        self.members[name].ping()

    def do_leave(self, name: str) -> None:
        self.members.pop(name).leave()

    def do_crash(self, name: str) -> None:
        if name == "coordinator":
            self.world.restart()
        else:
            self.members[name].close("reset by peer")

    def do_reconnect(self, name: str) -> None:
        before = self.members[name]
        member = self.world.connect()
        self.names[member.connection_id] = name
        self.members[name] = member
        assert before.registration is not None
        claims = tuple(self.claims.get(name, ()))
        member.registration = replace_registration(before.registration, {"claims": claims})
        member.send(member.registration)

    def do_advance(self, amount: str, unit: str) -> None:
        assert unit == "ms", "time is written in ms"
        self.world.advance(int(amount))

    def do_offsets(self) -> None:
        tool = self.world.connect()
        self.names[tool.connection_id] = "tool"
        tool.send(FetchOffsets("g"))

    # ---- operators ----

    def do_drain(self, name: str, *why: str) -> None:
        self._operate(ChangeDrain("g", name, is_drained=True, who=OPERATOR, why=" ".join(why), is_dry_run=False))

    def do_undrain(self, name: str) -> None:
        self._operate(ChangeDrain("g", name, is_drained=False, who=OPERATOR, is_dry_run=False))

    def do_pause(self, *numbers: str) -> None:
        """Pause partitions of t, or the whole group."""
        self._pause(numbers, is_paused=True)

    def do_resume(self, *numbers: str) -> None:
        self._pause(numbers, is_paused=False)

    def _pause(self, numbers: Sequence[str], *, is_paused: bool) -> None:
        partitions = tuple(("t", int(number)) for number in numbers) or None
        self._operate(ChangePause("g", partitions, is_paused, OPERATOR, is_dry_run=False))

    def do_set(self, number: str, offset: str) -> None:
        """Commit an offset as an operator, for a partition that nobody owns."""
        tool = self.world.connect()
        self.names[tool.connection_id] = "tool"
        tool.send(CommitOffsets("g", in_columns((OffsetToCommit("t", int(number), int(offset)),))))

    def do_delete(self, number: str) -> None:
        """Delete the offset of a partition."""
        self._operate(DeleteOffsets("g", (("t", int(number)),), OPERATOR, is_dry_run=False))

    def do_reset(self, number: str, offset: str, *words: str) -> None:
        """Set a partition's offset; the words are `dry-run` or `release-claims`, or the reason."""
        options = {"dry-run", "release-claims"}
        why = " ".join(word for word in words if word not in options)
        targets = (ResetTarget("t", int(number), "offset", int(offset)),)
        self._operate(ResetOffsets("g", targets, OPERATOR, why, "release-claims" in words, "dry-run" in words))

    def do_cancel(self, number: str) -> None:
        self._operate(CancelResets("g", (("t", int(number)),), OPERATOR, is_dry_run=False))

    def do_controls(self) -> None:
        self._operate(DescribeControls("g"))

    def _operate(self, request: OperatorRequest) -> None:
        tool = self.world.connect()
        self.names[tool.connection_id] = "tool"
        tool.send(request)

    # ---- effects ----

    def _say(self, effect: Effect) -> list[str]:
        match effect:
            case Respond(connection_id, _, response):
                return [f"{self._name(connection_id)} <- {say_response(response)}"]
            case SendPush(connection_id, push):
                return [f"{self._name(connection_id)} <- {say_push(push)}"]
            case CloseConnection(connection_id, why):
                return [f"close {self._name(connection_id)}: {why}"]
            case Notice():
                fields = {name: value for name, value in effect.fields if name != "group_epoch"}
                said = " ".join([effect.member_id] * bool(effect.member_id) + [f"{k}={v}" for k, v in fields.items()])
                return [f"notice {effect.kind}{' ' if said else ''}{said}: {effect.why}"]
            case ResolveOffsets():
                asked = [(item.topic, item.partition) for item in effect.offsets]
                return [f"ask Kafka about {say_partitions(asked)}"]
            case WatchTopics(topics, lists_all):
                return [f"watch {', '.join(sorted(topics) + ['all other topics'] * lists_all)}"]
            case Halt(why):
                return [f"halt: {why}"]
            case Audited():
                return [f"audit {effect.principal} {effect.verb}: {effect.outcome}"]
            case BugMet():
                return [f"bug: {effect.why}"]
            case MirrorOffsets() | MirrorEnded():
                return [f"mirror {effect}"]
            case Append() | WriteSnapshot() | WakeAt() | LoadShard():
                return []
            case _:
                assert_never(effect)

    def _name(self, connection_id: int) -> str:
        return self.names.get(connection_id, f"connection {connection_id}")


def say_outcomes(what: str, outcomes: Outcomes) -> Iterator[str]:
    if outcomes.as_asked:
        yield f"{what} {outcomes.as_asked} as asked"
    for result in outcomes.others:
        yield f"{what} {say_result(result)}"


def say_response(response: Response) -> str:
    match response:
        case RegisterConsumerResponse() | ErrorResponse() if response.error is not ErrorCode.NONE:
            return f"{response.error.name}: {response.message}"
        case RegisterConsumerResponse():
            return " ".join(["registered", *say_statuses(response.claims)])
        case AdvanceResponse():
            parts = [
                *say_outcomes("finished", response.finished),
                *say_outcomes("released", response.released),
                *say_outcomes("claimed", response.claims),
            ]
            return "advanced: " + ", ".join(parts)
        case CommitOffsetsResponse():
            return "committed: " + ", ".join((f"{response.accepted} accepted", *map(say_result, response.refused)))
        case FetcherStoppedResponse():
            return "stopped: " + ", ".join(map(say_result, response.results))
        case ConfirmClaimsResponse():
            return "claims: " + ", ".join(say_statuses(response.claims))
        case FetchOffsetsResponse():
            return "offsets: " + ", ".join(f"{part.topic}-{part.partition}={part.offset}" for part in response.offsets)
        case ChangePauseResponse():
            return f"pause changed for [{say_partitions(response.partitions)}]"
        case DeleteOffsetsResponse():
            return "deleted: " + ", ".join(map(say_result, response.results))
        case ChangeDrainResponse():
            return f"drain changed, it has [{say_partitions(response.partitions)}]"
        case ResetOffsetsResponse():
            return "reset: " + ", ".join(map(say_reset, response.results))
        case CancelResetsResponse():
            return "cancelled: " + ", ".join(map(say_result, response.results))
        case DescribeControlsResponse():
            return "stands: " + (", ".join(map(say_control, response.controls)) or "nothing")
        case PingResponse():
            return f"alive in epoch {response.member_epoch} of {response.group_epoch}"
        case LeaveGroupResponse():
            return "left"
        case _:
            return type(response).__name__.removesuffix("Response").lower()


def say_push(push: Push) -> str:
    match push:
        case StartFetcher():
            parts = ", ".join(f"{part.topic}-{part.partition} at {part.offset}" for part in push.partitions)
            return f"start [{parts}] epoch {push.member_epoch}{' complete' if push.is_complete else ''}"
        case StopFetcher():
            parts = say_partitions((part.topic, part.partition) for part in push.partitions)
            return f"stop [{parts}] within {push.deadline_ms} ms: {push.why}"
        case FetcherTaken():
            parts = say_partitions((part.topic, part.partition) for part in push.partitions)
            return f"taken [{parts}]: {push.why}"
        case Probe():
            return "probe"
        case Fenced():
            return f"fenced {push.error.name}: {push.why}"
        case ClaimsFinished():
            parts = ", ".join(f"{claim.topic}-{claim.partition} to {claim.until_offset}" for claim in push.claims)
            return f"finished [{parts}]"
        case _:
            assert_never(push)


def say_result(result: PartitionResult) -> str:
    said = f"{result.topic}-{result.partition}"
    if result.error is not ErrorCode.NONE:
        return f"{said} {result.error.name} (committed {result.committed})"
    return f"{said} (committed {result.committed})"


def say_reset(result: ResetResult) -> str:
    said = f"{result.topic}-{result.partition}"
    if result.error is not ErrorCode.NONE:
        return f"{said} {result.error.name}: {result.message}"
    return f"{said} {result.old_offset} -> {result.new_offset}{' pending' if result.is_pending else ''}"


def say_control(control: ControlDescription) -> str:
    subject = control.member_id or (f"{control.topic}-{control.partition}" if control.topic else "g")
    said = f"{control.kind} {subject}"
    return f"{said} to {control.offset}" if control.offset is not None else said


def say_statuses(statuses: ClaimStatuses) -> Iterator[str]:
    if statuses.running:
        yield f"{statuses.running} run"
    yield from map(say_status, statuses.others)
    for closed in statuses.closed:
        yield f"{len(closed.places)} CLOSED"


def say_status(status: ClaimStatus) -> str:
    return f"{status.topic}-{status.partition} {status.state.name}"


def say_partitions(partitions: Iterable[TopicPartition]) -> str:
    by_topic = groupby(sorted(partitions), key=lambda partition: partition[0])
    return ", ".join(f"{topic}-{'/'.join(str(number) for _, number in parts)}" for topic, parts in by_topic)
