"""The kinds of refusals by what somebody does about them; the rest are plain errors. Knows no message.

The command line has an exit code for each kind, and `kcoord.Client` a class of errors.
"""

from typing import Final

from coordinator.protocol.errors import ErrorCode

NOT_FOUND: Final = frozenset(
    {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
)
"""A name is of nothing that there is."""

REFUSED_BY_STATE: Final = frozenset(
    {
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.PARTITION_OWNED,
        ErrorCode.CLAIM_CLOSED,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    }
)
"""It does not go now, as the group or the cluster is."""

TIMED_OUT: Final = frozenset({ErrorCode.REQUEST_TIMED_OUT})

UNAUTHORISED: Final = frozenset(
    {
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
    }
)
"""This client may not."""
