"""Questions of a consumer: to any of its coordinators, beside its membership, and the time that each of them has.

Those to coordinators block, each within its time-out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinator.client.refusals import refusal_of, show_refusal
from coordinator.protocol.messages import FindCoordinator, FindCoordinatorResponse, Request, Response
from coordinator.protocol.text.addresses import Address
from spark_kcoord.consumer.conduct.wishes import Ask, Flow
from spark_kcoord.consumer.errors import CoordinatorUnavailableError, GroupRefusedError
from spark_kcoord.consumer.settings import Settings
from spark_kcoord.errors import KcoordError
from spark_kcoord.member.one_shot import request_once
from spark_kcoord.member.speech import CONSUMER

__all__ = ["ask_coordinators", "asked", "find_kafka"]


def asked(
    begin: Callable[[], Callable[[float], Any]],
    timeout_s: float,
    clock: Callable[[], float],
    away: type[KcoordError] = CoordinatorUnavailableError,
) -> Flow[Any]:
    """Return what comes of a question, which is given the time that those of other tasks before it have left.

    `begin` returns the question when its turn has come. Raises `away` where the others left no time.
    """
    deadline = clock() + timeout_s

    def begin_in_time() -> Callable[[], Any]:
        work = begin()
        return lambda: work(max(0.0, deadline - clock()))

    try:
        found = yield Ask(begin_in_time, timeout_s)
    except TimeoutError:
        raise away(f"Questions of other tasks took the {timeout_s:g} s that there were.") from None
    return found


def ask_coordinators(coordinators: tuple[Address, ...], request: Request, timeout_s: float) -> Response:
    """Return the response to a request, which may be a refusal; raises CoordinatorUnavailableError."""
    try:
        return request_once(coordinators, request, timeout_s=timeout_s)
    except KcoordError as error:
        why = CONSUMER.translate(str(error)).replace("option 'coordinators'", "setting 'coordinators'")
        raise CoordinatorUnavailableError(why) from error


def find_kafka(settings: Settings, timeout_s: float) -> tuple[str, ...]:
    """Return Kafka's addresses as coordinators know them; raises CoordinatorUnavailableError, GroupRefusedError."""
    response = ask_coordinators(settings.coordinators, FindCoordinator(settings.group_id or ""), timeout_s)
    refusal = refusal_of(response)
    if refusal is not None:
        raise GroupRefusedError(
            f"The coordinator refused to say where Kafka is: {show_refusal(refusal)}",
            refusal[0].name,
            refusal[0].doc_code,
        )
    assert isinstance(response, FindCoordinatorResponse)
    return response.kafka_bootstrap
