"""Pages of other origins: closed but for those that are named, and never with cookies.

Done in the frame, so that refusals and errors carry the headers too: a page that may ask may also read why not.
"""

from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response

#: Seconds for which a browser need not ask again whether it may ask.
REMEMBERED_SECONDS = 600
METHODS = "DELETE, GET, HEAD, PATCH, POST, PUT"
TAKEN = "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Longtake-User, Prefer, X-Request-Id"
SHOWN = "Idempotent-Replayed, Location, Retry-After, X-Request-Id"


class Origins:
    """The origins whose pages may use this server; any other hears nothing about it."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._allowed = frozenset(allowed)

    def permits(self, headers: Headers) -> bool:
        """Say whether the request comes from a page that is allowed here."""
        return headers.get("origin", "") in self._allowed

    def preflight(self, method: str, headers: Headers) -> Response | None:
        """Answer a browser that asks whether it may ask; None for every other request."""
        if method != "OPTIONS" or "access-control-request-method" not in headers or not self.permits(headers):
            return None
        answer = {
            "Access-Control-Allow-Methods": METHODS,
            "Access-Control-Allow-Headers": TAKEN,
            "Access-Control-Max-Age": str(REMEMBERED_SECONDS),
        }
        return Response(status_code=204, headers=answer)

    def mark(self, asked: Headers, answer: MutableHeaders) -> None:
        """Let the page read the answer, if it may."""
        if not self._allowed:
            return
        # Also where it is not allowed: a cache must not hand one page's answer to another.
        answer.add_vary_header("Origin")
        if self.permits(asked):
            answer["Access-Control-Allow-Origin"] = asked["origin"]
            answer["Access-Control-Expose-Headers"] = SHOWN
