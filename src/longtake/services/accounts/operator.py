"""Operators' actions on API keys of any user."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from longtake.actions import Action, Identifier, Operator
from longtake.db import Transaction
from longtake.engine.engine import Engine
from longtake.errors import InvalidActionArgument
from longtake.services.accounts.api_keys import create_key, list_keys, make_key, revoke_key
from longtake.services.accounts.caller import LONGEST_USER_ID, SCOPES_OF_ROLE, is_user_id


def _check_user_id(text: str) -> str:
    if not is_user_id(text):
        raise ValueError(f"must have 1 to {LONGEST_USER_ID} printable characters")
    return text


UserId = Annotated[str, AfterValidator(_check_user_id)]
KeyName = Annotated[str, Field(min_length=1, max_length=100)]
Role = Literal["user", "operator", "admin", "service"]
Scope = Literal["read", "generate", "operate", "admin"]
Days = Annotated[int, Field(ge=1, le=3650)]


def keys_create(
    tx: Transaction,
    _engine: Engine,
    *,
    name: KeyName,
    user: UserId,
    role: Role = "user",
    scopes: list[Scope] | None = None,
    days: Days | None = None,
) -> dict[str, Any]:
    """Create an API key for a user or a machine; only this answer shows the key."""
    allowed = SCOPES_OF_ROLE[role]
    wanted = allowed if scopes is None else frozenset[str](scopes)
    if too_much := sorted(wanted - allowed):
        raise InvalidActionArgument(
            f"keys.create: the role {role} does not have {', '.join(too_much)}.",
            hint=f"It has: {', '.join(sorted(allowed))}.",
        )
    new = make_key()
    return {"key": new.key, **create_key(tx, new, user, name, role, wanted, days)}


def keys_list(tx: Transaction, _engine: Engine, *, user: UserId | None = None) -> dict[str, Any]:
    """List unrevoked API keys of one user or all users, newest first; Longtake does not store the keys themselves."""
    return {"keys": list_keys(tx, user)}


def keys_revoke(tx: Transaction, _engine: Engine, *, id: Identifier) -> dict[str, Any]:  # noqa: A002 - the row's name
    """Revoke an API key permanently; the next request with it is refused."""
    revoke_key(tx, id)
    return {"revoked": id}


OPERATOR = Operator(
    actions=[
        Action("keys.create", keys_create, writes=True, for_admins=True),
        Action("keys.list", keys_list, for_admins=True),
        Action("keys.revoke", keys_revoke, writes=True, for_admins=True),
    ]
)
