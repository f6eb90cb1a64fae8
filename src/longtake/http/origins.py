"""CORS: pages of other origins are refused unless the settings name them, and never get cookies.

The middleware adds the headers to errors too, so that an allowed page can read why its request failed.
"""

from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response

#: Seconds a browser may cache the answer to a preflight request.
REMEMBERED_SECONDS = 600
METHODS = "DELETE, GET, HEAD, PATCH, POST, PUT"
ALLOWED_HEADERS = "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Longtake-User, Prefer, X-Request-Id"
EXPOSED_HEADERS = "Idempotent-Replayed, Location, Retry-After, X-Request-Id"


class Origins:
    """The origins whose pages may use this server."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._allowed = frozenset(allowed)

    def permits(self, headers: Headers) -> bool:
        """Return whether the request comes from a page of an allowed origin."""
        return headers.get("origin", "") in self._allowed

    def preflight(self, method: str, headers: Headers) -> Response | None:
        """Return the answer to a preflight request of an allowed page; None for every other request."""
        if method != "OPTIONS" or "access-control-request-method" not in headers or not self.permits(headers):
            return None
        answer = {
            "Access-Control-Allow-Methods": METHODS,
            "Access-Control-Allow-Headers": ALLOWED_HEADERS,
            "Access-Control-Max-Age": str(REMEMBERED_SECONDS),
        }
        return Response(status_code=204, headers=answer)

    def mark(self, asked: Headers, answer: MutableHeaders) -> None:
        """Add the headers that let an allowed page read the answer."""
        if not self._allowed:
            return
        # Also for pages not allowed: a cache must not give one page's answer to another.
        answer.add_vary_header("Origin")
        if self.permits(asked):
            answer["Access-Control-Allow-Origin"] = asked["origin"]
            answer["Access-Control-Expose-Headers"] = EXPOSED_HEADERS
