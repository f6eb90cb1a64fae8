"""Who is asking: the caller of a request, and the FastAPI dependency that finds out.

A route declares ``caller: Annotated[Caller, Depends(current_caller)]`` and says ``caller.require("generate")`` before
it does what needs that scope.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from longtake.logs import log_context
from longtake.services.accounts.caller import ADMIN, GENERATE, OPERATE, READ, Caller

if TYPE_CHECKING:
    from longtake.services.accounts.authenticator import Authenticator

__all__ = [
    "ADMIN",
    "GENERATE",
    "OPERATE",
    "READ",
    "Caller",
    "Credentials",
    "current_caller",
]

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
