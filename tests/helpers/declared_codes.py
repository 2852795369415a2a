"""The check that an answer is refused only with a code that its request's class declares; for whatever plays a node."""

from collections.abc import Iterator

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ErrorResponse, Request, Response
from coordinator.protocol.messages.message import ANY_REQUEST_REFUSED_WITH
from coordinator.protocol.parts import Outcomes


def undeclared_code(request: Request, response: Response) -> str | None:
    """Say which code of an answer its request does not declare, or return None."""
    kind = type(request)
    whole = getattr(response, "error", ErrorCode.NONE)
    generic = ANY_REQUEST_REFUSED_WITH if isinstance(response, ErrorResponse) else frozenset()
    if whole not in {ErrorCode.NONE, *kind.refused_with, *generic}:
        return f"{kind.__name__} was refused with {whole.name}, which its refused_with does not declare: {response}"
    for code in _codes_of_parts(response):
        if code not in {ErrorCode.NONE, *kind.parts_refused_with}:
            return f"a part of {kind.__name__} was refused with {code.name}, which its class does not declare"
    return None


def _codes_of_parts(response: Response) -> Iterator[ErrorCode]:
    for name in response.__struct_fields__:
        value = getattr(response, name)
        if isinstance(value, Outcomes):
            value = value.others
        if isinstance(value, tuple):
            yield from (part.error for part in value if isinstance(getattr(part, "error", None), ErrorCode))
