"""Decisions of operators that a backup has are made again: pauses, and drains of members that are there.

What stands already stays as it is, and nothing that stands is taken back. The reason says that it was restored, and
whose decision it was.
"""

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from coordinator.cli.moving.backup import ControlKept, GroupKept
from coordinator.cli.moving.offsets_set import Manner
from coordinator.cli.parts.asking import ask_for, ask_if_there
from coordinator.cli.parts.tables import Cell, OutputFormat, write_rows
from coordinator.client.operating.author import who_asks
from coordinator.protocol.ids import MAX_NAMED, TopicPartition
from coordinator.protocol.messages import DescribeGroupResponse
from coordinator.protocol.messages.operators import (
    ChangeDrain,
    ChangeDrainResponse,
    ChangePause,
    ChangePauseResponse,
    DescribeControls,
    DescribeControlsResponse,
)
from coordinator.protocol.parts import ControlDescription
from coordinator.protocol.text.escaping import one_line
from coordinator.protocol.vocabulary import ControlKind

CONTROL_COLUMNS: Final = ("GROUP", "KIND", "TOPIC", "PARTITION", "CONSUMER-ID", "STATE", "REMARK")
_LONGEST_WHY: Final = 1000


@dataclass(frozen=True, slots=True)
class ControlResult:
    """A decision of a backup, and what becomes of it."""

    group: str
    control: ControlKept
    state: str
    remark: str

    @property
    def is_refused(self) -> bool:
        """Say whether it could not be made again."""
        return self.state == "refused"

    def as_json(self) -> Mapping[str, object]:
        """Return it as JSON has it."""
        control = self.control
        return {
            "group": self.group,
            "kind": control.kind,
            "topic": control.topic or None,
            "partition": control.partition,
            "consumer_id": control.member_id or None,
            "state": self.state,
            "remark": self.remark or None,
        }


def write_controls(results: Sequence[ControlResult], output: OutputFormat, *, is_first: bool) -> None:
    """Write decisions as a table of their own."""
    if not results:
        return
    if not is_first:
        sys.stdout.write("\n")
    rows: list[tuple[Cell, ...]] = [
        (
            result.group,
            result.control.kind,
            result.control.topic,
            result.control.partition,
            result.control.member_id,
            result.state,
            result.remark,
        )
        for result in results
    ]
    write_rows(output, CONTROL_COLUMNS, rows)


def set_controls(
    group: GroupKept, before: DescribeGroupResponse | None, accepted: Collection[TopicPartition], manner: Manner
) -> Sequence[ControlResult]:
    """Make again what a backup has of a group; pending resets are among its offsets.

    `before` is the group as it was, None where it was not there; the partitions that were `accepted` are known to it.
    """
    stands = _standing(group.group, manner) if before is not None else set()
    known = {(each.topic, each.partition) for each in before.partitions} if before is not None else set()
    members = {each.member_id for each in before.members} if before is not None else set()
    state = "would-set" if manner.dry else "set"
    results: list[ControlResult] = []
    paused: dict[str, list[TopicPartition]] = {}
    for control in group.controls:
        if control.kind == ControlKind.RESET_PENDING or _key(control) in stands:
            continue
        if control.kind == ControlKind.GROUP_PAUSED:
            _pause(group.group, None, _reason(control, manner), manner)
        elif control.kind == ControlKind.PARTITION_PAUSED and control.partition is not None:
            partition = (control.topic, control.partition)
            if partition not in known and partition not in accepted:
                why = "the group does not know the partition; pause it once a member reads it"
                results.append(ControlResult(group.group, control, "refused", why))
                continue
            paused.setdefault(_reason(control, manner), []).append(partition)
        elif control.kind == ControlKind.MEMBER_DRAINED:
            if control.member_id not in members:
                results.append(ControlResult(group.group, control, "left-out", "the member is not there"))
                continue
            _drain(group.group, control, manner)
        else:
            results.append(ControlResult(group.group, control, "refused", "this release does not know it"))
            continue
        results.append(ControlResult(group.group, control, state, f"by {control.who}"))
    for why, partitions in paused.items():
        for begin in range(0, len(partitions), MAX_NAMED):
            _pause(group.group, tuple(partitions[begin : begin + MAX_NAMED]), why, manner)
    return results


def _standing(group: str, manner: Manner) -> set[tuple[str, str, int | None, str]]:
    answer = ask_if_there(manner.coordinator, DescribeControls(group), manner.timeout_s, DescribeControlsResponse)
    return set() if answer is None else {_key(control) for control in answer.controls}


def _key(control: ControlKept | ControlDescription) -> tuple[str, str, int | None, str]:
    return control.kind, control.topic, control.partition, control.member_id


def _pause(group: str, partitions: tuple[TopicPartition, ...] | None, why: str, manner: Manner) -> None:
    if not manner.dry:
        request = ChangePause(group, partitions, True, who_asks(), why, is_dry_run=False)
        ask_for(manner.coordinator, request, manner.timeout_s, ChangePauseResponse, group)


def _drain(group: str, control: ControlKept, manner: Manner) -> None:
    if not manner.dry:
        request = ChangeDrain(group, control.member_id, True, who_asks(), _reason(control, manner), is_dry_run=False)
        ask_for(manner.coordinator, request, manner.timeout_s, ChangeDrainResponse, group)


def _reason(control: ControlKept, manner: Manner) -> str:
    said = f": {control.why}" if control.why else ""
    return one_line(f"{manner.why}; it was by {control.who}{said}")[:_LONGEST_WHY]
