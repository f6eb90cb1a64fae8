"""Who is asking: the caller of a request, and the FastAPI dependency that finds out.

A route declares ``caller: Annotated[Caller, Depends(current_caller)]`` and says ``caller.require("generate")`` before
it does what needs that scope.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from longtake.errors import Forbidden
from longtake.logs import log_context

if TYPE_CHECKING:
    from longtake.accounts.authenticator import Authenticator

READ = "read"
GENERATE = "generate"
OPERATE = "operate"
ADMIN = "admin"
SCOPES = frozenset((READ, GENERATE, OPERATE, ADMIN))

#: What each role may do at most; a token or a key can only narrow it.
SCOPES_OF_ROLE: dict[str, frozenset[str]] = {
    "user": frozenset((READ, GENERATE)),
    "service": frozenset((READ, GENERATE)),
    "operator": frozenset((READ, GENERATE, OPERATE)),
    "admin": SCOPES,
}


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody whose token or key was checked. `user_id` owns whatever the request makes."""

    user_id: str
    role: str
    scopes: frozenset[str]
    key_id: str | None = None

    def require(self, scope: str) -> None:
        """Raise Forbidden unless the caller may do this."""
        if scope not in self.scopes:
            raise Forbidden(
                f"This needs the scope {scope!r}, which your token or key does not have.",
                hint=f"It has: {', '.join(sorted(self.scopes)) or 'none'}.",
            )

    def require_token(self, to_do: str) -> None:
        """Raise Forbidden for a user's API key: revoking it ends all it could do, so it sets up nothing that stays."""
        if self.key_id is not None and self.role != "service":
            raise Forbidden(f"An API key cannot {to_do}: revoking it must end what it can do.", hint="Use a token.")


_bearer = HTTPBearer(
    auto_error=False,
    scheme_name="bearer",
    description=(
        "A user's token (JWT) or an API key (`lt_…`). A token or key of the role `service` may act for a user:"
        " `Longtake-User: ID` names whom."
    ),
)


#: Makes a route's description say that it needs a token; the headers are read by the authenticator.
Credentials = Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]


async def current_caller(request: Request, _shown: Credentials) -> Caller:
    """Return who asks, once per request; raises Unauthorized, Forbidden or RateLimited."""
    accounts: Authenticator = request.app.state.accounts
    caller = await accounts.identify_from(request.client.host if request.client else "", request.headers)
    accounts.admit(caller)
    # From here on the request's log lines say whose it is.
    log_context.set({**log_context.get(), "user_id": caller.user_id})
    return caller
