"""The meaning of a refusal to a member, and the errors its user sees: what failed, why, and what to do.

Sorts error codes into those that a new connection may cure, those that end the membership under the present
registration, and the rest, which are final. It knows no state.
"""

from typing import Final

from coordinator.client.refusals import Refusal, show_refusal
from coordinator.protocol.claim_columns import is_whole
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import ClaimStatuses, Outcomes
from coordinator.protocol.text.addresses import format_address
from spark_kcoord.errors import CoordinatorAwayError, KcoordError, LeftAloneError, MemberClosedError, RefusedError
from spark_kcoord.member.settings import BOOTSTRAP_OPTION, TIMEOUT_OPTION, MemberSettings

LOST_MEMBERSHIP: Final = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.FENCED_INSTANCE_ID}
)
"""The coordinator does not count this connection as a member's: register again."""

IN_ITS_PLACE: Final = frozenset(
    {ErrorCode.MEMBER_ID_IN_USE, ErrorCode.SECOND_MEMBER_OF_APPLICATION, ErrorCode.FENCED_INSTANCE_ID}
)
"""A living member has the place; it may be that of a query that was stopped a moment ago: try for a while."""

OPTIONS: Final = {
    ErrorCode.PARTITION_OWNED: "assign",
    ErrorCode.INVALID_GROUP_ID: "kcoord.group.id",
    ErrorCode.INVALID_SESSION_TIMEOUT: "kcoord.session.timeout",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "kcoord.assignors",
    ErrorCode.FENCED_INSTANCE_ID: "kcoord.instance.id",
    ErrorCode.MEMBER_ID_IN_USE: "checkpointLocation",
    ErrorCode.SECOND_MEMBER_OF_APPLICATION: "kcoord.share.within.application",
}
"""The option of a query that a final refusal is about."""

_OF_SUBSCRIPTION: Final = ("the pattern ", "the subscription ", "a subscription ", "exclusions ")
"""The coordinator's first words about a subscription that cannot be; the code is that of any bad request."""

_OF_OPTIONS: Final = {
    "the reset policy ": "startingOffsets",
    "the hand-over ": "kcoord.handover",
    "the claim time-out ": "kcoord.claim.timeout",
    "a claim time-out ": "kcoord.claim.timeout",
    "instance id ": "kcoord.instance.id",
}
"""The beginnings of refusals that concern a setting, where the code alone does not tell which one it is."""


def _option_of(settings: MemberSettings, refusal: Refusal) -> str | None:
    code, message = refusal
    is_malformed = code is ErrorCode.INVALID_REQUEST and message.startswith(_OF_SUBSCRIPTION)
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or is_malformed:
        return "assign" if settings.partitions else "subscribe" if settings.topics else "subscribePattern"
    named = (option for beginning, option in _OF_OPTIONS.items() if message.startswith(beginning))
    return next(named, None) or OPTIONS.get(code)


def must_account_for(answer: Outcomes | ClaimStatuses, count: int, group_id: str) -> None:
    """Raise KcoordError for an answer about so many claims that does not account for each of them.

    What came out as it was asked is only counted in such an answer, so that one that is short would look like success.
    """
    if not is_whole(answer, count):
        raise KcoordError(
            f"The coordinator of group '{group_id}' did not say of each of {count} ranges what became of it, so that "
            "none of them counts as read. Coordinator and query may be of different versions: compare them with "
            "kcoord --version on both machines."
        )


def cannot_join(settings: MemberSettings, troubles: str) -> KcoordError:
    """Say that the first join took too long."""
    addresses = ",".join(format_address(address) for address in settings.coordinators)
    speech = settings.speech
    return CoordinatorAwayError(
        f"Group '{settings.group_id}' could not be joined within {settings.join_timeout_ms / 1000:g} s: {troubles}. "
        f"Check that a kcoord coordinator runs at {speech.option} '{speech.name_of(BOOTSTRAP_OPTION)}' ({addresses}) "
        f"and can be reached from {speech.where}."
    )


def call_timed_out(settings: MemberSettings, troubles: str, timeout_ms: int | None = None) -> KcoordError:
    """Say that a coordinator was away for longer than a call waits, or than this one was to wait."""
    speech = settings.speech
    if timeout_ms is not None:
        why = f"{timeout_ms / 1000:g} s, for which this call waits"
        return CoordinatorAwayError(
            f"The coordinator of group '{settings.group_id}' has not answered for {why}: {troubles}."
        )
    return CoordinatorAwayError(
        f"The coordinator of group '{settings.group_id}' has not answered for "
        f"{settings.coordinator_timeout_ms / 1000:g} s ({speech.option} '{speech.name_of(TIMEOUT_OPTION)}'): "
        f"{troubles}. {speech.go_on_later}."
    )


def refused_for_good(settings: MemberSettings, refusal: Refusal) -> KcoordError:
    """Say that a coordinator will not have this member."""
    option, speech = _option_of(settings, refusal), settings.speech
    about = f" ({speech.option} '{speech.name_of(option)}')" if option is not None else ""
    return RefusedError(
        f"The coordinator refused a member of group '{settings.group_id}'{about}: "
        f"{speech.translate(show_refusal(refusal))}",
        refusal[0].name,
        refusal[0].doc_code,
    )


def log_in_refused(settings: MemberSettings, why: str) -> KcoordError:
    """Say that this member could not log in."""
    return RefusedError(
        f"A member of group '{settings.group_id}' could not log in: the coordinator {why}. The log of its node may "
        "say more.",
        ErrorCode.SASL_AUTHENTICATION_FAILED.name,
        ErrorCode.SASL_AUTHENTICATION_FAILED.doc_code,
    )


def call_refused(settings: MemberSettings, refusal: Refusal) -> KcoordError:
    """Say that a coordinator refused one call."""
    return RefusedError(
        f"The coordinator refused a call in group '{settings.group_id}': "
        f"{settings.speech.translate(show_refusal(refusal))}",
        refusal[0].name,
        refusal[0].doc_code,
    )


def call_too_large(settings: MemberSettings, why: str) -> KcoordError:
    """Say that a call holds too many partitions for one frame."""
    return KcoordError(
        f"A {settings.speech.user} of group '{settings.group_id}' names so many partitions at once that they do not "
        f"fit into one request ({why}): spread the partitions over more members."
    )


def not_joined(settings: MemberSettings) -> KcoordError:
    """Say that a call came before the join."""
    return KcoordError(f"The member of group '{settings.group_id}' has not been asked to join yet: call join() first.")


def left_alone(settings: MemberSettings) -> KcoordError:
    """Say that the member has left because its user asked for nothing."""
    return LeftAloneError(
        f"The member has left group '{settings.group_id}': it was not polled for "
        f"{(settings.max_poll_interval_ms or 0) / 1000:g} s ({settings.speech.option} 'max_poll_interval_ms')."
    )


def closed(settings: MemberSettings) -> KcoordError:
    """Say that the member was closed by its owner."""
    return MemberClosedError(f"The member of group '{settings.group_id}' is closed: {settings.speech.closed}.")
