"""Micro-batches that Spark counts as done and has not read: they are an error, and never committed.

A sink that remembers the numbers of micro-batches, as Spark's file sink does in ``_spark_metadata``, passes over one
that it knows before it is planned, and Spark notes it as done. After a restart that is right: the sink has the rows,
and their claims run since the process before. With a new checkpoint, whose numbers begin at 0 again, the rows are in no
sink. The coordinator tells the two apart, since only a planned micro-batch has running claims.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence, Sized
from typing import TYPE_CHECKING, Final

from spark_kcoord.errors import KcoordError, UnreadBatchError
from spark_kcoord.options.source_options import SourceOptions

if TYPE_CHECKING:
    from coordinator.protocol.parts import Claim, PartitionResult

__all__ = ["must_have_been_read", "show_claims", "unread_claims", "warn_where_group_is_known"]

_log = logging.getLogger(__name__)

_SHOWN: Final = 5
_ASK_TIMEOUT_S: Final = 2.0


def unread_claims(finished: Iterable[Claim], results: Iterable[PartitionResult]) -> tuple[Claim, ...]:
    """Return the claims that the coordinator did not commit because nobody has planned to read them."""
    from coordinator.protocol.errors import ErrorCode

    return tuple(
        claim for claim, result in zip(finished, results, strict=True) if result.error is ErrorCode.CLAIM_NOT_RUNNING
    )


def must_have_been_read(
    group_id: str, finished: Sequence[Claim], results: Sequence[PartitionResult], *, is_committing: bool = True
) -> None:
    """Raise UnreadBatchError when a micro-batch is said to be finished of which Spark has planned nothing.

    The checkpoint of a query that commits nothing is its only position: the caller makes that true before it raises.
    """
    unread = unread_claims(finished, results)
    if unread:
        raise UnreadBatchError(
            f"Spark counts the last micro-batch of group '{group_id}' as done and has not read it, so that "
            f"{show_claims(unread)} are not {'committed' if is_committing else 'read'}. A sink passes over numbers of "
            "micro-batches that it knows, so this checkpoint is not the one that the output was written with: it was "
            "made anew, or is an older copy. Start the query with the output's own checkpoint, or with a new "
            f"checkpoint and a new output; {_READ_THEN if is_committing else _READ_AGAIN}. A query that asks for no "
            "row, with limit(0), ends so too."
        )


_READ_THEN: Final = "what was not read is read then"
_READ_AGAIN: Final = (
    "as the query commits nothing (option 'kcoord.commit'), a checkpoint alone says where it goes on, and an empty "
    "micro-batch has noted in this one that these ranges are not read"
)


def show_claims(claims: Sequence[Claim]) -> str:
    """Return ranges as text, the first few of many."""
    shown = [f"[{one.from_offset}, {one.until_offset}) of {one.topic}-{one.partition}" for one in claims[:_SHOWN]]
    return ", ".join(shown) + (f" and {len(claims) - _SHOWN} more ranges" if len(claims) > _SHOWN else "")


def warn_where_group_is_known(
    options: SourceOptions, *, committed: Callable[[SourceOptions], Sized] | None = None
) -> None:
    """Warn that a query's checkpoint is new where its group has offsets, before the query joins.

    Without an answer nothing is said: the join that follows tells why the coordinator gives none.
    """
    try:
        found = len((committed or _committed)(options))
    except KcoordError as error:
        _log.debug("group %s: it is not known whether it has offsets: %s", options.group, error)
        return
    if found:
        _log.warning(
            "group %s: the checkpoint is new and the group has offsets of %d partitions, where the query goes on. A "
            "new checkpoint needs a new output: a sink that remembers numbers of micro-batches, such as the directory "
            "of a file sink, passes over those it knows.",
            options.group,
            found,
        )


def _committed(options: SourceOptions) -> Sized:
    from spark_kcoord.member.one_shot import fetch_offsets

    return fetch_offsets(options.coordinators_at, options.group, timeout_s=_ASK_TIMEOUT_S)
