"""The effects of one step, in the order in which they are to be performed.

Everything that acts for a member within a step adds to the same outbox; the machine hands it over at the step's end.
"""

from spark_kcoord.errors import KcoordError
from spark_kcoord.member.core.effects import CallResult, Completed, Effect, Failed, Notice, NoticeKind


class Outbox:
    """The effects of the step that is under way."""

    __slots__ = ("effects",)

    def __init__(self) -> None:
        self.effects: list[Effect] = []

    def complete(self, call_id: int, result: CallResult) -> None:
        """Say that a call is done."""
        self.effects.append(Completed(call_id, result))

    def fail(self, call_id: int, error: KcoordError) -> None:
        """Say that a call is done, in vain."""
        self.effects.append(Failed(call_id, error))

    def notice(self, kind: NoticeKind, why: str) -> None:
        """Tell of a fact."""
        self.effects.append(Notice(kind, why))
