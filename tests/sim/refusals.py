"""Refusals of the node: each is counted, and has a code that the class of its request declares."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import Request, Response
from coordinator.protocol.parts import Outcomes
from tests.helpers.declared_codes import undeclared_code
from tests.sim.log.state import ViolationError


def must_be_declared(request: Request, response: Response) -> None:
    """Raise ViolationError when an answer has another code, as a whole or for a part of it."""
    why = undeclared_code(request, response)
    if why is not None:
        raise ViolationError("undeclared-code", why)


def results_of_parts(response: Response) -> Iterator[Any]:
    """Yield the results of partitions that an answer lists."""
    for name in ("results", "refused", "finished", "released"):
        listed = getattr(response, name, ())
        yield from listed.others if isinstance(listed, Outcomes) else listed


def count_refusals(coverage: Counter[str], response: Response) -> None:
    """Count each code of an answer by its name."""
    error = getattr(response, "error", ErrorCode.NONE)
    if error is not ErrorCode.NONE:
        coverage[f"refusal {error.name}"] += 1
    for result in results_of_parts(response):
        if result.error is not ErrorCode.NONE:
            coverage[f"refusal {result.error.name}"] += 1
