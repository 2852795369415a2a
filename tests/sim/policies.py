"""The policies that groups of a run have, and members that commit nothing have for themselves."""

from coordinator.protocol.parts import ResetPolicy

POLICIES = (
    ResetPolicy("earliest"),
    ResetPolicy("earliest"),
    ResetPolicy("earliest"),
    ResetPolicy("latest"),
    ResetPolicy("timestamp", 1_000),
    ResetPolicy("none"),
    None,
)
