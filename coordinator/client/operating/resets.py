"""The outcome of a reset of one partition, as the command line and programs are told it. Pure."""

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import ResetResult


def delta_of(result: ResetResult) -> int | None:
    """Return by how many records a reset moves on, or back; None where there is no old or no new offset."""
    if result.new_offset is None or result.old_offset is None:
        return None
    return result.new_offset - result.old_offset


def state_of(result: ResetResult, *, dry: bool) -> str:
    """Return refused, set or pending; of a dry run would-set or would-wait."""
    if result.error is not ErrorCode.NONE:
        return "refused"
    if dry:
        return "would-wait" if result.is_pending else "would-set"
    return "pending" if result.is_pending else "set"
