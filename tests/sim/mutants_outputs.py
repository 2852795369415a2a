"""Known mistakes that write records to two outputs under `hold`: planted by `mutants.py`."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coordinator.protocol.parts import Claim
from spark_kcoord.member.core.held.holdings import Holdings

Patches = list[tuple[Any, str, Any]]


def _comes_back_without_its_claims() -> Patches:
    begin = Holdings.__init__

    def begin_with_nothing(self: Holdings, claims: Iterable[Claim] = ()) -> None:
        begin(self)

    return [(Holdings, "__init__", begin_with_nothing)]


MISTAKES: Mapping[str, tuple[str, Callable[[], Patches]]] = {
    "back-without-its-claims": (
        "a query that comes back does not show what it had begun to read",
        _comes_back_without_its_claims,
    ),
}
