"""Known mistakes in how requests are refused: planted by `mutants.py`."""

from collections.abc import Callable, Mapping
from typing import Any

from coordinator.core.groups.operators.verbs import Operators
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages.operators import OperatorRequest

Patches = list[tuple[Any, str, Any]]


def _missing_group_has_no_room() -> Patches:
    why_refused = Operators._why_refused

    def why(self: Operators, request: OperatorRequest, owner: str) -> tuple[ErrorCode, str] | None:
        refusal = why_refused(self, request, owner)
        is_missing = refusal is not None and refusal[0] is ErrorCode.GROUP_ID_NOT_FOUND
        return (ErrorCode.GROUP_MAX_SIZE_REACHED, "there is no room for it") if is_missing else refusal

    return [(Operators, "_why_refused", why)]


MISTAKES: Mapping[str, tuple[str, Callable[[], Patches]]] = {
    "refused-with-another-code": (
        "a refusal has a code that its request does not declare",
        _missing_group_has_no_room,
    ),
}
