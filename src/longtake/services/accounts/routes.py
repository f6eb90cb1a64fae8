"""`/v1/me`, `/v1/keys` and `/v1/account`: the caller's identity, API keys, and the end of the account."""

import uuid
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from longtake.capability import Context
from longtake.engine.engine import Engine
from longtake.errors import NotFound
from longtake.http.problem_schema import BODY, CALLER, problems
from longtake.http.strict_json import StrictRoute
from longtake.services.accounts.api_keys import create_key, list_keys, make_key, revoke_key
from longtake.services.accounts.current_caller import GENERATE, READ, Caller, CurrentCaller
from longtake.services.accounts.deletion import AccountDeletion
from longtake.services.accounts.errors import Forbidden

LONGEST_LIFE_DAYS = 3650
_ID = "0199c1f2-7a40-7cc3-98c4-dc0c0c07398f"
_EXAMPLE: dict[str, Any] = {
    "id": _ID,
    "name": "nightly import",
    "prefix": "lt_Zk3dY0q",
    "role": "user",
    "scopes": ["generate", "read"],
    "created_at": "2026-01-01T12:00:00+00:00",
    "expires_at": None,
    "last_used_at": None,
}


class Me(BaseModel):
    """The caller, as the token or key says."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"user_id": "ada", "role": "user", "scopes": ["generate", "read"]}]}
    )

    user_id: str
    role: str
    scopes: list[str] = Field(description="What the token or key may do.")


def _check_printable(text: str) -> str:
    if not text.isprintable() or not text.strip():
        raise ValueError("must be printable characters, not only space")
    return text


class KeyRequest(BaseModel):
    """A new key."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"name": "nightly import", "scopes": ["read"], "expires_in_days": 90}]},
    )

    name: Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_check_printable)] = Field(
        description="What the key is for."
    )
    scopes: list[Literal["read", "generate", "operate", "admin"]] | None = Field(
        default=None,
        max_length=4,
        description="What the key may do, never more than you may. Default: those of `read` and `generate` you have.",
    )
    expires_in_days: int | None = Field(
        default=None,
        strict=True,
        ge=1,
        le=LONGEST_LIFE_DAYS,
        description="Days until the key expires; without it, never.",
    )


class ShownKey(BaseModel):
    """A key as its owner sees it."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    id: str
    name: str
    prefix: str = Field(description="The first characters of the key.")
    role: str
    scopes: list[str]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None = Field(description="Accurate to about a minute.")


class CreatedKey(ShownKey):
    """A new key, shown only this once."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**_EXAMPLE, "key": "lt_Zk3dY0q…"}]})

    key: str = Field(description="The key itself. It is not stored: save it now.")


class KeyList(BaseModel):
    """All keys of a user that are not revoked, the newest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"keys": [_EXAMPLE]}]})

    keys: list[ShownKey]


class AccountLeft(BaseModel):
    """The account is being deleted."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"deleting": True}]})

    deleting: bool = Field(description="Keys and webhooks are gone already; the rest follows in the background.")


def routers(context: Context, engine: Engine) -> list[APIRouter]:
    """Return the routes of this process."""
    return [build_routes(engine, context.get(AccountDeletion))]


def build_routes(engine: Engine, deletion: AccountDeletion) -> APIRouter:
    """Return the routes."""
    database = engine.database
    router = APIRouter(prefix="/v1", tags=["accounts"], route_class=StrictRoute)

    @router.get("/me", summary="Say who you are", responses=problems(*CALLER))
    async def show_me(caller: CurrentCaller) -> Me:
        """Return the user and the scopes of the token or key. Needs no scope."""
        return Me(user_id=caller.user_id, role=caller.role, scopes=sorted(caller.scopes))

    @router.post(
        "/keys", status_code=201, summary="Make an API key", responses=problems(*CALLER, *BODY, "STATE_CONFLICT")
    )
    async def create(wanted: KeyRequest, caller: CurrentCaller) -> CreatedKey:
        """Create a key for a machine. It acts as you, within its scopes, until it expires or is revoked."""
        caller.require(GENERATE)
        scopes = _grantable(caller, wanted.scopes)
        new = make_key()
        # A service acts for users by a header; a key that it makes for one of them must not be able to.
        role = "user" if caller.role == "service" else caller.role
        days = wanted.expires_in_days
        row = await database.run(create_key, new, caller.user_id, wanted.name, role, scopes, days)
        return CreatedKey.model_validate({"key": new.key, **row})

    @router.get("/keys", summary="List your API keys", responses=problems(*CALLER))
    async def list_own(caller: CurrentCaller) -> KeyList:
        """List your keys that are not revoked, the newest first. The keys themselves are not shown."""
        caller.require(READ)
        rows = await database.read(list_keys, caller.user_id, as_user=caller.user_id)
        return KeyList(keys=[ShownKey.model_validate(row) for row in rows])

    @router.delete(
        "/keys/{key_id}", status_code=204, summary="Revoke an API key", responses=problems(*CALLER, "NOT_FOUND")
    )
    async def revoke(key_id: Annotated[str, Path(examples=[_ID])], caller: CurrentCaller) -> None:
        """Revoke one of your keys. The next request with it is refused."""
        caller.require(GENERATE)
        await database.run(revoke_key, _identifier(key_id), caller.user_id)

    @router.delete(
        "/account", status_code=202, responses=problems(*CALLER), summary="Delete my account", tags=["account"]
    )
    async def leave(caller: CurrentCaller) -> AccountLeft:
        """Delete everything I have; unfinished tasks are cancelled. Needs a token, not an API key. Scope `generate`."""
        caller.require(GENERATE)
        if caller.key_id is not None and caller.role != "service":
            raise Forbidden("An API key cannot delete the account it belongs to.", hint="Use a token.")
        await database.run(deletion.begin, engine, caller.user_id)
        return AccountLeft(deleting=True)

    return router


def _grantable(caller: Caller, wanted: list[Any] | None) -> frozenset[str]:
    """Return the scopes of a new key: never more than the caller has."""
    if caller.key_id is not None:
        raise Forbidden("An API key cannot make others, because they would outlive the key.", hint="Use a token.")
    if wanted is None:
        return frozenset((READ, GENERATE)) & caller.scopes
    for scope in wanted:
        caller.require(scope)
    return frozenset(wanted)


def _identifier(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise NotFound("There is no such key.") from None
