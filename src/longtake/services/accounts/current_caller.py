"""The FastAPI dependency that identifies the caller of a request.

A route declares ``caller: CurrentCaller`` and calls ``caller.require("generate")`` before it does anything that needs
that scope.
"""

from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from longtake.logs import log_context
from longtake.services.accounts.authenticator import Authenticator
from longtake.services.accounts.caller import ADMIN, GENERATE, OPERATE, READ, Caller

__all__ = [
    "ADMIN",
    "GENERATE",
    "OPERATE",
    "READ",
    "Caller",
    "Credentials",
    "CurrentCaller",
    "current_caller",
]

#: Where a request's scope keeps its caller.
_KNOWN = "longtake.caller"
_bearer = HTTPBearer(
    auto_error=False,
    scheme_name="bearer",
    description=(
        "A user's token (JWT) or an API key (`lt_…`). A token or key of the role `service` may act for a user:"
        " `Longtake-User: ID` names whom."
    ),
)


#: Documents in /openapi.json that a route needs a token; the authenticator reads the headers itself.
Credentials = Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]


async def current_caller(request: Request, _shown: Credentials = None) -> Caller:
    """Return the caller, identified once per request; raises Unauthorized, Forbidden or RateLimited."""
    known: Caller | None = request.scope.get(_KNOWN)
    if known is not None:
        return known
    accounts: Authenticator = request.app.state.accounts
    caller = await accounts.identify_from(request.client.host if request.client else "", request.headers)
    accounts.admit(caller)
    # From here on, the request's log lines name its user.
    log_context.set({**log_context.get(), "user_id": caller.user_id})
    request.scope[_KNOWN] = caller
    return caller


CurrentCaller = Annotated[Caller, Depends(current_caller)]
