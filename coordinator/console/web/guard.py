"""Decides which requests are answered at all, and the headers of every answer.

What keeps a page of another site, open in the same browser, from reaching the console is here, whether people log in or
not: a browser brings a log-in along with what any page has it ask. A name that such a page has had pointed to this
machine is no name of the console's (`Host`). A request that would change something has to come from the console's own
pages or from no page (`Origin`, `Sec-Fetch-Site`), in a form that a browser sends to another site only if that site
allows it, which this one never does. Another site may lead to a page, and may have nothing loaded. There are no
cookies.
"""

from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coordinator.config.section import is_loopback
from coordinator.console.port.hosts import Hosts, name_in
from coordinator.console.web.answers import failure

LARGEST_BODY: Final = 1024 * 1024
MARK: Final = "x-kcoord-console"
"""The header that pages and programs send with what changes something; its value does not matter."""
_READING: Final = frozenset({"GET", "HEAD"})
_WORDS: Final = {403: "not_allowed", 405: "bad_method", 413: "too_large", 421: "bad_host"}
"""The words of refusals to programs."""
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
TLS_ALONE: Final = ("strict-transport-security", "max-age=86400")
"""Has a browser speak TLS to this host for a day; not of loopback, whose ports are of many programs."""
_FROM_HERE: Final = ("same-origin", "none")
_OTHER_SITE: Final = "this request comes from a page of another site"


def why_not_read(headers: Headers) -> str | None:
    """Say why a request with these headers is not answered though it changes nothing, or return None."""
    is_led_here = headers.get("sec-fetch-mode") == "navigate"
    return None if is_led_here or not _is_of_other_site(headers) else _OTHER_SITE


def why_not_change(headers: Headers) -> str | None:
    """Say why a request with these headers may not change anything, or return None."""
    if _is_of_other_site(headers):
        return _OTHER_SITE
    if MARK not in headers:
        return f"a request that changes something has the header '{MARK}', with any value"
    return None


def _is_of_other_site(headers: Headers) -> bool:
    """Say whether a page of another site asks, by either of two headers: some browsers send but one."""
    origin = headers.get("origin")
    is_other = origin is not None and origin.partition("://")[2] != headers.get("host")
    return is_other or headers.get("sec-fetch-site", "same-origin") not in _FROM_HERE


class Guard:
    """An ASGI application in front of another one."""

    def __init__(self, app: ASGIApp, hosts: Hosts, *, is_tls: bool) -> None:
        self._app = app
        self._hosts = hosts
        self._is_tls = is_tls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                said = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    said[name] = value
                if self._is_tls and not is_loopback(name_in(headers.get("host", ""))):
                    said[TLS_ALONE[0]] = TLS_ALONE[1]
                is_asset = scope["path"].startswith("/assets/")
                said.setdefault("cache-control", "no-cache" if is_asset else "no-store")
            await send(message)

        refusal = self._refusal(scope["method"], headers)
        if refusal is not None:
            status, why = refusal
            is_api = scope["path"].startswith("/api/")
            answer = failure(status, _WORDS[status], why) if is_api else PlainTextResponse(f"{why}\n", status)
            await answer(scope, receive, send_guarded)
            return
        await self._app(scope, receive, send_guarded)

    def _refusal(self, method: str, headers: Headers) -> tuple[int, str] | None:
        why = self._hosts.why_not(headers.get("host", ""))
        if why is not None:
            return 421, why
        if method in _READING:
            why = why_not_read(headers)
            return None if why is None else (403, why)
        if method != "POST":
            return 405, "only GET, HEAD and POST are answered"
        why = why_not_change(headers)
        if why is not None:
            return 403, why
        length = headers.get("content-length", "")
        is_known = length.isdigit() and len(length) <= 12 and "transfer-encoding" not in headers
        if not is_known or int(length) > LARGEST_BODY:
            return 413, f"a request has a length, of {LARGEST_BODY} bytes at most"
        return None
