"""Mistakes of a consumer that its user's seeks, late commits, reconnects and silences show, for `mutants.py`."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from spark_kcoord.consumer.core.commits import AsyncCommits
from spark_kcoord.consumer.core.held import Held
from spark_kcoord.member.core.held.holdings import Holdings
from spark_kcoord.member.core.session.patience import Idleness
from tests.sim.directed import consumers_that_do_not_wait
from tests.sim.mix import Mix, draw_mix

Patches = list[tuple[Any, str, Any]]


def _sought_position_reported() -> Patches:
    return [(Held, "is_there", property(lambda _: True)), (Held, "is_not_there", property(lambda _: False))]


def _async_commit_overtakes() -> Patches:
    next_to_send = AsyncCommits.next_to_send

    def later(self: AsyncCommits, *, beside: bool = False) -> Any:
        return None if beside else next_to_send(self)

    return [(AsyncCommits, "next_to_send", later)]


def _reconnect_tells_lost() -> Patches:
    return [(Holdings, "begin_anew", lambda self, _: self.forget_grants())]


def _idle_poller_keeps_owning() -> Patches:
    return [(Idleness, "ends_now", lambda *_: False), (Idleness, "ends_ms", property(lambda _: None))]


MISTAKES: Mapping[str, tuple[str, Callable[[], Patches], Callable[[Random], Mix]]] = {
    "sought-position-reported": (
        "a position that was sought is committed although Kafka does not have it",
        _sought_position_reported,
        draw_mix,
    ),
    "async-commit-overtakes": (
        "a commit that waits is sent behind a later one",
        _async_commit_overtakes,
        consumers_that_do_not_wait,
    ),
    "reconnect-tells-lost": ("a new connection begins with nothing", _reconnect_tells_lost, draw_mix),
    "idle-poller-keeps-owning": ("a member whose user has forgotten it stays", _idle_poller_keeps_owning, draw_mix),
}
"""Each by name: what is wrong, where it is planted, and what draws the worlds in which it is hunted."""
