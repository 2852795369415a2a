"""The settings of a group that a member or an operator may choose: its hand-over, its claim time-out, its reset policy.

A sentence says what is wrong with one, and what may be chosen. Whether it fits the group as it is, is not known here.
"""

from coordinator.core.limits import Limits
from coordinator.protocol.ids import why_bad_time
from coordinator.protocol.parts import NewGroup, ResetPolicy
from coordinator.protocol.vocabulary import Handover, PolicyKind


def why_bad_handover(handover: str | None, claim_timeout_ms: int | None, limits: Limits) -> str | None:
    """Say what is wrong with a hand-over, or a claim time-out under it, or return None."""
    if handover is not None and handover not in set(Handover):
        return f"the hand-over {handover[:50]!r} is not known; use one of {', '.join(Handover)}"
    if claim_timeout_ms is None:
        return None
    if handover != Handover.HOLD:
        return "a claim time-out belongs to the hand-over hold, and to no other"
    if not limits.claim_timeout_min_ms <= claim_timeout_ms <= limits.claim_timeout_max_ms:
        return (
            f"a claim time-out of {claim_timeout_ms} ms is not allowed; choose one from {limits.claim_timeout_min_ms} "
            f"to {limits.claim_timeout_max_ms} ms"
        )
    return None


def why_bad_policy(policy: ResetPolicy | None) -> str | None:
    """Say what is wrong with a reset policy, or return None."""
    if policy is None:
        return None
    if policy.kind not in set(PolicyKind):
        return f"the reset policy {policy.kind[:50]!r} is not known; use one of {', '.join(PolicyKind)}"
    if (policy.kind == PolicyKind.TIMESTAMP) != (policy.timestamp_ms is not None):
        return "a timestamp belongs to the reset policy 'timestamp', and to no other"
    return None if policy.timestamp_ms is None else why_bad_time(policy.timestamp_ms)


def why_bad_settings(settings: NewGroup, limits: Limits) -> str | None:
    """Say what is wrong with the settings of a group that is to be made, or return None."""
    return why_bad_handover(settings.handover, settings.claim_timeout_ms, limits) or why_bad_policy(
        settings.reset_policy
    )
