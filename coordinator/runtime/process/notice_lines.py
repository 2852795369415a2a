"""The line of the log that a notice of the core becomes."""

from structlog.typing import FilteringBoundLogger

from coordinator.core.effects import Notice


def say_notice(log: FilteringBoundLogger, notice: Notice) -> None:
    """Log a notice with its fields; those without a value are left out."""
    fields = {name: value for name, value in notice.fields if value is not None}
    if notice.group_id:
        fields["group"] = notice.group_id
    if notice.member_id:
        fields["member"] = notice.member_id
    say = log.warning if notice.is_warning else log.info
    say(notice.kind, why=notice.why, **fields)
