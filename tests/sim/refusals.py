"""Refusals of the node: each is counted, and has a code that the class of its request declares."""

from collections import Counter

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import Request, Response
from tests.helpers.declared_codes import undeclared_code
from tests.sim.log.state import ViolationError


def must_be_declared(request: Request, response: Response) -> None:
    """Raise ViolationError when an answer has another code, as a whole or for a part of it."""
    why = undeclared_code(request, response)
    if why is not None:
        raise ViolationError("undeclared-code", why)


def count_refusals(coverage: Counter[str], response: Response) -> None:
    """Count each code of an answer by its name."""
    error = getattr(response, "error", ErrorCode.NONE)
    if error is not ErrorCode.NONE:
        coverage[f"refusal {error.name}"] += 1
    for result in (*getattr(response, "results", ()), *getattr(response, "refused", ())):
        if result.error is not ErrorCode.NONE:
            coverage[f"refusal {result.error.name}"] += 1
