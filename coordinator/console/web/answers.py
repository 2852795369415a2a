"""Answers of the API: documents as JSON, failures as documents too, and what cannot be printed as escapes."""

import msgspec
from starlette.responses import Response

from coordinator.console.documents import Failure
from coordinator.protocol.text.escaping import json_document, one_line


def json_response(document: object, status: int = 200) -> Response:
    """Return a document as an answer."""
    text = json_document(msgspec.json.encode(document).decode())
    return Response(text, status, media_type="application/json")


def failure(status: int, error: str, message: str) -> Response:
    """Return why a request is not done."""
    return json_response(Failure(error=error, message=one_line(message)), status)
